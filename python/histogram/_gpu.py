"""Counts arrays in a GPU's memory, by the plugin of python/cuda.

An array of torch or cupy is counted on the current stream of that library: after the work that
fills the array, and before later work. An array that has only DLPack (jax) is counted on the
default stream, after the work that fills it.
"""

from __future__ import annotations

import ctypes
import importlib.util
import math
import pathlib
import weakref
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native, _rows, _rules
from ._arrays import Array
from ._gpu_arrays import LEGACY_STREAM, DeviceArray, device_array, torch_place
from ._result import Histogram, made
from ._rules import Counts, Rule

_ABI = 3
_ERROR_BYTES = 512
_LIBRARY = "libhistogram_cuda.so"
_BINS_MAX = 65536  # of a plan
_INT64 = np.dtype(np.int64)


@cache
def _plugin() -> Any:
    folders = [pathlib.Path(__file__).parent]
    wheel = importlib.util.find_spec("histogram_cuda13")
    if wheel is not None and wheel.submodule_search_locations:
        folders += [pathlib.Path(folder) for folder in wheel.submodule_search_locations]
    for folder in folders:
        if (folder / _LIBRARY).exists():
            return _declared(ctypes.CDLL(str(folder / _LIBRARY)))
    raise TypeError(
        "a: lies on a GPU, and the plugin that counts there is not installed; pip install "
        "histogram-cuda13, or copy the array to the CPU's memory"
    )


def _declared(library: Any) -> Any:
    """Sets the argument types of the library's functions, as in python/cuda/plugin.h."""
    address, number, size = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t
    error = (ctypes.c_char_p, size)
    if library.histogram_cuda_abi() != _ABI:
        raise ImportError(
            f"histogram-cuda13: its interface is {library.histogram_cuda_abi()}; must be {_ABI}: "
            "install the version of the package histogram"
        )
    for name, result, arguments in (
        ("make", address, (address, size, ctypes.c_char_p, ctypes.c_int, *error)),
        ("free", None, (address,)),
        ("count", ctypes.c_int, (address, address, number, address, *error)),
        ("read", ctypes.c_int, (address, address, address, address, *error)),
        (
            "count_and_read",
            ctypes.c_int,
            (address, address, number, address, address, address, *error),
        ),
        ("counts", address, (address,)),
        (
            "count_rows",
            ctypes.c_int,
            (address, address, address, number, address, address, address, *error),
        ),
        (
            "order_statistics",
            ctypes.c_int,
            (ctypes.c_char_p, ctypes.c_int, address, number, address, address, size, address,
             *error),
        ),
    ):
        function = getattr(library, f"histogram_cuda_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class Gpu:
    """A CUDA device, as a Place."""

    bins_max = _BINS_MAX
    takes_any_layout = True  # device_array has checked it

    def __init__(self, device: int) -> None:
        self.name = device

    def plan(self, edges: npt.NDArray[np.float64], kind: str) -> DevicePlan:
        return DevicePlan(edges, kind, self.name)

    def order_statistics(
        self, samples: Any, kind: str, ranks: npt.NDArray[np.int64], out: Array, threads: int
    ) -> None:
        _call(
            _plugin().histogram_cuda_order_statistics, kind.encode(), self.name,
            samples.address, samples.size, samples.stream, ranks.ctypes.data, len(ranks),
            out.ctypes.data,
        )  # fmt: skip


def samples_and_place(a: Any) -> tuple[DeviceArray, Gpu]:
    """An array on a GPU, and where its order statistics are found."""
    _plugin()  # without it nothing else is said
    samples = device_array(a)
    return samples, Gpu(samples.device)


def _call(function: Any, *arguments: Any) -> None:
    """Calls a function of the plugin that returns 0, -1 if the device fails, -2 for bad input."""
    error = ctypes.create_string_buffer(_ERROR_BYTES)
    failed = function(*arguments, error, _ERROR_BYTES)
    if failed != 0:
        kind = ValueError if failed == -2 else RuntimeError
        raise kind(error.value.decode(errors="replace"))


class DevicePlan:
    """Edges and a sample type, for counting on a device. Like _native.Plan."""

    def __init__(self, edges: npt.NDArray[np.float64], kind: str, device: int) -> None:
        self.bin_count = len(edges) - 1
        self._edges = np.ascontiguousarray(edges, np.float64)
        self._kind = kind.encode()
        self._device = device
        self._library = _plugin()
        count = self._library.histogram_cuda_count_and_read
        self._count = ctypes.cast(count, ctypes.c_void_p).value or 0
        # Idle counters by stream. Work queued next on a stream runs after the work that used its
        # counter.
        self._idle: dict[int, list[Counter]] = {}

    def counter(self, stream: int) -> Counter:
        """A counter for this thread, which releases it after use."""
        try:
            return self._idle[stream].pop()
        except (KeyError, IndexError):
            idle = self._idle.setdefault(stream, [])
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        handle = self._library.histogram_cuda_make(
            self._edges.ctypes.data, len(self._edges), self._kind, self._device, error, _ERROR_BYTES
        )
        if not handle:
            raise RuntimeError(error.value.decode(errors="replace"))
        return Counter(self._library, handle, stream, idle)

    def count(self, samples: DeviceArray, counts: Counts, threads: int) -> tuple[int, int, int]:
        """Writes counts; returns below, above and NaN. The plugin checks their sum."""
        return self.count_at(samples.address, samples.size, samples.stream, counts)

    def count_at(
        self, address: int, size: int, stream: int, counts: Counts
    ) -> tuple[int, int, int]:
        """As count, of `size` samples at an address."""
        counter = self.counter(stream)
        # A counter that fails is not released, and so not used again.
        outside = _native.count_on_device(
            self._count, counter.handle, address, size, stream, counts
        )
        counter.release()
        return outside

    def count_rows(
        self,
        samples: Any,
        counts: Counts,
        outside: Counts,
        threads: int,
        window: int = 0,
        step: int = 0,
        channels: int = 1,
    ) -> None:
        """As _native.Plan.count_rows. The plugin checks the sum of each row."""
        cut = (ctypes.c_uint64 * 3)(channels, window, step)
        counter = self.counter(samples.stream)
        counter.call(
            "count_rows", cut, samples.address, samples.size, samples.stream, counts.ctypes.data,
            outside.ctypes.data,
        )  # fmt: skip
        counter.release()


class Counter:
    """Holds counts in a device's memory."""

    def __init__(self, library: Any, handle: int, stream: int, idle: list[Counter]) -> None:
        self.handle = handle
        self.stream = stream
        self._library = library
        self._idle = idle
        # When the interpreter ends, the driver may already be gone.
        weakref.finalize(self, library.histogram_cuda_free, handle).atexit = False

    def release(self) -> None:
        self._idle.append(self)

    def call(self, name: str, *arguments: Any) -> None:
        _call(getattr(self._library, f"histogram_cuda_{name}"), self.handle, *arguments)


class DeviceHistogram:
    """Counts in a GPU's memory, perhaps not computed yet: ``count(..., on_device=True)``.

    ``torch.as_tensor(h, device="cuda")`` and ``cupy.asarray(h)`` are views of them: int64, one for
    each bin, then the samples below, above, and NaN. The counts live as long as this object or such
    a view. Later work on the stream that counted sees them.
    """

    def __init__(
        self, counter: Counter, edges: npt.NDArray[Any], samples: DeviceArray, plugin: Any
    ) -> None:
        self._counter = counter
        self._edges = edges
        self._samples = samples
        self._address = plugin.histogram_cuda_counts(counter.handle)
        weakref.finalize(self, counter.release).atexit = False

    @property
    def edges(self) -> npt.NDArray[Any]:
        """The edges of the bins: one more than bins."""
        return self._edges

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (len(self._edges) + 2,),
            "typestr": "<i8",
            "data": (self._address, False),
            "strides": None,
            "stream": self._counter.stream or LEGACY_STREAM,
            "version": 3,
        }

    def histogram(self) -> Histogram:
        """Waits for the counts, and copies them to the CPU's memory."""
        counts = np.zeros(len(self._edges) - 1, np.int64)
        outside = (ctypes.c_int64 * 3)()
        self._counter.call("read", self._counter.stream, counts.ctypes.data, outside)
        total, samples = int(counts.sum()) + sum(outside), self._samples.size
        if total != samples:
            raise RuntimeError(f"counts add up to {total}, not to {samples} samples")
        return made(counts, self._edges, *outside)

    def __repr__(self) -> str:
        return (
            f"DeviceHistogram({len(self._edges) - 1} bins over [{self._edges[0]:g}, "
            f"{self._edges[-1]:g}] on device {self._samples.device})"
        )


def count(
    a: Any, bins: Any, range: Any, axis: Any, channels: Any, windows: Any, on_device: bool
) -> Histogram | DeviceHistogram:
    """histogram.count for an array on a GPU."""
    one_row = axis is None and channels is None and windows is None
    plain = _is_plain(bins, range)
    if plain and one_row and not on_device:
        found_again = _count_again(a, bins, range)
        if found_again is not None:
            return found_again
    _plugin()  # without it nothing else is said
    samples = device_array(a)
    if on_device and not one_row:
        raise ValueError("on_device: is not combined with axis, channels or windows")
    cut = None if one_row else _rows.cut_of(samples, axis, channels, windows)
    rule = _rule_for(a, samples, bins, range, plain)
    if cut is not None:
        return _count_rows(samples, rule, cut)
    if on_device:
        return _count_there(samples, rule)
    found = rule.count(samples, 0)
    assert found is not None
    return made(found[0], rule.edges, found[1], found[2], found[3])


def _is_plain(bins: Any, range: Any) -> bool:
    """Whether equal bins and ranges have equal edges, as in histogram.count: not np.float64(0), nor
    0.0 at the upper end, where it equals -0.0."""
    return (
        type(bins) is int
        and type(range) is tuple
        and len(range) == 2
        and bool(range[1])
        and type(range[0]) in (int, float)
        and type(range[1]) in (int, float)
    )


def _count_again(a: Any, bins: int, range: tuple[float, float]) -> Histogram | None:
    """The shortest way, for a tensor of torch between edges that are remembered."""
    where = torch_place(a)
    if where is None:
        return None
    kind, device, stream = where
    rule = _rules.remembered((device, kind, bins, range))
    if rule is None or not isinstance(rule.plan, DevicePlan) or not a.is_contiguous():
        return None
    counts = np.empty(bins, _INT64)
    outside = rule.plan.count_at(a.data_ptr(), a.numel(), stream, counts)
    return made(counts, rule.edges, *outside)


def _plan_of(rule: Rule, name: str) -> DevicePlan:
    if not isinstance(rule.plan, DevicePlan):
        raise ValueError(
            f"{name}: takes finite edges that increase, and at most {_BINS_MAX} bins"
        )
    return rule.plan


def _count_there(samples: DeviceArray, rule: Rule) -> DeviceHistogram:
    plan = _plan_of(rule, "on_device")
    counter = plan.counter(samples.stream)
    counter.call("count", samples.address, samples.size, samples.stream)
    return DeviceHistogram(counter, rule.edges, samples, _plugin())


def _count_rows(
    samples: DeviceArray, rule: Rule, cut: _rows.Axes | _rows.Stretches
) -> Histogram:
    if isinstance(cut, _rows.Axes):
        return _count_axes(samples, rule, cut.axes)
    plan = _plan_of(rule, "channels, windows")
    if samples.size and any(
        size != 1 and stride != math.prod(samples.shape[i + 1 :])
        for i, (size, stride) in enumerate(zip(samples.shape, samples.strides, strict=True))
    ):
        raise ValueError(
            f"a: strides {samples.strides} for shape {tuple(samples.shape)}; with channels or "
            "windows, an array on a GPU must be in C order: pass a.contiguous() (torch)"
        )
    counts, outside = cut.empty(samples.size, rule.bins)
    if counts.size and samples.size:
        plan.count_rows(samples, counts, outside, 0, cut.window or 0, cut.step, cut.channels or 1)
    return cut.histogram(counts, outside, samples.size, rule)


def _count_axes(samples: DeviceArray, rule: Rule, axes: tuple[int, ...]) -> Histogram:
    """Counts stretches of channels, and adds up those that differ in `axes` alone."""
    plan = _plan_of(rule, "axis")
    shape, bins = samples.shape, rule.bins
    outer = [i for i in range(len(shape)) if i not in axes]
    # The axes as they lie in memory, and those of them that a stretch holds: as many as possible.
    wide = [i for i in range(len(shape)) if shape[i] != 1]
    lying = sorted(wide, key=lambda i: -samples.strides[i])
    first, last = _longest_run(lying, shape, axes)
    kept = lying[:first] + lying[last:]
    sizes = [shape[i] for i in kept]
    window = math.prod(shape[i] for i in lying[first:last])
    channels = math.prod(shape[i] for i in lying[last:])
    rows = math.prod(sizes)
    counts, outside = np.zeros((rows, bins), np.int64), np.zeros((rows, 3), np.int64)
    if rows and window:
        plan.count_rows(samples, counts, outside, 0, 0 if rows == channels else window, 0, channels)

    def in_order(values: Counts) -> Counts:
        parts: Counts = values.reshape(*sizes, values.shape[-1])
        parts = parts.sum(axis=tuple(at for at, i in enumerate(kept) if i in axes), dtype=np.int64)
        left = [i for i in kept if i not in axes]
        order = *(left.index(i) for i in sorted(left)), len(left)
        return parts.transpose(order).reshape(*(shape[i] for i in outer), values.shape[-1])

    return _rows.histogram_of(in_order(counts), in_order(outside), rule)


def _longest_run(
    lying: list[int], shape: tuple[int, ...], axes: tuple[int, ...]
) -> tuple[int, int]:
    """The neighbours among `lying` that are all in `axes` and hold the most samples."""
    best, most = (len(lying), len(lying)), 1
    for first, _ in enumerate(lying):
        size = 1
        for last, axis in enumerate(lying[first:], first + 1):
            if axis not in axes:
                break
            size *= shape[axis]
            if size > most:
                best, most = (first, last), size
    return best


def _rule_for(a: Any, samples: DeviceArray, bins: Any, range: Any, plain: bool) -> Rule:
    key = (samples.device, samples.kind, bins, range)
    rule = _rules.remembered(key) if plain else None
    if rule is None:
        if isinstance(bins, str):
            raise ValueError(f"bins: '{bins}' is not for arrays on a GPU; pass a number or edges")
        seen = samples if range is not None or np.ndim(bins) == 1 else _extent(a, samples)
        rule = _rules.rule_for(seen, samples.kind, bins, range, Gpu(samples.device))
        if plain:
            _rules.remember(key, rule)
    return rule


def _extent(a: Any, samples: DeviceArray) -> Array:
    """The least and the greatest sample. If a sample is NaN, the greatest is NaN."""
    # Of these types a producer has them sooner. torch has none for unsigned ones.
    if samples.kind in ("i32", "i64", "f32", "f64") and samples.size and hasattr(a, "min"):
        return np.array([a.min().item(), a.max().item()], samples.dtype)
    ranks = np.array([0, samples.size - 1][: samples.size])
    found = np.empty(len(ranks), samples.dtype)
    if samples.size:
        Gpu(samples.device).order_statistics(samples, samples.kind, ranks, found, 0)
    return found
