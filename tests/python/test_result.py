"""The Histogram that count() returns."""

import copy
import ctypes
import importlib.resources
import io
import json
import math
import pickle
import sys
import warnings
import xml.dom.minidom

import histogram
import numpy as np
import pytest
import uhi.io.json
from uhi.numpy_plottable import ensure_plottable_histogram
from uhi.typing.plottable import PlottableAxisGeneric, PlottableHistogram

A = np.random.default_rng(3).normal(0, 1, 10_000).astype(np.float32)


@pytest.mark.parametrize("edges", [np.array([0, 1, 4], ">f4"), np.array([0, 1, 4], ">i8"), np.array([False, True])],
                         ids=lambda edges: str(edges.dtype))
def test_copies_add_up_whatever_the_type_of_edges(edges):
    h = histogram.count([0, 1, 3], edges)
    for again in (pickle.loads(pickle.dumps(h)), copy.deepcopy(h)):
        assert again == h
        assert (again + h).counts().tolist() == (h.counts() * 2).tolist()


def test_unpacks_as_numpy_answers():
    counts, edges = histogram.count(A, 10, (-2, 2))
    expected, expected_edges = np.histogram(A, 10, (-2, 2))
    assert counts.tolist() == expected.tolist()
    assert edges.tolist() == expected_edges.tolist()
    h = histogram.count(A, 10, (-2, 2))
    assert len(h) == 2 and h[0] is h.counts() and h[1] is h.edges


def test_does_not_change():
    edges = np.array([0.0, 1, 2])
    h = histogram.count(A, edges)
    edges[1] = 1.5
    assert h.edges.tolist() == [0, 1, 2]
    assert histogram.count(A, [0.0, 1, 2]) == h


def test_parts_add_up():
    whole = histogram.count(A, 50, (-1, 1))
    parts = [histogram.count(part, 50, (-1, 1)) for part in np.array_split(A, 7)]
    assert sum(parts) == whole
    assert sum(parts).samples == A.size
    rows = histogram.count(A.reshape(10, -1), 5, (-1, 1), axis=1)
    assert (rows + rows).below.tolist() == (2 * rows.below).tolist()
    with pytest.raises(ValueError, match="edges differ"):
        whole + histogram.count(A, 50, (-1, 2))
    with pytest.raises(ValueError, match="edges differ"):
        whole + histogram.count(A.astype("f8"), 50, (-1, 1))
    with pytest.raises(ValueError, match="rows"):
        rows + histogram.count(A, 5, (-1, 1))
    with pytest.raises(TypeError):
        whole + 1


def test_plottable():
    for h in (histogram.count(A, 10, (-2, 2)), histogram.count(A.reshape(4, -1), 10, (-2, 2), axis=1)):
        assert isinstance(h, PlottableHistogram)
        assert all(isinstance(axis, PlottableAxisGeneric) for axis in h.axes)
        assert ensure_plottable_histogram(h) is h
        assert h.values().shape == tuple(len(axis) for axis in h.axes)
    assert list(h.axes[0]) == [0, 1, 2, 3]
    assert list(h.axes[1])[0] == (-2.0, float(np.float32(-1.6)))
    assert h.axes[1] == h.axes[1] != h.axes[0]
    with pytest.raises(IndexError, match="bin 10"):
        h.axes[1][10]


def test_quantiles_lie_within_a_bin_of_the_samples():
    h = histogram.count(A, 200, (-6, 6))
    q = np.linspace(0, 1, 41)
    assert np.abs(h.quantile(q) - np.quantile(A, q)).max() <= 0.06
    assert h.median() == h.quantile(0.5)
    assert histogram.count([0.5], 1, (0, 1)).quantile([0, 0.25, 1]).tolist() == [0, 0.25, 1]
    # Bins without samples hold no quantile: half of them is reached at the end of the first bin.
    assert histogram.count([0, 9], 10, (0, 10)).quantile([0, 0.5, 1]).tolist() == [0, 1, 10]
    rows = histogram.count([[0, 1], [2, 3]], 4, (0, 4), axis=1)
    assert rows.quantile([0, 1]).tolist() == [[0, 2], [2, 4]]
    assert rows.median().tolist() == [1, 3]
    for q in (1.5, -1, math.nan):
        with pytest.raises(ValueError, match="q: "):
            h.quantile(q)


def test_entropy():
    assert histogram.count(np.arange(256), 256, (0, 256)).entropy() == 8
    assert histogram.count([5, 5], 4, (0, 8)).entropy() == 0
    rows = histogram.count([[0, 1, 2, 3], [1, 1, 3, 3]], 4, (0, 4), axis=1)
    assert rows.entropy().tolist() == [2, 1]


def naive_otsu(counts, edges):
    """The least edge with the greatest variance between, in whole numbers of half widths."""
    best, found = 0, math.nan
    middles = [2 * i + 1 for i in range(len(counts))]
    for i in range(1, len(counts)):
        n, m = sum(counts[:i]), sum(counts[i:])
        if n and m:
            s = sum(c * x for c, x in zip(counts[:i], middles[:i], strict=True))
            t = sum(c * x for c, x in zip(counts[i:], middles[i:], strict=True))
            variance = (s * m - t * n) ** 2 / (n * m)
            if variance > best * (1 + 1e-12):
                best, found = variance, edges[i]
    return found


def test_otsu():
    rng = np.random.default_rng(8)
    for _ in range(50):
        a = np.concatenate([rng.normal(20, 6, 400), rng.normal(60, 9, rng.integers(1, 900))])
        h = histogram.count(a, 64, (0, 100))
        assert h.otsu() == naive_otsu(h.counts().tolist(), h.edges.tolist())
    rows = histogram.count([[0, 0, 9, 9], [1, 8, 8, 8]], 10, (0, 10), axis=1)
    assert rows.otsu().tolist() == [1, 2]


def test_statistics_of_nothing_are_nan():
    for h in (histogram.count([], 4, (0, 1)), histogram.count([7, 8], 4, (0, 1))):
        assert all(math.isnan(x) for x in (h.quantile(0.5), h.median(), h.entropy(), h.otsu()))
    assert math.isnan(histogram.count([0.5, 0.5], 4, (0, 1)).otsu())
    assert math.isnan(histogram.count([0.5, 0.5], 1, (0, 1)).otsu())


def test_text_and_pictures():
    text = repr(histogram.count(A, 10, (-2, 2)))
    first, *picture = text.splitlines()
    assert first.startswith("Histogram(10 bins over [-2, 2], 10,000 samples, ")
    assert " below, " in first and " above" in first and "NaN" not in first
    assert 1 <= len(picture) <= 4 and set("".join(picture)) <= set(" ▁▂▃▄▅▆▇█")
    assert len(repr(histogram.count(A, 100_000, (-2, 2))).splitlines()[-1]) <= 64
    assert repr(histogram.count([], 3, (0, 1))) == "Histogram(3 bins over [0, 1], 0 samples)"
    rows = histogram.count(A.reshape(5, -1), 4, (0, 1), axis=1)
    assert repr(rows) == "Histogram(5 rows of 4 bins over [0, 1])"
    for h in (histogram.count(A, 1000, (-2, 2)), histogram.count([], 3, (0, 1)), rows):
        document = xml.dom.minidom.parseString(f"<p>{h._repr_html_()}</p>")
        if h is not rows:
            bars = document.getElementsByTagName("rect")
            assert len(bars) == (0 if h.samples == 0 else 256)


@pytest.mark.parametrize("made", [lambda h: h, copy.copy, copy.deepcopy, lambda h: pickle.loads(pickle.dumps(h))])
def test_nobody_makes_it_writable(made):
    rows = histogram.count(A.reshape(4, -1), 3, (0, 1), axis=1)
    for h in (histogram.count(A, 3), histogram.count(A, [0.0, 1, 1]), rows, rows + rows,
              histogram.count(np.zeros((0, 3)), 3, (0, 1), axis=1)):
        h = made(h)
        for array in (*h, h.below, h.above, h.nan):
            if isinstance(array, np.ndarray) and array.size:
                with pytest.raises(ValueError, match="WRITEABLE"):
                    array.setflags(write=True)
            while isinstance(array, np.ndarray):
                assert not array.flags.writeable
                array = array.base
            assert array is None or isinstance(array, int) or memoryview(array).readonly


def test_edges_of_one_result_are_not_those_of_another():
    """Not even their shape, which numpy lets anybody set."""
    for bins in (3, [0.0, 1, 2, 3]):
        histogram.count(A, bins, (0, 3)).edges.shape = 2, 2
        assert histogram.count(A, bins, (0, 3)).edges.shape == (4,)


def test_samples_that_int64_does_not_hold():
    half = histogram.Histogram([2**62], [0, 1])
    for total in (lambda: half + half, lambda: histogram.Histogram([2**62] * 4, range(5)),
                  lambda: histogram.Histogram([[0], [2**62]], [0, 1], nan=2**62)):
        with pytest.raises(OverflowError, match=r"\d+ samples; must be less than 2\*\*63"):
            total()


@pytest.mark.parametrize("rounding", [0x400, 0x800, 0xC00], ids=("down", "up", "to zero"))
def test_statistics_where_another_library_rounds_otherwise(rounding):
    h = histogram.count(A, 37, (-2.1, 2.3))
    a = np.append(A, A.dtype.type(0.3))

    def all_of_them():
        found = [h.mean(), h.std(), h.median(), h.quantile(q=[0.1, 0.7]), h.entropy(), h.otsu(), h.cdf(), h.density(),
                 histogram.percentile(a, [33.3, 66.6])]
        return [np.asarray(one).tobytes() for one in found]

    expected = all_of_them()
    libm = ctypes.CDLL("libm.so.6")
    libm.fesetround(rounding)
    try:
        found = all_of_them()
    finally:
        libm.fesetround(0)
    assert found == expected


def test_edges_of_other_types_do_not_add_up():
    with pytest.raises(ValueError, match="differ in type, int64 and float64"):
        histogram.count([1], [0, 1, 2]) + histogram.count([1], [0.0, 1, 2])


def test_bins_without_an_end_have_no_statistics():
    h = histogram.count([-5, 1, 2, 3], [-np.inf, 0, 2, 4])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(h.quantile([0, 0.5, 1])).tolist() == [True, False, False]
        assert math.isnan(h.otsu())
        wide = histogram.count([0.0], [-1.7e308, 1.7e308])
        for found in (wide.mean(), wide.std(), wide.median(), wide.otsu()):
            assert math.isnan(found)
        assert wide.density().tolist() == [0]


def test_no_blocks_where_the_output_has_none(monkeypatch):
    h = histogram.count(A, 10, (-2, 2))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "ascii"))
    assert repr(h).isascii() and repr(h).startswith("Histogram(10 bins")


def test_from_counts_of_elsewhere():
    counts, edges = np.array([1, 2]), np.array([0.0, 1, 5])
    h = histogram.Histogram(counts, edges, above=4)
    assert (h.samples, h.below, h.above, h.nan) == (7, 0, 4, 0)
    counts[0], edges[0] = 9, -9
    assert h.counts().tolist() == [1, 2] and h.edges.tolist() == [0, 1, 5]
    view = edges[:]
    view.setflags(write=False)
    h = histogram.Histogram([1.0, 2.0], view)
    edges[0] = 0.5
    assert h.edges[0] == -9 and h.counts().dtype == np.int64
    whole = histogram.count(A.reshape(4, -1), 5, (-1, 1), axis=1)
    assert histogram.Histogram(*whole, whole.below, whole.above, whole.nan) == whole
    assert histogram.Histogram([[1], [2]], [0, 1], nan=1).samples.tolist() == [2, 3]
    assert type(pickle.loads(pickle.dumps(h))) is histogram.Histogram and b"_result" not in pickle.dumps(h)


@pytest.mark.parametrize(("arguments", "message"), [
    (([1, 2], [0, 1]), r"edges: shape \(2,\); must be one more than the 2 counts"),
    ((3, [0, 1]), "edges: "), (([], [0]), "edges: "), (([1], [[0, 1]]), r"shape \(1, 2\)"),
    (([1], [1, 0]), "edges: must increase"), (([1], [0, np.nan]), "without NaN"), (([1], ["a", "b"]), "edges: type <U1"),
    (([-1], [0, 1]), "counts: -1; must be whole numbers >= 0"), (([0.5], [0, 1]), "counts: 0.5"),
    (([np.nan], [0, 1]), "counts: nan"), (([2**63], [0, 1]), "counts: 9223372036854775808"), ((["x"], [0, 1]), "counts: type"),
    ((np.ma.masked_array([1], [1]), [0, 1]), "counts: a masked array"), (([1], np.ma.masked_array([0, 1], [0, 1])), "edges: a masked"),
    (([1], [0, 1], -1), "below: -1"), (([1], [0, 1], 0, [1, 2]), r"above: shape \(2,\); must be that of the rows"),
])
def test_counts_that_are_none(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        histogram.Histogram(*arguments)


def test_moments_and_shares():
    h = histogram.count(A, 400, (-6, 6))
    assert abs(h.mean() - A.mean(dtype="f8")) < 0.02 and abs(h.std() - A.std(dtype="f8")) < 0.02
    h = histogram.Histogram([1, 0, 3], [0, 1, 2, 4])
    assert h.mean() == 2.375 and h.std() == np.std([0.5, 3, 3, 3])
    assert h.cdf().tolist() == [0, 0.25, 0.25, 1]
    assert h.density().tolist() == [0.25, 0, 0.375]
    rows = histogram.Histogram([[1, 0, 3], [0, 0, 0], [0, 2, 0]], h.edges)
    assert rows.mean()[[0, 2]].tolist() == [2.375, 1.5] and rows.std()[[0, 2]].tolist() == [h.std(), 0]
    assert rows.cdf()[2].tolist() == [0, 0, 1, 1] and rows.cdf().shape == (3, 4)
    for found in (rows.mean(), rows.std(), rows.cdf(), rows.density()):
        assert np.isnan(found[1]).all()
    endless = histogram.count(A, [-np.inf, 0, 1])
    assert math.isnan(endless.mean()) and math.isnan(endless.std())


def test_rebin():
    h = histogram.count(A, 12, (-1, 2))
    for k in (1, 2, 12):
        assert h.rebin(k) == histogram.count(A, h.edges[::k])
    rows = histogram.count(A.reshape(4, -1), 12, (-1, 2), axis=1)
    assert rows.rebin(3).counts().sum(axis=0).tolist() == h.rebin(3).counts().tolist()
    for k, message in ((5, "k: 5; must divide the number of bins, which is 12"), (0, "k: 0"), (13, "k: 13"), (1.5, "k: 1.5")):
        with pytest.raises((ValueError, TypeError), match=message):
            h.rebin(k)


FORMS = [
    histogram.count(np.append(A, [np.nan, 7]), 10, (-2, 2)), histogram.count(A.reshape(5, -1), 4, (0, 1), axis=1),
    histogram.count(np.append(A[1:], np.nan).reshape(5, -1), 4, (0, 1), axis=1), histogram.count([1, 2], [0, 1, 2]),
    histogram.count(np.array(["2020-01-02"], "M8[D]"), np.array(["2020-01-01", "2021-01-01"], "M8[D]")),
]


@pytest.mark.parametrize("h", FORMS, ids=range(len(FORMS)))
def test_uhis_json(h):
    text = json.dumps(h, default=uhi.io.json.default)
    read = json.loads(text, object_hook=uhi.io.json.object_hook)
    back = histogram.Histogram._from_uhi_(read)
    assert back == h and back.edges.dtype == h.edges.dtype
    schema = importlib.resources.files("uhi.resources").joinpath("histogram.schema.json").read_text()
    pytest.importorskip("jsonschema").validate(json.loads(text), json.loads(schema))


@pytest.mark.parametrize("h", FORMS, ids=range(len(FORMS)))
def test_round_trips_through_boost_histogram_and_hist(h):
    pytest.importorskip("boost_histogram")
    for other in (h.to_boost(), pytest.importorskip("hist").Hist(h)):
        assert np.array_equal(other.view(), h.counts())
        assert histogram.Histogram._from_uhi_(other) == h


def test_as_boost_histogram_counts():
    bh = pytest.importorskip("boost_histogram")
    a = np.array([-9, 0, 1, 1.5, 7, np.nan])
    other = bh.Histogram(bh.axis.Variable([0, 1, 2]), storage=bh.storage.Int64()).fill(a)
    h = histogram.count(a, [0.0, 1, 2])
    assert bh.Histogram(h) == other and h.to_boost()[bh.loc(1)] == 2
    regular = bh.Histogram(bh.axis.Regular(4, 0, 8, underflow=False)).fill(a)
    assert histogram.Histogram._from_uhi_(regular).counts().tolist() == [3, 0, 0, 1]


@pytest.mark.parametrize(("change", "message"), [
    ({"storage": {"type": "mean"}}, "storage, last axis: ..mean"), ({"storage": {"type": "int"}}, "storage"),
    ({"axes": [{"type": "boolean"}]}, "boolean"), ({"axes": [{**FORMS[0]._to_uhi_()["axes"][0], "circular": True}]}, "circular"),
    ({"storage": {"type": "double", "values": [0.5] * 12}}, "counts: 0.5"),
])
def test_uhis_forms_that_are_no_counts(change, message):
    with pytest.raises(ValueError, match=message):
        histogram.Histogram._from_uhi_({**FORMS[0]._to_uhi_(), **change})
