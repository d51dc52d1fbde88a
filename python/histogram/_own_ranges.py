"""Counts rows, each between its own least and greatest sample."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from . import _native, _rows, _rules
from ._arrays import DTYPES, Array
from ._errors import whole
from ._result import Histogram, edges_now

_FAST_BINS_MAX = 65536  # numpy's edges of more are numpy's to make
_DTYPES = DTYPES | {"bf16": np.dtype(np.float32)}


def count(
    samples: Array, kind: str, bins: Any, cut: _rows.Axes | _rows.Stretches, place: _rules.Place,
    threads: int,
) -> Histogram:  # fmt: skip
    """Counts each row into `bins` bins, as numpy.histogram(row, bins)."""
    bins = bins_of(bins)
    filled = _rows.Filled(samples, cut, bins)
    if place is not _rules.THIS_PROCESS:
        return _count_on_server(place, kind, bins, samples, filled)
    dtype = edge_type(kind)
    if not samples.size:
        rule = _rules.rule_for(samples.reshape(-1), kind, bins, None, _rules.THIS_PROCESS)
        edges = edges_now(rule.edges)
        return filled.histogram(np.broadcast_to(edges, (len(filled.counts), bins + 1)))
    # Those of float16 are float16s in float32.
    edges = np.empty((len(filled.counts), bins + 1), np.promote_types(dtype, np.float32))
    for flat, part, rows in filled.parts(in_place=True):
        _count_part(flat, kind, part, threads, filled, rows, edges[rows])
    return filled.histogram(edges.astype(dtype, copy=False))


def _count_on_server(
    client: Any, kind: str, bins: int, samples: Array, filled: _rows.Filled
) -> Histogram:
    if kind in ("f16", "bf16", "f32"):
        raise ValueError(
            f"range: 'rows'; a server's edges are float64s, and those of rows of {kind} are not; "
            "convert a to float64, or leave out server="
        )
    # The least and the greatest edge of each row.
    ends = np.broadcast_to([[0.0], [1.0]], (2, len(filled.counts))).copy()
    plan = client.plan(bins, kind)
    for flat, part, rows in filled.parts(in_place=False):
        plan.ends = ends[:, rows]
        plan.count_rows(flat, filled.counts[rows], filled.outside[rows], 0, *part.numbers())
    if kind in ("i64", "u64") and np.abs(ends).max(initial=0) > 2.0**53:
        raise ValueError(
            f"a: integers from {ends[0].min():.0f} to {ends[1].max():.0f}; with server= "
            "and range='rows' they must be at most 2**53"
        )
    return filled.histogram(np.linspace(ends[0], ends[1], bins + 1, axis=-1))


def bins_of(bins: Any) -> int:
    """The number of bins."""
    if type(bins) is not int and (isinstance(bins, str) or np.ndim(bins)):
        raise ValueError(f"bins: {bins!r}; must be a number of bins with range='rows'")
    return whole("bins", bins, 1, 2**63 - 1)


def edge_type(kind: str) -> np.dtype[Any]:
    dtype = _DTYPES[kind]
    return dtype if dtype.kind == "f" else np.dtype(np.float64)


def _count_part(
    flat: Array, kind: str, part: _rows.Stretches, threads: int, filled: _rows.Filled,
    rows: slice, edges: Array,
) -> None:  # fmt: skip
    counts, outside = filled.counts[rows], filled.outside[rows]
    bins = counts.shape[1]
    if counts_fast(kind, bins):
        _native.count_own_ranges(
            flat, kind, bins, counts, outside, edges, threads, *part.numbers()
        )
    else:
        edges[:, 0] = np.nan
    count_each(
        lambda row: part.row(flat, row), kind, threads, counts, outside, edges, filled.shape,
        rows.start or 0,
    )  # fmt: skip


def count_each(
    samples_of: Callable[[int], Array], kind: str, threads: int, counts: _rules.Counts,
    outside: _rules.Counts, edges: Array, shape: tuple[int, ...], first: int = 0,
) -> None:  # fmt: skip
    """Counts the rows whose first edge is NaN one by one. `shape`: that of all rows, of which the
    arrays begin with number `first`."""
    bins = counts.shape[1]
    for row in np.flatnonzero(np.isnan(edges[:, 0])):
        its = samples_of(int(row))
        try:
            rule = _rules.rule_for(its, kind, bins, None, _rules.THIS_PROCESS)
        except ValueError as error:
            raise ValueError(f"a, {named(first + int(row), shape)}: {error}") from None
        found = rule.count(its, threads)
        assert found is not None
        counts[row], outside[row], edges[row] = found[0], found[1:], edges_now(rule.edges)


def named(row: int, shape: tuple[int, ...]) -> str:
    """How an error names the row of this number."""
    return "row " + ", ".join(str(index) for index in np.unravel_index(row, shape))


def counts_fast(kind: str, bins: int) -> bool:
    """Whether rows are counted between numpy's edges without numpy."""
    return bins <= _FAST_BINS_MAX and _numpy_agrees(kind)


@cache
def _numpy_agrees(kind: str) -> bool:
    """Whether numpy's own function gives the same edges, to the last bit."""
    for bins in (1, 10, 37):
        rows = np.array([(0.1, 0.7), (1e-3, 7e3), (3, 120), (5, 5)]).astype(_DTYPES[kind])
        edges = np.empty((len(rows), bins + 1), np.promote_types(edge_type(kind), np.float32))
        none = np.zeros((len(rows), bins), np.int64), np.zeros((len(rows), 3), np.int64)
        kind = "f32" if kind == "bf16" else kind
        _native.count_own_ranges(rows, kind, bins, *none, edges, 1, 2)
        for row, its in zip(rows, edges.astype(edge_type(kind)), strict=True):
            if its.tobytes() != np.histogram_bin_edges(row, bins).tobytes():
                return False
    return True
