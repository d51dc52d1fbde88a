"""Arrays in a GPU's memory, as their producers describe them.

An array of torch or cupy comes with the current stream of that library, one that has only DLPack
(jax) with the default stream, which waits for the work that fills the array.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _arrays, _gpu_plugin, _native
from ._arrays import TYPES, Array

# CUDA's handle of the legacy default stream (cudaStreamLegacy).
LEGACY_STREAM = 1

DTYPES = _arrays.DTYPES | {"bf16": np.dtype(np.uint16)}
_TORCH_KINDS = {f"torch.{dtype.name}": short for short, dtype in _arrays.DTYPES.items()} | {
    "torch.bfloat16": "bf16", "torch.bool": "u8",
}  # fmt: skip


@dataclass(slots=True)
class DeviceArray:
    """Samples in a GPU's memory, in one piece, with axes in any order."""

    address: int
    size: int
    kind: str
    device: int
    stream: int
    owner: Any  # keeps the memory alive
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in samples

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """numpy's type of the samples. As for arrays in the CPU's memory, bf16 is uint16."""
        return DTYPES[self.kind]

    def on_host(self) -> Array:
        """A copy in the CPU's memory, which lies as the array does. Waits for the stream."""
        flat = np.empty(self.size, self.dtype)
        _gpu_plugin.call(
            _gpu_plugin.plugin().histogram_cuda_copy, self.device, self.address, flat.nbytes,
            self.stream, flat.ctypes.data,
        )  # fmt: skip
        strides = [stride * flat.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(flat, self.shape, strides)

    def part(self, begin: int, size: int) -> DeviceArray:
        """So many samples from this one on, as they lie in memory."""
        address = self.address + begin * self.dtype.itemsize
        return DeviceArray(
            address, size, self.kind, self.device, self.stream, self.owner, (size,), (1,)
        )


def device_array(a: Any) -> DeviceArray:
    """The array as its producer describes it."""
    where = torch_place(a)
    if where is not None and a.is_contiguous() and where[0] in DTYPES:
        return DeviceArray(a.data_ptr(), a.numel(), *where, a, tuple(a.shape), a.stride())
    if where is not None:
        return _made(a.data_ptr(), where[0], tuple(a.shape), a.stride(), *where[1:], a)
    interface = getattr(a, "__cuda_array_interface__", None)
    if interface is not None and (interface.get("stream") or not hasattr(a, "__dlpack__")):
        return _of_interface(a, interface)
    # The producer makes the default stream wait for the work that fills the array.
    capsule = a.__dlpack__(stream=LEGACY_STREAM)
    address, kind, shape, strides, device, owner = _native.device_array(capsule)
    return _made(address, kind, shape, strides, device, LEGACY_STREAM, owner)


def transposed(a: Any, order: tuple[int, ...]) -> DeviceArray:
    """A copy in C order, made by the array's library, with its axes in this order."""
    is_torch = hasattr(a, "permute")
    return device_array(a.permute(order).contiguous() if is_torch else a.transpose(order).copy())


# Kinds by torch's type object: looking it up is faster than making its name.
_torch_kinds: dict[Any, str] = {}


def torch_place(a: Any) -> tuple[str, int, int] | None:
    """The type, the device and the current stream of a tensor of torch; None for other arrays."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(a, torch.Tensor):
        return None
    kind = _torch_kinds.get(a.dtype)
    if kind is None:
        kind = _torch_kinds[a.dtype] = _TORCH_KINDS.get(str(a.dtype), str(a.dtype))
    device = a.get_device()
    # Triton uses this function, too. The public one makes a Stream object and takes 5 us.
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return kind, device, raw(device) if raw else torch.cuda.current_stream(device).cuda_stream


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
    stream = interface.get("stream") or LEGACY_STREAM
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
    if kind not in DTYPES:
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
    return DeviceArray(address, math.prod(shape), kind, device, stream, owner, shape, strides)
