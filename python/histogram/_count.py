"""histogram.count."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from . import _rules
from ._arrays import TYPES, Array, as_samples, chunks, is_plain
from ._result import Histogram
from ._rules import Rule

# What a row of samples is copied in where rows are not contiguous.
_ROWS_BYTES = 1 << 20


def count(
    a: Any,
    bins: int | str | npt.ArrayLike = 10,
    range: tuple[float, float] | None = None,
    *,
    axis: SupportsIndex | Sequence[int] | None = None,
    threads: int | None = None,
) -> Histogram:
    """The histogram of the samples in ``a``.

    ``a`` is an array of integers or floats, of any shape and layout: from numpy, from anything with
    the buffer protocol or ``__dlpack__`` in the CPU's memory, bytes, or numbers in a sequence. A
    contiguous array is never copied.

    ``bins`` and ``range`` mean what they do in ``numpy.histogram``, and counts and edges are the
    same: ``bins`` is a number of even bins, the edges, or the name of a rule ("auto").

    ``axis`` says which axes hold the samples of one histogram. There is a row of counts for each
    index of the other axes, all between the same edges.

    ``threads`` is the most threads to count with, by default as many as this process has cores.
    Short arrays take one.

    >>> import numpy as np, histogram
    >>> samples = np.array([1, 2, 2, 3, 9], np.uint8)
    >>> counts, edges = histogram.count(samples, bins=4, range=(0, 8))
    >>> counts
    array([1, 3, 0, 0])
    >>> edges
    array([0., 2., 4., 6., 8.])

    The result also tells what went into no bin:

    >>> h = histogram.count(samples, bins=4, range=(0, 8))
    >>> h.samples, h.below, h.above, h.nan
    (5, 0, 1, 0)

    A histogram for each row:

    >>> histogram.count(np.array([[0.1, 0.9], [0.2, 0.3]]), 2, (0, 1), axis=1).counts()
    array([[1, 1],
           [2, 0]])
    """
    # numpy tells 0.0 from np.float64(0), which are equal, and 0.0 from -0.0 at the upper end.
    if type(a) is np.ndarray and type(bins) is int and type(range) is tuple and axis is None:
        if len(range) == 2 and range[1] and type(range[0]) in _PLAIN and type(range[1]) in _PLAIN:
            key = (a.dtype, bins, range)
            rule = _rules.remembered(key)
            if rule is None and a.dtype in TYPES:
                rule = _rules.rule_for(a, TYPES[a.dtype], bins, range)
                _rules.remember(key, rule)
            if rule is not None:
                found = rule.count(a, 0 if threads is None else _threads(threads))
                if found is not None:
                    return Histogram(found[0], rule.edges, found[1], found[2], found[3])
    return _count_any(a, bins, range, axis, 0 if threads is None else _threads(threads))


_PLAIN = frozenset((int, float))


def _threads(threads: int) -> int:
    number = operator.index(threads)
    if not 1 <= number <= 65536:
        raise ValueError(f"threads: {number}; must be 1 to 65536, or None for all cores")
    return number


def _count_any(a: Any, bins: Any, range: Any, axis: Any, threads: int) -> Histogram:
    samples, kind = as_samples(a)
    rule = _rules.rule_for(samples, kind, bins, range)
    if axis is not None:
        return _count_rows(samples, rule, _axes(axis, samples.ndim), threads)
    counts = np.zeros(rule.bins, np.int64)
    below = above = nan = 0
    for piece in [samples] if is_plain(samples) else chunks(samples):
        found = rule.count(piece, threads)
        assert found is not None
        counts += found[0]
        below += found[1]
        above += found[2]
        nan += found[3]
    return Histogram(counts, rule.edges, below, above, nan)


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    axes = tuple(axis) if isinstance(axis, Sequence) else (axis,)
    axes = tuple(operator.index(one) for one in axes)
    for one in axes:
        if not -ndim <= one < ndim:
            raise ValueError(f"axis: {one}; must be {-ndim} to {ndim - 1} for {ndim} dimensions")
    axes = tuple(sorted(one % ndim for one in axes))
    if len(set(axes)) != len(axes):
        raise ValueError(f"axis: {axis} names an axis twice")
    return axes


def _count_rows(samples: Array, rule: Rule, axes: tuple[int, ...], threads: int) -> Histogram:
    rows = np.moveaxis(samples, axes, np.arange(-len(axes), 0))
    outer = rows.shape[: samples.ndim - len(axes)]
    length = math.prod(rows.shape[len(outer) :])
    counts = np.zeros((*outer, rule.bins), np.int64)
    outside = np.zeros((*outer, 3), np.int64)
    if counts.size and length:
        flat_counts, flat_outside = counts.reshape(-1, rule.bins), outside.reshape(-1, 3)
        done = 0
        for block in _contiguous_rows(rows, len(outer), length):
            end = done + block.size // length
            _count_block(block, rule, flat_counts[done:end], flat_outside[done:end], threads)
            done = end
    below, above, nan = np.moveaxis(outside, -1, 0)
    return Histogram(counts, rule.edges, below, above, nan)


def _contiguous_rows(rows: Array, outer: int, length: int) -> Any:
    """Blocks of whole rows, in order, contiguous and in native order."""
    if rows.dtype.isnative and rows.flags.c_contiguous:
        yield rows
    elif outer == 0:
        yield np.ascontiguousarray(rows, rows.dtype.newbyteorder("="))
    else:
        bytes_each = rows[0].size * rows.itemsize
        step = max(1, _ROWS_BYTES // bytes_each)
        for first in builtins.range(0, len(rows), step):
            yield np.ascontiguousarray(rows[first : first + step], rows.dtype.newbyteorder("="))


def _count_block(block: Array, rule: Rule, counts: Array, outside: Array, threads: int) -> None:
    if rule.plan is not None:
        rule.plan.count_rows(block, counts, outside, threads)
        return
    for row, samples in enumerate(block.reshape(len(counts), -1)):
        found = rule.count(samples, threads)
        assert found is not None
        counts[row], outside[row] = found[0], found[1:]

