"""range="rows" on the way of a GPU's array, without a GPU: test_device_path.py's plugin stands in."""

import histogram
import numpy as np
import pytest
from arrays import TYPES
from test_device_path import OnDevice, plugin  # noqa: F401
from test_own_ranges import CUTS, exactly, samples_of, told


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("lying", [(0, 1, 2), (2, 0, 1), (2, 1, 0)], ids=str)
def test_rows_over_their_own_ranges(plugin, kind, lying):
    for seed in range(4):
        a = samples_of(np.random.default_rng(seed), kind, tuple((4, 5, 6)[i] for i in lying))
        a = a.transpose(np.argsort(lying))
        if seed == 2 and a.dtype.kind == "f":
            a[2, 3, 1], a[3, 0, 0] = np.inf, np.nan
        for bins in (1, 33):
            for cut in CUTS:
                b = a if "axis" in cut else np.ascontiguousarray(a)
                expected = told(histogram.count, b, bins, "rows", **cut)
                assert told(histogram.count, OnDevice(b), bins, "rows", **cut) == expected
    a = a[:0]
    for cut in CUTS:
        expected = told(histogram.count, a, 5, "rows", **cut)
        assert told(histogram.count, OnDevice(a), 5, "rows", **cut) == expected


def test_rows_over_their_own_ranges_take_one_launch(plugin):
    a = np.random.default_rng(1).normal(size=(20, 8, 3)).astype("f4")
    for cut in ({"axis": 0}, {"axis": (0, 2)}, {"axis": 2}, {"channels": 3}, {"windows": 11},
                {"windows": 20, "channels": 3}):
        plugin.calls.clear()
        h = histogram.count(OnDevice(a), 10, "rows", **cut)
        assert plugin.calls == [("count_rows", 7)] and h == histogram.count(a, 10, "rows", **cut)
        with pytest.raises(ValueError, match="WRITEABLE"):
            h.counts().flags.writeable = True
    a[3, 2] = 1, 1, np.nextafter(np.float32(1), 2)  # edges closer than the kernels take
    a[5, 7] = -1, -0.0, -2
    plugin.calls.clear()
    assert exactly(histogram.count(OnDevice(a), 1, "rows", axis=2)) == exactly(histogram.count(a, 1, "rows", axis=2))
    assert plugin.calls == [("count_rows", 7), *[("copy", 7)] * 2]
    plugin.even_bins_max = 9
    for bins, samples in ((11, a), (70_000, a.astype("f8")), (3, a.astype("f2"))):  # f2 has edges of its own
        plugin.calls.clear()
        assert exactly(histogram.count(OnDevice(samples), bins, "rows", axis=0)) == exactly(
            histogram.count(samples, bins, "rows", axis=0))
        assert plugin.calls == [("copy", 7)]


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_rows_over_their_own_ranges_on_device(plugin, cut):
    a = samples_of(np.random.default_rng(3), "f4", (4, 5, 6))
    if cut in ({"windows": (500, 1)}, {"windows": 7, "channels": 3}, {"windows": (4, 2), "channels": 2}):
        with pytest.raises(ValueError, match="on_device: True; is not for these rows of f32 in 10 bins"):
            histogram.count(OnDevice(a), 10, "rows", **cut, on_device=True)
        return
    h, expected = histogram.count(OnDevice(a), 10, "rows", **cut, on_device=True), histogram.count(a, 10, "rows", **cut)
    assert "10 bins, each over its own range, on device 0" in repr(h)
    assert h.histogram() == expected and np.array_equal(h.edges, expected.edges)
    assert h.__cuda_array_interface__["shape"] == (*expected.counts().shape[:-1], 13)
    assert next(iter(reversed(plugin.counted.values())))[-1]  # in 64 bits
    a[2, 3, 4] = np.nan
    h = histogram.count(OnDevice(a), 10, "rows", **cut, on_device=True)
    with pytest.raises(ValueError, match="a, row .*: is not counted with on_device: a sample is not finite"):
        h.histogram()
    assert "each over its own range" in repr(h)


@pytest.mark.parametrize("kind", ["i8", "u8"])
def test_integers_beyond_doubles(plugin, kind):
    a = np.array([[1, 2, 3], [0, 2**53, 7], [2**53 + 1, 5, 6], [2**60, 2**61, 2**62 + 1]], kind)
    for rows in (a, a[:3], a[:2]):
        assert exactly(histogram.count(OnDevice(rows), 3, "rows", axis=1)) == exactly(
            histogram.count(rows, 3, "rows", axis=1))
        h = histogram.count(OnDevice(rows), 3, "rows", axis=1, on_device=True)
        if len(rows) == 2:
            assert h.histogram() == histogram.count(rows, 3, "rows", axis=1)
            continue
        with pytest.raises(ValueError, match=r"a, row 2: is not counted with on_device: .*2\*\*53"):
            h.edges.sum()
