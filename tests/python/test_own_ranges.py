"""range="rows": each row over its own least and greatest sample, as numpy counts that row."""

import pickle

import histogram
import numpy as np
import pytest
from arrays import CHECKED, EXAMPLES, TYPES, laid_out, same_bits, seeds
from hypothesis import given, settings
from hypothesis import strategies as st


def samples_of(rng, dtype, shape):
    """Rows of narrow and wide ranges, constant ones, zeros of either sign at the upper end."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        a = (rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape[:1] + (1,) * 2)).astype(dtype)
        special = np.array([0.0, -0.0, 1.0], dtype)
    else:
        limit = min(np.iinfo(dtype).max, 2**53)
        least = max(np.iinfo(dtype).min, -(2**53))
        top = int(rng.choice([5, 100, limit]))
        a = rng.integers(max(least, -top), top, shape, dtype=dtype, endpoint=True)
        special = np.array([0, 1, limit], dtype)
    if rng.integers(3) == 0:
        a = np.minimum(a, rng.choice(special))
    if rng.integers(3) == 0:
        a[0] = a.flat[0]
    return np.where(rng.random(shape) < 0.05, rng.choice(special, shape), a)


def check(h, rows, bins):
    """`rows`: the samples of each row, in order."""
    counts, edges = h.counts().reshape(len(rows), bins), h.edges.reshape(len(rows), bins + 1)
    for i, row in enumerate(rows):
        expected, expected_edges = np.histogram(row, bins)
        assert same_bits(edges[i], expected_edges), (i, row)
        assert same_bits(counts[i], expected), (i, row)
    assert h.edges.shape == (*h.counts().shape[:-1], bins + 1)
    assert np.ravel(h.samples).tolist() == [row.size for row in rows]
    assert not (np.any(h.below) or np.any(h.above) or np.any(h.nan))


def exactly(h):
    return h.counts().tolist(), h.edges.shape, h.edges.dtype, h.edges.tobytes(), np.ravel(h.samples).tolist()


def told(function, *arguments, **options):
    """The answer, or the error, which names the row."""
    try:
        return exactly(function(*arguments, **options))
    except ValueError as error:
        return str(error)


# For arrays of three axes.
CUTS = [{"axis": axis} for axis in (0, 1, 2, (0, 1), (1, 2), (0, 2), (0, 1, 2), ())] + [
    {"channels": 3}, {"windows": 7}, {"windows": (6, 4)}, {"windows": 500}, {"windows": (500, 1)}, {"channels": 1},
    {"windows": 10, "channels": 6}, {"windows": 7, "channels": 3}, {"windows": (4, 2), "channels": 2}]


def rows_of_axes(a, axes):
    moved = np.moveaxis(a, axes, range(-len(axes), 0))
    return moved.reshape(-1, int(np.prod([a.shape[i] for i in axes], dtype=int)))


@pytest.mark.parametrize("dtype", TYPES)
@settings(CHECKED, max_examples=max(1, EXAMPLES // 8))
@given(seed=seeds, bins=st.sampled_from((1, 3, 10, 100)),
       axes=st.sampled_from(((0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2), ())))
def test_each_row_is_numpys(dtype, seed, bins, axes):
    rng = np.random.default_rng(seed)
    a = samples_of(rng, dtype, tuple(rng.integers(1, 8, 3)))
    rows = rows_of_axes(a, axes)
    try:
        for row in rows:
            np.histogram(row, bins)
    except ValueError as error:  # "Too many bins for data range"
        with pytest.raises(ValueError, match="a, row .*" + str(error)[:20]):
            histogram.count(a, bins, "rows", axis=axes)
        return
    check(histogram.count(a, bins, "rows", axis=axes), rows, bins)
    other = np.asfortranarray(a) if seed % 2 else a.astype(a.dtype.newbyteorder(">"))
    check(histogram.count(other, bins, "rows", axis=axes), rows, bins)


@pytest.mark.parametrize(("channels", "windows"), [(None, 7), (3, None), (2, 9), (5, (8, 3)), (None, (6, 9))])
def test_channels_and_windows(channels, windows):
    from test_rows import parts_of

    rng = np.random.default_rng(2)
    for dtype in TYPES:
        a = samples_of(rng, dtype, (10, 6, 5))
        rows, shape = parts_of(a, channels, windows)
        h = histogram.count(laid_out(rng, a.ravel()), 10, "rows", channels=channels, windows=windows)
        assert h.counts().shape == (*shape, 10)
        check(h, rows, 10)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_long_and_many_rows_on_threads(threads):
    rng = np.random.default_rng(5)
    for shape, axis in (((3, 1 << 20), 1), ((1 << 20, 3), 0), ((3000, 1000), 1), ((1000, 3000), 0),
                        ((4, 300, 2000), 1), ((40000, 40), (1,))):
        a = rng.normal(0, 1, shape).astype(np.float32)
        h = histogram.count(a, 64, "rows", axis=axis, threads=threads)
        rows = rows_of_axes(a, axis if isinstance(axis, tuple) else (axis,))
        some = rng.choice(len(rows), 5)
        for i in some:
            expected, edges = np.histogram(rows[i], 64)
            at = np.unravel_index(i, h.counts().shape[:-1])
            assert same_bits(h.counts()[at], expected) and same_bits(h.edges[at], edges)
        assert (h.samples == rows.shape[1]).all()


def test_integers_beyond_doubles_are_as_without_rows():
    a = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, (4, 50))
    for samples in (a, a.astype(np.uint64)):
        h = histogram.count(samples, 10, "rows", axis=1)
        for i, row in enumerate(samples):
            one = histogram.count(row, 10)
            assert (one.counts() == h.counts()[i]).all() and (one.edges == h.edges[i]).all()


def test_rows_without_samples_and_no_rows():
    for dtype in TYPES:
        h = histogram.count(np.zeros((3, 0), dtype), 4, "rows", axis=1)
        expected, edges = np.histogram(np.zeros(0, dtype), 4)
        assert h.counts().tolist() == [[0] * 4] * 3
        assert same_bits(np.ascontiguousarray(h.edges[2]), edges)
        assert histogram.count(np.zeros((0, 3), dtype), 4, "rows", axis=1).edges.shape == (0, 5)
    assert histogram.count(np.zeros(5), 4, "rows", windows=(9, 1)).edges.shape == (0, 5)


def test_many_bins_and_bfloat16():
    a = np.random.default_rng(1).normal(size=(2, 1000))
    check(histogram.count(a, 100_000, "rows", axis=1), a, 100_000)
    ml_dtypes = pytest.importorskip("ml_dtypes")
    bits = a.astype(ml_dtypes.bfloat16)
    h = histogram.count(bits, 10, "rows", axis=1)
    check(h, bits.astype(np.float32), 10)


@pytest.mark.parametrize(("a", "arguments", "message"), [
    ([[1.0, 2], [3, np.nan]], {"axis": 1}, "a, row 1: .*finite"),
    ([[1.0, 2], [3, np.inf]], {"axis": 0}, "a, row 1: .*finite"),
    ([[[1.0, 2], [3, -np.inf]]], {"axis": 2}, "a, row 0, 1: .*finite"),
    ([[np.nan, np.nan]], {"axis": 1}, "a, row 0: .*finite"),
    ([1.0, 2, np.nan, 3], {"windows": 2}, "a, row 1: .*finite"),
    ([1.0, 2], {}, "range: 'rows'; is combined with axis, channels or windows"),
    ([[1.0, 2]], {"axis": 1, "bins": [0, 1]}, "bins: .*; must be a number of bins"),
    ([[1.0, 2]], {"axis": 1, "bins": "auto"}, "bins: 'auto'; must be a number of bins"),
    ([[1.0, 2]], {"axis": 1, "bins": 0}, "bins: 0; must be a whole number >= 1"),
])
def test_bad_arguments(a, arguments, message):
    with pytest.raises(ValueError, match=message):
        histogram.count(np.array(a), range="rows", **arguments)


def test_the_result_has_edges_for_each_row():
    a = np.random.default_rng(3).normal([[0], [50], [-7]], 2, (3, 500))
    h = histogram.count(a, 20, "rows", axis=1)
    each = [histogram.count(row, 20) for row in a]
    for statistic in ("density", "cdf", "mean", "std", "median", "entropy", "otsu"):
        found = getattr(h, statistic)()
        assert same_bits(found, np.array([getattr(one, statistic)() for one in each])), statistic
    assert same_bits(h.quantile([0.1, 0.9]), np.array([one.quantile([0.1, 0.9]) for one in each]))
    assert h.rebin(4) == histogram.Histogram(h.rebin(4).counts(), h.edges[:, ::4])
    assert pickle.loads(pickle.dumps(h)) == h
    assert (h + h).counts().tolist() == (2 * h.counts()).tolist()
    with pytest.raises(ValueError, match="edges differ"):
        h + histogram.count(a + 1, 20, "rows", axis=1)
    with pytest.raises(ValueError, match="edges differ"):
        h + histogram.count(a, 20, axis=1)
    assert repr(h) == "Histogram(3 rows of 20 bins, each over its own range)"
    assert "each over its own range" in h._repr_html_()
    density, edges = histogram.count(a, 20, "rows", axis=1, density=True)
    assert same_bits(density[1], np.histogram(a[1], 20, density=True)[0]) and edges is not None
    for refused in (lambda: h.axes, h._to_uhi_):
        with pytest.raises(ValueError, match="axes: each row has edges of its own"):
            refused()
    with pytest.raises(ValueError, match=r"edges: shape \(2, 21\)"):
        histogram.Histogram(h.counts(), h.edges[:2])
