"""Counts rows in a GPU's memory, each between its own least and greatest sample."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native, _own_ranges, _rules
from ._arrays import WHOLE_MAX, Array
from ._gpu_arrays import DeviceArray, transposed
from ._gpu_layout import Layout, stretches, stretches_of_axes
from ._gpu_plan import DevicePlan, even_counters
from ._gpu_plugin import NeedsTables
from ._gpu_result import DeviceHistogram, answer_of_rows
from ._result import Histogram, fixed, made
from ._rows import Axes, Stretches

_ROW_SAMPLES_MAX = 2**32 - 1


def count(
    a: Any, samples: DeviceArray, bins: Any, cut: Axes | Stretches, on_device: bool
) -> Histogram | DeviceHistogram:
    """Counts each row into `bins` bins, as numpy.histogram(row, bins). The CPU counts what the GPU
    does not."""
    bins = _own_ranges.bins_of(bins)
    kind = samples.kind
    found = _windows(a, samples, cut) if _own_ranges.counts_fast(kind, bins) else None
    if found is not None:
        try:
            return _count(*found, bins, on_device)
        except NeedsTables:
            pass
    if on_device:
        raise ValueError(
            f"on_device: True; is not for these rows of {kind} in {bins} bins with range='rows': "
            "there must be samples, none of them a float16, whole windows of each channel, and no "
            "more bins than a GPU counts without tables"
        )
    return _own_ranges.count(samples.on_host(), kind, bins, cut, _rules.THIS_PROCESS, 0)


def _windows(
    a: Any, samples: DeviceArray, cut: Axes | Stretches
) -> tuple[DeviceArray, Layout] | None:
    """Samples of which windows are the rows, a copy if need be; None: there are none."""
    shape = samples.shape
    if isinstance(cut, Axes):
        axes = cut.axes
        layout = stretches_of_axes(shape, samples.strides, axes)
    else:
        axes = (1,)
        layout = stretches(samples, cut)
        if layout.channels > 1:
            pixels = samples.size // layout.channels
            window = layout.window or max(pixels, 1)
            if layout.step or pixels % window:
                return None
            shape = pixels // window, window, layout.channels
    if samples.kind == "f16" or not samples.size or not math.prod(layout.sizes):
        return None  # numpy computes the edges of float16 in float16
    # Of 0.0 and -0.0 the first one may be the greatest.
    if layout.summed or layout.channels > 1 or not layout.ascending:
        if not hasattr(a, "permute") and not (hasattr(a, "transpose") and hasattr(a, "copy")):
            return None
        outer = tuple(i for i in range(len(shape)) if i not in axes)
        samples = transposed(a if shape == samples.shape else a.reshape(shape), (*outer, *axes))
        inner = tuple(range(len(outer), len(shape)))
        moved = stretches_of_axes(samples.shape, samples.strides, inner)
        layout = replace(moved, shape=layout.shape)
    longest = layout.window or samples.size
    return (samples, layout) if longest <= _ROW_SAMPLES_MAX else None


def _count(
    samples: DeviceArray, layout: Layout, bins: int, on_device: bool
) -> Histogram | DeviceHistogram:
    kind, rows = samples.kind, math.prod(layout.sizes)
    plan = DevicePlan.own_ranges(bins, even_counters(bins, kind, samples.device))
    counter = plan.queue_rows(samples, layout.window, layout.step, 1, on_device)

    def read() -> Histogram:
        ends = np.empty((rows, 2))
        found = counter.read_rows(samples.stream, rows, bins, ends)
        counts, outside, ends = (
            layout.in_order(values).reshape(rows, -1) for values in (*found, ends)
        )
        shape = layout.shape
        edges: Any = partial(_native.in_float_mode, _edges, ends, bins, kind, shape)
        others = _others(ends, kind, on_device)
        if others.any():
            if on_device:
                row = _own_ranges.named(int(np.argmax(others)), shape)
                raise ValueError(
                    f"a, {row}: is not counted with on_device: a sample is not finite, an integer "
                    "beyond 2**53, or edges lie closer than 4 units in the last place"
                )
            edges = edges().reshape(rows, -1).copy()
            edges[others, 0] = np.nan
            numbers = layout.in_order(np.arange(rows)[:, None]).ravel()
            _own_ranges.count_each(
                lambda row: _window(samples, layout, int(numbers[row])).on_host(),
                kind, 0, counts, outside, edges, shape,
            )  # fmt: skip
            edges = edges.reshape(*shape, -1)
        below, above, nan = np.moveaxis(outside.reshape(*shape, 3), -1, 0)
        return made(counts.reshape(*shape, bins), edges, below, above, nan)

    return answer_of_rows(counter, layout, bins, None, samples, read, on_device)


def _others(ends: npt.NDArray[np.float64], kind: str, zeros: bool) -> npt.NDArray[np.bool_]:
    """The rows whose ends are not numpy's. `zeros`: -0.0 and 0.0 are the same."""
    lower, upper = ends.T
    others: npt.NDArray[np.bool_] = np.isnan(lower)
    if kind in ("i64", "u64"):
        others |= np.maximum(-lower, upper) > WHOLE_MAX
    elif kind in ("bf16", "f32", "f64") and not zeros:
        others |= upper == 0
    return others


def _edges(
    ends: npt.NDArray[np.float64], bins: int, kind: str, shape: tuple[int, ...]
) -> Array:
    """The edges of all rows. Those of a row without ends are any."""
    counted = np.where(np.isnan(ends), [0.0, 1.0], ends).astype(_own_ranges.edge_type(kind))
    edges = np.linspace(counted[:, 0], counted[:, 1], bins + 1, axis=-1)
    return fixed(edges.reshape(*shape, bins + 1))


def _window(samples: DeviceArray, layout: Layout, number: int) -> DeviceArray:
    """The samples of the row of this number in memory."""
    window = layout.window or samples.size
    begin = number * (layout.step or window)
    return samples.part(begin, min(window, samples.size - begin))
