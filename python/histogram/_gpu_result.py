"""Counts that stay in a GPU's memory."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from . import _gpu_plugin
from ._gpu_arrays import LEGACY_STREAM, DeviceArray
from ._gpu_layout import Layout
from ._gpu_plan import Counter
from ._result import Edges, Histogram, edges_now

# The counter of a larger answer in rows is not used again: its memory goes with the last view.
_KEPT_BYTES = 16 << 20


class DeviceHistogram:
    """Counts in a GPU's memory, perhaps not computed yet: ``count(..., on_device=True)``.

    ``torch.as_tensor(h, device="cuda")`` and ``cupy.asarray(h)`` are views of them: int64, one for
    each bin, then the samples below, above, and NaN; with rows, so many for each row. The counts
    live as long as this object or such a view. Later work on the stream that counted sees them.

    With ``range="rows"`` a row has only zeros there if a sample is not finite or its edges lie
    closer than 4 units in the last place. For such a row and for integers beyond 2^53
    ``histogram()`` and ``edges`` raise an error.
    """

    def __init__(
        self,
        counter: Counter,
        address: int,
        bins: int,
        edges: Edges | None,
        samples: DeviceArray,
        rows: tuple[int, ...],
        strides: tuple[int, ...],
        read: Callable[[], Histogram],
    ) -> None:
        """`edges`: None for rows over their own ranges. `strides`: of the rows, in rows. `read`:
        waits, and returns the histogram."""
        slots = bins + 3
        self._counter = counter
        self._edges = edges
        self._own_ranges = edges is None
        self._bins = bins
        self._samples = samples
        self._read = read
        self._rows = rows
        self._interface = {
            "shape": (*rows, slots),
            "typestr": "<i8",
            "data": (address, False),
            "strides": (*(8 * slots * stride for stride in strides), 8) if rows else None,
            "stream": samples.stream or LEGACY_STREAM,
            "version": 3,
        }
        if math.prod(rows) * slots * 8 <= _KEPT_BYTES or not rows:
            weakref.finalize(self, counter.release).atexit = False

    @property
    def edges(self) -> npt.NDArray[Any]:
        """The edges of the bins: one more than bins. With ``range="rows"`` each row has its own, and
        a look at them waits for the counts."""
        self._edges = self._read().edges if self._edges is None else edges_now(self._edges)
        return self._edges

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self._interface

    def histogram(self) -> Histogram:
        """Waits for the counts, and copies them to the CPU's memory."""
        return self._read()

    def __repr__(self) -> str:
        rows = " x ".join(str(size) for size in self._rows)
        of = f"{rows} rows of " if rows else ""
        if self._own_ranges:
            over = ", each over its own range,"
        else:
            over = " over [{:g}, {:g}]".format(*self.edges[[0, -1]])
        return f"DeviceHistogram({of}{self._bins} bins{over} on device {self._samples.device})"


def answer_of_rows(
    counter: Counter,
    layout: Layout,
    bins: int,
    edges: Edges | None,
    samples: DeviceArray,
    read: Callable[[], Histogram],
    on_device: bool,
) -> Histogram | DeviceHistogram:
    """The answer of rows that a counter counts: now, or `on_device`. The arguments of
    DeviceHistogram."""
    if on_device:
        address = _gpu_plugin.plugin().histogram_cuda_rows(counter.handle)
        return DeviceHistogram(
            counter, address, bins, edges, samples, layout.shape, layout.strides(), read
        )
    h = read()
    counter.release()
    return h
