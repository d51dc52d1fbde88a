"""The result of a count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from . import _native, _picture, _uhi
from ._arrays import as_array, check_bare, resolved
from ._axes import Bins, Rows
from ._errors import whole
from ._numbers import edges_of

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
F = TypeVar("F", bound=Callable[..., Any])


# Edges, or what makes them when they are looked at.
Edges = npt.NDArray[Any] | Callable[[], npt.NDArray[Any]]


def edges_now(edges: Edges) -> npt.NDArray[Any]:
    return edges() if callable(edges) else edges


def fixed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array, or a copy in memory that nobody can write to. It is an object of its own, since
    anybody can set an array's shape and type."""
    if not array.flags.writeable:
        return array.view()
    return np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)


def sealed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array, which nobody else has, as one that nobody can write to. Copies it only if it is
    not in C order."""
    if not array.flags.c_contiguous:
        return fixed(array)
    return np.frombuffer(array.data.toreadonly(), array.dtype).reshape(array.shape)


def in_float_mode(method: F) -> F:
    """The method, in the library's floating-point mode: in that of another library subnormal edges
    may be equal, or a last bit differ."""

    @wraps(method)
    def inside(*arguments: Any, **named: Any) -> Any:
        return _native.in_float_mode(partial(method, *arguments, **named))

    return cast(F, inside)


def _check_total(name: str, samples: Any) -> None:
    """Refuses numbers of samples that int64 does not hold. `samples`: as float64."""
    if np.max(samples, initial=0) >= 2.0**63:
        raise OverflowError(f"{name}: {np.max(samples):.0f} samples; must be less than 2**63")


class Histogram:
    """The count of each bin, the edges, and the number of samples in no bin. It does not change.

    It unpacks like the result of ``numpy.histogram``, adds up exactly, pickles, and works as a
    histogram for plotting libraries (mplhep, histoprint). With ``axis=`` each index of the other
    axes has a row of counts. Then each number below is an array with the shape of these axes. With
    ``range="rows"`` each has a row of edges, too.

    Statistics are those of the samples in bins, computed from the counts. Without such samples they
    are NaN.

    >>> import histogram
    >>> h = histogram.count([1, 2, 2, 3], bins=4, range=(0, 4))
    >>> counts, edges = h
    >>> counts
    array([0, 1, 2, 1])
    >>> (h + h).counts()
    array([0, 2, 4, 2])
    """

    __module__ = "histogram"  # pickles name it by this

    __slots__ = ("_above", "_below", "_counts", "_given_edges", "_nan")

    def __init__(
        self, counts: npt.ArrayLike, edges: npt.ArrayLike, below: npt.ArrayLike = 0,
        above: npt.ArrayLike = 0, nan: npt.ArrayLike = 0,
    ):  # fmt: skip
        """A histogram of counts from elsewhere. It copies them.

        >>> import numpy as np, histogram
        >>> histogram.Histogram(np.bincount([0, 2, 2]), [0, 1, 2, 3]).samples
        3
        """
        self._check_and_put(counts, edges, below, above, nan)

    @in_float_mode
    def _check_and_put(self, counts: Any, edges: Any, below: Any, above: Any, nan: Any) -> None:
        counts = _whole("counts", counts)
        edges = resolved(edges)
        check_bare("edges", edges)
        edges = edges_of("edges", edges)
        *rows, bins = counts.shape or (0,)
        if not bins or edges.shape not in ((bins + 1,), (*rows, bins + 1)):
            raise ValueError(
                f"edges: shape {edges.shape}; must be one more than the {bins} counts, for all "
                "rows or for each"
            )
        if edges.dtype.kind not in "biufmM":
            raise TypeError(f"edges: type {edges.dtype}; they must be numbers or dates")
        if not (edges[..., :-1] <= edges[..., 1:]).all():  # fails for NaN and NaT, too
            raise ValueError("edges: must increase monotonically, without NaN")
        outside: list[Any] = []
        for name, value in (("below", below), ("above", above), ("nan", nan)):
            found = _whole(name, value)
            if found.shape not in (tuple(rows), ()):
                raise ValueError(f"{name}: shape {found.shape}; must be that of the rows, {rows}")
            outside.append(np.broadcast_to(found, rows).copy() if rows else int(found))
        _check_total("counts", counts.sum(axis=-1, dtype=float) + sum(np.asarray(outside, float)))
        self._put(counts, edges, *outside)

    def _put(self, counts: Counts, edges: Edges, below: Any, above: Any, nan: Any) -> Histogram:
        self._counts = fixed(counts)
        self._given_edges = edges if callable(edges) else fixed(edges)
        if counts.ndim > 1:
            below, above, nan = fixed(below), fixed(above), fixed(nan)
        self._below = below
        self._above = above
        self._nan = nan
        return self

    @property
    def _edges(self) -> npt.NDArray[Any]:
        edges = self._given_edges
        if callable(edges):
            edges = self._given_edges = edges()
        return edges

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        """Counts and edges, as numpy.histogram returns them. Both are read-only."""
        yield self._counts
        yield self._edges

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> npt.NDArray[Any]:
        return (self._counts, self._edges)[index]

    # uhi's protocol says float64; Any satisfies type checkers.
    def counts(self) -> npt.NDArray[Any]:
        """The count of each bin, as int64."""
        return self._counts

    @property
    def edges(self) -> npt.NDArray[Any]:
        """The edges of the bins: one more than bins. With ``range="rows"`` each row has its own."""
        return self._edges

    @property
    def below(self) -> Any:
        """The number of samples below the first edge."""
        return self._below

    @property
    def above(self) -> Any:
        """The number of samples above the last edge."""
        return self._above

    @property
    def nan(self) -> Any:
        """The number of samples that are NaN."""
        return self._nan

    @property
    def samples(self) -> Any:
        """The number of all samples: those in bins, below, above, and NaN."""
        total = self._counts.sum(axis=-1) + self._below + self._above + self._nan
        return int(total) if self._counts.ndim == 1 else total

    @in_float_mode
    def __add__(self, other: object) -> Histogram:
        if not isinstance(other, Histogram):
            return NotImplemented
        # numpy's pickles lose the byte order.
        types = [h._edges.dtype.newbyteorder("=") for h in (self, other)]
        if types[0] != types[1]:
            raise ValueError(
                f"+: the edges differ in type, {types[0]} and {types[1]}; give both counts "
                "edges, or a range, of one type"
            )
        if not np.array_equal(self._edges, other._edges):
            raise ValueError("+: the edges differ; only counts between the same edges add up")
        if self._counts.shape != other._counts.shape:
            raise ValueError(f"+: {self._counts.shape} and {other._counts.shape} rows of counts")
        _check_total("+", np.add(self.samples, other.samples, dtype=float))
        return made(
            self._counts + other._counts,
            self._edges,
            self._below + other._below,
            self._above + other._above,
            self._nan + other._nan,
        )

    def __radd__(self, other: object) -> Histogram:
        """Lets ``sum`` add histograms: it begins with 0."""
        return self if type(other) is int and other == 0 else NotImplemented

    @in_float_mode
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Histogram) and all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("_counts", "_below", "_above", "_nan", "_edges")
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Histogram, (self._counts, self._edges, self._below, self._above, self._nan)

    @in_float_mode
    def density(self) -> Floats:
        """The share of the samples in bins that each bin holds, divided by its width, as
        ``numpy.histogram(..., density=True)`` computes it."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            each = self._counts / np.array(np.diff(self._edges), float)
            density: Floats = each / self._counts.sum(axis=-1, keepdims=True)
        return density

    @in_float_mode
    def cdf(self) -> Floats:
        """The share of the samples in bins that lie below each edge: from 0 to 1."""
        below = np.insert(np.cumsum(self._counts, axis=-1), 0, 0, axis=-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares: Floats = below / below[..., -1:]
        return shares

    def rebin(self, k: int) -> Histogram:
        """The histogram with each ``k`` bins in one.

        >>> import histogram
        >>> histogram.count([1, 2, 2, 3], 4, (0, 4)).rebin(2).counts()
        array([1, 3])
        """
        *rows, bins = self._counts.shape
        k = whole("k", k, 1, bins)
        if bins % k:
            raise ValueError(f"k: {k}; must divide the number of bins, which is {bins}")
        counts = self._counts.reshape(*rows, bins // k, k).sum(axis=-1)
        return made(counts, self._edges[..., ::k], self._below, self._above, self._nan)

    def mean(self) -> Any:
        """The mean, if each sample lies in the middle of its bin. It is off by half the width of
        the widest bin at most."""
        return self._moments()[0]

    def std(self) -> Any:
        """The standard deviation, if each sample lies in the middle of its bin."""
        return self._moments()[1]

    @in_float_mode
    def _moments(self) -> tuple[Any, Any]:
        first, middles = self._middles()
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = self._counts / self._counts.sum(axis=-1, keepdims=True)
            mean = (shares * middles).sum(axis=-1, keepdims=True)
            std = np.sqrt((shares * (middles - mean) ** 2).sum(axis=-1))
        return (first + mean[..., 0])[()], std[()]

    def _middles(self) -> tuple[Any, Floats]:
        """The first edge, and the distance of each bin's middle from it: sums of distances cancel
        less. Distances are NaN without an end, or with ends whose distance overflows."""
        edges = self._edges.astype(np.float64)
        first = edges[..., :1]
        with np.errstate(invalid="ignore", over="ignore"):
            distances: Floats = (edges[..., :-1] - first) / 2 + (edges[..., 1:] - first) / 2
            finite = np.isfinite(edges[..., -1:] - first)
        return first[..., 0], np.where(finite, distances, np.nan)

    @in_float_mode
    def quantile(self, q: npt.ArrayLike) -> Any:
        """The ``q``-quantile of the samples in bins, if they lie evenly within each bin.

        It is an estimate of the least sample up to which a share ``q`` of them lies, and off by the
        width of that sample's bin at most. It is NaN in a bin without an end, or wider than
        float64's maximum.
        ``histogram.quantile`` interpolates between samples, which may lie many bins apart, and is
        exact.
        The result has the shape of the rows, then that of ``q``.

        >>> import histogram
        >>> float(histogram.count([1, 3], bins=2, range=(0, 4)).quantile(0.75))
        3.0
        """
        shares = np.asarray(q, np.float64)
        outside = ~((shares >= 0) & (shares <= 1))
        if outside.any():
            raise ValueError(f"q: {shares[outside].flat[0]}; must be 0 to 1")
        rows = self._counts.reshape(-1, self._counts.shape[-1])
        edges = self._edges.reshape(-1, self._edges.shape[-1])
        edges = np.broadcast_to(edges, (len(rows), edges.shape[1]))
        found = _quantiles(rows, edges, shares.ravel())
        return found.reshape(self._counts.shape[:-1] + shares.shape)[()]

    def median(self) -> Any:
        """``quantile(0.5)``."""
        return self.quantile(0.5)

    @in_float_mode
    def entropy(self) -> Any:
        """The entropy of the counts in bits: 0 if one bin holds all samples, log2(n) if n bins hold
        as many each.

        >>> import histogram
        >>> float(histogram.count([1, 3], bins=2, range=(0, 4)).entropy())
        1.0
        """
        total = self._counts.sum(axis=-1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = self._counts / total
            bits = np.where(shares > 0, -shares * np.log2(shares), 0.0).sum(axis=-1)
        return np.where(total[..., 0] > 0, bits + 0.0, np.nan)[()]

    @in_float_mode
    def otsu(self) -> Any:
        """Otsu's threshold: the edge that best splits the samples in bins into two groups.

        Each sample counts as the middle of its bin. Of equally good edges it is the least. It is
        NaN if fewer than two bins hold samples, or if a bin has no end.

        >>> import histogram
        >>> float(histogram.count([1, 1, 8, 9], bins=10, range=(0, 10)).otsu())
        2.0
        """
        _, middles = self._middles()
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
        edges = np.broadcast_to(self._edges[..., 1:].astype(np.float64), self._counts.shape)
        found = np.take_along_axis(edges, best[..., None], axis=-1)[..., 0]
        return np.where(known, found, np.nan)[()]

    # The interface for plotting libraries: PlottableHistogram of the package uhi.

    @property
    def kind(self) -> str:
        """Counts of samples, not means."""
        return "COUNT"

    @property
    def axes(self) -> tuple[Rows | Bins, ...]:
        """An axis for each dimension of the counts. The last one is that of the bins."""
        edges = self._edges
        if edges.ndim > 1:
            raise ValueError(
                "axes: each row has edges of its own, which are no axis; histogram.Histogram("
                "h.counts()[i], h.edges[i]) is that of row i"
            )
        if edges.dtype.kind in "mM":
            edges = edges.astype(np.float64)
        return (*(Rows(size) for size in self._counts.shape[:-1]), Bins(edges))

    def values(self) -> Floats:
        """The counts, as floats."""
        return self._counts.astype(np.float64)

    def variances(self) -> Floats:
        """The variance of each count, if it is Poisson distributed: the count itself."""
        return self.values()

    def to_boost(self) -> Any:
        """The histogram as one of boost-histogram, which must be installed. It can be indexed and
        sliced as UHI describes."""
        import boost_histogram  # type: ignore[import-not-found,unused-ignore]

        return boost_histogram.Histogram(self._to_uhi_())

    _to_boost_histogram_ = to_boost

    def _to_uhi_(self) -> dict[str, Any]:
        """UHI's form of the histogram, for ``uhi.io`` and libraries that read it."""
        return _uhi.to_uhi(self)

    @classmethod
    def _from_uhi_(cls, data: Any) -> Histogram:
        """The histogram in UHI's form, or in that of a library that has such a form."""
        return cls(*_uhi.from_uhi(data))

    def __repr__(self) -> str:
        return _picture.text(self)

    def _repr_html_(self) -> str:
        return _picture.html(self)


def made(counts: Counts, edges: Edges, below: Any, above: Any, nan: Any) -> Histogram:
    """A histogram of arrays that nobody else has, without a look at their values."""
    return Histogram.__new__(Histogram)._put(sealed(counts), edges, below, above, nan)


def counted(
    bins: int, counters: Any, below: int, above: int, nan: int, edges: Edges
) -> Histogram:
    """A histogram of one row. `counters`: a buffer that begins with its counts, and that nobody can
    write to."""
    h = Histogram.__new__(Histogram)
    h._counts = np.frombuffer(counters, np.int64, bins)
    h._given_edges = edges
    h._below = below
    h._above = above
    h._nan = nan
    return h


def _whole(name: str, values: Any) -> Counts:
    """A copy of whole numbers."""
    check_bare(name, values)
    given = as_array(name, values)
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{name}: type {given.dtype}; must be whole numbers")
    with np.errstate(invalid="ignore"):
        found: Counts = given.astype(np.int64)
    wrong = (found != given) | (found < 0)
    if wrong.any():
        raise ValueError(f"{name}: {given[wrong].flat[0]}; must be whole numbers >= 0")
    return found


def _quantiles(counts: Counts, edges: npt.NDArray[Any], shares: Floats) -> Floats:
    """A row of quantiles for each row of counts and edges."""
    up_to = np.cumsum(counts, axis=-1)
    wanted = shares * up_to[:, -1:]
    at = np.array([np.searchsorted(*pair) for pair in zip(up_to, wanted, strict=True)], np.intp)
    # Bins before the first sample hold none, and reach 0.
    at = np.maximum(at.reshape(wanted.shape), (counts > 0).argmax(axis=-1)[:, None])
    row = np.arange(len(counts))[:, None]
    low, high = edges[row, at].astype(np.float64), edges[row, at + 1].astype(np.float64)
    held = counts[row, at]
    before = up_to[row, at] - held
    # An edge or a width may be infinite, and a row without samples.
    with np.errstate(invalid="ignore", over="ignore"):
        part = (wanted - before) / held
        # The second form gives the upper edge exactly.
        found = np.where(part < 0.5, low + (high - low) * part, high - (high - low) * (1 - part))
        return np.where(np.isfinite(high - low), found, np.nan)
