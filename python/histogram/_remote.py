"""Counts on a server, over gRPC."""

from __future__ import annotations

import ipaddress
import itertools
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator
from numbers import Real
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from . import _wire
from ._arrays import Array, chunks, in_order, is_plain
from ._errors import ServerError, server_error
from ._rules import Counts

SERVICE = "histogram.v1.HistogramService"
# The largest payload of one message. Longer ones are a stream of chunks.
_MESSAGE_BYTES_MAX = 4 << 20
_CHUNK_BYTES = 1 << 20
# Bytes of a Spec beside 8 for each bin.
_SPEC_OTHER_BYTES = 128
# The most samples in all rows of a call, and the most counters: a quarter of the server's limit.
_ROW_WORK_MAX = 1 << 28
# The calls that are retried if a server is busy or goes away. Streams are not: their data is gone.
_RETRIES = {
    "methodConfig": [
        {
            "name": [{"service": SERVICE, "method": name} for name in ("Compute", "Describe")],
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.05s",
                "maxBackoff": "1s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"],
            },
        }
    ]
}

T = TypeVar("T")
Progress = Callable[[int, int], object]


def _grpc() -> Any:
    try:
        import grpc  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("server: needs the package grpcio; pip install grpcio") from error
    return grpc


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

    ``address`` is "host:50051", "unix:/path", or another name that gRPC resolves. The first call
    connects.

    ``ca`` turns on TLS. It is the file, or the PEM text as bytes, of the authority that has signed
    the server's certificate. True takes the authorities that gRPC trusts. ``certificate`` is this
    client's own: the chain and the private key, in PEM.

    ``token`` is sent as "authorization: Bearer TOKEN". Without TLS it is sent to this machine only.

    ``deadline`` is the most seconds for the answer to a message, or for a whole stream.

    ``progress(sent, all)`` is called with numbers of samples while a long array is sent. It may be
    called on another thread.

    >>> import histogram
    >>> histogram.connect("127.0.0.1:50051", deadline=30)
    Client('127.0.0.1:50051')
    """
    grpc = _grpc()
    if not isinstance(address, str) or not address:
        raise TypeError(f"address: {address!r}; must be text such as 'host:50051'")
    if deadline is not None and not (isinstance(deadline, Real) and deadline > 0):
        raise ValueError(f"deadline: {deadline!r}; must be seconds above 0, or None")
    if token is not None and not (token and token.isascii() and token.isprintable()):
        raise ValueError("token: must be printable ASCII, and not empty")
    secure = ca is not None and ca is not False
    if token is not None and not secure and not _is_this_machine(address):
        raise ValueError(f"token: {address} is not this machine; pass ca=, so that it is encrypted")
    if certificate is not None and not secure:
        raise ValueError("certificate: is used with TLS only; pass ca= too")
    options = [
        ("grpc.max_send_message_length", -1),  # the server has its own limits
        ("grpc.max_receive_message_length", -1),
        ("grpc.per_rpc_retry_buffer_size", _MESSAGE_BYTES_MAX + (1 << 20)),
        ("grpc.service_config", json.dumps(_RETRIES)),
    ]
    if secure:
        roots = ca if isinstance(ca, bytes) else None
        if isinstance(ca, (str, os.PathLike)):
            roots = pathlib.Path(ca).read_bytes()
        chain, key = certificate or (None, None)
        credentials = grpc.ssl_channel_credentials(roots, key, chain)
        channel = grpc.secure_channel(address, credentials, options)
    else:
        channel = grpc.insecure_channel(address, options)
    return Client(address, channel, token, deadline, progress)


def _is_this_machine(address: str) -> bool:
    if address.startswith("unix:"):
        return True
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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
        address: str,
        channel: Any,
        token: str | None,
        deadline: float | None,
        progress: Progress | None,
    ) -> None:
        self._address = address
        self._channel = channel
        self._metadata = [("authorization", f"Bearer {token}")] if token else []
        self._deadline = deadline
        self.progress = progress
        self._compute = channel.unary_unary(f"/{SERVICE}/Compute")
        self._accumulate = channel.stream_stream(f"/{SERVICE}/Accumulate")
        self._describe = channel.unary_unary(f"/{SERVICE}/Describe")
        self._limits: _wire.Limits | None = None

    def __repr__(self) -> str:
        return f"Client({self._address!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection. Calls that are running fail."""
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

    def plan(self, edges: npt.NDArray[np.float64], kind: str) -> RemotePlan:
        return RemotePlan(self, edges, kind)

    def order_statistics(
        self, samples: Array, kind: str, ranks: npt.NDArray[np.int64], out: Array, threads: int
    ) -> None:
        """Writes the samples at the ranks, which ascend, to `out`."""
        from ._remote_quantile import order_statistics

        order_statistics(self, samples, kind, ranks, out)

    def compute(self, *message: Any) -> _wire.Answer:
        """The answer to one message."""
        return self._read(_wire.answer, self._call(self._compute, _wire.request(*message)))

    def accumulate(self, spec: bytes, pieces: Iterable[Array], samples: int) -> _wire.Answer:
        """The answer to a stream of pieces, in order."""
        failure: list[BaseException] = []

        def messages() -> Iterator[bytes]:
            try:
                head: bytes | None = spec
                sent = 0
                for piece in pieces:
                    yield _wire.request(head, piece)
                    head = None
                    sent += piece.size
                    if self.progress is not None:
                        self.progress(sent, samples)
            except GeneratorExit:  # the call has ended, and its status says why
                raise
            except BaseException as error:  # gRPC would hide it
                failure.append(error)
                raise

        call = self._accumulate(messages(), timeout=self._deadline, metadata=self._metadata)
        found: _wire.Answer | None = None
        try:
            for reply in call:
                found = self._read(_wire.accumulated, reply) or found
        except _grpc().RpcError as error:
            failure.append(_from_grpc(error))
        finally:
            call.cancel()
        if failure:
            raise failure[0]
        if found is None:
            raise server_error("INTERNAL", "the stream ended without an answer")
        return found

    def _call(self, method: Any, message: bytes) -> bytes:
        try:
            reply: bytes = method(message, timeout=self._deadline, metadata=self._metadata)
            return reply
        except _grpc().RpcError as error:
            failure = _from_grpc(error)
        # Outside the handler: as its context, gRPC's own exception would prevent pickling.
        raise failure

    def _read(self, reader: Callable[[bytes], T], reply: bytes) -> T:
        try:
            return reader(reply)
        except _wire.BadReply as error:
            failure = server_error("INTERNAL", f"{self._address} sent no valid reply: {error}")
        raise failure


def _from_grpc(error: Any) -> ServerError:
    code = error.code().name
    trailer = dict(error.trailing_metadata() or ()).get("histogram-error-bin")
    if trailer is not None:
        try:
            told = _wire.error(trailer)
        except _wire.BadReply:
            told = _wire.Error()
        after = None if told.retry_after_ms is None else told.retry_after_ms / 1000
        message = told.message or error.details()
        return server_error(code, message, told.reason, told.field, told.limit, after)
    return server_error(code, error.details() or "")


def _checked(counts: Counts, outside: int, samples: int) -> None:
    """Checks that an answer accounts for every sample."""
    total = int(counts.sum()) + outside
    if total != samples:
        raise server_error("INTERNAL", f"counts add up to {total}, not to {samples} samples")


def _columns(found: _wire.Answer, rows: int) -> list[Counts]:
    """The samples below, above and NaN of each row."""
    none = np.zeros(rows, np.int64)
    return [none if column is None else column for column in (found.below, found.above, found.nan)]


def _cut(samples: Array, size: int) -> Iterator[Array]:
    return (samples[first : first + size] for first in range(0, samples.size, size))


class RemotePlan:
    """Edges and a sample type, for counting on a server. Has the methods of _native.Plan."""

    def __init__(self, client: Client, edges: npt.NDArray[np.float64], kind: str) -> None:
        self._client = client
        self._edges = edges
        self._kind = kind
        self.bin_count = len(edges) - 1

    def count(self, samples: Array, counts: Counts, threads: int) -> tuple[int, int, int]:
        """Adds to counts; returns below, above and NaN. Takes an array of any layout. The server
        chooses the number of threads."""
        found = self._count(samples, _wire.spec(self._kind, self._edges))
        below, above, nan = (int(column[0]) for column in _columns(found, 1))
        if len(found.counts) != len(counts) or found.samples != samples.size:
            raise server_error("INTERNAL", f"{len(found.counts)} counts, {found.samples} samples")
        _checked(found.counts, below + above + nan, samples.size)
        counts += found.counts
        return below, above, nan

    def _count(self, samples: Array, spec: bytes) -> _wire.Answer:
        one = min(_MESSAGE_BYTES_MAX, self._client.limits.payload_bytes)
        if samples.nbytes <= one:
            return self._client.compute(spec, in_order(samples))
        step = max(1, min(one, _CHUNK_BYTES) // samples.itemsize)
        pieces = [in_order(samples)] if is_plain(samples) else chunks(samples)
        cut = itertools.chain.from_iterable(_cut(piece, step) for piece in pieces)
        return self._client.accumulate(spec, cut, samples.size)

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
        for first in range(0, stretches, max(1, most)):
            last = min(stretches, first + max(1, most))
            part = samples[first * every * channels : ((last - 1) * every + window) * channels]
            rows = slice(first * channels, last * channels)
            if most == 0:  # a stretch is longer than a message
                spec = _wire.spec(self._kind, self._edges, rows=(0, 0, channels))
                size = max(1, _CHUNK_BYTES // (channels * samples.itemsize)) * channels
                found = self._client.accumulate(spec, _cut(part, size), part.size)
            else:
                spec = _wire.spec(self._kind, self._edges, rows=(window, step, channels))
                found = self._client.compute(spec, part)
            self._take(found, part, counts[rows], outside[rows], window, every, channels)
            if self._client.progress is not None:
                self._client.progress(min(last * every * channels, samples.size), samples.size)

    def _stretches_max(self, window: int, every: int, channels: int, itemsize: int) -> int:
        """The most stretches of one message; 0 if one stretch does not fit."""
        limits = self._client.limits
        one = min(_MESSAGE_BYTES_MAX, limits.payload_bytes) // (channels * itemsize)
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

    def _take(
        self,
        found: _wire.Answer,
        part: Array,
        counts: Counts,
        outside: Counts,
        window: int,
        every: int,
        channels: int,
    ) -> None:
        """Checks the rows of an answer, and copies them to counts and outside."""
        rows = len(outside)
        columns = _columns(found, rows)
        if len(found.counts) != rows * self.bin_count or any(len(c) != rows for c in columns):
            raise server_error("INTERNAL", f"{len(found.counts)} counts for {rows} rows")
        counts[:] = found.counts.reshape(counts.shape)
        outside[:] = np.stack(columns, axis=-1)
        begin = np.arange(rows // channels) * every
        held = np.minimum(window, part.size // channels - begin)
        if (counts.sum(axis=-1) + outside.sum(axis=-1) != np.repeat(held, channels)).any():
            raise server_error("INTERNAL", "the counts of a row do not add up to its samples")
