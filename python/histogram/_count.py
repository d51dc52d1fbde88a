"""histogram.count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from . import _rows, _rules
from ._arrays import TYPES, as_samples, chunks, is_on_gpu, is_plain
from ._errors import not_taken, whole
from ._result import Histogram

if TYPE_CHECKING:
    from ._gpu import DeviceHistogram
    from ._remote import Client


@overload
def count(
    a: Any,
    bins: int | str | npt.ArrayLike = 10,
    range: tuple[float, float] | None = None,
    *,
    axis: SupportsIndex | Sequence[int] | None = None,
    channels: int | None = None,
    windows: int | tuple[int, int] | None = None,
    threads: int | None = None,
    server: str | Client | None = None,
    on_device: Literal[False] = False,
) -> Histogram: ...


@overload
def count(
    a: Any,
    bins: int | npt.ArrayLike = 10,
    range: tuple[float, float] | None = None,
    *,
    on_device: Literal[True],
) -> DeviceHistogram: ...


def count(
    a: Any,
    bins: int | str | npt.ArrayLike = 10,
    range: tuple[float, float] | None = None,
    *,
    axis: SupportsIndex | Sequence[int] | None = None,
    channels: int | None = None,
    windows: int | tuple[int, int] | None = None,
    threads: int | None = None,
    server: str | Client | None = None,
    on_device: bool = False,
    **others: Any,
) -> Histogram | DeviceHistogram:
    """The histogram of the samples in ``a``.

    ``a`` is an array of integers or floats, of any shape and layout: from numpy, from anything with
    the buffer protocol or ``__dlpack__`` in the CPU's memory, bytes, or numbers in a sequence. A
    contiguous array is never copied.

    ``bins`` and ``range`` mean what they do in ``numpy.histogram``, and counts and edges are the
    same: ``bins`` is a number of even bins, the edges, or the name of a rule ("auto"). Weights and
    a density are refused.

    ``axis`` says which axes hold the samples of one histogram. There is a row of counts for each
    index of the other axes, all between the same edges.

    ``channels`` is a number of channels that are interleaved, as the colours of a picture are: in C
    order, sample i is of channel i % channels. There is a row of counts for each.

    ``windows`` cuts the samples, in C order, into stretches of so many samples (of each channel),
    with a row of counts for each; the last may be shorter. ``(size, step)`` begins one every
    ``step`` samples, as long as whole ones fit. With channels, rows are those of the first window's
    channels, then of the second's.

    ``threads`` is the most threads to count with, by default as many as this process has cores.
    Short arrays take one.

    ``server`` is the address of a histogram server ("host:50051"), or what ``histogram.connect``
    returns: it counts, and the answer is the same. A failure raises ``histogram.ServerError``.

    An array in the memory of an NVIDIA GPU (torch, cupy, jax) is counted there, on its producer's
    stream, by the plugin histogram-cuda13. ``on_device`` leaves the counts there too: a
    ``DeviceHistogram``, for which nothing waits.

    >>> import numpy as np, histogram
    >>> samples = np.array([1, 2, 2, 3, 9], np.uint8)
    >>> counts, edges = histogram.count(samples, bins=4, range=(0, 8))
    >>> counts
    array([1, 3, 0, 0])
    >>> edges
    array([0., 2., 4., 6., 8.])

    The result also tells what went into no bin:

    >>> h = histogram.count(samples, bins=4, range=(0, 8))
    >>> h.samples, h.below, h.above, h.nan
    (5, 0, 1, 0)

    A histogram for each row:

    >>> histogram.count(np.array([[0.1, 0.9], [0.2, 0.3]]), 2, (0, 1), axis=1).counts()
    array([[1, 1],
           [2, 0]])

    For each of three colours; for stretches of four samples:

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
        raise not_taken("count", others)
    # numpy tells 0.0 from np.float64(0), which are equal, and 0.0 from -0.0 at the upper end.
    one_row = axis is None and channels is None and windows is None
    plain = one_row and server is None and not on_device
    if plain and type(a) is np.ndarray and type(bins) is int and type(range) is tuple:
        if len(range) == 2 and range[1] and type(range[0]) in _PLAIN and type(range[1]) in _PLAIN:
            key = (a.dtype, bins, range)
            rule = _rules.remembered(key)
            if rule is None and a.dtype in TYPES:
                rule = _rules.rule_for(a, TYPES[a.dtype], bins, range, _rules.THIS_PROCESS)
                _rules.remember(key, rule)
            if rule is not None:
                found = rule.count(a, 0 if threads is None else _threads(threads))
                if found is not None:
                    return Histogram(found[0], rule.edges, found[1], found[2], found[3])
    number = 0 if threads is None else _threads(threads)
    if is_on_gpu(a):
        from . import _gpu  # for those who have one

        refused = ("axis", axis), ("channels", channels), ("windows", windows), ("server", server)
        return _gpu.count(a, bins, range, refused, on_device)
    if on_device:
        raise ValueError("on_device: True; is for arrays in the memory of a GPU")
    place = place_of(server)
    samples, kind = as_samples(a)
    cut = _rows.cut_of(samples, axis, channels, windows)
    rule = _rules.rule_for(samples, kind, bins, range, place)
    if cut is not None:
        return _rows.count(samples, rule, cut, number)
    counts = np.zeros(rule.bins, np.int64)
    below = above = nan = 0
    for piece in [samples] if place.takes_any_layout or is_plain(samples) else chunks(samples):
        found = rule.count(piece, number)
        assert found is not None
        counts += found[0]
        below += found[1]
        above += found[2]
        nan += found[3]
    return Histogram(counts, rule.edges, below, above, nan)


_PLAIN = frozenset((int, float))


def _threads(threads: int) -> int:
    return whole("threads", threads, 1, 65536)


def place_of(server: str | Client | None) -> _rules.Place:
    """Where `server=` says that samples are counted."""
    if server is None:
        return _rules.THIS_PROCESS
    from ._remote import client_of  # with gRPC, for those who ask for it

    return client_of(server)
