"""count() equals numpy.histogram: counts, and edges to the last bit."""

import gc
import itertools
import sys

import histogram
import numpy as np
import pytest
from arrays import CHECKED_BY_TYPE, TYPES, laid_out, make_samples, same_bits, seeds
from histogram import _even, _native, _rules
from hypothesis import given
from hypothesis import strategies as st

FLOATS = st.floats(-1e4, 1e4, allow_nan=False)
RULES = ("auto", "fd", "doane", "scott", "stone", "rice", "sturges", "sqrt")


def numpy_by_edges(a, edges):
    """numpy's answer for edges: it compares each sample with them."""
    samples = np.ascontiguousarray(a).ravel()
    if samples.dtype.str[1:] == "f2":  # of which numpy 2.4 misorders many that are equal
        samples = samples.astype("f4")
    return np.histogram(samples, edges)[0]


def check(a, bins, range=None, shown=None, **options):
    """Counts and edges are numpy's, or numpy refuses and so does this. Returns the histogram.

    `shown`: what numpy counts, where it does not know the type of `a`."""
    shown = a if shown is None else shown
    try:
        with np.errstate(all="ignore"):
            edges = np.histogram_bin_edges(shown, bins, range)
    except ValueError:
        with pytest.raises(ValueError):
            histogram.count(a, bins, range, **options)
        return None
    h = histogram.count(a, bins, range, **options)
    counts = numpy_by_edges(shown, edges)
    assert same_bits(h.edges, edges)
    assert same_bits(h.counts(), counts.astype(np.int64))
    flat = np.ravel(shown)
    if flat.dtype.kind == "f":
        assert h.nan == np.isnan(flat).sum()
    assert h.below == (flat < edges[0]).sum()
    assert h.above == (flat > edges[-1]).sum()
    assert h.samples == flat.size
    return h


def range_of(rng, dtype, kind):
    """A range of the given kind: decimal, of integers, tiny, wide, at zero, numpy's own scalars."""
    low, high = np.sort(rng.normal(0, 10.0 ** rng.integers(-3, 5), 2))
    if kind == "integers":
        low = int(rng.integers(-100, 100))
        return low, low + int(rng.integers(1, 300))
    if kind == "decimal":
        return round(low, 2), round(high, 2) + 0.01
    if kind == "about zero":
        return -abs(high), abs(high) + 0.5
    if kind == "from zero":
        return 0.0, abs(high) + 0.5
    if kind == "to zero":
        return -abs(high) - 0.5, -0.0
    if kind == "float64 scalars":
        return np.float64(low), np.float64(high) + 1
    if kind == "float32 scalars":
        return np.float32(low), np.float32(high) + np.float32(1)
    return low, high + 1e-3


KINDS = ("any", "integers", "decimal", "about zero", "from zero", "to zero", "float64 scalars",
         "float32 scalars")


@pytest.mark.parametrize("dtype", TYPES)
@CHECKED_BY_TYPE
@given(seed=seeds, kind=st.sampled_from(KINDS), bins=st.sampled_from((1, 2, 3, 7, 10, 64, 100, 1000, 5000)),
       size=st.sampled_from((0, 1, 6, 600, 3000)))
def test_even_bins_over_a_range(dtype, seed, kind, bins, size):
    rng = np.random.default_rng(seed)
    range = range_of(rng, dtype, kind)
    try:
        edges = np.histogram_bin_edges(np.empty(0, dtype), bins, range)
    except ValueError:
        edges = np.array(range)
    a = laid_out(rng, make_samples(rng, dtype, edges, size))
    h = check(a, bins, range)
    # numpy's own way for even bins: it agrees with its edges unless 16-bit floats overflow in it.
    if h is not None and dtype != "f2":
        counts, _ = np.histogram(a, bins, range)
        assert same_bits(h.counts(), counts.astype(np.int64))


@pytest.mark.parametrize("dtype", TYPES)
@CHECKED_BY_TYPE
@given(seed=seeds, size=st.sampled_from((0, 1, 2, 600)), bins=st.sampled_from((1, 2, 10, 333)))
def test_the_range_of_the_data(dtype, seed, size, bins):
    rng = np.random.default_rng(seed)
    a = make_samples(rng, dtype, rng.normal(0, 50, 12), size)
    if dtype.startswith("f"):
        a = a[np.isfinite(a) & (np.abs(a.astype("f8")) < 1e4)]
    check(laid_out(rng, a), bins)


@pytest.mark.parametrize("dtype", TYPES)
@CHECKED_BY_TYPE
@given(seed=seeds, size=st.sampled_from((0, 1, 600)),
       edges=st.lists(FLOATS, min_size=2, max_size=40).map(sorted),
       form=st.sampled_from(("plain", "repeated", "infinite", "float32", "integers")))
def test_edges(dtype, seed, size, edges, form):
    rng = np.random.default_rng(seed)
    edges = np.array(edges)
    if form == "repeated":
        edges = np.sort(np.concatenate([edges, rng.choice(edges, 3), edges[-1:]]))
    elif form == "infinite":
        edges = np.concatenate([[-np.inf], edges, [np.inf]])
    elif form == "float32":
        edges = edges.astype(np.float32)
    elif form == "integers":
        edges = np.floor(edges).astype(np.int64)
    a = laid_out(rng, make_samples(rng, dtype, edges, size))
    check(a, edges)
    check(a, edges.tolist())


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", ["u1", "i4", "f4", "f8"])
def test_named_rules(rule, dtype):
    a = (np.random.default_rng(5).normal(100, 20, 2000)).astype(dtype)
    check(a, rule)
    check(a, rule, (50, 150))


@pytest.mark.parametrize("dtype", TYPES)
def test_large_and_many_threads(dtype):
    rng = np.random.default_rng(1)
    a = make_samples(rng, dtype, np.linspace(-100, 100, 1001), 1 << 20)
    for threads in (None, 1, 3):
        check(a, 1000, (-100, 100), threads=threads)
    check(a[::3], 1000, (-100, 100), threads=2)


@pytest.mark.parametrize("bins", [65536, 1 << 17, 1_000_000])
def test_many_bins(bins):
    a = np.random.default_rng(2).random(200_000)
    for dtype in ("f8", "f4"):
        check(a.astype(dtype), bins, (0, 1))


def test_the_most_bins_of_a_plan_and_more():
    """One plan takes 2^24 bins; more are counted by several."""
    assert _native.BINS_MAX == 1 << 24
    bins = (1 << 24) + 3
    a = np.random.default_rng(2).integers(-5, bins + 5, 20_000, np.int32)
    h = histogram.count(a, bins, (0, bins))
    held = a[(a >= 0) & (a <= bins)]
    assert np.array_equal(h.counts(), np.bincount(np.minimum(held, bins - 1), minlength=bins))
    assert (h.below, h.above) == ((a < 0).sum(), (a > bins).sum())


def later_edges():
    return {id(its): its for its in gc.get_objects() if type(its) is _even.LaterEdges}


def test_rules_are_kept_within_limits():
    before = later_edges()
    for bins in (65536, 65537, 10):
        for upper in range(1, 41):
            for its in ((bins, (0, upper)), (np.linspace(0, upper, bins + 1),)):
                assert histogram.count(np.arange(9.0), *its).samples == 9
        fresh = [its._bins for key, its in later_edges().items() if key not in before]
        assert len(fresh) == (32 if bins == 10 else 2)
        assert sum(fresh) <= _rules._CACHE_BINS
    kept = list(_rules._cache.values())
    assert len(kept) == _rules._CACHE_RULES
    assert sum(rule.bins for rule in kept) <= _rules._CACHE_BINS
    assert max(rule.bins for rule in kept) <= _rules._CACHE_BINS_MAX


@pytest.mark.parametrize("axis", [0, 1, 2, -1, (0, 1), (1, 2), (0, 2), (2, 0), (0, 1, 2)])
@pytest.mark.parametrize("dtype", TYPES)
def test_axis(dtype, axis):
    rng = np.random.default_rng(7)
    a = make_samples(rng, dtype, np.linspace(-50, 50, 21), 3 * 4 * 60).reshape(3, 4, 60)
    axes = axis if isinstance(axis, tuple) else (axis,)
    moved = np.moveaxis(a, axes, range(-len(axes), 0))
    outer = moved.shape[:3 - len(axes)]
    for samples in (a, a.astype(a.dtype.newbyteorder(">")), np.asfortranarray(a)):
        for bins in (20, np.array([-np.inf, -10, 0, 0, 10, 10])):
            h = histogram.count(samples, bins, (-50, 50), axis=axis)
            assert h.counts().shape == (*outer, len(h.edges) - 1)
            for index in np.ndindex(outer):
                row = moved[index].ravel()
                assert h.counts()[index].tolist() == numpy_by_edges(row, h.edges).tolist()
                assert np.asarray(h.samples)[index] == row.size
                assert np.asarray(h.below)[index] == (row < h.edges[0]).sum()


def test_axis_of_many_rows_and_of_none():
    a = np.random.default_rng(3).random((2000, 1024), np.float32)
    h = histogram.count(a, 64, (0, 1), axis=1, threads=3)
    assert np.array_equal(h.counts(), [np.histogram(row, 64, (0, 1))[0] for row in a])
    h = histogram.count(a.T, 64, (0, 1), axis=0)
    assert np.array_equal(h.counts(), [np.histogram(row, 64, (0, 1))[0] for row in a])
    assert histogram.count(np.zeros((0, 5)), 4, (0, 1), axis=1).counts().shape == (0, 4)
    assert histogram.count(np.zeros((5, 0)), 4, (0, 1), axis=1).counts().tolist() == [[0] * 4] * 5


@pytest.mark.parametrize(("arguments", "message"), [
    ({"bins": 0}, "bins"), ({"bins": -3}, "bins"), ({"bins": 2.5}, "bins"),
    ({"bins": [1]}, "2 or more"), ({"bins": []}, "2 or more"), ({"bins": [2, 1]}, "monotonic"),
    ({"bins": [0, np.nan]}, "NaN"), ({"bins": [[1], [2, 3]]}, "bins: list"), ({"bins": "nonsense"}, "nonsense"),
    ({"bins": [0, 2**53 + 1]}, "9007199254740993"), ({"bins": np.array([0, np.nextafter(np.longdouble(1), 2)])}, "of type"), ({"range": (1, 0)}, "range"),
    ({"range": (0, np.inf)}, "finite"), ({"axis": 1}, "axis: 1"), ({"axis": (0, 0)}, "twice"),
    ({"threads": 0}, "threads: 0"), ({"bins": [np.inf, np.inf]}, "finite"),
    ({"threads": "2"}, "threads: '2'; must be a whole number"), ({"axis": "x"}, "axis: 'x'; must be a whole"),
    ({"windows": (1, 2, 3)}, r"windows: \(1, 2, 3\); must be a size, or \(size, step\)"),
    ({"range": (4, -4)}, r"range: \(4, -4\); max must be larger"), ({"range": 5}, "range: 5; "),
    ({"a": b"1", "range": (2**53, 2**53)}, r"range: \(9007199254740992, .*Too many bins for data range"),
    ({"weights": [1, 2, 3]}, "no argument 'weights': .*numpy.histogram"), ({"colour": 1}, "no argument 'colour'$"),
    ({"density": True, "on_device": True}, "density: True; is not combined with on_device"),
])
def test_bad_arguments(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        histogram.count(**{"a": np.ones(3), **arguments})


def test_density():
    rng = np.random.default_rng(2)
    a = rng.normal(size=1000).astype("f4")
    for bins, range in ((7, (-1, 1)), (5, None), ([-1, 0, 0.5, 3], None), (np.array([0, 2, 9]), None)):
        found, edges = histogram.count(a, bins, range, density=True, weights=None)
        expected, expected_edges = np.histogram(a, bins, range, density=True)
        assert same_bits(found, expected) and same_bits(edges, expected_edges)
        assert same_bits(histogram.count(a, bins, range).density(), expected)
    rows, _ = histogram.count(a.reshape(2, -1), 5, (-1, 1), axis=1, density=True)
    assert same_bits(rows[1], np.histogram(a[500:], 5, (-1, 1), density=True)[0])


def test_nan_without_a_range_is_an_error_as_in_numpy():
    for dtype in ("f2", "f4", "f8"):
        for odd in (np.nan, np.inf):
            with pytest.raises(ValueError, match="finite"):
                histogram.count(np.array([1, odd], dtype))


def test_bins_that_do_not_fit_memory_are_named():
    with pytest.raises(MemoryError, match=r"bins: 36028797018963968, range: \(0, 1\); Unable to allocate"):
        histogram.count(np.zeros(3), 1 << 55, (0, 1))


def test_edges_at_the_ends_of_float64():
    """Every few of these edges, in order: each sample is in the bin whose edges it lies between."""
    most = np.finfo(float).max
    ends = [-np.inf, -most, -1.0, 0.0, 5e-324, 1.0, most, np.inf]
    a = np.array([*ends, 0.5, -0.5, np.nan])
    for number in (2, 3, 4):
        for edges in itertools.combinations_with_replacement(ends, number):
            if edges[0] != edges[-1] or np.isfinite(edges[0]):
                h = check(a, edges)
                assert histogram.count(a[None], edges, axis=1).counts()[0].tolist() == h.counts().tolist()


def test_ranges_that_differ_by_a_sign_or_a_type_have_their_own_edges():
    """Though Python's numbers are equal, and whichever came before."""
    a = np.array([-1, -0.5, 0, 0.1, 1], "f4")
    tenth = np.float32(0.1)
    ranges = [(-1, 0.0), (-1, -0.0), (0.0, 1), (-0.0, 1), (0, 1.0), (0.0, tenth), (0.0, float(tenth)),
              (np.float16(0), tenth), (np.int8(-1), np.uint64(1)), (2**53, 2**53 + 2), (2.0**53, 2.0**54), (3, 3),
              (np.uint8(0), np.uint8(0)), (np.int16(0), -0.0)]
    for _ in range(3):
        for ends in ranges:
            for its in (ends, list(ends), np.array(ends)):
                for samples in (a, a.astype("f8"), a.astype("f2"), a.astype("i4")):
                    check(samples, 3, its)


def test_a_new_range_takes_few_functions_of_python():
    """Each has code and data that the caches lack when other work runs between calls."""
    a = np.arange(1000, dtype="f4")
    called = []
    for upper in (500.5, 501.5):  # the first call of all compares edges with numpy's
        called.clear()
        sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
        try:
            h = histogram.count(a, 100, (0.5, upper))
        finally:
            sys.setprofile(None)
    assert h.samples == 1000 and len(called) <= 5, called


def test_counts_that_differ_from_pass_to_pass_are_an_error():
    rule = _rules.Rule(np.array([0.0, 1, 1]), "f64")
    a = np.array([0.5, 1, 1, 7])
    passes = [a, np.array([0.5, 7, 7, 7])]
    plans = [rule._plans[0], rule._below_top]

    class Changing:
        def __init__(self, plan, samples):
            self.bin_count = plan.bin_count
            self.count = lambda _, threads: plan.count(samples, threads)

    rule._plans, rule._below_top = [Changing(plans[0], passes[1])], Changing(plans[1], np.array([0.5] * 4))
    with pytest.raises(RuntimeError, match="4 samples differ from pass to pass"):
        rule.count(a, 1)


@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_integers_beyond_doubles_lie_between_the_edges_of_their_own_range(dtype):
    rng = np.random.default_rng(3)
    info = np.iinfo(dtype)
    for middle in (1_700_000_000_000_000_000, 2**62, info.min + 10**6, info.max - 10**6):
        for _ in range(20):
            steps = rng.integers(-10**6, 10**6, 40).tolist()
            a = np.array([min(max(middle + step, info.min), info.max) for step in steps], dtype)
            for samples, options in ((a, {}), (a[::2], {}), (a.reshape(4, 10), {"axis": 1}),
                                     (a, {"windows": 7}), (a.astype(a.dtype.newbyteorder(">")), {})):
                for bins in (1, 24, "auto"):
                    h = histogram.count(samples, bins, **options)
                    assert h.counts().sum() == samples.size
                    assert np.abs(h.edges - np.histogram_bin_edges(samples, bins)).max() <= 4096


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("zeros", [(0.0, -0.0), (-0.0, 0.0), (-0.0,)])
def test_a_last_edge_of_zero_has_the_sign_that_numpy_gives_it(dtype, zeros):
    check(np.array((-1, *zeros), dtype), 3)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_ranges_whose_width_overflows(dtype):
    most = np.finfo(dtype).max
    a = np.array([-most, -1, 0, 1, most], dtype)
    for range in (None, (-most, most), [-most, most]):
        for bins in (1, 2, 4, 10):
            h = histogram.count(a, bins, range)
            assert (h.edges[0], h.edges[-1], h.edges.dtype) == (-most, most, np.dtype(dtype))
            assert h.counts().sum() == 5
            assert np.allclose(np.diff(h.edges / 2), most / bins, rtol=0.01)
    assert histogram.count(a, 4).counts().tolist() == [1, 1, 2, 1]
