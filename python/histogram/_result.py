"""The result of a count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _picture
from ._axes import Bins, Rows

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Histogram:
    """Counts, the edges that they lie between, and what went into no bin. It does not change.

    It unpacks as ``numpy.histogram`` answers, adds up exactly, pickles, and is a histogram for
    libraries that plot (mplhep, hist). With ``axis=`` there is a row of counts for each index of
    the other axes; then what is a number below is an array of that shape.

    Statistics come from the counts, of the samples that are in bins. Where there are none, they are
    NaN.

    >>> import histogram
    >>> h = histogram.count([1, 2, 2, 3], bins=4, range=(0, 4))
    >>> counts, edges = h
    >>> counts
    array([0, 1, 2, 1])
    >>> (h + h).counts()
    array([0, 2, 4, 2])
    """

    __slots__ = ("_above", "_below", "_counts", "_edges", "_nan")

    def __init__(self, counts: Counts, edges: npt.NDArray[Any], below: Any, above: Any, nan: Any):
        self._counts = counts
        self._edges = edges
        self._below = below
        self._above = above
        self._nan = nan
        counts.setflags(write=False)

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        """Counts and edges, as numpy.histogram returns them. Neither can be written."""
        yield self._counts
        yield self._edges

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> npt.NDArray[Any]:
        return (self._counts, self._edges)[index]

    def counts(self) -> Counts:
        """The count of each bin."""
        return self._counts

    @property
    def edges(self) -> npt.NDArray[Any]:
        """The edges of the bins: one more than there are bins."""
        return self._edges

    @property
    def below(self) -> Any:
        """How many samples are below the first edge."""
        return self._below

    @property
    def above(self) -> Any:
        """How many samples are above the last edge."""
        return self._above

    @property
    def nan(self) -> Any:
        """How many samples are NaN."""
        return self._nan

    @property
    def samples(self) -> Any:
        """How many samples there were: those in bins, below, above, and NaN."""
        total = self._counts.sum(axis=-1) + self._below + self._above + self._nan
        return int(total) if self._counts.ndim == 1 else total

    def __add__(self, other: object) -> Histogram:
        if not isinstance(other, Histogram):
            return NotImplemented
        if self._edges.dtype != other._edges.dtype or not np.array_equal(self._edges, other._edges):
            raise ValueError("+: the edges differ; only counts between the same edges add up")
        if self._counts.shape != other._counts.shape:
            raise ValueError(f"+: {self._counts.shape} and {other._counts.shape} rows of counts")
        return Histogram(
            self._counts + other._counts,
            self._edges,
            self._below + other._below,
            self._above + other._above,
            self._nan + other._nan,
        )

    def __radd__(self, other: object) -> Histogram:
        """So that ``sum`` takes histograms: it begins with 0."""
        return self if type(other) is int and other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Histogram) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in self.__slots__
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Histogram, (self._counts, self._edges, self._below, self._above, self._nan)

    def quantile(self, q: npt.ArrayLike) -> Any:
        """Where a share ``q`` of the samples in bins is reached, taken as even within each bin.

        An estimate, off by no more than the width of a bin. ``histogram.quantile`` is exact.
        The shape is that of ``q``, after that of the rows.

        >>> import histogram
        >>> float(histogram.count([1, 3], bins=2, range=(0, 4)).quantile(0.75))
        3.0
        """
        shares = np.asarray(q, np.float64)
        outside = ~((shares >= 0) & (shares <= 1))
        if outside.any():
            raise ValueError(f"q: {shares[outside].flat[0]}; must be 0 to 1")
        rows = self._counts.reshape(-1, self._counts.shape[-1])
        found = np.array([_quantiles(row, self._edges, shares.ravel()) for row in rows])
        return found.reshape(self._counts.shape[:-1] + shares.shape)[()]

    def median(self) -> Any:
        """``quantile(0.5)``."""
        return self.quantile(0.5)

    def entropy(self) -> Any:
        """The entropy of the counts in bits: 0 where one bin holds all, log2(n) where n share them.

        >>> import histogram
        >>> float(histogram.count([1, 3], bins=2, range=(0, 4)).entropy())
        1.0
        """
        total = self._counts.sum(axis=-1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = self._counts / total
            bits = np.where(shares > 0, -shares * np.log2(shares), 0.0).sum(axis=-1)
        return np.where(total[..., 0] > 0, bits + 0.0, np.nan)[()]

    def otsu(self) -> Any:
        """Otsu's threshold: the edge that parts the samples in bins best, in two groups.

        The samples of a bin count with its middle. Of edges that part equally well it is the least.
        NaN where fewer than two bins hold samples.

        >>> import histogram
        >>> float(histogram.count([1, 1, 8, 9], bins=10, range=(0, 10)).otsu())
        2.0
        """
        edges = self._edges.astype(np.float64)
        # Centred at the middle of the range, so that sums of squares do not cancel.
        middles = (edges[:-1] - edges[0]) / 2 + (edges[1:] - edges[0]) / 2
        count = np.cumsum(self._counts, axis=-1)
        moment = np.cumsum(self._counts * middles, axis=-1)
        low, rest = count[..., :-1], count[..., -1:] - count[..., :-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = moment[..., :-1] / low - (moment[..., -1:] - moment[..., :-1]) / rest
            between = np.where((low > 0) & (rest > 0), low * (rest * distance**2), -1.0)
        if between.shape[-1] == 0:
            return np.full(between.shape[:-1], np.nan)[()]
        best = np.argmax(between, axis=-1)
        known = np.max(between, axis=-1) >= 0
        return np.where(known, edges[1:][best], np.nan)[()]

    # What libraries that plot ask for: PlottableHistogram of the package uhi.

    @property
    def kind(self) -> str:
        """Counts of samples, not means."""
        return "COUNT"

    @property
    def axes(self) -> tuple[Rows | Bins, ...]:
        """One for each dimension of the counts; the last is that of the bins."""
        return (*(Rows(size) for size in self._counts.shape[:-1]), Bins(self._edges))

    def values(self) -> Floats:
        """The counts, as floats."""
        return self._counts.astype(np.float64)

    def variances(self) -> Floats:
        """The variance of each count, taken as Poisson's: the count itself."""
        return self.values()

    def __repr__(self) -> str:
        return _picture.text(self)

    def _repr_html_(self) -> str:
        return _picture.html(self)


def _quantiles(counts: Counts, edges: npt.NDArray[Any], shares: Floats) -> Floats:
    filled = np.flatnonzero(counts)
    if len(filled) == 0:
        return np.full(shares.shape, np.nan)
    up_to = np.cumsum(counts[filled])
    wanted = shares * up_to[-1]
    at = np.minimum(np.searchsorted(up_to, wanted), len(filled) - 1)
    bins = filled[at]
    low, high = edges[bins].astype(np.float64), edges[bins + 1].astype(np.float64)
    part = (wanted - (up_to[at] - counts[bins])) / counts[bins]
    # The second form hits the upper edge exactly.
    found: Floats = np.where(part < 0.5, low + (high - low) * part, high - (high - low) * (1 - part))
    return found
