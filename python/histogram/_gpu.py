"""Counts arrays in a GPU's memory, by the plugin of python/cuda.

An array of torch or cupy is counted on the current stream of that library: after the work that
fills the array, and before later work. An array that has only DLPack (jax) is counted on the
default stream, after the work that fills it.
"""

from __future__ import annotations

import ctypes
import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _even, _gpu_own_ranges, _native, _rows, _rules
from ._arrays import WHOLE_MAX, Array
from ._gpu_arrays import DeviceArray, device_array, transposed
from ._gpu_layout import stretches, stretches_of_axes
from ._gpu_plan import DevicePlan, even_counters
from ._gpu_plugin import NeedsTables, call, plugin
from ._gpu_result import DeviceHistogram, answer_of_rows
from ._quantile_rows import RowSamples
from ._result import Edges, Histogram, made
from ._rows import axes_of
from ._rules import Counts, Rule

_BINS_MAX = 65536  # of a plan
_F32 = np.dtype(np.float32)
# Samples of up to 16 bits find bins by tables sooner: for so many between the same edges they pay.
_TABLES_PAY_AT = 1 << 26


class Gpu:
    """A CUDA device, as a Place."""

    bins_max = _BINS_MAX
    takes_any_layout = True  # device_array has checked it

    def __init__(self, device: int) -> None:
        self.name = device

    def plan(self, edges: npt.NDArray[np.float64], kind: str) -> DevicePlan:
        return DevicePlan(edges, kind, self.name)

    def order_statistics(
        self, samples: Any, kind: str, ranks: npt.NDArray[np.int64], out: Array, threads: int
    ) -> None:
        _order_statistics(samples, samples.size, 1, ranks, out)


def _order_statistics(
    samples: DeviceArray, length: int, rows: int, ranks: npt.NDArray[np.int64], out: Array
) -> None:
    call(
        plugin().histogram_cuda_order_statistics, samples.kind.encode(), samples.device,
        samples.address, length, rows, samples.stream, ranks.ctypes.data, len(ranks),
        out.ctypes.data,
    )  # fmt: skip


def samples_and_place(a: Any, axis: Any) -> tuple[DeviceArray | DeviceRowSamples, str, Gpu]:
    """An array on a GPU or its rows, the name of its type, and where order statistics are found."""
    plugin()  # without it nothing else is said
    samples = device_array(a)
    rows = samples if axis is None else DeviceRowSamples(a, samples, axis)
    return rows, samples.kind, Gpu(samples.device)


class DeviceRowSamples(RowSamples):
    """RowSamples of an array in a GPU's memory, in which the samples of a row follow each other."""

    def __init__(self, a: Any, samples: DeviceArray, axis: Any) -> None:
        axes = axes_of(axis, samples.ndim)
        outer = [i for i in range(samples.ndim) if i not in axes]
        self.outer = tuple(samples.shape[i] for i in outer)
        self.size = math.prod(samples.shape[i] for i in axes)
        self.dtype = samples.dtype
        if any(samples.shape[i] > 1 and samples.strides[i] < self.size for i in outer):
            samples = transposed(a, (*outer, *axes))
            outer = list(range(len(outer)))
        self._samples = samples
        # The outer axes as they lie in memory.
        self._lying = sorted(range(len(outer)), key=lambda i: -samples.strides[outer[i]])

    def at(self, ranks: npt.NDArray[np.int64], threads: int) -> Array:
        samples = self._samples
        rows = math.prod(self.outer)
        found = np.empty((rows, len(ranks) + 1), self.dtype)
        if rows:
            # NaN has the greatest rank.
            _order_statistics(samples, self.size, rows, np.append(ranks, self.size - 1), found)
        if samples.kind == "bf16":
            found[found[:, -1] & 0x7FFF > 0x7F80] = 0x7FC0
        elif found.dtype.kind == "f":
            found[np.isnan(found[:, -1])] = np.nan
        lying = found[:, :-1].reshape(*(self.outer[i] for i in self._lying), len(ranks))
        return lying.transpose(len(self.outer), *np.argsort(self._lying).tolist())


def count(
    a: Any, bins: Any, range: Any, axis: Any, channels: Any, windows: Any, on_device: bool
) -> Histogram | DeviceHistogram:
    """histogram.count for an array on a GPU."""
    plugin()  # without it nothing else is said
    samples = device_array(a)
    cut = _rows.cut_of(samples, axis, channels, windows)
    if isinstance(range, str) and range == "rows":
        if cut is None:
            raise ValueError("range: 'rows'; is combined with axis, channels or windows")
        # In another library's mode subnormal ends may be equal.
        arguments = a, samples, bins, cut, on_device
        return _native.in_float_mode(_gpu_own_ranges.count, *arguments)
    if isinstance(bins, np.integer):
        bins = int(bins)
    if type(bins) is int:
        # In another library's mode Python and numpy may take subnormal numbers for 0.
        plan = _native.in_float_mode(_even_plan, samples, bins, range)
        if plan is not None:
            try:
                return _count(samples, plan[0], plan[1], cut, on_device)
            except NeedsTables:
                pass
    rule = _rule_for(samples, bins, range)
    if on_device or cut is not None:
        name = "on_device" if cut is None else "axis" if axis is not None else "channels, windows"
        if not isinstance(rule.plan, DevicePlan):
            raise ValueError(
                f"{name}: takes finite edges that increase, and at most {_BINS_MAX} bins"
            )
        return _count(samples, rule.plan, rule.edges, cut, on_device)
    found = rule.count(samples, 0)
    assert found is not None
    return made(found[0], rule.edges, found[1], found[2], found[3])


def _even_plan(samples: DeviceArray, bins: int, range: Any) -> tuple[DevicePlan, Edges] | None:
    """A plan of even bins without tables, and their edges; None where it is no good."""
    kind, dtype = samples.kind, samples.dtype
    if range is not None:
        ends = _even.plain_ends(range)
    else:
        extent = _extent(samples)
        ends = (extent[0], extent[1]) if extent.size else (0, 1)
    numbers = _even.numbers_of(ends, bins, _F32 if kind == "bf16" else dtype)
    if numbers is None or "f16" in numbers:
        return None
    if dtype.itemsize <= 2:
        counted = _counted(kind, samples.device, bins, numbers)
        counted[0] += samples.size
        if counted[0] > _TABLES_PAY_AT:
            return None
    counters = even_counters(bins, kind, samples.device)
    return DevicePlan.even(numbers, bins, counters), _even.LaterEdges(numbers, bins)


@lru_cache(64)
def _counted(kind: str, device: int, bins: int, numbers: _even.Numbers) -> list[int]:
    """How many samples were counted in these bins, in a list of one."""
    return [0]


def _rule_for(samples: DeviceArray, bins: Any, range: Any) -> Rule:
    if isinstance(bins, str):
        raise ValueError(f"bins: '{bins}' is not for arrays on a GPU; pass a number or edges")
    kind, device = samples.kind, samples.device
    ends = None if range is None else _even.plain_ends(range)
    key = None
    if type(bins) is int and ends is not None and ends[1]:  # as in rule_of_array
        key = device, kind, bins, ends, type(ends[0]), type(ends[1])
        rule = _rules.remembered(key)
        if rule is not None:
            return rule
    seen: Any = samples
    if range is None and np.ndim(bins) != 1:
        seen = _extent(samples)
        if kind == "bf16":
            seen = (seen.view(np.uint32) >> 16).astype(np.uint16)
    rule = _rules.rule_for(seen, kind, bins, range, Gpu(device))
    if key is not None:
        _rules.remember(key, rule)
    return rule


def _extent(samples: DeviceArray) -> Array:
    """The least and the greatest sample; of bf16 as float32. The greatest is NaN if any is."""
    dtype = _F32 if samples.kind == "bf16" else samples.dtype
    if not samples.size:
        return np.empty(0, dtype)
    counter = even_counters(1, samples.kind, samples.device).counter(samples.stream)
    ends = (ctypes.c_double * 2)()
    counter.call("extent", samples.address, samples.size, samples.stream, ends)
    counter.release()
    least, greatest = ends
    if dtype.kind in "iu" and max(-least, greatest) >= WHOLE_MAX:  # rounded
        exact = np.empty(2, dtype)
        _order_statistics(samples, samples.size, 1, np.array([0, samples.size - 1]), exact)
        return exact
    return np.array([least, greatest], dtype)


def _count(
    samples: DeviceArray,
    plan: DevicePlan,
    edges: Edges,
    cut: _rows.Axes | _rows.Stretches | None,
    on_device: bool,
) -> Histogram | DeviceHistogram:
    if cut is not None:
        return _count_rows(samples, plan, edges, cut, on_device)
    if on_device:
        return _count_there(samples, plan, edges)
    row, below, above, nan = plan.count(samples)
    return made(np.frombuffer(row, np.int64), edges, below, above, nan)


def _count_there(samples: DeviceArray, plan: DevicePlan, edges: Edges) -> DeviceHistogram:
    counter = plan.queue(samples)

    def read() -> Histogram:
        counts, outside = np.empty(plan.bin_count, np.int64), np.empty(3, np.int64)
        counter.call("read", samples.stream, counts.ctypes.data, outside.ctypes.data)
        total = int(counts.sum()) + int(outside.sum())
        if total != samples.size:
            raise RuntimeError(f"counts add up to {total}, not to {samples.size} samples")
        return made(counts, edges, *outside.tolist())

    address = plugin().histogram_cuda_counts(counter.handle)
    return DeviceHistogram(counter, address, plan.bin_count, edges, samples, (), (), read)


def _count_rows(
    samples: DeviceArray,
    plan: DevicePlan,
    edges: Edges,
    cut: _rows.Axes | _rows.Stretches,
    on_device: bool,
) -> Histogram | DeviceHistogram:
    if isinstance(cut, _rows.Axes):
        layout = stretches_of_axes(samples.shape, samples.strides, cut.axes)
    else:
        layout = stretches(samples, cut)
    rows, bins = math.prod(layout.sizes), plan.bin_count

    def in_order(counts: Counts, outside: Counts) -> Histogram:
        below, above, nan = np.moveaxis(layout.in_order(outside), -1, 0)
        return made(layout.in_order(counts), edges, below, above, nan)

    if not rows or not samples.size:
        if on_device:
            raise ValueError("on_device: is not for rows without samples")
        if plan.computes_edges:  # and nobody has looked whether they increase
            raise NeedsTables
        return in_order(np.zeros((rows, bins), np.int64), np.zeros((rows, 3), np.int64))
    if on_device and layout.summed:
        raise ValueError("on_device: the axes of a row must lie side by side in memory")
    counter = plan.queue_rows(samples, layout.window, layout.step, layout.channels, on_device)

    def read() -> Histogram:
        return in_order(*counter.read_rows(samples.stream, rows, bins))

    return answer_of_rows(counter, layout, bins, edges, samples, read, on_device)
