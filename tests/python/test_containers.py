"""Arrays of other libraries: none is rounded, none loses its unit, and none fails for its producer's refusals."""

import histogram
import numpy as np
import pytest

BEYOND = 2**53 + 3
EDGES = [2**53, 2**53 + 4, 2**53 + 8]


class Metres(np.ndarray):
    """As unyt's and astropy's arrays: numpy's functions convert units."""

    def __array_function__(self, function, types, args, kwargs):
        return NotImplemented


class Quantity:
    """As pint's."""

    units = "m"

    def __array__(self, dtype=None, copy=None):
        return np.array([1.0, 2, 3])


class Plain(np.ndarray):
    """Means no more than an array."""


@pytest.mark.parametrize("odd", [
    np.array([1.0, 2, 3]).view(Metres), Quantity(), np.array([[1.0, 2, 3]]).view(np.matrix),
], ids=lambda odd: type(odd).__name__)
def test_arrays_that_mean_more_than_their_numbers_are_refused(odd):
    a = np.array([1.0, 2])
    for arguments in ((odd, 3, (0, 4)), (a, odd), (a, 3, odd), ([odd, odd], 3, (0, 4)), (a, 3, (0, odd))):
        with pytest.raises(TypeError, match=f"{type(odd).__qualname__} means more"):
            histogram.count(*arguments)
    with pytest.raises(TypeError, match="^a: "):
        histogram.quantile(odd, 0.5)
    with pytest.raises(TypeError, match="^q: "):
        histogram.quantile(a, odd)


@pytest.mark.parametrize("nested", [
    [[np.ma.masked_array([1, 2], [0, 1])]], ([np.array([1.0]).view(Metres)],), [[Quantity()]],
], ids=str)
def test_values_in_nested_sequences_that_mean_more_than_their_numbers_are_refused(nested):
    with pytest.raises(TypeError, match="^a: (a masked array|type .* means more)"):
        histogram.count(nested, 3, (0, 4))


def test_what_a_library_wraps_is_looked_at():
    dask = pytest.importorskip("dask.array")
    xarray = type("DataArray", (), {"__module__": "xarray.core", "__array__": lambda self: np.ones(3)})
    units = xarray()
    units.data = Quantity()
    masked = xarray()
    masked.data = dask.from_array(np.ma.masked_array([1, 2, 3], [0, 1, 0]))
    for a in (masked, masked.data):
        assert histogram.count(a, [0, 2, 4]).counts().tolist() == [1, 1]
        assert histogram.quantile(a, [0, 0.5]).tolist() == [1, 2]
    for a in (units, dask.from_array(np.ones(3).view(Metres), asarray=False)):
        with pytest.raises(TypeError, match="means more"):
            histogram.count(a, 3, (0, 4))
    a = dask.arange(5)
    edges = np.histogram_bin_edges(np.arange(5), 4)
    assert histogram.count(a, 4, (a.min(), a.max())).edges.tolist() == edges.tolist()
    assert histogram.count(a, a).counts().tolist() == [1, 1, 1, 2]


class Lists:
    """As a series of polars whose samples are lists of a fixed size."""

    def __init__(self, nulls):
        self.dtype = type("Array", (), {"inner": "Int64"})()
        self._nulls = nulls

    def drop_nulls(self):
        return self

    def explode(self):
        return self

    def null_count(self):
        return self._nulls

    def to_numpy(self):
        return np.array([[1, 2], [3, 4]])

    def __array__(self, dtype=None, copy=None):
        return self.to_numpy()


def test_nulls_in_lists_are_refused():
    assert histogram.count(Lists(0), [0, 2, 4]).counts().tolist() == [1, 3]
    with pytest.raises(TypeError, match=r"a: lists with nulls; .*a.explode"):
        histogram.count(Lists(1), [0, 2, 4])


class Unwilling:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("it is sparse")


def test_what_no_library_makes_an_array_of_is_named():
    for name, call in (("a", lambda: histogram.count(Unwilling(), 3)), ("q", lambda: histogram.quantile([1], Unwilling()))):
        with pytest.raises(TypeError, match=f"^{name}: Unwilling; it is sparse"):
            call()


def test_plain_subclasses_are_taken(tmp_path):
    mapped = np.memmap(tmp_path / "a", np.uint8, "w+", shape=4)
    for a in (mapped, np.zeros(4).view(Plain)):
        h = histogram.count(a, 2, (0, 2))
        assert h.counts().tolist() == [4, 0]
        assert type(h.counts()) is np.ndarray


class Refusing:
    """A producer that exports no DLPack, and may say so late."""

    def __init__(self, error, late):
        self._error, self._late = error, late

    def __dlpack_device__(self):
        if self._late:
            return (1, 0)
        raise self._error

    def __dlpack__(self, **options):
        raise self._error


class Convertible(Refusing):
    def __array__(self, dtype=None, copy=None):
        return np.array([1.0, 2, 3])


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("error", [BufferError(), RuntimeError(), TypeError(), NotImplementedError()], ids=repr)
def test_producers_that_refuse_dlpack(error, late):
    assert histogram.count(Convertible(error, late), 3, (0, 4)).counts().tolist() == [1, 1, 1]
    assert histogram.quantile(Convertible(error, late), 0.5) == 2
    with pytest.raises(type(error)):
        histogram.count(Refusing(error, late), 3, (0, 4))


@pytest.mark.parametrize("order", ["<", ">"])
def test_arrays_of_no_dimension(order):
    assert histogram.count(np.array(3, f"{order}i4"), 4, (0, 8)).counts().tolist() == [0, 1, 0, 0]


def nullable(values, type):
    """The values in each library's arrays with nulls."""
    pandas, polars, arrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    array = arrow.array(values, type.lower())
    return [
        pandas.array(values, type), pandas.Series(values, dtype=type), pandas.Index(values, dtype=type),
        pandas.Series(values, dtype=pandas.ArrowDtype(array.type)), polars.Series(values, dtype=getattr(polars, type)),
        array, arrow.chunked_array([array[:1], array[1:]]),
    ]


def test_integers_with_nulls_are_exact():
    for type in ("Int64", "UInt64"):
        for a in nullable([BEYOND, None], type):
            h = histogram.count(a, EDGES)
            assert (h.counts().tolist(), h.nan, h.samples) == ([1, 0], 1, 2)
            assert np.isnan(histogram.quantile(a, [0, 1])).all()
            for options in ({"windows": 1}, {"axis": 0}):
                with pytest.raises(ValueError, match="a: 1 nulls"):
                    histogram.count(a, EDGES, **options)
            with pytest.raises(ValueError, match="a: 1 nulls; give a range"):
                histogram.count(a, 3)
        for a in nullable([BEYOND, BEYOND], type):
            assert histogram.count(a, EDGES).counts().tolist() == [2, 0]
            assert histogram.quantile(a, 0) == BEYOND


def test_floats_and_booleans_of_arrow():
    arrow = pytest.importorskip("pyarrow")
    h = histogram.count(arrow.array([1, None, 3.0]), 3, (0, 4))
    assert (h.counts().tolist(), h.nan) == ([1, 0, 1], 1)
    assert histogram.count(arrow.array([True, False, True]), 2, (0, 2)).counts().tolist() == [1, 2]


def test_booleans_with_nulls():
    pandas, polars, arrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    values = [True, None, False]
    array = arrow.array(values)
    for a in (array, arrow.chunked_array([array, array[:0]]), polars.Series(values), pandas.array(values, "boolean"),
              pandas.Series(values, dtype="boolean"), pandas.Series(values, dtype="bool[pyarrow]")):
        h = histogram.count(a, 2, (0, 2))
        assert (h.counts().tolist(), h.nan) == ([1, 1], 1)


def test_categories_and_dictionaries_with_nulls():
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    for a in (pandas.Categorical([BEYOND, None]), pandas.Categorical(pandas.array([BEYOND, None], "Int64")), pandas.Series(pandas.Categorical([BEYOND, None])),
              arrow.array([BEYOND, None]).dictionary_encode()):
        h = histogram.count(a, EDGES)
        assert (h.counts().tolist(), h.nan) == ([1, 0], 1)


def test_dates_of_libraries():
    pandas, polars, arrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    edges = np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "M8[us]")
    a = edges[[0, 1, 1]]
    for dates in (pandas.Series(a), pandas.DatetimeIndex(a), pandas.Series(a).dt.tz_localize("UTC"),
                  pandas.Series(a, dtype="timestamp[us][pyarrow]"), polars.Series(a), arrow.array(a)):
        assert histogram.count(dates, edges).counts().tolist() == [1, 2]
        assert histogram.count(dates, pandas.DatetimeIndex(edges)).edges.dtype == "M8[us]"
        assert histogram.quantile(dates, 0.5) == a[1]
    h = histogram.count(arrow.array([a[0].item(), None]), edges)
    assert (h.counts().tolist(), h.nan) == ([1, 0], 1)
    assert histogram.count(polars.Series(a - a[0]), edges - a[0]).counts().tolist() == [1, 2]


def test_tables_with_nulls_in_integers_are_refused():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"x": [BEYOND, None], "y": [1, 2]})
    for table in (frame, frame.to_arrow()):
        with pytest.raises(TypeError, match="one by one"):
            histogram.count(table, EDGES)


def test_tables_in_which_integers_would_be_rounded_are_refused():
    polars = pytest.importorskip("polars")
    for other in ([0.5], [2**63]):
        frame = polars.DataFrame({"x": [BEYOND], "y": polars.Series(other, dtype=None)})
        for table in (frame, frame.to_pandas(), frame.to_arrow()):
            with pytest.raises(TypeError, match="several types; pass its columns one by one"):
                histogram.count(table, EDGES)
    frame = polars.DataFrame({"x": [BEYOND], "y": [BEYOND]})
    for table in (frame, frame.to_pandas(), frame.to_arrow()):
        assert histogram.count(table, EDGES).counts().tolist() == [2, 0]


def test_tensors_of_torch():
    torch = pytest.importorskip("torch")
    assert histogram.quantile([0, 1, 2], torch.tensor(0.5, requires_grad=True)) == 1
    with pytest.raises(RuntimeError, match="ZeroTensor"):  # it has no memory
        histogram.count(torch._efficientzerotensor(3), 4, (-4, 4))
    negative = torch.tensor([1 + 1j, 2 + 3j]).conj().imag
    assert histogram.count(negative, 4, (-4, 4)).counts().tolist() == [1, 1, 0, 0]
    assert histogram.quantile(negative, 0.5) == -2
    for dtype in (torch.float32, torch.bfloat16):
        a = torch.nn.Parameter(torch.ones(3, dtype=dtype))
        assert histogram.count(a, 3, (0, 4)).counts().tolist() == [3, 0, 0]


def test_edges_of_integers_beyond_doubles():
    h = histogram.count(np.array([2**64 - 1], np.uint64), [0, 2**63, 2**64])
    assert (h.counts().tolist(), h.edges.dtype) == ([0, 1], np.dtype("f8"))
    for edges in ([0, 2**64 + 1], [-1, 2**63 + 1], [0.5, 2**53 + 1], np.array([0, 2**53 + 1])):
        with pytest.raises(ValueError, match=rf"bins: edge {edges[1]} is not a float64"):
            histogram.count(np.array([1]), edges)


def test_subnormal_samples_where_another_library_flushes_them():
    torch = pytest.importorskip("torch")
    a = np.array([-1e-40, 1e-40], np.float32)
    small = np.array([-4, -1, 0, 1, 2, 4], np.float64) * 5e-309
    edges = np.array([-1, 0, 5e-309, 1e-308, 1])
    asked = ((small, edges, None), (small, 3, (-2e-308, 2e-308)), (small, 4, None))
    rows = histogram.count(small.reshape(2, 3), 2, "rows", axis=1)
    expected = [np.quantile(a, 1.0), np.quantile(a, np.float32(0.7)), np.quantile(small, 0.3),
                np.median(small[2:]), np.quantile(small, 0.3, method="hazen")]
    binned = [np.histogram(*one) for one in asked]
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor does not flush subnormal numbers")
    try:
        counts = histogram.count(a, [-1, 0, 1]).counts().tolist()
        found = [histogram.quantile(a, 1.0), histogram.quantile(a, np.float32(0.7)),
                 histogram.quantile(small, 0.3), histogram.median(small[2:]),
                 histogram.quantile(small, 0.3, method="hazen")]
        histograms = [histogram.count(*one) for one in asked]
        again = histogram.count(small.reshape(2, 3), 2, "rows", axis=1)
    finally:
        torch.set_flush_denormal(False)
    assert counts == [1, 1]
    assert again == rows
    assert [one.tobytes() for one in found] == [one.tobytes() for one in expected]
    for h, (numbers, its_edges) in zip(histograms, binned, strict=True):
        assert h.counts().tolist() == numbers.tolist()
        assert h.edges.tobytes() == its_edges.tobytes()
