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
import sys
import weakref
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native, _rules
from ._arrays import TYPES, Array
from ._result import Histogram
from ._rules import Counts, Rule

_ABI = 1
_ERROR_BYTES = 512
_LIBRARY = "libhistogram_cuda.so"
_BINS_MAX = 65536  # of a plan
_CACHE_BINS_MAX = 4096  # a cached rule holds memory on the device
# CUDA's handle of the legacy default stream (cudaStreamLegacy).
_LEGACY_STREAM = 1

_TORCH_KINDS = {
    "torch.uint8": "u8", "torch.int8": "i8", "torch.uint16": "u16", "torch.int16": "i16",
    "torch.uint32": "u32", "torch.int32": "i32", "torch.uint64": "u64", "torch.int64": "i64",
    "torch.float16": "f16", "torch.bfloat16": "bf16", "torch.float32": "f32",
    "torch.float64": "f64", "torch.bool": "u8",
}  # fmt: skip
_DTYPES = {short: dtype for dtype, short in TYPES.items()} | {"bf16": np.dtype(np.float32)}


@dataclass(slots=True)
class DeviceArray:
    """Samples in a GPU's memory, in one piece."""

    address: int
    size: int
    kind: str
    device: int
    stream: int
    owner: Any  # keeps the memory alive


def device_array(a: Any) -> DeviceArray:
    """The array as its producer describes it."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(a, torch.Tensor):
        return _of_torch(a, torch)
    interface = getattr(a, "__cuda_array_interface__", None)
    if interface is not None and (interface.get("stream") or not hasattr(a, "__dlpack__")):
        return _of_interface(a, interface)
    # The producer makes the default stream wait for the work that fills the array.
    capsule = a.__dlpack__(stream=_LEGACY_STREAM)
    address, kind, shape, strides, device, owner = _native.device_array(capsule)
    return _made(address, kind, shape, strides, device, _LEGACY_STREAM, owner)


# Kinds by torch's type object: looking it up is faster than making its name.
_torch_kinds: dict[Any, str] = {}


def _of_torch(a: Any, torch: Any) -> DeviceArray:
    kind = _torch_kinds.get(a.dtype)
    if kind is None:
        kind = _torch_kinds[a.dtype] = _TORCH_KINDS.get(str(a.dtype), str(a.dtype))
    device = a.get_device()
    # Triton uses this function, too. The public one makes a Stream object and takes 5 us.
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    stream = raw(device) if raw else torch.cuda.current_stream(device).cuda_stream
    if kind in _DTYPES and a.is_contiguous():
        return DeviceArray(a.data_ptr(), a.numel(), kind, device, stream, a)
    return _made(a.data_ptr(), kind, tuple(a.shape), a.stride(), device, stream, a)


def _of_interface(a: Any, interface: dict[str, Any]) -> DeviceArray:
    dtype = np.dtype(interface["typestr"])
    if interface.get("mask") is not None:
        raise TypeError("a: a masked array; pass the samples that are not masked")
    kind = "u8" if dtype == np.bool_ else TYPES.get(dtype, str(dtype))
    shape = tuple(interface["shape"])
    strides = interface.get("strides")
    if strides is None:
        steps = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    else:
        steps = [stride // dtype.itemsize for stride in strides]
        if [step * dtype.itemsize for step in steps] != list(strides):
            steps = [0] * len(shape)  # strides are not whole samples
    device = int(a.__dlpack_device__()[1]) if hasattr(a, "__dlpack_device__") else 0
    stream = interface.get("stream") or _LEGACY_STREAM
    return _made(interface["data"][0], kind, shape, tuple(steps), device, stream, a)


def _made(
    address: int,
    kind: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    device: int,
    stream: int,
    owner: Any,
) -> DeviceArray:
    if kind not in _DTYPES:
        raise TypeError(
            f"a: type {kind} is not supported; it must be bool, an integer, or a float of up to "
            "64 bits"
        )
    expected = 1
    for size, stride in sorted(zip(shape, strides, strict=True), key=lambda axis: axis[1]):
        if size != 1 and stride != expected and math.prod(shape) > 0:
            raise ValueError(
                f"a: strides {strides} for shape {shape} leave gaps; on a GPU an array must be "
                "contiguous: pass a.contiguous() (torch), cupy.ascontiguousarray(a)"
            )
        expected *= size
    return DeviceArray(address, math.prod(shape), kind, device, stream, owner)


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
    ):
        function = getattr(library, f"histogram_cuda_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class Gpu:
    """A CUDA device, as a Place."""

    bins_max = _BINS_MAX
    takes_any_layout = True  # device_array has checked it

    def __init__(self, device: int) -> None:
        self._device = device

    def plan(self, edges: npt.NDArray[np.float64], kind: str) -> DevicePlan:
        return DevicePlan(edges, kind, self._device)

    def order_statistics(self, *_: Any) -> None:
        raise TypeError("a: lies on a GPU; quantile counts in the CPU's memory: copy it there")


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
        idle = self._idle.setdefault(stream, [])
        try:
            return idle.pop()
        except IndexError:
            pass
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        handle = self._library.histogram_cuda_make(
            self._edges.ctypes.data, len(self._edges), self._kind, self._device, error, _ERROR_BYTES
        )
        if not handle:
            raise RuntimeError(error.value.decode(errors="replace"))
        return Counter(self._library, handle, stream, idle)

    def count(self, samples: DeviceArray, counts: Counts, threads: int) -> tuple[int, int, int]:
        """Adds to counts; returns below, above and NaN."""
        counter = self.counter(samples.stream)
        # A counter that fails is not released, and so not used again.
        outside = _native.count_on_device(
            self._count, counter.handle, samples.address, samples.size, samples.stream, counts
        )
        counter.release()
        return outside

    def count_rows(self, *_: Any) -> None:
        raise TypeError("a: lies on a GPU; rows are counted in the CPU's memory: copy it there")


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
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        function = getattr(self._library, f"histogram_cuda_{name}")
        if function(self.handle, *arguments, error, _ERROR_BYTES) != 0:
            raise RuntimeError(error.value.decode(errors="replace"))


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
            "stream": self._counter.stream or _LEGACY_STREAM,
            "version": 3,
        }

    def histogram(self) -> Histogram:
        """Waits for the counts, and copies them to the CPU's memory."""
        counts = np.zeros(len(self._edges) - 1, np.int64)
        outside = (ctypes.c_int64 * 3)()
        self._counter.call("read", self._counter.stream, counts.ctypes.data, outside)
        return _checked(counts, self._edges, tuple(outside), self._samples.size)

    def __repr__(self) -> str:
        return (
            f"DeviceHistogram({len(self._edges) - 1} bins over [{self._edges[0]:g}, "
            f"{self._edges[-1]:g}] on device {self._samples.device})"
        )


def _checked(
    counts: Counts, edges: Array, outside: tuple[int, ...], samples: int
) -> Histogram:
    """Checks that the counts account for every sample."""
    total = int(counts.sum()) + sum(outside)
    if total != samples:
        raise RuntimeError(f"counts add up to {total}, not to {samples} samples")
    return Histogram(counts, edges, *outside)


def count(
    a: Any, bins: Any, range: Any, refused: tuple[tuple[str, Any], ...], on_device: bool
) -> Histogram | DeviceHistogram:
    """histogram.count for an array on a GPU. `refused`: arguments that such arrays do not take."""
    for name, value in refused:
        if value is not None:
            raise ValueError(f"{name}: is not for arrays on a GPU; copy it to the CPU's memory")
    plugin = _plugin()
    samples = device_array(a)
    rule = _rule_for(a, samples, bins, range)
    if on_device:
        return _count_there(samples, rule, plugin)
    found = rule.count(samples, 0)
    assert found is not None
    return _checked(found[0], rule.edges, found[1:], samples.size)


def _count_there(samples: DeviceArray, rule: Rule, plugin: Any) -> DeviceHistogram:
    plan = rule.plan
    if not isinstance(plan, DevicePlan):
        raise ValueError(
            f"on_device: takes finite edges that increase, and at most {_BINS_MAX} bins"
        )
    counter = plan.counter(samples.stream)
    counter.call("count", samples.address, samples.size, samples.stream)
    return DeviceHistogram(counter, rule.edges, samples, plugin)


def _rule_for(a: Any, samples: DeviceArray, bins: Any, range: Any) -> Rule:
    key: Any = None
    # As in histogram.count: not np.float64(0), nor 0.0 at the upper end, where it equals -0.0.
    if (
        type(bins) is int
        and type(range) is tuple
        and len(range) == 2
        and range[1]
        and type(range[0]) in (int, float)
        and type(range[1]) in (int, float)
    ):
        key = (samples.device, samples.kind, bins, range)
        rule = _rules.remembered(key)
        if rule is not None:
            return rule
    if isinstance(bins, str):
        raise ValueError(f"bins: '{bins}' is not for arrays on a GPU; pass a number or edges")
    edges = np.array(bins)
    if edges.ndim == 1:
        if edges.nbytes <= 1 << 16:
            key = (samples.device, samples.kind, edges.dtype, edges.tobytes())
            rule = _rules.remembered(key)
            if rule is not None:
                return rule
    else:
        seen = np.empty(0, _DTYPES[samples.kind]) if range is not None else _extent(a, samples)
        edges = _rules.numpy_edges(seen, bins, range)
    rule = Rule(edges, samples.kind, Gpu(samples.device))
    edges.setflags(write=False)  # results share them
    if key is not None and rule.bins <= _CACHE_BINS_MAX:
        _rules.remember(key, rule)
    return rule


def _extent(a: Any, samples: DeviceArray) -> Array:
    """Samples with the range of all samples, which the producer finds on its device."""
    dtype = _DTYPES[samples.kind]
    if samples.size == 0:
        return np.empty(0, dtype)
    if not (hasattr(a, "min") and hasattr(a, "max")):
        raise ValueError("range: must be given for an array without min() and max()")
    if str(getattr(a, "dtype", "")).rpartition(".")[2] == "bool":
        return np.array([a.all().item(), a.any().item()], dtype)
    return np.array([a.min().item(), a.max().item()], dtype)
