"""The way of a GPU's array through the package, without a GPU.

A plugin that counts in the CPU's memory stands in for the real one, which test_gpu.py runs. The
tests show that layouts, rows, ranks and errors reach the plugin rightly.
"""

import ctypes
import gc
import itertools
import sys

import histogram
import numpy as np
import pytest
from arrays import RANGES, TYPES, make_samples
from histogram import _gpu, _gpu_arrays, _gpu_plan, _gpu_plugin, _native

EDGES = np.linspace(-40, 40, 101)
POINTER, NUMBER, SIZE, INT = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int
DTYPES = _gpu_arrays.DTYPES


def memory(address, count, dtype):
    count, dtype = int(count), np.dtype(dtype)
    if count == 0:
        return np.empty(0, dtype)
    return np.frombuffer((ctypes.c_char * (count * dtype.itemsize)).from_address(address), dtype)


def values_of(samples, kind):
    return (samples.astype(np.uint32) << 16).view(np.float32) if kind == "bf16" else samples


def own_plan(row, kind, bins):
    """The ends of a row's own bins and their plan, as DeviceRows makes them; NaN and None where it makes none."""
    values = values_of(row, kind)
    least, greatest = values.min(), values.max()
    low, high = float(least) + 0.0, float(greatest) + 0.0  # -0.0 is 0.0
    if values.dtype.kind != "f":  # rounded outwards
        low = np.nextafter(low, -np.inf) if int(low) > int(least) else low
        high = np.nextafter(high, np.inf) if int(high) < int(greatest) else high
    own = np.float32 if values.dtype.kind == "f" and values.itemsize < 8 else np.float64
    if least == greatest:
        low, high = float(own(low) - own(0.5)), float(own(high) + own(0.5))
    unit = float(np.finfo(own).eps)
    plan = None
    if np.isfinite([low, high, high - low]).all() and (high - low) / bins >= 4 * unit * max(-low, high):
        arithmetic = "f32" if own is np.float32 else "f64"
        plan = _native.Plan.even(low, high, bins, arithmetic, arithmetic, kind)
    return (low, high) if plan is not None else (np.nan, np.nan), plan


def put(found, counts, outside):
    """Writes what a plan has counted to these addresses."""
    bins = np.frombuffer(found[0], np.int64)[:-3]
    memory(counts, bins.size, np.int64)[:] = bins
    memory(outside, 3, np.int64)[:] = found[1:]


class HostPlugin:
    """Functions of python/cuda/plugin.h over the CPU's memory."""

    def __init__(self):
        self.plans, self.counted, self.calls, self.handles = {}, {}, [], itertools.count(1)
        self.lose = False  # a sample of each count
        self.even_bins_max = 30_000
        prototype = ctypes.CFUNCTYPE(INT, POINTER, POINTER, POINTER, NUMBER, POINTER, POINTER, POINTER, POINTER, SIZE)
        self.histogram_cuda_count_and_read = prototype(self.count_and_read)

    def histogram_cuda_make(self, edges, edge_count, kind, device, made, error, error_bytes):
        plan = _native.Plan.make(memory(edges, edge_count, np.float64).copy(), kind.decode())
        return self.keep(plan, kind, made)

    def histogram_cuda_make_even(self, bins, kind, device, made, error, error_bytes):
        return -3 if bins > self.even_bins_max else self.keep(bins, kind, made)

    def keep(self, plan, kind, made):
        handle = next(self.handles)
        self.plans[handle] = plan, kind.decode()
        memory(made, 1, np.int64)[0] = handle
        return 0

    def plan_of(self, handle, at):
        """The plan of a counter, if it is even over the range at the address; None: it needs tables."""
        plan, kind = self.plans[handle]
        if isinstance(plan, int):
            given = _gpu_plugin.Range.from_address(at)
            unit = 2.0**-52 if given.edges == 0 else 2.0**-23
            if (given.upper - given.lower) / plan < 4 * unit * max(-given.lower, given.upper):
                return None, None
            arithmetic, edges = (("f64", "f64"), ("f64", "f32"), ("f32", "f32"))[given.edges]
            return _native.Plan.even(given.lower, given.upper, plan, arithmetic, edges, kind), DTYPES[kind]
        assert not at  # a null pointer: the plan has its edges
        return plan, DTYPES[kind]

    def histogram_cuda_free(self, handle):
        del self.plans[handle]

    def histogram_cuda_counts(self, handle):
        return 4096 * handle

    def histogram_cuda_rows(self, handle):
        return 4096 * handle + 8

    def histogram_cuda_count(self, handle, given, samples, count, stream, error, error_bytes):
        self.calls.append(("count", stream))
        plan, dtype = self.plan_of(handle, given)
        if plan is None:
            return -3
        self.counted[handle] = plan, memory(samples, count, dtype)
        return 0

    def histogram_cuda_read(self, handle, stream, counts, outside, error, error_bytes):
        plan, samples = self.counted[handle]
        put(plan.count(samples, 1), counts, outside)
        memory(counts, plan.bin_count, np.int64)[0] -= self.lose
        return 0

    def count_and_read(self, handle, given, samples, count, stream, counts, outside, error, error_bytes):
        self.calls.append(("count_and_read", stream))
        if self.lose:
            ctypes.memmove(error, b"counts add up to 1\0", 19)
            return -1
        plan, dtype = self.plan_of(handle, given)
        if plan is None:
            return -3
        put(plan.count(memory(samples or 0, count, dtype), 1), counts, outside)
        return 0

    def histogram_cuda_extent(self, handle, samples, count, stream, extent, error, error_bytes):
        plan, kind = self.plans[handle]
        assert plan == 1
        self.calls.append(("extent", stream))
        found = memory(samples, count, DTYPES[kind])
        if kind == "bf16":
            found = (found.astype(np.uint32) << 16).view(np.float32)
        extent[:] = float(found.min()), float(found.max())
        return 0

    def histogram_cuda_count_rows(self, handle, given, cut, wide, samples, count, stream, error, error_bytes):
        self.calls.append(("count_rows", stream))
        if given and _gpu_plugin.Range.from_address(given).edges == 3:
            bins, kind = self.plans[handle]
            self.counted[handle] = (bins, kind), memory(samples, count, DTYPES[kind]), *cut, wide
            return 0
        plan, dtype = self.plan_of(handle, given)
        if plan is None:
            return -3
        if plan.bin_count > 58_000:
            error.value = b"the plan has too many bins"
            return -2
        self.counted[handle] = plan, memory(samples, count, dtype), *cut, wide
        return 0

    def histogram_cuda_copy(self, device, samples, size, stream, out, error, error_bytes):
        self.calls.append(("copy", stream))
        memory(out, size, np.uint8)[:] = memory(samples, size, np.uint8)
        return 0

    def read_own_ranges(self, handle, counts, outside, ends):
        (bins, kind), samples, channels, window, step, _ = self.counted[handle]
        assert channels == 1
        window = window or samples.size
        begins = range(0, samples.size if step == 0 else samples.size - window + 1, step or window)
        for i, begin in enumerate(begins):
            row = samples[begin : begin + window]
            own, plan = own_plan(row, kind, bins)
            if ends:
                memory(ends + 16 * i, 2, np.float64)[:] = own
            memory(counts + 8 * bins * i, bins, np.int64)[:] = 0
            memory(outside + 24 * i, 3, np.int64)[:] = 0
            if plan is not None:
                put(plan.count(row, 1), counts + 8 * bins * i, outside + 24 * i)
        return 0

    def histogram_cuda_read_rows(self, handle, stream, counts, outside, ends, error, error_bytes):
        if isinstance(self.counted[handle][0], tuple):
            return self.read_own_ranges(handle, counts, outside, ends)
        plan, samples, channels, window, step, _ = self.counted[handle]
        pixels = samples.size // channels
        rows = 1 if window == 0 else -(-pixels // window) if step == 0 else (pixels - window) // step + 1
        plan.count_rows(samples, memory(counts, rows * channels * plan.bin_count, np.int64),
                        memory(outside, rows * channels * 3, np.int64), 1, window, step, channels)
        return 0

    def histogram_cuda_order_statistics(self, kind, device, samples, count, rows, stream, ranks, rank_count, out,
                                        error, error_bytes):
        self.calls.append(("order_statistics", stream))
        dtype = DTYPES[kind.decode()]
        found = memory(out, rows * rank_count, dtype).reshape(rows, rank_count)
        for row, to in zip(memory(samples, rows * count, dtype).reshape(rows, count), found):
            _native.order_statistics(row, kind.decode(), count, memory(ranks, rank_count, np.int64), to, 1)
        return 0


class OnDevice:
    """An array that says it lies on a GPU."""

    def __init__(self, a, stream=7):
        self.array, self.ndim, self.stream = a, a.ndim, stream
        self.__cuda_array_interface__ = a.__array_interface__ | {"version": 3, "stream": stream}

    def reshape(self, shape):
        return OnDevice(self.array.reshape(shape), self.stream)

    def transpose(self, order):
        return OnDevice(self.array.transpose(order), self.stream)

    def copy(self):
        return OnDevice(self.array.copy(order="C"), self.stream)


class Torch:
    """The parts of torch that the package uses, for tensors that say they lie on a GPU."""

    class Tensor:
        is_cuda, requires_grad = True, False

        def __init__(self, a):
            self.array = a
            self.dtype = {"f": "torch.float", "i": "torch.int", "u": "torch.uint"}[a.dtype.kind] + str(8 * a.itemsize)
            self.shape = a.shape

        def get_device(self):
            return 2

        def is_neg(self):
            return False

        def is_contiguous(self):
            return self.array.flags.c_contiguous

        def data_ptr(self):
            return self.array.ctypes.data

        def numel(self):
            return self.array.size

        def stride(self):
            return tuple(stride // self.array.itemsize for stride in self.array.strides)

    class _C:
        @staticmethod
        def _cuda_getCurrentRawStream(device):
            return 10 * device


class OnlyDlpack:
    """An array that says it lies on a GPU, and has DLPack alone, as those of jax."""

    def __init__(self, a):
        self.array = a

    def __dlpack_device__(self):
        return 2, 3

    def __dlpack__(self, stream):
        assert stream == 1  # the legacy default stream
        capsule = self.array.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = POINTER, (ctypes.py_object, ctypes.c_char_p)
        # DLTensor: its data, then the device.
        (ctypes.c_int32 * 2).from_address(pointer(capsule, b"dltensor") + ctypes.sizeof(POINTER))[:] = 2, 3
        return capsule


@pytest.fixture
def plugin(monkeypatch):
    made = HostPlugin()
    for module in (_gpu, _gpu_plugin):
        monkeypatch.setattr(module, "plugin", lambda: made)
    caches = _gpu_plan.even_counters, _gpu_plugin.count_and_read, _gpu._counted
    for one in caches:
        one.cache_clear()
    cache = {}
    monkeypatch.setattr(histogram._rules, "_cache", cache)
    monkeypatch.setattr(histogram._rules, "remembered", cache.get)
    monkeypatch.setattr(histogram._rules, "_cache_bins", 0)
    yield made
    for one in caches:
        one.cache_clear()


def some(dtype, size):
    return make_samples(np.random.default_rng(1), dtype, EDGES, size)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("bins", [(100, (-40, 40)), (EDGES.tolist(), None), ([0, 0, 3, 3], None),
                                  ([-np.inf, 0, np.inf], None)], ids=lambda bins: str(bins)[:20])
def test_counts(plugin, dtype, bins):
    for size in (0, 1, 3000):
        a = some(dtype, size)
        assert histogram.count(OnDevice(a), *bins) == histogram.count(a, *bins)
    assert set(plugin.calls) == {("count_and_read", 7)}


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8"])
def test_dlpack(plugin, dtype):
    a = some(dtype, 600).reshape(20, 30)
    for shaped in (a, a.T):
        b, held = OnlyDlpack(shaped), sys.getrefcount(shaped)
        assert histogram.count(b, EDGES) == histogram.count(a, EDGES)
        assert histogram.count(b, EDGES, axis=1) == histogram.count(shaped, EDGES, axis=1)
        gc.collect()
        assert sys.getrefcount(shaped) == held  # both capsules are freed
    assert _gpu.device_array(b).device == 3
    assert set(plugin.calls) == {("count_and_read", 1), ("count_rows", 1)}


def test_tensors_of_torch(plugin, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", Torch)
    a = some("f4", 600)
    other = some("f4", 500)
    for samples in (a, other, a.reshape(20, 30), a[:0]):
        expected = histogram.count(samples, 100, (-40, 40))
        assert histogram.count(Torch.Tensor(samples), 100, (-40, 40)) == expected
    assert len(plugin.plans) == 1  # its device memory serves each of these calls
    for samples in (a.reshape(20, 30).T, some("f4", 30)[None]):
        assert histogram.count(Torch.Tensor(samples), 100, (-40, 40)) == histogram.count(samples, 100, (-40, 40))
    with pytest.raises(ValueError, match="leave gaps"):
        histogram.count(Torch.Tensor(a[::2]), 100, (-40, 40))
    assert histogram.count(Torch.Tensor(a), 100, (-40, 40.0)) == histogram.count(a, 100, (-40, 40))
    assert histogram.count(Torch.Tensor(some("i2", 50)), 9, (0, 9)) == histogram.count(some("i2", 50), 9, (0, 9))
    plugin.lose = True
    with pytest.raises(RuntimeError, match="counts add up"):
        histogram.count(Torch.Tensor(a), 100, (-40, 40))
    assert set(plugin.calls) == {("count_and_read", 20)}


@pytest.mark.parametrize("dtype", TYPES)
def test_the_range_of_the_data(plugin, dtype):
    a = some(dtype, 2000)
    a = (a if a.dtype.kind in "iu" else a[np.abs(a) < 100])[:900]
    for samples in (a, a[:1], a[:0]):
        assert histogram.count(OnDevice(samples), 33) == histogram.count(samples, 33)
    assert histogram.count(OnDevice(a), 9, windows=100) == histogram.count(a, 9, windows=100)
    if a.dtype.kind == "f":
        a[5] = np.nan
        with pytest.raises(ValueError, match=r"bins: 33, range: None; autodetected range of .* is not finite"):
            histogram.count(OnDevice(a), 33)


@pytest.mark.parametrize("kind", ["u1", "i2", "f2", "i4", "f4", "u8", "f8"])
def test_any_range_is_counted_by_the_same_counter(plugin, kind):
    a = some(kind, 900)
    a = a[np.isfinite(a)]
    for bins in (1, 10, 2048):
        for given in RANGES:
            try:
                expected = histogram.count(a, bins, given)
            except (TypeError, ValueError, RuntimeWarning) as error:
                with pytest.raises(type(error)):
                    histogram.count(OnDevice(a), bins, given)
                continue
            found = histogram.count(OnDevice(a), bins, given)
            assert found == expected
            assert (found.edges.dtype, found.edges.tobytes()) == (expected.edges.dtype, expected.edges.tobytes())
            rows = {"axis": 1}
            assert histogram.count(OnDevice(a[:600].reshape(6, 100)), bins, given, **rows) == histogram.count(
                a[:600].reshape(6, 100), bins, given, **rows)
    assert histogram.count(OnDevice(a), np.int64(10), (0, 90)) == histogram.count(a, 10, (0, 90))
    even = [plan for plan, _ in plugin.plans.values() if isinstance(plan, int)]
    assert sorted(even) == [1, 10, 2048]


def test_even_bins_take_tables_where_they_must_or_where_these_pay(plugin, monkeypatch):
    def tables():
        return sum(not isinstance(plan, int) for plan, _ in plugin.plans.values())

    a = some("u1", 500)
    for wide in (a.astype("f4"), a):
        for _ in range(3):
            assert histogram.count(OnDevice(wide), 9, (0, 90)) == histogram.count(wide, 9, (0, 90))
    assert tables() == 0
    monkeypatch.setattr(_gpu, "_TABLES_PAY_AT", 1000)
    for calls in range(1, 5):
        assert histogram.count(OnDevice(a), 9, (0, 91)) == histogram.count(a, 9, (0, 91))
        assert tables() == (calls > 2)
    plugin.even_bins_max = 100
    assert histogram.count(OnDevice(a), 101, (0, 90)) == histogram.count(a, 101, (0, 90))
    assert tables() == 2


def test_streams(plugin):
    for stream, used in ((7, 7), (None, 1)):
        plugin.calls.clear()
        b = OnDevice(some("f4", 60), stream)
        histogram.count(b, EDGES)
        histogram.count(b, EDGES, windows=20)
        histogram.count(b, EDGES, on_device=True)
        histogram.quantile(b, 0.5)
        assert plugin.calls == [("count_and_read", used), ("count_rows", used), ("count", used),
                                ("order_statistics", used)]


@pytest.mark.parametrize("cut", [{"channels": 3}, {"windows": 400}, {"windows": (50, 30)}, {"channels": 1},
                                 {"windows": 7, "channels": 4}, {"windows": 9000}, {"windows": (9000, 2)}], ids=str)
def test_stretches(plugin, cut):
    a = some("i2", 2400)
    assert histogram.count(OnDevice(a), EDGES, **cut) == histogram.count(a, EDGES, **cut)
    assert histogram.count(OnDevice(a.reshape(2, 1, 1200)), EDGES, **cut) == histogram.count(a, EDGES, **cut)
    assert histogram.count(OnDevice(a[:0]), EDGES, **cut) == histogram.count(a[:0], EDGES, **cut)


@pytest.mark.parametrize("shape", [(5, 4, 3, 20), (5, 1, 3, 20), (1, 4, 1, 1), (5, 0, 3, 20), (1, 1, 1, 1)],
                         ids=str)
@pytest.mark.parametrize("lying", [(0, 1, 2, 3), (0, 3, 1, 2), (3, 2, 1, 0)], ids=str)
def test_axes(plugin, shape, lying):
    size = int(np.prod(shape))
    a = some("f4", size).reshape([shape[i] for i in lying]).transpose(np.argsort(lying))
    assert a.shape == shape
    for axis in (0, 1, 2, 3, -1, (0, 1), (1, 2), (2, 3), (0, 2), (1, 3), (0, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2, 3)):
        expected = histogram.count(a, EDGES, axis=axis)
        found = histogram.count(OnDevice(a), EDGES, axis=axis)
        assert found.counts().shape == expected.counts().shape and found == expected


@pytest.mark.parametrize("dtype", TYPES)
def test_quantiles(plugin, dtype):
    a = some(dtype, 3000)
    samples = a if a.dtype.kind in "iu" else a[np.abs(a) < 100]
    for q in (0.5, 1, [0.25, 0.999], np.linspace(0, 1, 41).reshape(1, 41)):
        found, expected = histogram.quantile(OnDevice(samples), q), histogram.quantile(samples, q)
        assert found.dtype == expected.dtype and np.array_equal(found, expected)
    if a.dtype.kind == "f":
        a[7] = np.nan
        assert np.isnan(histogram.quantile(OnDevice(a), 0.5))


def test_on_device(plugin):
    a = some("f4", 500)
    h = histogram.count(OnDevice(a), EDGES, on_device=True)
    assert h.__cuda_array_interface__["shape"] == (103,) and h.__cuda_array_interface__["stream"] == 7
    assert h.histogram() == histogram.count(a, EDGES)
    plugin.lose = True
    with pytest.raises(RuntimeError, match="counts add up to 499, not to 500"):
        h.histogram()


@pytest.mark.parametrize("cut", [{"axis": 0}, {"axis": 1}, {"axis": (0, 1)}, {"axis": (1, 2)}, {"axis": 2},
                                 {"windows": 7}, {"windows": 6, "channels": 5}, {"channels": 5}], ids=str)
@pytest.mark.parametrize("bins", [(9, (0, 9)), (EDGES, None)], ids=["even", "edges"])
def test_rows_on_device(plugin, cut, bins):
    for shape in ((4, 3, 5), (4, 1, 5)):
        for a in (some("f4", int(np.prod(shape))).reshape(shape), some("i4", int(np.prod(shape))).reshape(shape)):
            h = histogram.count(OnDevice(a), *bins, **cut, on_device=True)
            expected = histogram.count(a, *bins, **cut)
            assert h.histogram() == expected
            told = h.__cuda_array_interface__
            assert told["shape"] == (*expected.counts().shape[:-1], len(h.edges) + 2)
            # Rows lie where the strides say.
            rows = np.arange(np.prod(told["shape"][:-1], dtype=int))
            at = sum(np.arange(size).reshape(-1, *[1] * (len(told["shape"]) - 2 - i)) * stride
                     for i, (size, stride) in enumerate(zip(told["shape"][:-1], told["strides"])))
            assert sorted(np.ravel(at).tolist()) == (rows * 8 * told["shape"][-1]).tolist()
            counted = next(iter(reversed(plugin.counted.values())))
            assert counted[-1]  # in 64 bits


@pytest.mark.parametrize("kind", ["u1", "f2", "i4", "f4", "f8"])
def test_quantiles_of_rows(plugin, kind):
    a = some(kind, 600)
    a = a if a.dtype.kind in "iu" else np.where(np.abs(a) < 100, a, a.dtype.type(2))
    a = a.reshape(5, 1, 3, 40)
    for layout in ((0, 1, 2, 3), (3, 0, 1, 2), (2, 1, 0, 3)):
        b = a.transpose(layout)
        for axis in (0, 1, 3, -2, (0, 2), (1, 3), (2, 3), (0, 1, 2, 3)):
            for q in (0.5, [0.1, 0.9], [[1.0], [0.0]]):
                found, expected = (histogram.quantile(x, q, axis=axis) for x in (OnDevice(b), b))
                assert found.dtype == expected.dtype and np.array_equal(found, expected)
    assert histogram.quantile(OnDevice(a), 0.5, axis=3, keepdims=True).shape == (5, 1, 3, 1)
    if a.dtype.kind == "f":
        a[1, 0, 2, 7] = np.nan
        found, expected = (histogram.quantile(x, [0.2, 0.5], axis=3) for x in (OnDevice(a), a))
        assert np.array_equal(found, expected, equal_nan=True) and np.isnan(found[:, 1, 0, 2]).all()
    plugin.calls.clear()
    histogram.quantile(OnDevice(a), [0.2, 0.5], axis=3)
    assert plugin.calls == [("order_statistics", 7)]


def test_counters_are_used_again_unless_they_failed(plugin):
    plan = _gpu_plan.DevicePlan(EDGES, "f32", 0)
    samples = _gpu.device_array(OnDevice(some("f4", 50)))
    for _ in range(3):
        plan.count(samples)
    assert len(plugin.plans) == 1
    plugin.lose = True
    with pytest.raises(RuntimeError, match="counts add up"):
        plan.count(samples)
    plugin.lose = False
    assert not plugin.plans  # the counter that failed is freed
    plan.count(samples)
    assert list(plugin.plans) == [2]


def test_refused(plugin):
    b = OnDevice(some("f4", 10))
    with pytest.raises(ValueError, match="on_device: the axes of a row must lie side by side"):
        histogram.count(OnDevice(some("f4", 8).reshape(2, 2, 2)), 2, (0, 1), axis=(0, 2), on_device=True)
    with pytest.raises(ValueError, match="on_device: is not for rows without samples"):
        histogram.count(OnDevice(some("f4", 0).reshape(2, 0)), 2, (0, 1), axis=1, on_device=True)
    for call in (histogram.count, lambda a, **where: histogram.quantile(a, 0.5, **where)):
        with pytest.raises(ValueError, match="server: is not for arrays on a GPU"):
            call(b, server="127.0.0.1:1")
    with pytest.raises(ValueError, match="axis: takes finite edges that increase"):
        histogram.count(b, [0, 1, 1], axis=0)
    with pytest.raises(ValueError, match="bins: 'auto' is not for"):
        histogram.count(b, "auto")
    with pytest.raises(ValueError, match="a: has no samples"):
        histogram.quantile(OnDevice(some("f4", 0)), 0.5)
    with pytest.raises(ValueError, match="range: 'rows'; is combined with axis"):
        histogram.count(b, 5, "rows")
    with pytest.raises(ValueError, match="range: 'each'; must be two numbers, or 'rows'"):
        histogram.count(OnDevice(some("f4", 8).reshape(2, 4)), 5, "each", axis=1)
    with pytest.raises(ValueError, match="the plan has too many bins"):
        histogram.count(b, 60_000, (0, 1), axis=0)
    with pytest.raises(ValueError, match="axis: 1; must be a whole number >= -1 and <= 0"):
        histogram.count(b, 2, (0, 1), axis=1)
    with pytest.raises(ValueError, match="channels: 3; must divide"):
        histogram.count(b, 2, (0, 1), channels=3)
    with pytest.raises(ValueError, match="C order"):
        histogram.count(OnDevice(some("f4", 10).reshape(2, 5).T), 2, (0, 1), windows=5)
    with pytest.raises(ValueError, match="leave gaps"):
        histogram.quantile(OnDevice(some("f4", 10)[::2]), 0.5)
