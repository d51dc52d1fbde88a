"""Counts on a server, over gRPC."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from numbers import Real
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from . import _connect, _wire
from ._arrays import Array, chunks, in_order, is_plain
from ._connect import MESSAGE_BYTES_MAX, SERVICE
from ._errors import ServerError, server_error
from ._rules import Counts

_CHUNK_BYTES = 1 << 20
# Bytes of a Spec beside 8 for each bin.
_SPEC_OTHER_BYTES = 128
# The most samples in all rows of a call, and the most counters: a quarter of the server's limit.
_ROW_WORK_MAX = 1 << 28
T = TypeVar("T")
Progress = Callable[[int, int], object]
Tell = Callable[[int], object]
# Seconds. A later deadline is as good as none, and gRPC adds it to the time of day.
_DEADLINE_MAX = 1e9


def connect(
    address: str,
    *,
    ca: str | os.PathLike[str] | bytes | bool | None = None,
    certificate: tuple[bytes, bytes] | None = None,
    token: str | None = None,
    deadline: float | None = None,
    progress: Progress | None = None,
) -> Client:
    """A client of a histogram server, for ``server=`` of ``count`` and ``quantile``.

    ``address`` is "host:50051", "[::1]:50051" or "unix:/path". The first call connects.

    ``ca`` turns on TLS. It is the file, or the PEM text, of the authority that has signed the
    server's certificate. True takes the authorities that gRPC trusts. ``certificate`` is this
    client's own: the chain and the private key, both PEM as bytes.

    ``token`` is sent as "authorization: Bearer TOKEN". Without TLS it is sent to this machine only:
    to a loopback address or a unix socket, and through no proxy. Servers elsewhere are reached
    through the proxy that the environment names. TLS goes through it unread.

    ``deadline`` is the most seconds for the answer to a message, or for a whole stream. None and
    infinity are no limit. A server that vanishes is noticed after 50 s.

    ``progress(sent, all)`` is called with numbers of samples while a long array is sent. It may be
    called on another thread. What it raises ends the call. Some binnings need the samples more than
    once: with more bins than the server takes, or with a last edge that repeats. Then ``sent`` is
    the mean of these times.

    A client can be pickled, for Dask or Ray: the copy connects anew. One with a token or a
    certificate cannot, because whoever reads the pickle would have the secret. A task that needs
    one calls ``connect`` itself.

    >>> import histogram
    >>> histogram.connect("127.0.0.1:50051", deadline=30)
    Client('127.0.0.1:50051')
    """
    if not isinstance(address, str):
        raise TypeError(f"address: {address!r}; must be text such as 'host:50051'")
    if deadline is not None and not (isinstance(deadline, Real) and deadline > 0):
        raise ValueError(f"deadline: {deadline!r}; must be seconds above 0, or None")
    if token is not None and not isinstance(token, str):
        raise TypeError(f"token: {type(token).__name__}; must be text")
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise ValueError("token: must be printable ASCII without spaces")
    if token == "":
        raise ValueError("token: must not be empty")
    if progress is not None and not callable(progress):
        raise TypeError(f"progress: {progress!r}; must be a function, or None")
    roots = _connect.roots_of(ca)
    if certificate is not None and roots is None:
        raise ValueError("certificate: is used with TLS only; pass ca= too")
    channel = _connect.channel(address, roots, certificate, token is not None)
    limit = None if deadline is None else float(min(deadline, _DEADLINE_MAX))
    return Client(channel, address, roots, certificate, token, limit, progress)


connect.__module__ = "histogram"  # pickles name it by this


_clients: dict[tuple[int, str], Client] = {}


def client_of(server: str | Client) -> Client:
    """The client that `server=` names. Keeps a client, with its connection, for each address."""
    if isinstance(server, Client):
        return server
    if not isinstance(server, str):
        raise TypeError(
            f"server: {server!r}; must be an address, or what histogram.connect returns"
        )
    key = (os.getpid(), server)  # a connection does not survive a fork
    found = _clients.get(key)
    if found is None:
        found = _clients[key] = connect(server)
    return found


class Client:
    """A connection to a histogram server, from `histogram.connect`. Thread-safe."""

    name = None
    takes_any_layout = True

    def __init__(
        self,
        channel: Any,
        address: str,
        ca: bytes | bool | None,
        certificate: tuple[bytes, bytes] | None,
        token: str | None,
        deadline: float | None,
        progress: Progress | None,
    ) -> None:
        self._channel = channel
        self._address = address
        self._ca = ca
        self._has_secret = token is not None or certificate is not None
        self._metadata = [("authorization", f"Bearer {token}")] if token else []
        self._deadline = deadline
        self.progress = progress
        self._compute = channel.unary_unary(f"/{SERVICE}/Compute")
        self._accumulate = channel.stream_stream(f"/{SERVICE}/Accumulate")
        self._describe = channel.unary_unary(f"/{SERVICE}/Describe")
        self._limits: _wire.Limits | None = None
        self._closed = False

    def __reduce__(self) -> tuple[Any, ...]:
        if self._has_secret:
            raise TypeError(
                f"{self!r} has a token or a certificate, which a pickle would give away; call "
                "histogram.connect where the client is used"
            )
        again = partial(
            connect, self._address, ca=self._ca, deadline=self._deadline, progress=self.progress
        )
        return again, ()

    def __repr__(self) -> str:
        return f"Client({self._address!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection. Calls that are running fail, and so do later ones."""
        self._closed = True
        self._channel.close()

    @property
    def limits(self) -> _wire.Limits:
        """The server's limits. Asks the server once."""
        if self._limits is None:
            self._limits = self._read(_wire.limits, self._call(self._describe, b""))
        return self._limits

    @property
    def bins_max(self) -> int:
        return min(self.limits.bins, (self.limits.spec_bytes - _SPEC_OTHER_BYTES) // 8)

    def plan(
        self, edges: npt.NDArray[np.float64] | int, kind: str, sent: Sent | None = None
    ) -> RemotePlan:
        """The plan of these edges, or of so many bins over each row's own range."""
        return RemotePlan(self, edges, kind, sent or Sent(None, 0))

    def order_statistics(
        self, samples: Array, kind: str, ranks: npt.NDArray[np.int64], out: Array, threads: int
    ) -> None:
        """Writes the samples at the ranks, which ascend, to `out`."""
        from ._remote_quantile import order_statistics

        order_statistics(self, samples, kind, ranks, out)

    def compute(self, *message: Any) -> _wire.Answer:
        """The answer to one message."""
        return self._read(_wire.answer, self._call(self._compute, _wire.request(*message)))

    def accumulate(self, spec: bytes, pieces: Iterable[Array], tell: Tell) -> _wire.Answer:
        """The answer to a stream of pieces, in order. Calls `tell` with the samples of each one."""
        left = iter(pieces)
        head: bytes | None = spec
        sent = 0
        failure: list[BaseException] = []
        call: Any = None

        def message() -> bytes | None:
            """The next message; None at the end. gRPC calls it on a thread of its own, on which an
            exception would be lost or would leave the stream without an end."""
            nonlocal head, sent
            try:
                tell(sent)
                piece = next(left, None)
                if piece is None:
                    return None
                sent = piece.size
                first, head = head, None
                return _wire.request(first, piece)
            except BaseException as error:
                failure.append(error)
                if call is not None:
                    call.cancel()
                return None

        found: _wire.Answer | None = None
        self._check_open()
        _connect.check_threads(2)  # gRPC starts one after the call
        call = self._accumulate(
            iter(message, None), timeout=self._deadline, metadata=self._metadata
        )
        try:
            if failure:  # before there was a call to cancel
                call.cancel()
            for reply in call:
                found = self._read(_wire.accumulated, reply) or found
        except _connect.grpc().RpcError as error:
            failure.append(self._from_grpc(error))
        finally:
            call.cancel()
        if failure:
            raise failure[0]
        if found is None:
            raise server_error("INTERNAL", "the stream ended without an answer")
        return found

    def _call(self, method: Any, message: bytes) -> bytes:
        self._check_open()
        try:
            reply: bytes = method(message, timeout=self._deadline, metadata=self._metadata)
            return reply
        except _connect.grpc().RpcError as error:
            failure = self._from_grpc(error)
        # Outside the handler: as its context, gRPC's own exception would prevent pickling.
        raise failure

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"server: {self!r} is closed; histogram.connect makes another")

    def _read(self, reader: Callable[[bytes], T], reply: bytes) -> T:
        try:
            return reader(reply)
        except _wire.BadReply as error:
            failure = server_error("INTERNAL", f"{self._address} sent no valid reply: {error}")
        raise failure

    def _from_grpc(self, error: Any) -> ServerError:
        code = error.code().name
        details = error.details() or ""
        trailer = dict(error.trailing_metadata() or ()).get("histogram-error-bin")
        if trailer is None:
            if code == "UNAVAILABLE":
                how = "out TLS, which ca= turns on" if self._ca is None else " TLS, as ca= asks"
                details += f"; {self._address} was called with{how}"
            return server_error(code, details)
        try:
            told = _wire.error(trailer)
        except _wire.BadReply:
            told = _wire.Error()
        after = None if told.retry_after_ms is None else told.retry_after_ms / 1000
        return server_error(
            code, told.message or details, told.reason, told.field, told.limit, after
        )


def _checked(found: _wire.Answer, bins: int, held: npt.NDArray[Any]) -> tuple[Counts, Counts]:
    """The counts of each row, and its samples below, above and NaN. Checks that they account for
    every one of the samples that the rows hold."""
    rows = len(held)
    outside = np.zeros((rows, 3), np.int64)
    columns = found.below, found.above, found.nan
    if len(found.counts) != rows * bins or any(len(one) != rows for one in columns if one is not None):
        raise server_error("INTERNAL", f"{len(found.counts)} counts for {rows} rows of {bins} bins")
    for i, column in enumerate(columns):
        if column is not None:
            outside[:, i] = column
    counts = found.counts.reshape(rows, bins)
    sums = counts.sum(axis=-1) + outside.sum(axis=-1)
    wrong = sums != held
    if wrong.any():
        total = f"counts add up to {sums[wrong][0]}, not to {held[wrong][0]} samples"
        raise server_error("INTERNAL", total)
    if min(counts.min(initial=0), outside.min()) < 0:
        raise server_error("INTERNAL", "a count is less than 0")
    return counts, outside


def _cut(samples: Array, size: int) -> Iterator[Array]:
    return (samples[first : first + size] for first in range(0, samples.size, size))


class Sent:
    """Tells `progress` how many samples of a call are sent. Where several plans count all of them,
    that is the mean over the plans."""

    def __init__(self, progress: Progress | None, samples: int) -> None:
        self.samples = samples
        self.plans = 0
        self._progress = progress
        self._sent = 0

    def tell(self, samples: int) -> None:
        """So many more are sent, to one of the plans."""
        if samples and self._progress is not None:
            self._sent += samples
            self._progress(self._sent // self.plans, self.samples)


class Counting:
    """A client, for one call that counts so many samples."""

    name = None
    takes_any_layout = True

    def __init__(self, client: Client, samples: int) -> None:
        self._client = client
        self._sent = Sent(client.progress, samples)
        self.order_statistics = client.order_statistics

    @property
    def bins_max(self) -> int:
        return self._client.bins_max

    def plan(self, edges: npt.NDArray[np.float64] | int, kind: str) -> RemotePlan:
        return self._client.plan(edges, kind, self._sent)


class RemotePlan:
    """Edges and a sample type, for counting on a server: a Plan of _rules. `bins` may also be a
    number of bins over each row's own range, which the server finds."""

    def __init__(
        self, client: Client, bins: npt.NDArray[np.float64] | int, kind: str, sent: Sent
    ) -> None:
        self._client = client
        self._sent = sent
        self._left = sent.samples  # those that `sent` was not told of yet
        sent.plans += 1
        self._bins = bins
        self._kind = kind
        self.bin_count = bins if isinstance(bins, int) else len(bins) - 1
        # Of own ranges: count_rows fills in the least edge of each row, then the greatest.
        self.ends: npt.NDArray[np.float64] | None = None

    def count(self, samples: Array, threads: int) -> tuple[Counts, int, int, int]:
        """Counts, below, above and NaN. Takes an array of any layout. The server chooses the number
        of threads."""
        found = self._count(samples, _wire.spec(self._kind, self._bins))
        if found.samples != samples.size:
            raise server_error("INTERNAL", f"{found.samples} of {samples.size} samples are counted")
        counts, outside = _checked(found, self.bin_count, np.array([samples.size]))
        below, above, nan = outside[0].tolist()
        return counts[0], below, above, nan

    def _count(self, samples: Array, spec: bytes) -> _wire.Answer:
        one = min(MESSAGE_BYTES_MAX, self._client.limits.payload_bytes)
        if samples.nbytes <= one:
            return self._client.compute(spec, in_order(samples))
        step = max(1, min(one, _CHUNK_BYTES) // samples.itemsize)
        pieces = [in_order(samples)] if is_plain(samples) else chunks(samples)
        cut = itertools.chain.from_iterable(_cut(piece, step) for piece in pieces)
        return self._client.accumulate(spec, cut, self._sent.tell)

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
        """Like _native.Plan.count_rows: each channel of each stretch of samples has a row."""
        samples = samples.reshape(-1)
        stretches = len(outside) // channels
        window = window or samples.size // channels
        every = step or window
        most = self._stretches_max(window, every, channels, samples.itemsize)
        news = 0  # by so many samples a message brings the call forward

        def tell(sent: int) -> None:
            nonlocal news
            sent = min(sent, news)  # windows may overlap
            news -= sent
            self._left -= sent
            self._sent.tell(sent)

        for first in range(0, stretches, max(1, most)):
            last = min(stretches, first + max(1, most))
            part = samples[first * every * channels : ((last - 1) * every + window) * channels]
            rows = slice(first * channels, last * channels)
            news = (last - first) * every * channels
            if last == stretches and self._left <= part.size:
                news = self._left
            if most == 0:
                found = self._count_stretch(part, channels, tell)
            else:
                spec = _wire.spec(self._kind, self._bins, rows=(window, step, channels))
                found = self._client.compute(spec, part)
            begin = np.arange(last - first) * every
            held = np.repeat(np.minimum(window, part.size // channels - begin), channels)
            new, outside[rows] = _checked(found, self.bin_count, held)
            counts[rows] = new.reshape(counts[rows].shape)
            if self.ends is not None:
                for ends, told in zip(self.ends, (found.lower, found.upper), strict=True):
                    if told is None or len(told) != len(ends[rows]) or not np.isfinite(told).all():
                        failure = f"no range of each of {len(ends[rows])} rows"
                        raise server_error("INTERNAL", failure)
                    ends[rows] = told
            tell(news)

    def _count_stretch(self, samples: Array, channels: int, tell: Tell) -> _wire.Answer:
        """Counts a stretch that is longer than a message."""
        spec = _wire.spec(self._kind, self._bins, rows=(0, 0, channels))
        if self.ends is not None:
            most = self._client.limits.payload_bytes
            if samples.nbytes > most:
                raise ValueError(
                    f"a: a stretch of {samples.nbytes} bytes; the server takes {most} at most for "
                    "ranges of rows; without server= there is no limit"
                )
            return self._client.compute(spec, samples)
        size = max(1, _CHUNK_BYTES // (channels * samples.itemsize)) * channels
        return self._client.accumulate(spec, _cut(samples, size), tell)

    def _stretches_max(self, window: int, every: int, channels: int, itemsize: int) -> int:
        """The most stretches of one message; 0 if one stretch does not fit."""
        limits = self._client.limits
        one = min(MESSAGE_BYTES_MAX, limits.payload_bytes) // (channels * itemsize)
        # A reply encodes each number in bytes of seven bits.
        numbers = (self.bin_count + 5) * channels
        reply = numbers * (window.bit_length() // 7 + 1)
        if reply > limits.reply_bytes // 2:
            raise ValueError(
                f"bins: {self.bin_count} of {channels} channels make a reply of {reply} bytes; "
                f"must be at most {limits.reply_bytes // 2}"
            )
        if window > one:
            return 0
        return min(
            (one - window) // every + 1,
            max(1, limits.rows // channels),
            limits.reply_bytes // 2 // reply,
            max(1, _ROW_WORK_MAX // (window * channels)),
            max(1, _ROW_WORK_MAX // (channels * (2 * self.bin_count + (1 << 17)))),
        )
