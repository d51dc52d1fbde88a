"""Converts callers' arrays to numpy arrays over the same memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native

Array = npt.NDArray[Any]

# Samples that are copied at a time if an array is not contiguous or not in native order.
_CHUNK_SAMPLES = 1 << 16

WHOLE_MAX = 2**53  # up to here float64 holds all integers

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
# numpy's type of each; it has none of bf16.
DTYPES = {short: dtype for dtype, short in TYPES.items()}
_INTEGERS = {"bool", "boolean", *(dtype.name for dtype in TYPES if dtype.kind in "iu")}


def as_samples(a: Any) -> tuple[Array, str, int]:
    """The samples as an array, the name of their type, and the number of nulls besides, which is
    not 0 for integers alone. bf16 becomes an array of uint16."""
    a = resolved(a)
    check_bare("a", a)
    nulls = 0
    device = None if isinstance(a, (np.ndarray, bytes)) else _device(a)
    if device is not None:
        _check_device(device)
    without_nulls = _without_nulls(a) if not isinstance(a, (np.ndarray, bytes)) else None
    if without_nulls is not None:
        array, nulls = without_nulls
    elif isinstance(a, bytes):
        array = np.frombuffer(a, np.uint8)
    elif device is not None:
        try:
            if "bfloat16" in str(getattr(a, "dtype", "")):  # numpy has no such type
                return _native.bfloat_bits(a), "bf16", 0
            # DLPack knows nothing of what torch leaves out of a tensor's memory.
            array = np.asarray(a) if _is_torchs(a) else np.from_dlpack(a)
        except Exception:
            if not hasattr(a, "__array__"):
                raise
            array = as_array("a", a)
    elif not isinstance(a, np.ndarray) and hasattr(a, "__cuda_array_interface__"):
        _check_device(CUDA)
    else:
        array = as_array("a", a)
        _check_whole(a, array)
    dtype = array.dtype
    kind = TYPES.get(dtype if dtype.isnative else dtype.newbyteorder("="))
    if kind is not None:
        return array, kind, nulls
    if dtype == np.bool_:
        bits = array.view(np.uint8)
        # Of another library True may be any byte but 0.
        return (bits if bits.max(initial=0) < 2 else (bits != 0).view(np.uint8)), "u8", nulls
    if dtype.name == "bfloat16":
        return array.view(np.dtype(np.uint16).newbyteorder(dtype.byteorder)), "bf16", 0
    if dtype == object and array.ndim == 0:
        raise TypeError(f"a: {type(a).__name__}; must be an array, or a sequence of numbers")
    told = (
        f"a: type {dtype} is not supported; it must be bool, an integer, or a float of up to "
        "64 bits"
    )
    if dtype.kind in "Of" and _are_numbers(array):
        told += ", as numpy.asarray(a, float) makes it"
    raise TypeError(told)


def as_array(name: str, a: Any) -> Array:
    """numpy's array. An error of the library that makes it also names the argument."""
    try:
        return np.asarray(a)
    except MemoryError:
        raise
    except Exception as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{name}: {type(a).__name__}; {error}") from error


def _check_whole(a: Any, array: Array) -> None:
    """Refuses integers that numpy has rounded: beside floats it makes them float64."""
    if array.dtype != np.float64 or not is_listed(a):
        return
    if (np.abs(array) >= WHOLE_MAX).any():
        for one in np.array(a, object).flat:
            if isinstance(one, (int, np.integer)) and int(one) != float(one):
                raise ValueError(f"a: {one} is not a float64, which numpy makes of it here")


def is_listed(a: Any) -> bool:
    """Whether numpy reads the value element by element, as it does lists."""
    kind: Any = type(a)
    if not _may_be_listed(kind):
        return False
    try:
        memoryview(a)
    except TypeError:
        return True
    return False


@lru_cache(256)
def _may_be_listed(kind: type) -> bool:
    """Whether the type has elements and, but for a buffer, no other form for numpy."""
    forms = ("__array__", "__array_interface__", "__array_struct__", "__dlpack__",
             "__cuda_array_interface__")  # fmt: skip
    has_elements = hasattr(kind, "__getitem__") and hasattr(kind, "__len__")
    others = (str, range, dict, np.generic)  # integers alone, or none
    return has_elements and not issubclass(kind, others) and not any(hasattr(kind, f) for f in forms)


def _are_numbers(array: Array) -> bool:
    try:
        array.astype(float)
    except (TypeError, ValueError):
        return False
    return True


def is_on_gpu(a: Any) -> bool:
    """Whether the array lies in the memory of a CUDA device."""
    if isinstance(a, (np.ndarray, bytes)):
        return False
    if _is_torchs(a):
        return bool(a.is_cuda)  # faster than __dlpack_device__
    device = _device(a)
    return hasattr(a, "__cuda_array_interface__") if device is None else device == CUDA


def _device(a: Any) -> int | None:
    """DLPack's number of the array's device; None if its producer exports no DLPack."""
    if not hasattr(a, "__dlpack_device__"):
        return None
    try:
        return int(a.__dlpack_device__()[0])
    except Exception:
        if not hasattr(a, "__array__"):
            raise
        return None


def _is_torchs(a: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(a, torch.Tensor)


def resolved(a: Any) -> Any:
    """What holds the numbers: the data of xarray, the result of dask, a tensor of torch without a
    gradient and with the signs that its memory leaves out. Anything else as it is."""
    if isinstance(a, np.ndarray):
        return a
    if type(a).__module__.startswith("xarray."):
        a = getattr(a, "data", a)
    if hasattr(type(a), "__dask_graph__"):
        a = a.compute()
    if not _is_torchs(a):
        return a
    if a.requires_grad:
        a = a.detach()
    return a.resolve_neg() if a.is_neg() else a


def unmasked(a: Any, rows: bool) -> Any:
    """What holds the numbers (`resolved`); of a masked array only what is not masked."""
    a = resolved(a)
    kind: Any = type(a)
    if not isinstance(a, np.ma.MaskedArray) or not _is_bare(kind):
        return a
    if not np.ma.getmaskarray(a).any():
        return np.ma.getdata(a)
    if rows:
        raise TypeError("a: has masked samples; give no axis, channels or windows")
    return a.compressed()


def check_bare(name: str, value: Any, depth: int = 64) -> None:
    """Refuses an array that means more than its numbers, and a sequence of such values. numpy's
    arrays have at most `depth` dimensions."""
    kinds: set[Any] = set(map(type, value)) if is_listed(value) else set()
    if depth > 0 and any(map(_may_be_listed, kinds)):
        for one in value:
            if is_listed(one):
                check_bare(name, one, depth - 1)
    for kind in (type(value), *kinds):
        if issubclass(kind, np.ma.MaskedArray):
            raise TypeError(
                f"{name}: a masked array; pass {name}.compressed(), the values that are not masked"
            )
        if not _is_bare(kind):
            raise TypeError(
                f"{name}: type {kind.__module__}.{kind.__qualname__} means more than its numbers, "
                f"such as a unit; pass the numbers, as numpy.asarray({name}) has them"
            )


@lru_cache(256)
def _is_bare(kind: type) -> bool:
    """Whether arrays of the type mean no more than their numbers: neither a matrix nor a unit."""
    if issubclass(kind, np.ndarray) and (
        issubclass(kind, np.matrix)
        or kind.__array_ufunc__ is not np.ndarray.__array_ufunc__
        or kind.__array_function__ is not np.ndarray.__array_function__
    ):
        return False
    return not (hasattr(kind, "unit") or hasattr(kind, "units"))


def _without_nulls(a: Any) -> tuple[Array, int] | None:
    """Integers of Arrow, polars or pandas that are not null, and the number of nulls; None for
    other arrays. numpy would make them float64, which does not hold all integers of 64 bits."""
    columns: Any = ()
    dtype = getattr(a, "dtype", None)
    category = getattr(getattr(dtype, "categories", None), "dtype", None)
    dtype = getattr(dtype if category is None else category, "numpy_dtype", category)  # of pandas
    if dtype is not None and hasattr(a, "dropna") and hasattr(a, "to_numpy"):  # pandas
        if dtype.kind == "f":
            return a.to_numpy(dtype=dtype, na_value=np.nan), 0
        if dtype.kind in "iub":
            kept = a.dropna()
            return kept.to_numpy(dtype=dtype), len(a) - len(kept)
    elif hasattr(a, "drop_nulls") and hasattr(a, "to_numpy"):  # polars
        if hasattr(a, "get_columns"):
            columns = a.get_columns()
        elif hasattr(a.dtype, "inner") and a.explode().null_count():
            raise TypeError("a: lists with nulls; pass the values alone, as a.explode() has them")
        elif str(a.dtype).lower() in _INTEGERS and a.null_count():
            return a.drop_nulls().to_numpy(), a.null_count()
    elif hasattr(a, "drop_null"):  # pyarrow
        if str(getattr(a, "type", "")).startswith("dictionary"):
            a = a.cast(a.type.value_type)
        if hasattr(a, "columns"):
            columns = a.columns
        elif str(a.type) in _INTEGERS and a.null_count:
            return np.asarray(a.drop_null()), a.null_count
    elif hasattr(a, "iloc") and hasattr(a, "dtypes") and np.ndim(a) == 2:
        columns = [a.iloc[:, i] for i in range(a.shape[1])]
    for column in columns:
        found = _without_nulls(column)
        if found is not None and found[1]:
            raise TypeError("a: integers with nulls in a table; pass its columns one by one")
    arrays = [np.asarray(column) for column in columns]
    if arrays and {array.dtype.kind for array in arrays} not in ({"i"}, {"u"}):
        for array in arrays:
            whole = array.dtype.kind in "iu" and array.size
            if whole and max(-int(array.min()), int(array.max())) > WHOLE_MAX:
                raise TypeError(
                    "a: integers beyond 2**53 in a table of several types; pass its columns one by "
                    "one"
                )
    return None



def _check_device(device: int) -> None:
    if device != _CPU:
        where = "a GPU" if device == CUDA else f"a device (DLPack's number {device})"
        raise TypeError(f"a: lies on {where}; copy it to the CPU's memory")


def is_plain(array: Array) -> bool:
    """Whether the array is one piece of memory in native byte order, with axes in any order."""
    return array.dtype.isnative and (array.flags.c_contiguous or array.flags.f_contiguous)


def in_order(samples: Array) -> Array:
    """The samples in one piece of memory, in native byte order. Copies them only if necessary."""
    native = samples.astype(samples.dtype.newbyteorder("="), copy=False)
    return native.ravel(order="K")  # their order does not matter


def chunks(array: Array) -> Iterator[Array]:
    """All samples of an array, in contiguous pieces in native byte order."""
    if array.size == 0:
        return
    array = np.atleast_1d(array)  # numpy before 2.3 does not fill the buffer of a 0-d array
    with np.nditer(  # type: ignore[call-overload]  # numpy's stub calls "contig" "config"
        array,
        flags=["external_loop", "buffered", "growinner"],
        op_flags=[["readonly", "nbo", "contig"]],
        order="K",
        buffersize=_CHUNK_SAMPLES,
    ) as pieces:
        for piece in pieces:
            yield piece
