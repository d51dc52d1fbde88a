"""Counts rows: parts of an array, each with its own histogram."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _native
from ._arrays import Array
from ._errors import whole
from ._result import Edges, Histogram, made
from ._rules import Rule

# Bytes that are copied at a time if rows are not contiguous.
ROWS_BYTES = 1 << 20
_WHOLE_MAX = 2**32 - 1


@dataclass(frozen=True)
class Axes:
    """The axes that hold the samples of one row, in order."""

    axes: tuple[int, ...]

    def shape_in(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the rows of an array of this shape."""
        return tuple(size for axis, size in enumerate(shape) if axis not in self.axes)

    def as_stretches(self, samples: Array) -> Stretches | None:
        """The stretches that are the same rows in the same order, if there are such."""
        if not (samples.flags.c_contiguous and samples.dtype.isnative):
            return None
        first = self.axes[0] if self.axes else samples.ndim
        end = first + len(self.axes)
        channels = math.prod(samples.shape[end:])
        if self.axes != tuple(range(first, end)) or channels > _WHOLE_MAX:
            return None
        return Stretches(channels, math.prod(samples.shape[first:end]), 0)


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

    def held(self, samples: int) -> int:
        """How many of `samples` samples come before the end of the last row."""
        if self.window is None or self.step == 0:
            return samples
        last = self.number(samples) - 1
        return (last * self.step + self.window) * (self.channels or 1) if last >= 0 else 0

    def shape_in(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the rows of an array of this shape: an axis for the stretches and one for
        the channels, where these are given."""
        found = () if self.window is None else (self.number(math.prod(shape)),)
        return found if self.channels is None else (*found, self.channels)

    def numbers(self) -> tuple[int, int, int]:
        """The last arguments of Plan.count_rows."""
        return self.window or 0, self.step, self.channels or 1

    def blocks(self, flat: Array, rows: int, most: int) -> Iterator[tuple[Array, slice]]:
        """Blocks of whole stretches, in order: their samples, and the numbers of their rows. A
        block has at most `most` rows, or one stretch if that has more."""
        channels = self.channels or 1
        window = self.window or flat.size // channels
        every = (self.step or window) * channels
        many = max(1, most // channels)
        for first in range(0, rows // channels, many):
            last = min(rows // channels, first + many)
            end = (last - 1) * every + window * channels
            yield flat[first * every : end], slice(first * channels, last * channels)

    def row(self, flat: Array, row: int) -> Array:
        """The samples of a row, contiguous."""
        stretch, channel = divmod(row, self.channels or 1)
        pixels = flat.reshape(-1, self.channels or 1)
        window = self.window or len(pixels)
        begin = stretch * (self.step or window)
        return np.ascontiguousarray(pixels[begin : begin + window, channel])


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


class Filled:
    """The counts of all rows, and the parts of the samples that they come from."""

    def __init__(self, samples: Array, cut: Axes | Stretches, bins: int) -> None:
        self._samples = samples
        self._cut = cut
        self.shape = cut.shape_in(samples.shape)
        rows = math.prod(self.shape)
        self.counts = np.zeros((rows, bins), np.int64)
        self.outside = np.zeros((rows, 3), np.int64)

    def parts(self, in_place: bool) -> Iterator[tuple[Array, Stretches, slice]]:
        """Contiguous samples in native order, how they are cut, and the numbers of their rows.
        `in_place`: without a copy wherever stretches of channels are the same rows."""
        samples, cut = self._samples, self._cut
        if not self.counts.size or not samples.size:
            return
        if isinstance(cut, Axes):
            same = cut.as_stretches(samples) if in_place else None
            if same is None:
                yield from self._copies(cut)
                return
            cut = same
        flat = np.ascontiguousarray(samples, samples.dtype.newbyteorder("=")).reshape(-1)
        yield flat, cut, slice(None)

    def _copies(self, cut: Axes) -> Iterator[tuple[Array, Stretches, slice]]:
        axes = cut.axes
        rows = np.moveaxis(self._samples, axes, np.arange(-len(axes), 0))
        length = math.prod(rows.shape[len(self.shape) :])
        done = 0
        for block in contiguous_rows(rows, len(self.shape), length):
            end = done + block.size // length
            yield block.reshape(-1), Stretches(None, length, 0), slice(done, end)
            done = end

    def histogram(self, edges: Edges) -> Histogram:
        """The result. `edges`: of all rows, or a row of them for each."""
        if not callable(edges) and edges.ndim > 1:
            edges = edges.reshape(*self.shape, edges.shape[-1])
        counts = self.counts.reshape(*self.shape, self.counts.shape[-1])
        outside = self.outside.reshape(*self.shape, 3)
        return made(counts, edges, outside[..., 0], outside[..., 1], outside[..., 2])


def count(samples: Array, rule: Rule, cut: Axes | Stretches, threads: int) -> Histogram:
    """Counts each row."""
    filled = Filled(samples, cut, rule.bins)
    for flat, part, rows in filled.parts(type(rule.plan) is _native.Plan):
        counts, outside = filled.counts[rows], filled.outside[rows]
        # Only rules without a plan of their own take memory that grows with the counts.
        most = len(counts) if rule.plan is not None else ROWS_BYTES // (8 * rule.bins)
        for its, block in part.blocks(flat, len(counts), most):
            rule.count_rows(its, counts[block], outside[block], threads, *part.numbers())
    return filled.histogram(rule.edges)


def contiguous_rows(rows: Array, outer: int, length: int) -> Any:
    """Blocks of whole rows, in order, each contiguous and in native byte order."""
    if rows.dtype.isnative and rows.flags.c_contiguous:
        yield rows
    elif outer == 0:
        yield np.ascontiguousarray(rows, rows.dtype.newbyteorder("="))
    else:
        bytes_each = rows[0].size * rows.itemsize
        step = max(1, ROWS_BYTES // bytes_each)
        for first in range(0, len(rows), step):
            yield np.ascontiguousarray(rows[first : first + step], rows.dtype.newbyteorder("="))
