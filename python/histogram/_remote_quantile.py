"""Finds samples at given ranks on a server.

A server returns quantiles: for q, of n samples, the interpolated value at index q * (n - 1). To
get a sample itself, q is chosen so that this product, as float64 rounds it, is the sample's rank.
Not every n has such a q for every rank. So samples are added at the upper end until n has. Usually
a few suffice. For many ranks, n - 1 becomes a sum of two powers of two: then
(rank / (n - 1)) * (n - 1) is the rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _native, _wire
from ._arrays import Array, in_order
from ._connect import MESSAGE_BYTES_MAX
from ._errors import server_error

if TYPE_CHECKING:
    from ._remote import Client

Ranks = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

# A server answers in float64. Beyond this, neighbouring integers are the same float64.
_INTEGER_MAX = 2.0**53
_ADDED_TRIES = 256
_ALL = np.finfo(np.float64).max
_ANY = np.array([-_ALL, _ALL])


def order_statistics(
    client: Client, samples: Array, kind: str, ranks: Ranks, out: Array
) -> None:
    """Writes the samples at the ranks, which ascend, to `out`. `samples`: contiguous, not empty."""
    if len(ranks) and not 0 <= ranks[0] <= ranks[-1] < samples.size:
        raise RuntimeError(f"ranks: {ranks[0]} to {ranks[-1]}; must be 0 to {samples.size - 1}")
    flat = in_order(samples)
    numbers = _numbers(flat, kind)
    below = above = 0
    if numbers.dtype.kind == "f":
        below = int(np.count_nonzero(np.isneginf(numbers)))
        above = int(np.count_nonzero(np.isposinf(numbers)))
    nan = int(np.count_nonzero(np.isnan(numbers))) if numbers.dtype.kind == "f" else 0
    finite = flat.size - below - above - nan
    found = np.full(len(ranks), np.nan)
    found[ranks < flat.size - nan] = np.inf
    found[ranks < below] = -np.inf
    inside = (ranks >= below) & (ranks < below + finite)
    if inside.any():
        found[inside] = _at(client, flat, kind, ranks[inside] - below, finite)
    out[:] = _as_samples(found, out.dtype, kind)


def _numbers(bits: Array, kind: str) -> Array:
    return (bits.astype(np.uint32) << 16).view(np.float32) if kind == "bf16" else bits


def order_statistics_of_rows(
    client: Any, rows: Array, kind: str, ranks: Ranks, out: Array
) -> None:
    """Writes the samples at the ranks of each row: a row of `out` for each rank."""
    length = rows.shape[1]
    added, shares = _shares(ranks, length)
    limits = client.limits
    size = (length + added) * max(4, rows.itemsize)
    if size > limits.payload_bytes:
        raise ValueError(
            f"a: rows of {size} bytes; the server takes {limits.payload_bytes} at most for "
            "quantiles; without server= there is no limit"
        )
    asked = min(len(ranks), limits.quantiles)
    step = min(
        max(1, MESSAGE_BYTES_MAX // size),
        max(1, limits.rows),
        max(1, limits.reply_bytes // (16 * (asked + 16))),
    )
    for first in range(0, len(rows), step):
        block, of_kind, fix = _finite(rows[first : first + step], kind)
        block = np.concatenate([block, np.repeat(block.max(axis=1)[:, None], added, 1)], axis=1)
        found = np.empty((len(block), len(ranks)))
        for at in range(0, len(ranks), asked):
            part = slice(at, at + asked)
            spec = _wire.spec(of_kind, _ANY, rows=(block.shape[1], 0, 1),
                              quantiles=shares[part].tolist())  # fmt: skip
            told = client.compute(spec, block).quantiles
            if told is None or told.size != found[:, part].size:
                raise server_error("INTERNAL", f"no quantiles of {len(block)} rows")
            found[:, part] = told.reshape(len(block), -1)
        if not (found[:, :-1] <= found[:, 1:]).all():
            raise server_error("INTERNAL", "quantiles are not in the order of ranks")
        fix(found, ranks)
        out[:, first : first + step] = _as_samples(found.T, out.dtype, kind)


def _finite(rows: Array, kind: str) -> tuple[Array, str, Any]:
    """Rows of finite numbers in the same order, their type, and a function that puts the samples
    that were not finite into the result. The server does not count 65,536 values for this type."""
    numbers = _numbers(rows, kind)
    if numbers.dtype.kind != "f":
        _check_exact(kind, numbers.min(), numbers.max())
        narrow = numbers.dtype.itemsize == 2
        return (numbers.astype(np.int32), "i32", _as_is) if narrow else (numbers, kind, _as_is)
    if numbers.dtype.itemsize < 4:
        numbers = numbers.astype(np.float32)
    of_kind = "f32" if numbers.dtype.itemsize == 4 else "f64"
    finite = np.isfinite(numbers)
    least = numbers.min(axis=1, initial=np.inf, where=finite)
    greatest = numbers.max(axis=1, initial=-np.inf, where=finite)
    _check_near(least, greatest)
    if finite.all():
        return numbers, of_kind, _as_is
    below, above = np.isneginf(numbers).sum(axis=1), np.isposinf(numbers).sum(axis=1)
    nan = np.isnan(numbers).any(axis=1)
    none = least > greatest
    least, greatest = np.where(none, 0, least), np.where(none, 0, greatest)

    def fix(found: Doubles, ranks: Ranks) -> None:
        found[ranks < below[:, None]] = -np.inf
        found[ranks >= rows.shape[1] - above[:, None]] = np.inf
        found[nan] = np.nan

    kept = np.where(np.isneginf(numbers), least[:, None], numbers)
    return np.where(np.isfinite(kept), kept, greatest[:, None]), of_kind, fix


def _as_is(found: Doubles, ranks: Ranks) -> None:
    pass


def _as_samples(values: Doubles, dtype: np.dtype[Any], kind: str) -> Array:
    if kind != "bf16":
        return values.astype(dtype)
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(dtype)


def _check_exact(kind: str, least: Any, greatest: Any) -> None:
    if kind in ("i64", "u64") and max(-int(least), int(greatest)) > _INTEGER_MAX:
        raise ValueError(
            f"a: integers from {least:.0f} to {greatest:.0f}; with server= they must be at most "
            "2**53"
        )


def _check_near(least: Any, greatest: Any) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        far = np.flatnonzero(np.asarray(greatest, np.float64) - least > _ALL)
    if far.size:
        pair = np.ravel(least)[far[0]], np.ravel(greatest)[far[0]]
        raise ValueError(
            f"a: samples from {pair[0]} to {pair[1]} lie too far apart for float64, in which a "
            "server interpolates"
        )


def _at(client: Client, flat: Array, kind: str, ranks: Ranks, finite: int) -> Doubles:
    """The finite samples at the ranks. `ranks`: among the `finite` finite samples."""
    extent = _native.extent(flat, kind)
    assert extent is not None
    least, greatest = extent[:2]
    _check_exact(kind, least, greatest)
    _check_near(least, greatest)
    added, shares = _shares(ranks, finite)
    upper = np.full(added, greatest, np.float32 if kind == "bf16" else flat.dtype)
    if kind == "bf16":
        upper = (upper.view(np.uint32) >> 16).astype(np.uint16)
    limits = client.limits
    if flat.nbytes + upper.nbytes > limits.payload_bytes:
        more = f" and {upper.nbytes} that finding the ranks adds" if added else ""
        raise ValueError(
            f"a: {flat.nbytes} bytes{more}; the server takes {limits.payload_bytes} at most for "
            "quantiles; without server= there is no limit"
        )
    found = np.empty(len(ranks))
    for first in range(0, len(ranks), limits.quantiles):
        part = slice(first, first + limits.quantiles)
        spec = _wire.spec(kind, _ANY, quantiles=shares[part].tolist())
        answer = client.compute(spec, flat, upper)
        told = answer.quantiles
        if answer.samples != flat.size + added or told is None or len(told) != len(shares[part]):
            wanted = len(shares[part])
            raise server_error("INTERNAL", f"no {wanted} quantiles of {answer.samples} samples")
        found[part] = told
    fits = (found[:-1] <= found[1:]).all() and least <= found[0] and found[-1] <= greatest
    if not fits or (found.astype(_numbers(flat[:0], kind).dtype) != found).any():
        raise server_error("INTERNAL", "a quantile is not a sample, or not in the order of ranks")
    return found


def _shares(ranks: Ranks, samples: int) -> tuple[int, Doubles]:
    """The number of samples to add, and the q of each rank then."""
    for added in range(_ADDED_TRIES):
        shares = _exact(ranks, samples + added - 1)
        if shares is not None:
            return added, shares
    last = samples - 1
    high = 1 << (last.bit_length() - 1)
    low = 0 if last == high else 1 << (last - high - 1).bit_length()
    added = high + low - last
    shares = _exact(ranks, last + added)
    assert shares is not None
    return added, shares


def _exact(ranks: Ranks, last: int) -> Doubles | None:
    """A q for each rank with q * last == rank in float64; None if a rank has none."""
    wanted = ranks.astype(np.float64)
    shares: Any = wanted / last if last > 0 else np.zeros(len(ranks))
    for toward in (0.0, 1.0):
        beside = np.nextafter(wanted / max(last, 1), toward)
        shares = np.where(shares * last == wanted, shares, beside)
    return shares if (shares * last == wanted).all() else None
