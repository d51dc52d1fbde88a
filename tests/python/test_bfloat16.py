"""bfloat16, which numpy does not have: counted as numpy counts float32 of the same values."""

import histogram
import ml_dtypes
import numpy as np
from arrays import CHECKED, laid_out, seeds
from hypothesis import given
from hypothesis import strategies as st
from test_numpy_count import KINDS, check, range_of

FORMS = ("range", "data", "edges", "rows", "quantiles")


def some(rng, edges, size, odd=True):
    """Half of them beside the edges, the rest anywhere."""
    near = np.concatenate([edges.astype(ml_dtypes.bfloat16).view(np.uint16) + np.uint16(step)
                           for step in (0, 1, 0xFFFF)]).view(ml_dtypes.bfloat16)
    anywhere = rng.uniform(edges[0] - 3, edges[-1] + 3, size).astype(ml_dtypes.bfloat16)
    samples = np.where(rng.random(size) < 0.5, rng.choice(near, size), anywhere)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38] if odd else [0.0, -0.0],
                       ml_dtypes.bfloat16)
    return np.where(rng.random(size) < 0.05, rng.choice(special, size), samples)


@CHECKED
@given(seed=seeds, form=st.sampled_from(FORMS), kind=st.sampled_from(KINDS),
       bins=st.sampled_from((1, 2, 7, 10, 100, 1000)), size=st.sampled_from((1, 6, 600)))
def test_bfloat16_is_counted_as_float32(seed, form, kind, bins, size):
    rng = np.random.default_rng(seed)
    bounds = range_of(rng, "f4", kind)
    edges = np.linspace(*(float(bound) for bound in bounds), bins + 1)
    a = some(rng, edges, size, odd=form not in ("data", "quantiles"))
    if form == "data":
        a = a[np.isfinite(a.astype("f4"))]
    a = laid_out(rng, a)
    same = a.astype("f4").ravel() + np.float32(0)  # 0.0 for -0.0, whichever numpy takes for an end
    if form == "quantiles":
        q = rng.random(3)
        found, expected = histogram.quantile(a, q), np.quantile(same, q)
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected, equal_nan=True)
        return
    if form == "rows":
        h = histogram.count(a, edges, windows=7)
        rows = [np.histogram(same[at:at + 7], edges)[0] for at in range(0, size, 7)]
        assert np.array_equal(h.counts(), rows)
        return
    asked = {"range": (bins, bounds), "data": (bins,), "edges": (edges,)}[form]
    check(a, *asked, shown=same)
