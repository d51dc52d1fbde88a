"""The plugin that counts in a GPU's memory: python/cuda."""

from __future__ import annotations

import ctypes
import importlib.util
import pathlib
from functools import cache
from typing import Any, ClassVar

_ABI = 5
_ERROR_BYTES = 512
_LIBRARY = "libhistogram_cuda.so"


class Range(ctypes.Structure):
    """A range of even bins: HistogramRange."""

    _fields_: ClassVar = [
        ("lower", ctypes.c_double), ("upper", ctypes.c_double), ("edges", ctypes.c_uint32),
    ]  # fmt: skip


@cache
def plugin() -> Any:
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
    if library.histogram_cuda_abi() != _ABI:
        raise ImportError(
            f"histogram-cuda13: its interface is {library.histogram_cuda_abi()}; must be {_ABI}: "
            "install the version of the package histogram"
        )
    address, number, size, whole = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int
    name, error = ctypes.c_char_p, (ctypes.c_char_p, size)
    samples = (address, number, address)  # their number, and the stream
    for function, result, arguments in (
        ("make", whole, (address, size, name, whole, address, *error)),
        ("make_even", whole, (ctypes.c_uint32, name, whole, address, *error)),
        ("free", None, (address,)),
        ("count", whole, (address, address, *samples, *error)),
        ("read", whole, (address, address, address, address, *error)),
        ("count_and_read", whole, (address, address, *samples, address, address, *error)),
        ("counts", address, (address,)),
        ("count_rows", whole, (address, address, address, whole, *samples, *error)),
        ("read_rows", whole, (address, address, address, address, address, *error)),
        ("rows", address, (address,)),
        ("extent", whole, (address, *samples, address, *error)),
        ("copy", whole, (whole, address, number, address, address, *error)),
        (
            "order_statistics",
            whole,
            (name, whole, address, number, number, address, address, size, address, *error),
        ),
    ):
        declared = getattr(library, f"histogram_cuda_{function}")
        declared.restype, declared.argtypes = result, arguments
    return library


class NeedsTables(Exception):
    """A device does not count these even bins without tables."""


_ERRORS = {-2: ValueError, -3: NeedsTables}


def call(function: Any, *arguments: Any) -> None:
    """Calls a function of the plugin that can fail."""
    error = ctypes.create_string_buffer(_ERROR_BYTES)
    failed = function(*arguments, error, _ERROR_BYTES)
    if failed:
        raise _ERRORS.get(failed, RuntimeError)(error.value.decode(errors="replace"))


@cache
def count_and_read() -> int:
    """The address of the function of that name."""
    return ctypes.cast(plugin().histogram_cuda_count_and_read, ctypes.c_void_p).value or 0
