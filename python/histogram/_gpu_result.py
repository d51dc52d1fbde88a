"""Counts that stay in a GPU's memory."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ._gpu_arrays import LEGACY_STREAM, DeviceArray
from ._gpu_plan import Counter
from ._result import Counts, Edges, Histogram, edges_now

# A counter keeps as much memory for rows.
_KEPT_BYTES = 16 << 20


class DeviceHistogram:
    """Counts in a GPU's memory, perhaps not computed yet: ``count(..., on_device=True)``.

    ``torch.as_tensor(h, device="cuda")`` and ``cupy.asarray(h)`` are views of them: int64, one for
    each bin, then the samples below, above, and NaN; with rows, so many for each row. The counts
    live as long as this object or such a view. Later work on the stream that counted sees them.
    """

    def __init__(
        self,
        counter: Counter,
        address: int,
        bins: int,
        edges: Edges,
        samples: DeviceArray,
        rows: tuple[int, ...],
        strides: tuple[int, ...],
        read: Callable[[Counts, Counts], Histogram],
    ) -> None:
        """`strides`: of the rows, in rows. `read`: the histogram of counts and those outside."""
        slots = bins + 3
        self._counter = counter
        self._edges = edges
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
        """The edges of the bins: one more than bins."""
        self._edges = edges_now(self._edges)
        return self._edges

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self._interface

    def histogram(self) -> Histogram:
        """Waits for the counts, and copies them to the CPU's memory."""
        rows = math.prod(self._rows)
        counts = np.empty((rows, self._bins), np.int64)
        outside = np.empty((rows, 3), np.int64)
        self._counter.call(
            "read_rows" if self._rows else "read",
            self._samples.stream, counts.ctypes.data, outside.ctypes.data,
        )  # fmt: skip
        return self._read(counts, outside)

    def __repr__(self) -> str:
        rows = " x ".join(str(size) for size in self._rows)
        of = f"{rows} rows of " if rows else ""
        first, last = self.edges[[0, -1]]
        return (
            f"DeviceHistogram({of}{self._bins} bins over [{first:g}, {last:g}] on device "
            f"{self._samples.device})"
        )
