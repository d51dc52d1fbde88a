"""Converts callers' arrays to numpy arrays over the same memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native

Array = npt.NDArray[Any]

# Samples that are copied at a time if an array is not contiguous or not in native order.
_CHUNK_SAMPLES = 1 << 16

# DLPack's device numbers.
_CPU = 1
CUDA = 2

# The library's name of each numpy type.
TYPES: dict[np.dtype[Any], str] = {
    np.dtype(name): short
    for name, short in (
        ("uint8", "u8"), ("int8", "i8"), ("uint16", "u16"), ("int16", "i16"),
        ("uint32", "u32"), ("int32", "i32"), ("uint64", "u64"), ("int64", "i64"),
        ("ulonglong", "u64"), ("longlong", "i64"), ("float16", "f16"), ("float32", "f32"),
        ("float64", "f64"),
    )
}  # fmt: skip


def as_samples(a: Any) -> tuple[Array, str]:
    """The samples as an array, and the name of their type. bf16 becomes an array of uint16."""
    if isinstance(a, np.ma.MaskedArray):
        raise TypeError("a: a masked array; pass a.compressed(), the samples that are not masked")
    if isinstance(a, np.ndarray):
        array = a
    elif isinstance(a, bytes):
        array = np.frombuffer(a, np.uint8)
    elif hasattr(a, "__dlpack_device__"):
        _check_device(int(a.__dlpack_device__()[0]))
        if "bfloat16" in str(getattr(a, "dtype", "")):  # numpy has no such type
            return _native.bfloat_bits(a), "bf16"
        array = np.from_dlpack(a)
    elif hasattr(a, "__cuda_array_interface__"):
        _check_device(CUDA)
    else:
        array = np.asarray(a)
    dtype = array.dtype
    kind = TYPES.get(dtype if dtype.isnative else dtype.newbyteorder("="))
    if kind is not None:
        return array, kind
    if dtype == np.bool_:
        return array.view(np.uint8), "u8"
    if dtype.name == "bfloat16":
        return array.view(np.dtype(np.uint16).newbyteorder(dtype.byteorder)), "bf16"
    told = (
        f"a: type {dtype} is not supported; it must be bool, an integer, or a float of up to "
        "64 bits"
    )
    if dtype.kind in "Of":
        told += ", as numpy.asarray(a, float) makes it"
    raise TypeError(told)


def is_on_gpu(a: Any) -> bool:
    """Whether the array lies in the memory of a CUDA device."""
    if isinstance(a, (np.ndarray, bytes)):
        return False
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(a, torch.Tensor):
        return bool(a.is_cuda)  # faster than __dlpack_device__
    if hasattr(a, "__dlpack_device__"):
        return int(a.__dlpack_device__()[0]) == CUDA
    return hasattr(a, "__cuda_array_interface__")


def _check_device(device: int) -> None:
    if device != _CPU:
        where = "a GPU" if device == CUDA else f"a device (DLPack's number {device})"
        raise TypeError(f"a: lies on {where}; copy it to the CPU's memory")


def is_plain(array: Array) -> bool:
    """Whether the array is one piece of memory in native byte order, with axes in any order."""
    return array.dtype.isnative and (array.flags.c_contiguous or array.flags.f_contiguous)


def in_order(samples: Array) -> Array:
    """The samples in one piece of memory, in native byte order. Copies them only if necessary."""
    if samples.dtype.isnative and samples.flags.f_contiguous:
        return samples.ravel(order="K")  # their order does not matter
    return np.ascontiguousarray(samples, samples.dtype.newbyteorder("=")).ravel()


def chunks(array: Array) -> Iterator[Array]:
    """All samples of an array, in contiguous pieces in native byte order."""
    if array.size == 0:
        return
    with np.nditer(  # type: ignore[call-overload]  # numpy's stub calls "contig" "config"
        array,
        flags=["external_loop", "buffered", "growinner"],
        op_flags=[["readonly", "nbo", "contig"]],
        order="K",
        buffersize=_CHUNK_SAMPLES,
    ) as pieces:
        for piece in pieces:
            yield piece
