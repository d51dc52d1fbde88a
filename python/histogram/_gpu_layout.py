"""How rows lie in a GPU's memory, and where each lies among the answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ._gpu_arrays import DeviceArray
from ._rows import Stretches


@dataclass(frozen=True)
class Layout:
    """How rows are counted, and where each lies among the answers."""

    window: int  # of DevicePlan.count_rows
    step: int
    channels: int
    sizes: tuple[int, ...]  # of the axes of the rows that are counted
    summed: tuple[int, ...]  # those of these axes whose rows are added up
    order: tuple[int, ...]  # of the axes that are left, in the result
    shape: tuple[int, ...]  # of the result, with axes of length 1
    ascending: bool = True  # whether the axes of the samples of a row lie in order

    def in_order(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The last axis of `values` holds those of a row that is counted."""
        parts: npt.NDArray[Any] = values.reshape(*self.sizes, values.shape[-1])
        parts = parts.sum(axis=self.summed, dtype=np.int64) if self.summed else parts
        parts = parts.transpose(*self.order, len(self.order))
        return parts.reshape(*self.shape, values.shape[-1])

    def strides(self) -> tuple[int, ...]:
        """Of the result's axes, in rows. REQUIRES: no rows are added up."""
        steps = iter([math.prod(self.sizes[i + 1 :]) for i in self.order])
        return tuple(1 if size == 1 else next(steps) for size in self.shape)


def stretches(samples: DeviceArray, cut: Stretches) -> Layout:
    """The stretches of `cut`."""
    if samples.size and any(
        size != 1 and stride != math.prod(samples.shape[i + 1 :])
        for i, (size, stride) in enumerate(zip(samples.shape, samples.strides, strict=True))
    ):
        raise ValueError(
            f"a: strides {samples.strides} for shape {tuple(samples.shape)}; with channels or "
            "windows, an array on a GPU must be in C order: pass a.contiguous() (torch)"
        )
    shape = cut.shape_in(samples.shape)
    wide = tuple(size for size in shape if size != 1)
    order = tuple(range(len(wide)))
    return Layout(cut.window or 0, cut.step, cut.channels or 1, wide, (), order, shape)


@lru_cache(256)
def stretches_of_axes(
    shape: tuple[int, ...], strides: tuple[int, ...], axes: tuple[int, ...]
) -> Layout:
    """Stretches of channels, of which those that differ in `axes` alone are added up."""
    # The axes as they lie in memory, and those of them that a stretch holds: as many as possible.
    wide = [i for i in range(len(shape)) if shape[i] != 1]
    lying = sorted(wide, key=lambda i: -strides[i])
    first, last = longest_run(lying, shape, axes)
    kept = lying[:first] + lying[last:]
    sizes = tuple(shape[i] for i in kept)
    window = math.prod(shape[i] for i in lying[first:last])
    channels = math.prod(shape[i] for i in lying[last:])
    left = [i for i in kept if i not in axes]
    return Layout(
        window=0 if math.prod(sizes) == channels else window,
        step=0,
        channels=channels,
        sizes=sizes,
        summed=tuple(at for at, i in enumerate(kept) if i in axes),
        order=tuple(left.index(i) for i in sorted(left)),
        shape=tuple(shape[i] for i in range(len(shape)) if i not in axes),
        ascending=lying[first:last] == sorted(lying[first:last]),
    )


def longest_run(
    lying: list[int], shape: tuple[int, ...], axes: tuple[int, ...]
) -> tuple[int, int]:
    """The neighbours among `lying` that are all in `axes` and hold the most samples."""
    best, most = (len(lying), len(lying)), 1
    for first, _ in enumerate(lying):
        size = 1
        for last, axis in enumerate(lying[first:], first + 1):
            if axis not in axes:
                break
            size *= shape[axis]
            if size > most:
                best, most = (first, last), size
    return best
