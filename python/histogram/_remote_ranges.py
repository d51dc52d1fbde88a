"""Counts rows over their own ranges on a server."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from . import _wire
from ._arrays import Array
from ._errors import server_error
from ._remote import Client, RemotePlan


class RemoteRanges(RemotePlan):
    """So many bins over each row's own range, which a server finds."""

    def __init__(
        self, client: Client, bins: int, kind: str, ends: npt.NDArray[np.float64]
    ) -> None:
        self._client = client
        self._bins = self.bin_count = bins
        self._kind = kind
        self.ends = ends  # filled: the least edge of each row, then the greatest

    def _count_stretch(self, samples: Array, channels: int) -> _wire.Answer:
        most = self._client.limits.payload_bytes
        if samples.nbytes > most:
            raise ValueError(
                f"a: a stretch of {samples.nbytes} bytes; the server takes {most} at most for "
                "ranges of rows; without server= there is no limit"
            )
        spec = _wire.spec(self._kind, self._bins, rows=(0, 0, channels))
        return self._client.compute(spec, samples)

    def _take(self, found: _wire.Answer, rows: slice) -> None:
        for ends, told in zip(self.ends, (found.lower, found.upper), strict=True):
            if told is None or len(told) != len(ends[rows]) or not np.isfinite(told).all():
                raise server_error("INTERNAL", f"no range of each of {len(ends[rows])} rows")
            ends[rows] = told
