"""Samples at given ranks of each row of an array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native
from ._arrays import Array
from ._rows import axes_of, contiguous_rows
from ._rules import THIS_PROCESS, Place

Ranks = npt.NDArray[np.int64]


class RowSamples:
    """An array of rows, each of which holds the samples of some axes."""

    def __init__(self, samples: Array, kind: str, axis: Any, place: Place) -> None:
        axes = axes_of(axis, samples.ndim)
        self._rows = np.moveaxis(samples, axes, np.arange(-len(axes), 0))
        self._kind = kind
        self._place = place
        self.outer = self._rows.shape[: samples.ndim - len(axes)]
        self.size = math.prod(self._rows.shape[len(self.outer) :])  # of a row
        self.dtype = samples.dtype.newbyteorder("=")

    def at(self, ranks: Ranks, threads: int) -> Array:
        """The samples at the ranks, which ascend: a row of results for each rank. They are NaN where
        a sample of the row is."""
        found = np.empty((len(ranks), math.prod(self.outer)), self.dtype)
        done = 0
        for block in contiguous_rows(self._rows, len(self.outer), self.size) if found.size else ():
            end = done + block.size // self.size
            whole = done == 0 and end == found.shape[1]
            out = found if whole else np.empty((len(ranks), end - done), self.dtype)
            if self._place is THIS_PROCESS:
                _native.order_statistics(block, self._kind, self.size, ranks, out, threads)
            else:
                from ._remote_quantile import order_statistics_of_rows  # only if it is needed

                rows = block.reshape(-1, self.size)
                order_statistics_of_rows(self._place, rows, self._kind, ranks, out)
            if not whole:
                found[:, done:end] = out
            done = end
        return found.reshape(len(ranks), *self.outer)
