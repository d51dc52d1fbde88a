"""range="rows" of arrays in a GPU's memory: each row as numpy counts it, to the last bit."""

import histogram
import numpy as np
import pytest
from arrays import TYPES
from test_gpu import on_gpu, torch
from test_own_ranges import CUTS, check, exactly, rows_of_axes, samples_of, told
from test_rows import parts_of


def rows_of(a, axis=None, channels=None, windows=None):
    if axis is None:
        return parts_of(a, channels, windows)[0]
    return rows_of_axes(a, axis if isinstance(axis, tuple) else (axis,))


def on_device(b, bins, **cut):
    """The histogram of counts that stayed on the device, and these counts."""
    h = histogram.count(b, bins, "rows", **cut, on_device=True)
    return h.histogram(), torch.as_tensor(h, device="cuda").cpu().numpy()[..., :bins]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("lying", [(0, 1, 2), (2, 0, 1), (2, 1, 0)], ids=str)
def test_each_row_is_numpys(dtype, lying):
    order = np.argsort(lying).tolist()
    for seed in range(3):
        a = samples_of(np.random.default_rng(seed), dtype, tuple((4, 5, 6)[i] for i in lying))
        if seed == 2 and a.dtype.kind == "f":
            a.flat[3], a.flat[70] = np.inf, np.nan
        b = on_gpu(a)
        for cut in CUTS:
            here, there = (a.transpose(order), b.permute(order)) if "axis" in cut else (a, b)
            for bins in (1, 33):
                expected = told(histogram.count, here, bins, "rows", **cut)
                assert told(histogram.count, there, bins, "rows", **cut) == expected, cut
                if not isinstance(expected, str):
                    check(histogram.count(there, bins, "rows", **cut), rows_of(here, **cut), bins)


FLOATS = [[5], [0], [0, -0.0], [-1, -0.0, 0], [-1, 0], [-0.5], [1, 2], [1000, 1000.03, 999.99], [1e30], [-1, np.inf],
          [np.nan, 1], [np.nan], [-np.inf], [0, 3e-42, 1e-41], [-1e-44, 1e-44], [1, np.nextafter(np.float32(1), 2)],
          [-3e38, 3e38], [-3e-39, 1e-38], [16777216, 16777218]]
WHOLE = [[5], [0], [0, 1], [100, 101, 127], [0, 2**53], [0, 2**53 + 1], [2**53 - 1, 2**53], [2**53], [2**53 + 1],
         [2**62, 2**62 + 9000], [0, 2**63 - 1], [1, 2**60, 2**61]]


@pytest.mark.parametrize(("dtype", "special"), [
    ("f4", FLOATS), ("f8", [*FLOATS, [-1e308, 1e308], [0, 5e-324], [1, 1 + 1e-15]]), ("f2", FLOATS[:8]), ("u8", WHOLE),
    ("i8", [*WHOLE, *([-x for x in row] for row in WHOLE), [-(2**63), 2**63 - 1]]), ("u1", WHOLE[:4]),
    ("i4", WHOLE[:4])],
    ids=lambda value: value if isinstance(value, str) else "")
def test_special_rows(dtype, special):
    others = np.arange(40)
    for row in special:
        a = np.stack([others, np.resize(np.array(row), 40), others[::-1]]).astype(dtype)
        if dtype in ("u8", "i8"):
            a[1] = np.resize(np.array(row, dtype), 40)
        for bins in (1, 10, 1000):
            expected = told(histogram.count, a, bins, "rows", axis=1)
            assert told(histogram.count, on_gpu(a), bins, "rows", axis=1) == expected, row
            if dtype == "f2" or isinstance(expected, str):
                continue
            try:
                h, counts = on_device(on_gpu(a), bins, axis=1)
            except ValueError as error:
                assert str(error).startswith("a, row 1: is not counted with on_device"), row
            else:
                assert h == histogram.count(a, bins, "rows", axis=1)
                assert np.array_equal(counts, h.counts())


@pytest.mark.parametrize("dtype", ["u1", "i2", "i4", "f4", "i8", "f8"])
def test_long_and_many_rows(dtype):
    """Rows that several blocks share, that have no aligned address, that are few, many, short."""
    a = (np.random.default_rng(1).normal(size=900_007) * 30 + 60).astype("i1").astype(dtype)
    if a.dtype.kind == "f":
        a += np.random.default_rng(2).normal(size=a.size).astype(dtype)
    b = on_gpu(a)
    for first, bins, cut in ((0, 256, {"windows": 300_001}), (1, 3, {"windows": 100_000}), (7, 100, {"windows": 31}),
                             (3, 256, {"windows": (4096, 1000)}), (0, 3, {"windows": 1}), (5, 9, {"windows": 10**6}),
                             (1, 256, {"channels": 3}), (2, 9, {"channels": 5, "windows": 7200}),
                             (2, 9, {"channels": 5, "windows": 7201})):
        here, there = a[first : first + 900_000], b[first : first + 900_000]
        expected = histogram.count(here, bins, "rows", **cut)
        assert exactly(histogram.count(there, bins, "rows", **cut)) == exactly(expected)
        if cut.get("windows") != 7201:
            found, counts = on_device(there, bins, **cut)
            assert found == expected and np.array_equal(counts, expected.counts())
    grid, there = a[:900_000].reshape(3000, 300), b[:900_000].reshape(3000, 300)
    for axis in (0, 1):
        for rows, its in ((grid, there), (grid.T, there.T)):
            assert exactly(histogram.count(its, 100, "rows", axis=axis)) == exactly(
                histogram.count(rows, 100, "rows", axis=axis))
            found, counts = on_device(its, 100, axis=axis)
            assert found == histogram.count(rows, 100, "rows", axis=axis) and np.array_equal(counts, found.counts())


def test_other_types_bins_and_libraries():
    a = np.random.default_rng(1).normal(size=(40, 500)).astype("f4")
    b = on_gpu(a)
    for axis in (0, 1):
        bits = b.to(torch.bfloat16)
        values = bits.float().cpu().numpy()
        check(histogram.count(bits, 10, "rows", axis=axis), rows_of_axes(values, (axis,)), 10)
        expected = histogram.count(a > 0, 2, "rows", axis=axis)
        assert exactly(histogram.count(b > 0, 2, "rows", axis=axis)) == exactly(expected)
        wide = histogram.count(a.astype("f8"), 40_000, "rows", axis=axis)  # more bins than are counted without tables
        assert exactly(histogram.count(b.double(), 40_000, "rows", axis=axis)) == exactly(wide)
    for given in (b[:0], b[:, :0]):
        expected = told(histogram.count, given.cpu().numpy(), 5, "rows", axis=1)
        assert told(histogram.count, given, 5, "rows", axis=1) == expected
    expected = exactly(histogram.count(a, 10, "rows", axis=1)), exactly(histogram.count(a, 10, "rows", axis=0))
    cupy = pytest.importorskip("cupy")
    for order in "CF":
        there = cupy.asarray(a, order=order)
        assert [exactly(histogram.count(there, 10, "rows", axis=axis)) for axis in (1, 0)] == [*expected]
    jax = pytest.importorskip("jax")
    there = jax.device_put(a, jax.devices("gpu")[0])
    assert [exactly(histogram.count(there, 10, "rows", axis=axis)) for axis in (1, 0)] == [*expected]


def test_on_device_waits_for_nothing():
    a = np.random.default_rng(1).normal(size=(100, 1000)).astype("f4")
    b = on_gpu(a)
    expected = histogram.count(a, 50, "rows", axis=1)
    histogram.count(b, 50, "rows", axis=1, on_device=True)  # allocates
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        histogram.count(b, 50, "rows", axis=1, on_device=True)
        stream.synchronize()
        torch.cuda._sleep(100_000_000)
        h = histogram.count(b, 50, "rows", axis=1, on_device=True)
        assert "each over its own range" in repr(h) and not stream.query()
        there = torch.as_tensor(h, device="cuda")
    assert np.array_equal(h.edges, expected.edges) and h.histogram() == expected
    assert np.array_equal(there.cpu()[:, :50], expected.counts())
    # Its memory serves one range for all rows, too.
    del h
    assert histogram.count(b, 50, (-1, 1), axis=1) == histogram.count(a, 50, (-1, 1), axis=1)
