"""datetime64 and timedelta64: counted as their integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._arrays import Array, check_bare, resolved

_GREATEST = int(np.iinfo(np.int64).max)


def dates_in(a: Any) -> Array | None:
    """The array, if it holds dates or durations, also of another library; else None."""
    if isinstance(a, (list, tuple)) and a and isinstance(a[0], (np.datetime64, np.timedelta64)):
        a = np.asarray(a)
    if not isinstance(a, np.ndarray):
        name = str(getattr(a, "dtype", getattr(a, "type", ""))).lower()
        if not hasattr(a, "__array__") or not any(map(name.__contains__, _NAMES)):
            return None
        array = np.asarray(a)
        if array.dtype == object and name.startswith("datetime64["):  # pandas, with a time zone
            array = np.asarray(a, name.partition(",")[0] + "]")
        a = array
    found: Array = a
    if found.dtype.kind not in "mM":
        return None
    check_bare("a", found)
    return found


_NAMES = ("date", "time", "duration")


def integers(a: Array) -> tuple[Array, int]:
    """The integers of the dates, and the number of NaT besides. Without NaT the shape remains."""
    missing = np.isnat(a)
    nulls = int(missing.sum())
    kept = a[~missing] if nulls else a
    return kept.astype(kept.dtype.newbyteorder("="), copy=False).view(np.int64), nulls


def between_edges(a: Array, bins: Any) -> tuple[Array, int, Array, Array]:
    """The integers of the samples, the number of NaT, integers for the edges, and the edges."""
    bins = resolved(bins)
    bins = bins if (found := dates_in(bins)) is None else found
    check_bare("bins", bins)
    if isinstance(bins, str) or np.ndim(bins) != 1:
        raise TypeError(f"bins: samples of type {a.dtype} take edges alone, such as numpy.arange's")
    edges = np.array(bins)
    if edges.dtype.kind != a.dtype.kind:
        raise TypeError(f"bins: edges of type {edges.dtype}; samples of type {a.dtype} take theirs")
    try:
        ends = edges.astype(a.dtype.newbyteorder("="))
        # A date outside of the range of the samples' unit becomes another one, which equals it.
        same = (ends == edges).all() and (ends.astype(edges.dtype) == edges).all()
    except OverflowError:
        same = False
    if not same:
        raise ValueError(
            f"bins: type {edges.dtype}; must be whole in {a.dtype}, and no NaT, and within its range"
        )
    samples, nulls = integers(a)
    whole = ends.view(np.int64)
    if not _are_doubles(whole):
        # Distances from the first edge. Samples outside of the edges stay outside.
        first, last = int(whole.min()), int(whole.max())
        if last - first >= _GREATEST or not _are_doubles(whole - first):
            raise ValueError(
                f"bins: edges of type {a.dtype}; must be float64s, as those are that lie at most "
                "2**53 units apart"
            )
        samples = np.clip(samples, first - 1, last + 1 if last < _GREATEST else last) - first
        whole = whole - first
    return samples, nulls, whole, edges


def _are_doubles(whole: Array) -> bool:
    """Whether float64 holds all of these integers."""
    with np.errstate(invalid="ignore"):
        return bool((whole.astype(np.float64).astype(np.int64) == whole).all())
