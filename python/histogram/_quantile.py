"""histogram.quantile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from . import _native
from ._arrays import Array, as_samples, in_order, is_on_gpu, is_plain, resolved, unmasked
from ._count import _threads, place_of
from ._dates import dates_in, integers
from ._errors import check_others
from ._numbers import shares_of
from ._numpy_quantile import WHOLE, by_method, check_method, plain_rows
from ._quantile_rows import RowSamples
from ._rows import axes_of
from ._rules import Place

if TYPE_CHECKING:
    from ._remote import Client


def quantile(
    a: Any,
    q: npt.ArrayLike,
    *,
    axis: SupportsIndex | Sequence[int] | None = None,
    method: str = "linear",
    keepdims: bool = False,
    threads: SupportsIndex | None = None,
    server: str | Client | None = None,
    **others: Any,
) -> Any:
    """The exact quantiles of the samples in ``a``, as ``numpy.quantile(a, q, axis)`` computes them.

    ``method`` is one of numpy's methods. By default the result is interpolated linearly between
    two samples. It has the shape of ``q``, with ``keepdims`` followed by an axis of length 1 for
    each of ``a``. It is NaN if a sample is NaN. It does not sort all samples: it counts them by
    leading bits until few are left.

    ``axis`` names the axes that hold the samples of one row; by default all samples are one. Each
    index of the other axes has quantiles of its own. The result has the shape of ``q``, then that
    of the other axes.

    ``a``, ``threads`` and ``server`` mean the same as in ``count``. An array that is not contiguous
    is copied; on a GPU one with gaps is refused. A server takes arrays up to its payload limit, and
    integers of 64 bits up to 2**53.

    >>> import numpy as np, histogram
    >>> histogram.quantile(np.array([5, 1, 3, 2, 4]), [0.25, 0.5])
    array([2., 3.])
    >>> histogram.quantile(np.array([[5, 1, 3], [8, 6, 9]]), 0.5, axis=1)
    array([3., 8.])
    """
    if others:
        check_others("quantile", others)
    check_method(method)
    if keepdims:
        found = np.asarray(quantile(a, q, axis=axis, method=method, threads=threads, server=server))
        axes = range(np.ndim(a)) if axis is None else axes_of(axis, np.ndim(a))
        return np.expand_dims(found, tuple(np.ndim(q) + one for one in axes))
    if server is None and method == "linear":
        found = _of_numbers(a, q, axis, threads)
        if found is not None:
            return found
    a = unmasked(a, axis is not None)
    samples: Any
    place: Place
    dates = None
    nulls = 0
    if is_on_gpu(a):
        from ._gpu import samples_and_place  # only if it is needed

        if server is not None:
            raise ValueError("server: is not for arrays on a GPU; copy it to the CPU's memory")
        samples, kind, place = samples_and_place(resolved(a), axis)
    else:
        dates = dates_in(a)
        if dates is None:
            samples, kind, nulls = as_samples(a)
        elif axis is None:
            samples, nulls = integers(dates)
            kind = "i64"
        else:
            raise TypeError(f"axis: is not for {dates.dtype}; use numpy.quantile")
        place = place_of(server)
        if axis is not None:
            samples = RowSamples(samples, kind, axis, place)
        elif not is_plain(samples):
            samples = in_order(samples)
    weak = type(q) in (int, float)  # then the result has the samples' type, as in numpy
    shares = shares_of(q, 1)
    dtype = shares.dtype.newbyteorder("=")
    # Small types cannot hold the index of a sample.
    shares = shares.astype(np.int64 if dtype.kind in "iub" else np.result_type(dtype, np.float64))
    if nulls:  # as NaN
        missing = np.nan if dates is None else np.array("NaT", dates.dtype)
        return np.full(shares.shape, missing)[()]
    if samples.size == 0:
        raise ValueError("a: has no samples, and so no quantiles")
    number = 0 if threads is None else _threads(threads)
    outer = samples.outer if isinstance(samples, RowSamples) else ()
    unit = None if dates is None else dates.dtype.newbyteorder("=")

    def at_ranks(ranks: Array) -> Array:
        values = _at_ranks(samples, kind, ranks, number, place)
        return values if unit is None else values.view(unit)

    # In another library's mode numpy may take subnormal numbers for 0.
    found = _native.in_float_mode(
        by_method, samples.size, shares, method, weak, at_ranks, _between, outer
    )
    if method in WHOLE or dates is not None:
        return found
    if dtype in (np.float16, np.float32):  # as numpy, whose result type q is part of
        base = np.float32 if kind == "bf16" else samples.dtype
        return _native.in_float_mode(found.astype, np.result_type(base, dtype))
    return found


def _of_numbers(a: Any, q: Any, axis: Any, threads: SupportsIndex | None) -> Any:
    """The quantiles of a plain array of numbers, in one call of the compiled part; None for any other
    array, and for what is refused."""
    plain = plain_rows(a, axis)
    if plain is None:
        return None
    weak = type(q) is float  # then the result has the samples' type, as in numpy
    if weak:
        shape: tuple[int, ...] = ()
        shares = [q]
        if not 0 <= q <= 1:
            return None
    else:
        array = shares_of(q, 1)
        if array.dtype != np.float64:
            return None
        shape = array.shape
        shares = array.ravel().tolist()
    number = 0 if threads is None else _threads(threads)
    rows, kind, length, outer, dtype = plain
    out = np.empty((len(shares), *outer))
    if not _native.quantiles(rows, kind, length, shares, weak, out, number):
        return None
    if weak:
        out = out.astype(dtype, copy=False)
    return out.reshape(shape + outer)[()]


def _between(low: Array, high: Array, share: Any) -> Array:
    """numpy's interpolation, to the last bit. But differences of integers do not overflow."""
    if low.dtype.kind == "i" and np.asarray(share).dtype.kind == "f":
        unsigned = np.dtype(f"u{low.dtype.itemsize}")
        difference = np.subtract(high.view(unsigned), low.view(unsigned))
    else:
        difference = high - low
        if low.dtype.kind in "mM" and (difference < np.timedelta64(0)).any():
            raise ValueError(f"a: type {low.dtype}; neighbours lie more than 2**63 units apart")
    answer: Array = np.asanyarray(low + difference * share)
    above = np.broadcast_to(np.asanyarray(share) >= 0.5, answer.shape)
    np.subtract(high, difference * (1 - share), out=answer, where=above,
                casting="unsafe", dtype=type(answer.dtype))  # fmt: skip
    return answer


def _at_ranks(samples: Any, kind: str, ranks: Array, threads: int, place: Place) -> Array:
    """The samples at the ranks; all NaN if any sample is. Samples of bf16 become float32."""
    wanted, where = np.unique(ranks.astype(np.int64), return_inverse=True)
    if isinstance(samples, RowSamples):
        rows: Array = samples.at(wanted, threads)[where.ravel()]
        return (rows.astype(np.uint32) << 16).view(np.float32) if kind == "bf16" else rows
    is_float = kind in ("f16", "bf16", "f32", "f64")
    if is_float:  # NaN has the greatest rank
        wanted = np.append(wanted, samples.size - 1)
    values = np.empty(len(wanted), samples.dtype)
    place.order_statistics(samples, kind, wanted, values, threads)
    if kind == "bf16":
        values = (values.astype(np.uint32) << 16).view(np.float32)
    if is_float and np.isnan(values[-1]):
        values[:] = np.nan
    return values[where.ravel()]
