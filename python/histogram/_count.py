"""histogram.count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from . import _even, _native, _own_ranges, _rows, _rules
from ._arrays import as_samples, chunks, is_on_gpu, is_plain, resolved, unmasked
from ._dates import between_edges, dates_in
from ._errors import check_others, whole
from ._result import Histogram, made

if TYPE_CHECKING:
    from ._gpu_result import DeviceHistogram
    from ._remote import Client

# Whole numbers: one or several.
_Whole = SupportsIndex | Sequence[SupportsIndex] | npt.NDArray[np.integer[Any]]


@overload
def count(
    a: Any,
    bins: str | npt.ArrayLike = 10,
    range: npt.ArrayLike | None = None,
    *,
    axis: _Whole | None = None,
    channels: SupportsIndex | None = None,
    windows: _Whole | None = None,
    threads: SupportsIndex | None = None,
    server: str | Client | None = None,
    on_device: Literal[False] = False,
    density: Literal[False] | None = None,
) -> Histogram: ...


@overload
def count(
    a: Any,
    bins: str | npt.ArrayLike = 10,
    range: npt.ArrayLike | None = None,
    *,
    density: Literal[True],
    **others: Any,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[Any]]: ...


@overload
def count(
    a: Any,
    bins: npt.ArrayLike = 10,
    range: npt.ArrayLike | None = None,
    *,
    axis: _Whole | None = None,
    channels: SupportsIndex | None = None,
    windows: _Whole | None = None,
    on_device: Literal[True],
) -> DeviceHistogram: ...


@overload
def count(
    a: Any,
    bins: npt.ArrayLike = 10,
    range: npt.ArrayLike | None = None,
    *,
    axis: _Whole | None = None,
    channels: SupportsIndex | None = None,
    windows: _Whole | None = None,
    on_device: bool,
) -> Histogram | DeviceHistogram: ...


def count(
    a: Any,
    bins: str | npt.ArrayLike = 10,
    range: npt.ArrayLike | None = None,
    *,
    axis: _Whole | None = None,
    channels: SupportsIndex | None = None,
    windows: _Whole | None = None,
    threads: SupportsIndex | None = None,
    server: str | Client | None = None,
    on_device: bool = False,
    **others: Any,
) -> Histogram | DeviceHistogram | tuple[npt.NDArray[np.float64], npt.NDArray[Any]]:
    """The histogram of the samples in ``a``.

    ``a`` is an array of integers or floats of any shape and layout in the CPU's memory: a numpy
    array, an object with the buffer protocol or ``__dlpack__``, bytes, or a sequence of numbers. A
    contiguous array is not copied. Masked samples are left out. Dates and durations
    (``datetime64``, ``timedelta64``) take edges of their kind, and NaT counts as ``nan``.

    ``bins`` and ``range`` mean the same as in ``numpy.histogram``, and give the same counts and
    edges. ``bins`` is a number of even bins, the edges, or the name of a rule ("auto"). With
    ``density=True`` the result is numpy's tuple of the density and the edges. Weights are refused.

    ``axis`` names the axes that hold the samples of one histogram. Each index of the other axes
    gets a row of counts. All rows have the same edges. With ``range="rows"`` each has its own: those
    of ``numpy.histogram(row, bins)``. This goes for ``channels`` and ``windows`` too.

    ``channels`` is the number of interleaved channels, such as the colours of a picture. In C
    order, sample i belongs to channel i % channels. Each channel gets a row of counts.

    ``windows`` cuts the samples, in C order, into windows of this many samples (of each channel).
    Each window gets a row of counts. The last one may be shorter. With ``(size, step)`` a window
    begins every ``step`` samples, as long as whole windows fit. With channels, the rows of the
    first window's channels come first, then those of the second's.

    ``threads`` is the most threads to count with. The default is one for each core that
    the process may use, by its affinity and its container's limit. Short arrays take one.

    ``server`` is the address of a histogram server ("host:50051"), or a client from
    ``histogram.connect``. The server counts, with the same result. A failure raises
    ``histogram.ServerError``.

    The plugin histogram-cuda13 counts an array in the memory of an NVIDIA GPU there: on the current
    stream of torch or cupy, on the default stream for jax. ``on_device`` leaves the counts there,
    too, and does not wait for them: it returns a ``DeviceHistogram``.

    >>> import numpy as np, histogram
    >>> samples = np.array([1, 2, 2, 3, 9], np.uint8)
    >>> counts, edges = histogram.count(samples, bins=4, range=(0, 8))
    >>> counts
    array([1, 3, 0, 0])
    >>> edges
    array([0., 2., 4., 6., 8.])

    The result also has the number of samples in no bin:

    >>> h = histogram.count(samples, bins=4, range=(0, 8))
    >>> h.samples, h.below, h.above, h.nan
    (5, 0, 1, 0)

    A histogram for each row:

    >>> histogram.count(np.array([[0.1, 0.9], [0.2, 0.3]]), 2, (0, 1), axis=1).counts()
    array([[1, 1],
           [2, 0]])

    Each row over its own range:

    >>> histogram.count(np.array([[1.0, 2, 3], [10, 40, 20]]), 2, "rows", axis=1).edges
    array([[ 1.,  2.,  3.],
           [10., 25., 40.]])

    For each of three colours; for windows of four samples:

    >>> image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    >>> histogram.count(image, 2, (0, 24), channels=3).counts()
    array([[4, 4],
           [4, 4],
           [4, 4]])
    >>> histogram.count(np.arange(10), 2, (0, 10), windows=4).counts()
    array([[4, 0],
           [1, 3],
           [0, 2]])
    """
    if others:
        if others.pop("density", None):
            if on_device:
                raise ValueError("density: True; is not combined with on_device")
            h = count(a, bins, range, axis=axis, channels=channels, windows=windows,
                      threads=threads, server=server, **others)  # fmt: skip
            return h.density(), h.edges
        check_others("count", others)
    if type(bins) is not int and isinstance(bins, np.integer):
        bins = int(bins)
    one_row = axis is None and channels is None and windows is None
    number = 0 if threads is None else _threads(threads)
    plain = one_row and server is None and not on_device
    if plain and type(a) is np.ndarray:
        rule = None
        if type(bins) is int:
            h = _even.count(a, bins, range, number)
            if h is not None:
                return h
            rule = _rules.rule_of_array(a, bins, range)
        elif type(bins) is np.ndarray and range is None:
            rule = _rules.rule_between(a, bins)
        if rule is not None:
            found = rule.count(a, number)
            if found is not None:
                return made(found[0], rule.edges, found[1], found[2], found[3])
    a = unmasked(a, not one_row)
    if is_on_gpu(a):
        if server is not None:
            raise ValueError("server: is not for arrays on a GPU; copy it to the CPU's memory")
        return _count_on_gpu()(resolved(a), bins, range, axis, channels, windows, on_device)
    if on_device:
        raise ValueError("on_device: True; is for arrays in the memory of a GPU")
    place = place_of(server)
    dates = dates_in(a)
    edges = None
    if dates is None:
        samples, kind, nan = as_samples(a)
    else:
        samples, nan, bins, edges = between_edges(dates, bins)
        kind = "i64"
    if nan and (not one_row or range is None and np.ndim(bins) == 0):
        raise ValueError(
            f"a: {nan} nulls; give a range or edges, and no axis, channels or windows, or drop them"
        )
    cut = _rows.cut_of(samples, axis, channels, windows)
    if server is not None:
        from ._remote import Counting, client_of

        held = cut.held(samples.size) if isinstance(cut, _rows.Stretches) else samples.size
        place = Counting(client_of(server), held)
    if isinstance(range, str) and range == "rows":
        if cut is None:
            raise ValueError("range: 'rows'; is combined with axis, channels or windows")
        # In another library's mode subnormal ends may be equal.
        arguments = samples, kind, bins, cut, place, number
        return _native.in_float_mode(_own_ranges.count, *arguments)
    rule = _rules.rule_for(samples, kind, bins, range, place)
    if cut is not None:
        h = _rows.count(samples, rule, cut, number)
        return h if edges is None else made(h.counts(), edges, h.below, h.above, h.nan)
    counts = np.zeros(rule.bins, np.int64)
    below = above = 0
    for piece in [samples] if place.takes_any_layout or is_plain(samples) else chunks(samples):
        found = rule.count(piece, number)
        assert found is not None
        counts += found[0]
        below += found[1]
        above += found[2]
        nan += found[3]
    return made(counts, rule.edges if edges is None else edges, below, above, nan)


@cache
def _count_on_gpu() -> Callable[..., Histogram | DeviceHistogram]:
    from ._gpu import count  # only if it is needed; to find it again takes 0.4 us

    return count


def _threads(threads: SupportsIndex) -> int:
    return whole("threads", threads, 1, 65536)


def place_of(server: str | Client | None) -> _rules.Place:
    """The place that `server=` names."""
    if server is None:
        return _rules.THIS_PROCESS
    from ._remote import client_of  # loads gRPC

    return client_of(server)
