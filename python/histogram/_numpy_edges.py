"""The edges that numpy computes, and those that it does not."""

from __future__ import annotations

import operator
import reprlib
from typing import Any

import numpy as np

from ._arrays import Array


def move_outward(edges: Array, least: int, greatest: int) -> None:
    """Moves the first and the last edge to where they hold all samples. numpy rounds the least and
    the greatest integer to float64. Python compares them exactly."""
    while least < float(edges[0]):
        edges[0] = np.nextafter(edges[0], -np.inf)
    while greatest > float(edges[-1]):
        edges[-1] = np.nextafter(edges[-1], np.inf)


def numpy_edges(seen: Array, bins: Any, range: Any) -> Array:
    """numpy's edges. An error also names bins and range."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            edges = np.histogram_bin_edges(seen, bins, range)
            if np.isfinite(edges).all():
                return edges
            raise ValueError("the edges are not finite")
    except (IndexError, MemoryError, OverflowError, TypeError, ValueError) as error:
        wide = _wide_edges(seen, bins, range) if isinstance(error, ValueError) else None
        if wide is not None:
            return wide
        # Their subclasses in numpy take other arguments than a text.
        kinds = [k for k in (MemoryError, TypeError) if isinstance(error, k)]
        kind = kinds[0] if kinds else ValueError
        told = f"bins: {reprlib.repr(bins)}, range: {reprlib.repr(range)}; {error}"
    raise kind(told)


def _wide_edges(seen: Array, bins: Any, range: Any) -> Array | None:
    """Even edges between ends whose distance overflows, which numpy does not make; None if it does
    not overflow."""
    if isinstance(bins, str) or not np.size(seen) and range is None:
        return None
    try:
        first, last = (seen.min(), seen.max()) if range is None else range
        dtype = np.result_type(first, last, seen)
        with np.errstate(over="ignore"):
            ends = np.array([first, last], dtype)
        number = operator.index(bins)
    except (OverflowError, TypeError, ValueError):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        overflows = dtype.kind == "f" and ends[1] - ends[0] == np.inf and np.isfinite(ends).all()
    if not overflows or number < 1:
        return None
    edges = (np.linspace(float(ends[0]) / 2, float(ends[1]) / 2, number + 1) * 2).astype(dtype)
    return edges if (edges[:-1] < edges[1:]).all() else None
