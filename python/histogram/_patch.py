"""Puts the package in the place of numpy's functions."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _native, _rules
from ._arrays import TYPES, WHOLE_MAX, Array, chunks, in_order, is_plain
from ._numpy_quantile import METHODS, AtRanks, by_method
from ._quantile import _between
from ._result import edges_now, fixed

# Fewer samples take numpy no longer, unless the edges are known.
_FEW = 8192
_QUANTILES_MAX = 1000
_SUBNORMAL = 1e-310


class _Numpys(Exception):
    """numpy's own function is to answer."""


def _histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    # Of a sequence the conversion takes numpy most of its time.
    if weights is not None or isinstance(a, (list, tuple)) or _dispatches(a) or _dispatches(bins):
        raise _Numpys
    a = np.asarray(a)
    kind = TYPES.get(a.dtype if a.dtype.isnative else a.dtype.newbyteorder("="))
    if kind is None:
        raise _Numpys
    if isinstance(bins, (str, int, np.integer)):
        rule = _evenly(a, kind, bins, range)
        edges = edges_now(rule.edges).copy()
    else:
        edges = np.asarray(bins)
        rule = _between_edges(a, kind, edges)
    counts = np.zeros(rule.bins, np.int64)
    for piece in [a] if is_plain(a) else chunks(a):
        found = rule.count(piece, 0)
        assert found is not None
        counts += found[0]
    if density:
        return counts / np.array(np.diff(edges), float) / counts.sum(), edges
    return counts, edges


def _between_edges(a: Array, kind: str, edges: Array) -> _rules.Rule:
    if edges.ndim != 1 or edges.dtype.kind not in "iuf" or kind == "f16":
        raise _Numpys  # some versions of numpy sort float16 wrong
    if kind in ("i64", "u64") or edges.dtype.kind in "iu":
        _check_whole(edges)
    return _rules.rule_for(a, kind, edges, None, _rules.THIS_PROCESS)


def _evenly(a: Array, kind: str, bins: Any, range: Any) -> _rules.Rule:
    key = None
    if range is not None:
        # An array without a dimension means its number.
        first, last = (end[()] if type(end) is np.ndarray else end for end in range)
        if not (isinstance(first, _NUMBERS) and isinstance(last, _NUMBERS)):
            raise _Numpys
        if type(bins) is int and last != 0:  # the key would lose its sign
            key = ("numpy", a.dtype, bins, first, last, type(first), type(last))
            rule = _rules.remembered(key)
            if rule is not None:
                return rule
    if key is None and a.size < _FEW:
        raise _Numpys
    seen: Array = a
    if not isinstance(bins, str):
        seen = np.array([a.min(), a.max()]) if range is None else np.empty(0, a.dtype)
    edges = np.histogram_bin_edges(seen, bins, range)
    _check_even(edges)
    if kind in ("i64", "u64"):
        _check_whole(edges)
    rule = _rules.Rule(fixed(edges), kind)
    if key is not None:
        _rules.remember(key, rule)
    return rule


_NUMBERS = (int, float, np.integer, np.floating)


def _check_even(edges: Array) -> None:
    """Lets pass the edges between which numpy puts each sample in its bin. numpy computes the bin
    in the edges' type and corrects it by one. So rounding must move a sample by less than a bin:
    the index must have few bits, and a bin many units of the last place."""
    info = np.finfo(edges.dtype)
    least = max(8 * np.spacing(np.abs(edges[[0, -1]]).max()), 4 * info.tiny)
    few = edges.itemsize <= 8 and len(edges) <= 2 ** (info.nmant - 3)
    if not (few and np.isfinite(edges[-1] - edges[0]) and np.diff(edges).min() >= least):
        raise _Numpys


def _check_whole(edges: Array) -> None:
    """Lets pass the edges for which numpy's rounding of integers makes no difference."""
    if not (edges[0] > -WHOLE_MAX and edges[-1] < WHOLE_MAX):
        raise _Numpys


def _dispatches(a: Any) -> bool:
    """Whether numpy's function calls one that a library has for the array."""
    own = getattr(type(a), "__array_function__", None)
    return own is not None and own is not np.ndarray.__array_function__


def _quantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False,
    method: Any = "linear", keepdims: Any = False, *, weights: Any = None, name: str = "quantile",
) -> Any:  # fmt: skip
    if weights is not None or out is not None or method not in METHODS:
        raise _Numpys
    a = _samples(a, axis)
    found = _interpolated(a.size, q, method, name, lambda ranks: _at_ranks(a, ranks))
    return _kept(found, a, keepdims)


def _interpolated(n: int, q: Any, method: str, name: str, at_ranks: AtRanks) -> Any:
    weak = type(q) in (int, float)
    if not weak and type(q) not in (np.float64, np.ndarray, list, tuple):
        raise _Numpys
    shares = np.asanyarray(q if name == "quantile" else np.true_divide(q, 100))
    if shares.dtype not in (np.float64, np.int64) or shares.ndim > 1:
        raise _Numpys
    if not 0 < shares.size <= _QUANTILES_MAX or not (shares.min() >= 0 and shares.max() <= 1):
        raise _Numpys
    return by_method(n, shares, method, weak, at_ranks, _as_numpy)


def _median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, keepdims: Any = False
) -> Any:
    if out is not None:
        raise _Numpys
    a = _samples(a, axis)
    middle = a.size // 2
    ranks = np.array([middle] if a.size % 2 else [middle - 1, middle])
    return _kept(np.mean(_at_ranks(a, ranks)), a, keepdims)


def _samples(a: Any, axis: Any) -> Array:
    if isinstance(a, (list, tuple)) or _dispatches(a):
        raise _Numpys
    a = np.asanyarray(a)
    # Of other classes the answer is one of the class. numpy may sort float16 wrong.
    if type(a) is not np.ndarray or a.dtype not in TYPES or a.dtype == np.float16:
        raise _Numpys
    if a.size < _FEW or axis is not None and (a.ndim != 1 or axis not in (0, -1)):
        raise _Numpys
    return a


def _at_ranks(a: Array, ranks: Array) -> Array:
    wanted = np.array(sorted({*ranks.tolist(), a.size - 1}), np.int64)  # NaN has the greatest rank
    values = np.empty(len(wanted), a.dtype)
    samples = a if is_plain(a) else in_order(a)
    _native.order_statistics(samples, TYPES[a.dtype], a.size, wanted, values, 0)
    if a.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise _Numpys
        if (values == 0).any() and (np.signbit(a) & (a == 0)).any():
            raise _Numpys  # numpy orders zeros of either sign by chance
    return values[np.searchsorted(wanted, ranks)]


def _as_numpy(low: Array, high: Array, share: Any) -> Array:
    if low.dtype.kind == "i" and (np.subtract(high, low) < 0).any():
        raise _Numpys  # the difference overflows
    return _between(low, high, share)


def _kept(found: Any, a: Array, keepdims: Any) -> Any:
    keeps = keepdims is not np._NoValue and keepdims
    return found[(..., *[np.newaxis] * a.ndim)] if keeps else found


class _StandIn:
    """A function of numpy's that first asks the package. It equals numpy's, by which libraries find
    what they put in numpy's place for their arrays."""

    def __init__(self, name: str, ours: Callable[..., Any]):
        self.numpys = getattr(np, name)
        self._ours = ours
        functools.update_wrapper(self, self.numpys)

    def __call__(self, *values: Any, **named: Any) -> Any:
        try:
            if _SUBNORMAL / 2 == 0:  # the process flushes them, and numpy compares them as 0
                raise _Numpys
            with np.errstate(all="raise"):  # numpy's function warns
                return self._ours(*values, **named)
        except Exception:  # whatever it is, numpy's answer or error is the right one
            return self.numpys(*values, **named)

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else types.MethodType(self, owner)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self.numpys

    def __hash__(self) -> int:
        return hash(self.numpys)

    def __reduce__(self) -> str:
        return str(self.numpys.__name__)


@functools.cache
def _stand_ins() -> dict[str, _StandIn]:
    """The functions by name, without those that this version of numpy computes in another way."""
    ours = {"histogram": _histogram, "median": _median}
    for name in ("quantile", "percentile"):
        if _has_our_arithmetic(name, getattr(np, name)):
            ours[name] = functools.partial(_quantile, name=name)
    return {name: _StandIn(name, one) for name, one in ours.items()}


def _has_our_arithmetic(name: str, numpys: Callable[..., Any]) -> bool:
    """Whether numpy's quantiles of a few numbers are those of `_interpolated`, bit for bit."""
    rng = np.random.default_rng(0)
    shares = rng.random(16) * (1 if name == "quantile" else 100)
    for dtype in ("f4", "f8", "i8"):
        a = np.sort(rng.random(37) * 1000).astype(dtype)
        for method in METHODS:
            for q in (shares, *(shares[:4].tolist() if method == "linear" else ())):
                theirs = np.asarray(numpys(a, q, method=method))
                ours = np.asarray(_interpolated(a.size, q, method, name, a.__getitem__))
                if ours.dtype != theirs.dtype or ours.tobytes() != theirs.tobytes():
                    return False
    return True


def patch_numpy() -> contextlib.ExitStack:
    """Puts the package under ``numpy.histogram``, ``quantile``, ``percentile`` and ``median``, for
    code that calls them.

    ``with`` undoes it at its end. Answers are the same, bit for bit. numpy's own function gets all
    that the package does not count, counts in another way on purpose, or does not count faster:
    weights, few samples, sequences; and quantiles along an axis. Code that has imported a function
    by name before keeps numpy's.

    >>> import numpy as np, histogram
    >>> with histogram.patch_numpy():
    ...     counts, edges = np.histogram(np.arange(100_000), 4)
    >>> counts
    array([25000, 25000, 25000, 25000])
    """
    made = {name: one for name, one in _stand_ins().items() if getattr(np, name) is one.numpys}
    for name, one in made.items():
        setattr(np, name, one)
    undo = contextlib.ExitStack()
    if made:
        undo.callback(unpatch_numpy)
    return undo


def unpatch_numpy() -> None:
    """Puts numpy's own functions back."""
    for name, one in _stand_ins().items():
        if getattr(np, name) is one:
            setattr(np, name, one.numpys)
