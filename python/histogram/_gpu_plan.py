"""Bins on a GPU: between edges, by tables; or even ones over any range, without."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _gpu_plugin, _native
from ._even import Numbers
from ._gpu_arrays import DeviceArray
from ._gpu_plugin import NeedsTables, Range, call
from ._rules import Counts

_OWN_RANGES = 3  # for the number of DevicePlan._range


class Counter:
    """Holds counts in a device's memory. A counter that fails is not released, and so not used
    again."""

    def __init__(self, handle: int, idle: list[Counter]) -> None:
        self.handle = handle
        self._idle = idle
        # When the interpreter ends, the driver may already be gone.
        library = _gpu_plugin.plugin()
        weakref.finalize(self, library.histogram_cuda_free, handle).atexit = False

    def release(self) -> None:
        self._idle.append(self)

    def call(self, name: str, *arguments: Any) -> None:
        function = getattr(_gpu_plugin.plugin(), f"histogram_cuda_{name}")
        call(function, self.handle, *arguments)

    def read_rows(
        self, stream: int, rows: int, bins: int, ends: npt.NDArray[np.float64] | None = None
    ) -> tuple[Counts, Counts]:
        """Waits for the stream. The counts of each row, and those outside. Checks the sum of each
        row. `ends`: takes those of the bins of each row over its own range; NaN for a row that was
        not counted."""
        counts, outside = np.empty((rows, bins), np.int64), np.empty((rows, 3), np.int64)
        at = None if ends is None else ends.ctypes.data
        self.call("read_rows", stream, counts.ctypes.data, outside.ctypes.data, at)
        return counts, outside


class Counters:
    """Counters of the same bins."""

    def __init__(self, name: str, *arguments: Any) -> None:
        """`name`: of the plugin's function that makes them of these arguments."""
        self._make = getattr(_gpu_plugin.plugin(), f"histogram_cuda_{name}")
        self._arguments = arguments
        # Idle ones by stream. Work queued next on a stream runs after the work that used its
        # counter.
        self._idle: dict[int, list[Counter]] = {}
        self._need_tables = False

    def counter(self, stream: int) -> Counter:
        """A counter for this thread, which releases it after use."""
        try:
            return self._idle[stream].pop()
        except (KeyError, IndexError):
            idle = self._idle.setdefault(stream, [])
        if self._need_tables:
            raise NeedsTables
        handle = ctypes.c_void_p()
        try:
            call(self._make, *self._arguments, ctypes.addressof(handle))
        except NeedsTables:
            self._need_tables = True
            raise
        return Counter(handle.value or 0, idle)


@lru_cache(64)
def even_counters(bins: int, kind: str, device: int) -> Counters:
    """Those of so many even bins over any range."""
    return Counters("make_even", bins, kind.encode(), device)


class DevicePlan:
    """Bins and a sample type, for counting on a device. Like _native.Plan."""

    def __init__(self, edges: npt.NDArray[np.float64], kind: str, device: int) -> None:
        self.bin_count = len(edges) - 1
        self._edges = np.ascontiguousarray(edges, np.float64)  # while counters are made
        self.counters = Counters(
            "make", self._edges.ctypes.data, len(edges), kind.encode(), device
        )
        # The range of even bins, and how their edges are computed; negative: there is none.
        self._range: tuple[float, float, int] = 0.0, 0.0, -1

    @classmethod
    def even(cls, numbers: Numbers, bins: int, counters: Counters) -> DevicePlan:
        """Of even bins, without tables. Its functions raise NeedsTables where the device does not
        take their range; count_rows also for interleaved channels."""
        plan = cls.__new__(cls)
        plan.bin_count = bins
        plan.counters = counters
        low, high, arithmetic, edges = numbers
        plan._range = low, high, 2 if arithmetic == "f32" else int(edges == "f32")
        return plan

    @property
    def computes_edges(self) -> bool:
        return self._range[2] >= 0

    @classmethod
    def own_ranges(cls, bins: int, counters: Counters) -> DevicePlan:
        """The same for count_rows alone: of each row from its least to its greatest sample."""
        plan = cls.__new__(cls)
        plan.bin_count = bins
        plan.counters = counters
        plan._range = 0.0, 0.0, _OWN_RANGES
        return plan

    def _counted(self, stream: int, count: Callable[[Counter], Any]) -> tuple[Counter, Any]:
        """The counter that counted, and what `count` returned."""
        counter = self.counters.counter(stream)
        try:
            return counter, count(counter)
        except NeedsTables:
            counter.release()
            raise

    def count(self, samples: DeviceArray, threads: int = 0) -> tuple[bytes, int, int, int]:
        """Counts as int64 in bytes; below, above and NaN. The plugin checks their sum."""
        counter, row = self._counted(samples.stream, lambda counter: self._row(counter, samples))
        counter.release()
        found: tuple[bytes, int, int, int] = row
        return found

    def _row(self, counter: Counter, samples: DeviceArray) -> tuple[bytes, int, int, int]:
        row = _native.count_on_device(
            _gpu_plugin.count_and_read(), counter.handle, *self._range, samples.address,
            samples.size, samples.stream, self.bin_count,
        )  # fmt: skip
        if row is None:
            raise NeedsTables
        return row

    def queue(self, samples: DeviceArray) -> Counter:
        """A counter that counts later on the samples' stream."""
        return self._queued("count", samples)

    def queue_rows(
        self, samples: DeviceArray, window: int, step: int, channels: int, wide: bool
    ) -> Counter:
        """The same of rows, as count_rows cuts them. With `wide` their counts can be looked at in
        the device's memory, too."""
        if channels != 1 and self.computes_edges:
            raise NeedsTables
        cut = (ctypes.c_uint64 * 3)(channels, window, step)
        return self._queued("count_rows", samples, cut, wide)

    def _queued(self, name: str, samples: DeviceArray, *arguments: Any) -> Counter:
        range = Range(*self._range) if self.computes_edges else None
        at = None if range is None else ctypes.addressof(range)
        of = samples.address, samples.size, samples.stream
        return self._counted(
            samples.stream, lambda counter: counter.call(name, at, *arguments, *of)
        )[0]

    def count_rows(
        self,
        samples: Any,
        counts: Counts,
        outside: Counts,
        threads: int,
        window: int = 0,
        step: int = 0,
        channels: int = 1,
    ) -> None:
        """As _native.Plan.count_rows."""
        counter = self.queue_rows(samples, window, step, channels, wide=False)
        counts[:], outside[:] = counter.read_rows(samples.stream, *counts.shape)
        counter.release()
