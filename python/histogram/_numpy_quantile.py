"""Quantiles by each of numpy's methods, percentiles and medians."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native
from ._arrays import TYPES, Array, resolved
from ._numbers import shares_of
from ._rows import ROWS_BYTES, axes_of

AtRanks = Callable[[Array], Array]  # the samples at whole ranks
Rank = Callable[[int, Array], Array]  # of a quantile of n samples


def _step(shift: float, odd: bool) -> Rank:
    def rank(n: int, q: Array) -> Array:
        index = np.asarray(n * q - 1 - shift)
        below = np.floor(index)
        stays = (index == below) & (not odd or below % 2 == 1)
        return np.maximum(np.where(stays, below, below + 1).astype(np.intp), 0)

    return rank


def _plotting(alpha: float, beta: float) -> Rank:
    return lambda n, q: n * q + (alpha + q * (1 - alpha - beta)) - 1


WHOLE: dict[str, Rank] = {  # whose quantiles are samples
    "inverted_cdf": _step(0, odd=False),
    "closest_observation": _step(0.5, odd=True),
    "lower": lambda n, q: np.floor((n - 1) * q).astype(np.intp),
    "higher": lambda n, q: np.ceil((n - 1) * q).astype(np.intp),
    "nearest": lambda n, q: np.around((n - 1) * q).astype(np.intp),
    "_middle": lambda n, q: np.array(sorted({(n - 1) // 2, n // 2})),  # the median is their mean
}
_BETWEEN: dict[str, Rank] = {
    "linear": lambda n, q: (n - 1) * q,
    "averaged_inverted_cdf": lambda n, q: n * q - 1,
    "midpoint": lambda n, q: 0.5 * (np.floor((n - 1) * q) + np.ceil((n - 1) * q)),
    "interpolated_inverted_cdf": _plotting(0, 1),
    "hazen": _plotting(0.5, 0.5),
    "weibull": _plotting(0, 0),
    "median_unbiased": _plotting(1 / 3.0, 1 / 3.0),
    "normal_unbiased": _plotting(3 / 8.0, 3 / 8.0),
}
METHODS = tuple(name for name in (*WHOLE, *_BETWEEN) if name != "_middle")


def check_method(method: Any) -> None:
    if method not in METHODS and method != "_middle":
        raise ValueError(f"method: {method!r}; must be one of {', '.join(METHODS)}")


def by_method(
    n: int, q: Array, method: str, weak: bool, at_ranks: AtRanks,
    between: Callable[[Array, Array, Any], Array], outer: tuple[int, ...] = (),
) -> Any:  # fmt: skip
    """The quantiles of n samples, with numpy 2.4's arithmetic. `weak`: the type of q, one number,
    has no part in that of the result. `between` interpolates. `outer`: the shape of what `at_ranks`
    returns for a rank."""
    index = np.asanyarray((WHOLE.get(method) or _BETWEEN[method])(n, q))
    if method in WHOLE or method == "linear" and index.dtype.kind in "iu":
        return at_ranks(index.ravel()).reshape(index.shape + outer)[()]
    at_end, at_begin = index >= n - 1, index < 0
    before = np.where(at_end, -1, np.where(at_begin, 0, np.floor(index))).astype(np.intp)
    low_ranks = np.where(at_end, n - 1, before)
    high_ranks = np.where(at_end | at_begin, low_ranks, before + 1)
    pairs = at_ranks(np.concatenate([low_ranks.ravel(), high_ranks.ravel()]))
    pairs = pairs.reshape(2, *index.shape, *outer)
    share = np.asanyarray(index - before)
    if method == "averaged_inverted_cdf":
        share = np.where(share == 0, 0.5, 1.0)
    elif method == "midpoint":
        share = np.where(index % 1 == 0, 0.0, 0.5)
    share = np.asanyarray(share, index.dtype)
    if not weak:
        share = share.reshape(share.shape + (1,) * len(outer))
    return between(pairs[0, ...], pairs[1, ...], float(share) if weak else share)[()]


def plain_rows(a: Any, axis: Any) -> tuple[Array, str, int, tuple[int, ...], Any] | None:
    """An array as contiguous rows, with the library's name of its type, the length of a row, the
    shape of the rows, and the type of a quantile, where the compiled part computes those of the array
    by itself. None for any other array or value, and for rows of which a copy is large."""
    if type(a) is not np.ndarray or a.dtype not in TYPES or a.dtype == np.float16 or a.size == 0:
        return None
    outer: tuple[int, ...] = ()
    if axis is not None:
        axes = axes_of(axis, a.ndim)
        others = [one for one in range(a.ndim) if one not in axes]
        outer = tuple(a.shape[one] for one in others)
        rows = a.transpose(*others, *axes)
        if not rows.flags.c_contiguous and a.nbytes > ROWS_BYTES:
            return None
        a = np.ascontiguousarray(rows)
    dtype = np.float32 if a.dtype == np.float32 else np.float64
    return a, TYPES[a.dtype], a.size // math.prod(outer), outer, dtype


def percentile(a: Any, q: npt.ArrayLike, **options: Any) -> Any:
    """``quantile(a, q / 100)``, as ``numpy.percentile(a, q)`` computes it. The options are those of
    ``quantile``.

    >>> import histogram
    >>> float(histogram.percentile([5, 1, 3, 2, 4], 25))
    2.0
    """
    from ._quantile import quantile

    if isinstance(q, (int, float)) and (q == 0 or 1e-290 < q <= 100):  # no share is subnormal
        return quantile(a, q / 100, **options)
    shares_of(q, 100)
    divide = operator.truediv if isinstance(q, (int, float)) else np.true_divide
    return quantile(a, _native.in_float_mode(divide, resolved(q), 100), **options)


def median(a: Any, *, keepdims: bool = False, **options: Any) -> Any:
    """The sample in the middle, or the mean of the two in the middle, as ``numpy.median(a)``
    computes it. The options are those of ``quantile``, without a method.

    >>> import histogram
    >>> float(histogram.median([5, 1, 3, 2]))
    2.5
    """
    from ._quantile import quantile

    if "method" in options:
        raise TypeError("median() has no argument 'method'; quantile(a, 0.5, method=) has")
    plain = plain_rows(a, options.get("axis")) if options.keys() <= {"axis"} else None
    if plain is not None and not keepdims:
        rows, kind, length, outer, dtype = plain
        out = np.empty(outer)
        if _native.median(rows, kind, length, out, 0):
            return out.astype(dtype, copy=False)[()]
    middle = np.atleast_1d(quantile(a, 0.5, method="_middle", **options))
    if middle.dtype.kind in "mM":  # numpy does not add dates, and sums of durations overflow
        low, high = middle[[0, -1]].view(np.int64)
        mean = (low & high) + ((low ^ high) >> 1)
        if middle.dtype.kind == "m" and mean < 0:  # numpy rounds durations toward 0
            mean += (low ^ high) & 1
        found = np.asarray(mean).view(middle.dtype)[()]
    else:
        found = _native.in_float_mode(np.mean, middle, 0)
    if keepdims:
        axis = options.get("axis")
        axes = range(np.ndim(a)) if axis is None else axes_of(axis, np.ndim(a))
        found = np.expand_dims(found, tuple(axes))
    return found
