"""numpy's even edges, computed without numpy, and the plans between them."""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import Any

import numpy as np

from . import _native
from ._arrays import TYPES, WHOLE_MAX, Array, is_plain
from ._result import Histogram, counted, fixed

_BINS_MAX = 65536  # more go the general way

_PAIRS = (tuple, list, np.ndarray)
_F32 = np.dtype(np.float32)
_F64 = np.dtype(np.float64)
_FLOATS: dict[np.dtype[Any], str] = {np.dtype(np.float16): "f16", _F32: "f32", _F64: "f64"}
_NUMBERS = {int, float, *(np.dtype(code).type for code in "bhilqBHILQefd")}

# The ends of even bins, the type in which numpy computes their edges, and the type that they have.
Numbers = tuple[float, float, str, str]


class LaterEdges:
    """numpy's edges, which are finite and increase. They are made when they are first looked at.
    Each look gives an array of its own, over memory that nobody can write to."""

    __slots__ = ("_bins", "_made", "_numbers")

    def __init__(self, numbers: Numbers, bins: int) -> None:
        self._numbers = numbers
        self._bins = bins
        self._made: Array | None = None

    def __call__(self) -> Array:
        if self._made is None:
            self._made = self._make()
        return self._made.view()

    def _make(self) -> Array:
        low, high, arithmetic, kind = self._numbers
        found = _native.even_edges(low, high, self._bins, arithmetic, kind)
        if found is None:
            raise RuntimeError(f"{self._bins} edges from {low} to {high} do not increase")
        edges = np.frombuffer(found, _F64 if kind == "f64" else _F32)
        return fixed(edges.astype(np.float16)) if kind == "f16" else edges


def count(a: Array, bins: int, range: Any, threads: int) -> Histogram | None:
    """The histogram of an array of numpy's over a range. None: as in plan, or the array is not
    contiguous."""
    if type(range) not in _PAIRS or len(range) != 2:
        return None
    first, last = range
    types = type(first), type(last), a.dtype
    counter = _counters.get(types) or _native.in_float_mode(_counter, *types)
    found = counter and counter.count(a, first, last, bins, threads)
    return counted(bins, *found) if found else None


# By the types of the ends and of the samples.
_counters: dict[tuple[Any, Any, np.dtype[Any]], _native.EvenCounter] = {}


def _counter(first: Any, last: Any, dtype: np.dtype[Any]) -> _native.EvenCounter | None:
    """The counter for ends and samples of these types, remembered. None: as in plan."""
    kind = TYPES.get(dtype)
    if kind is None or first not in _NUMBERS or last not in _NUMBERS:
        return None
    types = _types(first, last, dtype)
    if types is None or not _numpy_agrees():
        return None
    found = _counters[first, last, dtype] = _native.EvenCounter(kind, *types, LaterEdges)
    return found


def plan(
    samples: Any, kind: str, bins: Any, range: Any
) -> tuple[LaterEdges, int, _native.Plan] | None:
    """The edges of numpy.histogram_bin_edges(samples, bins, range), the number of bins, and the
    plan. None: ask numpy, since the edges are of other types, or there is an error."""
    if type(bins) is not int:
        return None  # before all samples are looked at for their ends
    dtype = _F32 if kind == "bf16" else samples.dtype
    ends = _ends(samples, kind, dtype) if range is None else plain_ends(range)
    numbers = numbers_of(ends, bins, dtype)
    return None if numbers is None else _made(numbers, bins, kind)


def numbers_of(
    ends: tuple[Any, Any] | None, bins: Any, dtype: np.dtype[Any]
) -> Numbers | None:
    """What numpy makes of these ends for samples of this type. None: as in plan."""
    if ends is None or type(bins) is not int or not 0 < bins <= _BINS_MAX:
        return None
    first: Any = ends[0]
    last: Any = ends[1]
    try:
        if first == last:  # integers of numpy become float64s
            first, last = first - 0.5, last + 0.5
    except OverflowError:
        return None
    kinds: Any = type(first), type(last)
    types: tuple[str, str] | None = _types(*kinds, dtype)
    return _numbers(first, last, types) if types is not None and _numpy_agrees() else None


def plain_ends(range: Any) -> tuple[Any, Any] | None:
    """The ends of a range that have types that mean no more than their numbers, else None."""
    if type(range) in _PAIRS and len(range) == 2:
        first, last = range
        if type(first) in _NUMBERS and type(last) in _NUMBERS:
            return first, last
    return None


def _numbers(first: Any, last: Any, types: tuple[str, str]) -> Numbers | None:
    try:
        low, high = float(first), float(last)
    except OverflowError:
        return None
    if not -math.inf < low < high < math.inf:
        return None
    if not (type(first) is type(last) is float) and max(-low, high) >= WHOLE_MAX:
        return None  # an integer may have been rounded
    return low, high, *types


def _made(numbers: Numbers, bins: int, kind: str) -> tuple[LaterEdges, int, _native.Plan] | None:
    found = _native.Plan.even(*numbers[:2], bins, *numbers[2:], kind)
    return None if found is None else (LaterEdges(numbers, bins), bins, found)


def _ends(samples: Any, kind: str, dtype: np.dtype[Any]) -> tuple[Any, Any] | None:
    """The least and the greatest sample, of numpy's types."""
    if samples.size == 0:
        return 0, 1
    if not is_plain(samples):
        return (samples.min(), samples.max()) if kind != "bf16" else None
    extent = _native.extent(samples, kind)
    if extent is None or not extent[2]:
        return None
    least, greatest, _, negative_zero = extent
    if negative_zero and kind != "bf16":  # numpy's greatest may be -0.0
        return samples.min(), samples.max()
    if max(-least, greatest) >= WHOLE_MAX and dtype.kind != "f":
        return None
    return dtype.type(least), dtype.type(greatest)


@lru_cache(256)
def _types(first: Any, last: Any, dtype: np.dtype[Any]) -> tuple[str, str] | None:
    """The types in which numpy computes edges, and which they have, for ends and samples of these
    types. None: neither float16, float32 nor float64."""
    zero, one = first(0), last(1)
    arithmetic = np.linspace(zero, one, 2).dtype
    edges = np.result_type(zero, one, dtype)
    edges = _F64 if edges.kind in "iu" else edges
    names = _FLOATS.get(arithmetic), _FLOATS.get(edges)
    return None if None in names else names  # type: ignore[return-value]


@cache
def _numpy_agrees() -> bool:
    """Whether numpy's own function gives the same edges, to the last bit."""
    for end in (float, np.float16, np.float32, np.float64):
        for dtype, kind in _FLOATS.items():
            for first, last, bins in ((-4, 4.1, 100), (1e-3, 3e4, 37), (0.1, 0.7, 1)):
                ends: Any = (end(first), end(last))
                types = _types(end, end, dtype)
                numbers = types and _numbers(ends[0], ends[1], types)
                made = numbers and _made(numbers, bins, kind)
                numpys = np.histogram_bin_edges(np.empty(0, dtype), bins, ends)
                edges = made[0]() if made else np.empty(0)
                if (edges.dtype, edges.tobytes()) != (numpys.dtype, numpys.tobytes()):
                    return False
    return True
