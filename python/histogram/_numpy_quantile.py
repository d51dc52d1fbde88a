"""Quantiles by each of numpy's methods, percentiles and medians."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ._arrays import Array

AtRanks = Callable[[Array], Array]
"""The samples at whole ranks."""


def _rounded(index: Array, keeps_floor: Array) -> Array:
    below = np.floor(index)
    return np.maximum(np.where(keeps_floor, below, below + 1).astype(np.intp), 0)


def _inverted_cdf(n: int, q: Array) -> Array:
    index = np.asarray(n * q - 1)
    return _rounded(index, index == np.floor(index))


def _closest_observation(n: int, q: Array) -> Array:
    index = np.asarray(n * q - 1 - 0.5)
    return _rounded(index, (index == np.floor(index)) & (np.floor(index) % 2 == 1))


def _plotting(alpha: float, beta: float) -> Callable[[int, Array], Array]:
    return lambda n, q: n * q + (alpha + q * (1 - alpha - beta)) - 1


# The rank of a quantile of n samples: whole, or between two neighbours.
_WHOLE: dict[str, Callable[[int, Array], Array]] = {
    "inverted_cdf": _inverted_cdf,
    "closest_observation": _closest_observation,
    "lower": lambda n, q: np.floor((n - 1) * q).astype(np.intp),
    "higher": lambda n, q: np.ceil((n - 1) * q).astype(np.intp),
    "nearest": lambda n, q: np.around((n - 1) * q).astype(np.intp),
    "_middle": lambda n, q: np.array(sorted({(n - 1) // 2, n // 2})),  # the median is their mean
}
_BETWEEN: dict[str, Callable[[int, Array], Array]] = {
    "linear": lambda n, q: (n - 1) * q,
    "averaged_inverted_cdf": lambda n, q: n * q - 1,
    "midpoint": lambda n, q: 0.5 * (np.floor((n - 1) * q) + np.ceil((n - 1) * q)),
    "interpolated_inverted_cdf": _plotting(0, 1),
    "hazen": _plotting(0.5, 0.5),
    "weibull": _plotting(0, 0),
    "median_unbiased": _plotting(1 / 3.0, 1 / 3.0),
    "normal_unbiased": _plotting(3 / 8.0, 3 / 8.0),
}
METHODS = tuple(name for name in (*_WHOLE, *_BETWEEN) if name != "_middle")


def check_method(method: Any) -> None:
    if method not in METHODS and method != "_middle":
        raise ValueError(f"method: {method!r}; must be one of {', '.join(METHODS)}")


def by_method(
    n: int,
    q: Array,
    method: str,
    weak: bool,
    at_ranks: AtRanks,
    between: Callable[[Array, Array, Any], Array],
) -> Any:
    """The quantiles of n samples, with numpy 2.4's arithmetic. `weak`: the type of q, one number,
    has no part in that of the result. `between` interpolates."""
    index = np.asanyarray((_WHOLE.get(method) or _BETWEEN[method])(n, q))
    if method in _WHOLE or method == "linear" and index.dtype.kind in "iu":
        return at_ranks(index.ravel()).reshape(index.shape)[()]
    at_end, at_begin = index >= n - 1, index < 0
    before = np.where(at_end, -1, np.where(at_begin, 0, np.floor(index))).astype(np.intp)
    low_ranks = np.where(at_end, n - 1, before)
    high_ranks = np.where(at_end | at_begin, low_ranks, before + 1)
    pairs = at_ranks(np.concatenate([low_ranks.ravel(), high_ranks.ravel()]))
    pairs = pairs.reshape(2, *index.shape)
    share = np.asanyarray(index - before)
    if method == "averaged_inverted_cdf":
        share = np.where(share == 0, 0.5, 1.0)
    elif method == "midpoint":
        share = np.where(index % 1 == 0, 0.0, 0.5)
    share = np.asanyarray(share, index.dtype)
    return between(pairs[0, ...], pairs[1, ...], float(share) if weak else share)[()]


def is_whole(method: str) -> bool:
    """Whether the method's quantiles are samples."""
    return method in _WHOLE


def percentile(a: Any, q: npt.ArrayLike, **options: Any) -> Any:
    """``quantile(a, q / 100)``, as ``numpy.percentile(a, q)`` computes it. The options are those of
    ``quantile``.

    >>> import histogram
    >>> float(histogram.percentile([5, 1, 3, 2, 4], 25))
    2.0
    """
    from ._quantile import quantile

    if type(q) in (int, float):
        return quantile(a, q / 100, **options)  # type: ignore[operator]
    return quantile(a, np.true_divide(q, 100), **options)


def median(a: Any, *, keepdims: bool = False, **options: Any) -> Any:
    """The sample in the middle, or the mean of the two in the middle, as ``numpy.median(a)``
    computes it. The options are those of ``quantile``, without a method.

    >>> import histogram
    >>> float(histogram.median([5, 1, 3, 2]))
    2.5
    """
    from ._quantile import quantile

    found = np.mean(quantile(a, 0.5, method="_middle", **options))
    return found.reshape((1,) * np.ndim(a)) if keepdims else found
