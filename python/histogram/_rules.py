"""Edges as numpy computes them, compiled for a sample type."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from . import _even, _native
from ._arrays import TYPES, Array, as_array, check_bare, is_plain, resolved
from ._numbers import edges_of, ends_of, inexact
from ._numpy_edges import move_outward, numpy_edges
from ._result import Edges, fixed

Counts = npt.NDArray[np.int64]

_FLOAT_MAX = float(np.finfo(np.float64).max)
# Types whose numbers are all float64s.
_EXACT = {np.dtype(code) for code in "bhiBHIefd"}


class Plan(Protocol):
    """Edges, compiled for a sample type. It counts samples."""

    @property
    def bin_count(self) -> int:
        """The number of bins between the edges."""

    def count(self, samples: Any, threads: int) -> tuple[Any, int, int, int] | None:
        """A buffer that begins with the counts as int64; below, above and NaN. None if it does not
        take the layout."""

    def count_rows(
        self,
        samples: Array,
        counts: Counts,
        outside: Counts,
        threads: int,
        window: int = 0,
        step: int = 0,
        channels: int = 1,
    ) -> None:
        """Counts contiguous samples in rows. Sample i belongs to channel i % channels. A stretch
        has `window` samples of a channel (0: all). One begins every `step` samples (0: every
        `window`, and the rest makes a shorter last stretch). Each channel of each stretch has a row
        in `counts`, and one of below, above and NaN in `outside`."""


class Place(Protocol):
    """Where samples are counted: in this process, on a GPU, or on a server."""

    @property
    def name(self) -> str | int | None:
        """Its name in the keys of remembered rules. None: rules are not remembered."""

    @property
    def bins_max(self) -> int:
        """The most bins of a plan."""

    @property
    def takes_any_layout(self) -> bool:
        """Whether plans count arrays that are not contiguous or not in native byte order."""

    def plan(self, edges: npt.NDArray[np.float64], kind: str) -> Plan:
        """Compiles edges, which are finite and increase."""

    def order_statistics(
        self, samples: Array, kind: str, ranks: npt.NDArray[np.int64], out: Array, threads: int
    ) -> None:
        """Writes the samples at the ranks, which ascend, to `out`. `samples`: contiguous."""


class ThisProcess:
    """The cores of this process."""

    name = "cpu"
    bins_max = _native.BINS_MAX
    takes_any_layout = False

    @staticmethod
    def plan(edges: npt.NDArray[np.float64], kind: str) -> _native.Plan:
        plan = _native.Plan.make(edges, kind)
        if plan is None:
            raise ValueError("bins: the edges do not increase")
        return plan

    @staticmethod
    def order_statistics(
        samples: Array, kind: str, ranks: npt.NDArray[np.int64], out: Array, threads: int
    ) -> None:
        _native.order_statistics(samples, kind, samples.size, ranks, out, threads)


THIS_PROCESS = ThisProcess()


class Rule:
    """Edges, and the plans that count between them.

    A plan takes finite edges that increase, and no more bins than its place allows. numpy also
    takes edges that repeat, edges at infinity, and more bins. A rule without any of these has one
    plan. Any other rule finds the number of samples below each edge, and subtracts.
    """

    __slots__ = ("_any_layout", "_below_top", "_index", "_kept", "_plans", "bins", "edges", "plan")

    def __init__(self, edges: Array, kind: str, place: Place = THIS_PROCESS) -> None:
        exact = _in_doubles(edges)
        self.edges: Edges = edges
        self.bins = len(edges) - 1
        if np.isinf(exact[0]) and exact[0] == exact[-1]:
            raise ValueError(f"bins: all edges are {exact[0]}; one of them must be finite")
        kept = np.clip(exact, -_FLOAT_MAX, _FLOAT_MAX)
        kept = kept[np.concatenate([[True], kept[:-1] < kept[1:]])]
        whole = len(kept) == len(exact) and np.isfinite(exact[[0, -1]]).all()
        if len(kept) == 1:
            # The samples on the least float64 are those below the next.
            least = kept[0] == -_FLOAT_MAX
            beside = [np.nextafter(-_FLOAT_MAX, 0), _FLOAT_MAX] if least else kept
            kept = np.array([-_FLOAT_MAX, *beside])
        bins_max = place.bins_max
        self._any_layout = place.takes_any_layout
        self._kept = kept
        self._index = _index_of(exact, kept)
        self._plans = [
            place.plan(kept[first : first + bins_max + 1], kind)
            for first in range(0, len(kept) - 1, bins_max)
        ]
        self.plan = self._plans[0] if whole and len(self._plans) == 1 else None
        # The samples on a plan's last edge are in its last bin. Where an edge before the last one
        # has the same value, another plan tells how many samples are below it. No float64 lies
        # between the greatest and the one before.
        self._below_top: Plan | None = None
        if (exact[:-1] == kept[-1]).any():
            top = kept[-1]
            ends = [top, _FLOAT_MAX] if top < _FLOAT_MAX else [-top, np.nextafter(top, 0)]
            self._below_top = place.plan(np.array(ends), kind)

    @classmethod
    def of(cls, edges: Edges, bins: int, plan: Plan) -> Rule:
        """The rule of a plan and its edges."""
        rule = cls.__new__(cls)
        rule.edges = edges
        rule.bins = bins
        rule.plan = plan
        return rule

    def count(self, samples: Any, threads: int) -> tuple[Counts, int, int, int] | None:
        """Counts, below, above and NaN; None if the place does not take the layout."""
        if self.plan is not None:
            found = self.plan.count(samples, threads)
            if found is None:
                return None
            return np.frombuffer(found[0], np.int64, self.bins), found[1], found[2], found[3]
        if not self._any_layout and not is_plain(samples):
            return None
        return self._count_in_parts(samples, threads)

    def _count_in_parts(self, samples: Any, threads: int) -> tuple[Counts, int, int, int]:
        def count(plan: Plan) -> tuple[Counts, Counts]:
            found = plan.count(samples, threads)
            assert found is not None
            return np.frombuffer(found[0], np.int64, plan.bin_count), np.array(found[1:])

        counts, outside = self._from_parts(count, np.array([samples.size]))
        below, above, nan = outside.tolist()
        return counts, below, above, nan

    def count_rows(
        self, samples: Array, counts: Counts, outside: Counts, threads: int, *cut: int
    ) -> None:
        """As Plan.count_rows."""
        if self.plan is not None:
            self.plan.count_rows(samples, counts, outside, threads, *cut)
            return
        rows = len(counts)

        def count(plan: Plan) -> tuple[Counts, Counts]:
            found = np.empty((rows, plan.bin_count), np.int64), np.empty((rows, 3), np.int64)
            plan.count_rows(samples, *found, threads, *cut)
            return found

        counts[:], outside[:] = self._from_parts(count, None)

    def _from_parts(
        self, count: Callable[[Plan], tuple[Counts, Counts]], size: Counts | None
    ) -> tuple[Counts, Counts]:
        """The counts, and below, above and NaN, in the last axis, from what `count` counts by each
        plan. `size`: the number of samples, if it is known before."""

        def part(plan: Plan) -> tuple[Counts, Counts]:
            nonlocal size
            counts, outside = count(plan)
            found = counts.sum(-1, keepdims=True) + outside.sum(-1, keepdims=True)
            size = found if size is None else size
            if (found != size).any():
                raise RuntimeError(f"counts add up to {found.sum()}, not to {size.sum()} samples")
            return counts, outside

        # The number of samples below each kept edge.
        less: list[Counts] = []
        for plan in self._plans:
            counts, outside = part(plan)
            less.append(outside[..., :1] + counts.cumsum(-1) - counts)
        assert size is not None
        above, nan = outside[..., 1:2], outside[..., 2:]
        numbers = size - nan
        top = zero = np.zeros_like(nan)
        if self._below_top is not None:
            _, outside = part(self._below_top)
            is_below = self._kept[-1] < _FLOAT_MAX
            top = outside[..., :1] if is_below else numbers - outside[..., 1:2]
        lower = np.concatenate([*less, top, numbers - above, numbers, zero], -1)[..., self._index]
        counts = lower[..., 1:] - lower[..., :-1]
        outside = np.concatenate([lower[..., :1], numbers - lower[..., -1:], nan], -1)
        if counts.min(initial=0) < 0 or outside.min(initial=0) < 0:
            raise RuntimeError(f"the counts of {size.sum()} samples differ from pass to pass")
        return counts, outside


def _index_of(exact: npt.NDArray[np.float64], kept: npt.NDArray[np.float64]) -> Counts:
    """For each edge, the place of the number of samples below it; for the last edge, up to it. The
    places are: below each kept edge, up to the last kept one, all numbers, 0."""
    edges = len(kept)
    index = np.searchsorted(kept, exact)
    index[exact == np.inf] = edges
    index[exact == -np.inf] = edges + 2
    if exact[-1] == np.inf:
        index[-1] = edges + 1
    elif exact[-1] == kept[-1]:
        index[-1] = edges
    else:  # it is the least float64
        index[-1] += 1
    return index


def _in_doubles(edges: Array) -> npt.NDArray[np.float64]:
    """The edges as float64. Fails if a value changes."""
    if edges.ndim != 1 or len(edges) < 2:
        raise ValueError(f"bins: {edges.size} edges; there must be 2 or more, in one dimension")
    if edges.dtype.kind not in "iufb":
        raise TypeError(f"bins: edges of type {edges.dtype}; they must be numbers")
    doubles: npt.NDArray[np.float64] = edges.astype(np.float64)
    if edges.dtype.itemsize > 8 or edges.dtype.kind in "iu" and edges.dtype.itemsize == 8:
        for edge, double in zip(edges.tolist(), doubles.tolist(), strict=True):
            if edge == edge and edge != double:
                kind = f" of type {edges.dtype}:" if edges.dtype.kind == "f" else ""
                raise inexact(f"bins: edge{kind}", edge)
    if np.isnan(doubles).any():
        raise ValueError("bins: an edge is NaN")
    if (doubles[:-1] > doubles[1:]).any():
        raise ValueError("bins: edges must increase monotonically")
    return doubles


# Earlier rules by key, the oldest first.
_CACHE_RULES = 32
_CACHE_BINS = 1 << 17  # in all
_CACHE_BINS_MAX = 65536
_cache: dict[Any, Rule] = {}


_cache_lock = threading.Lock()
_cache_bins = 0


def remember(key: Any, rule: Rule) -> None:
    global _cache_bins
    if rule.bins > _CACHE_BINS_MAX:
        return
    with _cache_lock:
        if key in _cache:
            return
        _cache[key] = rule
        _cache_bins += rule.bins
        while len(_cache) > _CACHE_RULES or _cache_bins > _CACHE_BINS and len(_cache) > 1:
            _cache_bins -= _cache.pop(next(iter(_cache))).bins


# The rule of a key, or None. Keys must differ wherever numpy's results differ.
remembered = _cache.get


def rule_between(a: Array, edges: Array) -> Rule | None:
    """As rule_of_array, remembered by its edges."""
    kind = TYPES.get(a.dtype)
    if kind is None or edges.dtype != np.float64 or edges.ndim != 1:
        return None
    return _between(edges, kind, THIS_PROCESS)


def rule_of_array(a: Array, bins: int, range: Any) -> Rule | None:
    """The rule in this process for an array of numpy's, remembered by its range. None: rule_for
    makes it, for as_samples(a)."""
    dtype = a.dtype
    key = None
    ends = None if range is None else _even.plain_ends(range)
    # numpy's last edge is 0.0 or -0.0 as in the range, and as keys these are equal.
    if ends is not None and ends[1]:
        key = (dtype, bins, ends, type(ends[0]), type(ends[1]))
        rule = _cache.get(key)
        if rule is not None:
            return rule
    kind = TYPES.get(dtype)
    if kind is None or range is not None and ends is None:
        return None
    rule = rule_for(a, kind, bins, range, THIS_PROCESS)
    if key is not None:
        remember(key, rule)
    return rule


def rule_for(samples: Any, kind: str, bins: Any, range: Any, place: Place) -> Rule:
    """The rule for the bins and range of numpy.histogram. With edges, or with a number of bins and
    a range, only the type of `samples` matters."""
    # In another library's mode Python and numpy may take subnormal edges for 0.
    return _native.in_float_mode(_rule_for, samples, kind, bins, range, place)


def _rule_for(samples: Any, kind: str, bins: Any, range: Any, place: Place) -> Rule:
    even = _even.plan(samples, kind, bins, range)
    if even is not None:
        if place is THIS_PROCESS:
            return Rule.of(*even)
        if even[1] <= place.bins_max:
            edges = fixed(even[0]())
            return Rule.of(edges, even[1], place.plan(edges.astype(np.float64), kind))
    bins, range = resolved(bins), resolved(range)
    check_bare("bins", bins)
    check_bare("range", range)
    if range is not None:
        range = ends_of(range)
    if not isinstance(bins, str) and as_array("bins", bins).ndim == 1:
        edges = edges_of("bins", bins)
        return _between(edges, kind, place)
    seen = _for_edges(samples, kind, bins, range)
    edges = numpy_edges(seen, bins, range)
    if range is None and kind in ("i64", "u64") and seen.size:
        move_outward(edges, int(seen.min()), int(seen.max()))
    return _made(edges, kind, place)


def _between(edges: Array, kind: str, place: Place) -> Rule:
    """The rule of these edges, remembered."""
    if place.name is None or edges.size > _CACHE_BINS_MAX + 1:
        return _made(edges, kind, place)
    key = (place.name, kind, edges.dtype, edges.tobytes())
    rule = remembered(key)
    if rule is None:
        rule = _made(edges, kind, place)
        remember(key, rule)
    return rule


def _made(edges: Array, kind: str, place: Place) -> Rule:
    edges = fixed(edges)  # results share them
    if place is THIS_PROCESS and edges.dtype in _EXACT and edges.ndim == 1:
        plan = _native.Plan.make(np.ascontiguousarray(edges, np.float64), kind)
        if plan is not None:
            return Rule.of(edges, len(edges) - 1, plan)
    return Rule(edges, kind, place)


def _for_edges(samples: Array, kind: str, bins: Any, range: Any) -> Array:
    """An array for which numpy computes the same edges as for the samples: small where possible."""
    if kind == "bf16":
        # numpy has no such type. The edges are those of the same values as float32.
        if range is not None and not isinstance(bins, str):
            return np.empty(0, np.float32)
        return (samples.astype(np.uint32) << 16).view(np.float32) + np.float32(0)  # -0.0 is 0.0
    dtype = samples.dtype.newbyteorder("=")
    if range is not None and not isinstance(bins, str):
        return np.empty(0, dtype)
    if kind == "f16" and not isinstance(bins, str) and samples.flags.c_contiguous:
        # numpy takes far longer to find the least and the greatest.
        extent = _native.extent(samples, kind) if samples.dtype.isnative else None
        if extent is not None and extent[2] and not extent[3]:  # numpy's zero may be -0.0
            return np.array(extent[:2], dtype)
    return samples
