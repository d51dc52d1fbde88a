"""Counts rows: parts of an array, each with its own histogram."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._arrays import Array
from ._errors import whole
from ._result import Histogram, made
from ._rules import Rule

# Bytes that are copied at a time if rows are not contiguous.
_ROWS_BYTES = 1 << 20
_WHOLE_MAX = 2**32 - 1


@dataclass(frozen=True)
class Axes:
    """The axes that hold the samples of one row."""

    axes: tuple[int, ...]


@dataclass(frozen=True)
class Stretches:
    """Stretches of interleaved channels, counted in samples of one channel."""

    channels: int | None
    window: int | None
    step: int

    def number(self, samples: int) -> int:
        """The number of stretches of `samples` samples."""
        if self.window is None:
            return 1
        pixels = samples // (self.channels or 1)
        if self.step == 0:
            return -(-pixels // self.window)
        return 0 if pixels < self.window else (pixels - self.window) // self.step + 1

    def empty(self, samples: int, bins: int) -> tuple[Array, Array]:
        """Zeros for the counts of each row of `samples` samples, and for those in no bin."""
        rows = self.number(samples) * (self.channels or 1)
        return np.zeros((rows, bins), np.int64), np.zeros((rows, 3), np.int64)

    def histogram(self, counts: Array, outside: Array, samples: int, rule: Rule) -> Histogram:
        shape = self.shape(samples)
        return histogram_of(counts.reshape(*shape, rule.bins), outside.reshape(*shape, 3), rule)

    def shape(self, samples: int) -> tuple[int, ...]:
        """Of the rows: an axis for the stretches and one for the channels, where these are given."""
        shape: tuple[int, ...] = () if self.window is None else (self.number(samples),)
        return shape + (() if self.channels is None else (self.channels,))


def cut_of(samples: Any, axis: Any, channels: Any, windows: Any) -> Axes | Stretches | None:
    """The cut that these arguments of `count` ask for; None: one row."""
    if axis is None and channels is None and windows is None:
        return None
    if axis is not None:
        if channels is not None or windows is not None:
            raise ValueError("axis: is not combined with channels or windows")
        return Axes(axes_of(axis, samples.ndim))
    if channels is not None:
        channels = whole("channels", channels, 1, _WHOLE_MAX)
        if samples.size % channels != 0:
            raise ValueError(
                f"channels: {channels}; must divide the number of samples, which is {samples.size}"
            )
    if windows is None:
        return Stretches(channels, None, 0)
    windows = _listed("windows", windows)
    if not isinstance(windows, Sequence):
        return Stretches(channels, whole("windows", windows, 1, _WHOLE_MAX), 0)
    if len(windows) != 2:
        raise ValueError(f"windows: {windows!r}; must be a size, or (size, step)")
    size = whole("windows", windows[0], 1, _WHOLE_MAX)
    return Stretches(channels, size, whole("windows, step", windows[1], 1, _WHOLE_MAX))


def _listed(name: str, value: Any) -> Any:
    """The list of an array of numbers; other values as they are."""
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return value.tolist()
    if isinstance(value, Iterable) and not isinstance(value, (Sequence, np.ndarray)):
        raise TypeError(f"{name}: {value!r}; must be a whole number, or a tuple of them")
    return value


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes that `axis` names, in order."""
    axis = _listed("axis", axis)
    axes = tuple(axis) if isinstance(axis, Sequence) else (axis,)
    if axes and ndim == 0:
        raise ValueError(f"axis: {axis}; a single number has no axes")
    axes = tuple(sorted(whole("axis", one, -ndim, ndim - 1) % ndim for one in axes))
    if len(set(axes)) != len(axes):
        raise ValueError(f"axis: {axis} names an axis twice")
    return axes


def count(samples: Array, rule: Rule, cut: Axes | Stretches, threads: int) -> Histogram:
    """Counts each row."""
    if isinstance(cut, Stretches):
        return _count_stretches(samples, rule, cut, threads)
    axes = cut.axes
    rows = np.moveaxis(samples, axes, np.arange(-len(axes), 0))
    outer = rows.shape[: samples.ndim - len(axes)]
    length = math.prod(rows.shape[len(outer) :])
    counts = np.zeros((*outer, rule.bins), np.int64)
    outside = np.zeros((*outer, 3), np.int64)
    if counts.size and length:
        flat_counts, flat_outside = counts.reshape(-1, rule.bins), outside.reshape(-1, 3)
        done = 0
        for block in contiguous_rows(rows, len(outer), length):
            end = done + block.size // length
            of_block = flat_counts[done:end], flat_outside[done:end]
            if rule.plan is not None:
                rule.plan.count_rows(block, *of_block, threads, length)
            else:
                _count_each(block.reshape(-1, length), rule, *of_block, threads)
            done = end
    return histogram_of(counts, outside, rule)


def _count_stretches(samples: Array, rule: Rule, cut: Stretches, threads: int) -> Histogram:
    flat = np.ascontiguousarray(samples, samples.dtype.newbyteorder("=")).reshape(-1)
    counts, outside = cut.empty(flat.size, rule.bins)
    if counts.size and flat.size:
        if rule.plan is not None:
            window, channels = cut.window or 0, cut.channels or 1
            rule.plan.count_rows(flat, counts, outside, threads, window, cut.step, channels)
        else:
            _count_each(_rows_of(flat, cut), rule, counts, outside, threads)
    return cut.histogram(counts, outside, flat.size, rule)


def _rows_of(flat: Array, cut: Stretches) -> Iterator[Array]:
    pixels = flat.reshape(-1, cut.channels or 1)
    window = cut.window or len(pixels)
    for stretch in range(cut.number(flat.size)):
        begin = stretch * (cut.step or window)
        for channel in pixels[begin : begin + window].T:
            yield np.ascontiguousarray(channel)


def _count_each(rows: Any, rule: Rule, counts: Array, outside: Array, threads: int) -> None:
    for row, samples in enumerate(rows):
        found = rule.count(samples, threads)
        assert found is not None
        counts[row], outside[row] = found[0], found[1:]


def histogram_of(counts: Array, outside: Array, rule: Rule) -> Histogram:
    below, above, nan = np.moveaxis(outside, -1, 0)
    return made(counts, rule.edges, below, above, nan)


def contiguous_rows(rows: Array, outer: int, length: int) -> Any:
    """Blocks of whole rows, in order, each contiguous and in native byte order."""
    if rows.dtype.isnative and rows.flags.c_contiguous:
        yield rows
    elif outer == 0:
        yield np.ascontiguousarray(rows, rows.dtype.newbyteorder("="))
    else:
        bytes_each = rows[0].size * rows.itemsize
        step = max(1, _ROWS_BYTES // bytes_each)
        for first in range(0, len(rows), step):
            yield np.ascontiguousarray(rows[first : first + step], rows.dtype.newbyteorder("="))
