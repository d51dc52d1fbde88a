"""What the attacks are made of: frames as a stranger writes them, and connections that last for a time."""

import contextlib
import os
import pathlib
import socket
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "service"))
from harness.http2 import (  # noqa: E402,F401
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM, SETTING_INITIAL_WINDOW_SIZE,
    SETTINGS, WINDOW_UPDATE, Frames, Windows, frame, message_prefix, send_what_fits)
from harness.wire import varint  # noqa: E402,F401

SERVICE = "/histogram.v1.HistogramService/"
MIB = 1 << 20
IP_BIND_ADDRESS_NO_PORT = 24  # of Linux; the module socket does not name it


def hpack_length(length, prefix_bits=7):
    """An HPACK integer (RFC 7541, 5.1), its prefix's other bits 0."""
    most = (1 << prefix_bits) - 1
    if length < most:
        return bytes([length])
    out, length = [most], length - most
    while length >= 128:
        out.append(length % 128 | 128)
        length //= 128
    return bytes([*out, length])


def field(name, value):
    return b"\x00" + hpack_length(len(name)) + name + hpack_length(len(value)) + value


def request_block(path, extra=b""):
    fields = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", path.encode()), (b":authority", b"localhost"),
              (b"te", b"trailers"), (b"content-type", b"application/grpc"))
    return b"".join(field(*pair) for pair in fields) + extra


def settings(**values):
    """A SETTINGS frame; nothing in it by default."""
    known = {"window": SETTING_INITIAL_WINDOW_SIZE}
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", known[k], v) for k, v in values.items()))


class Attack:
    """Where it goes to, how long it lasts, and the folder of the server's files (an operator's mistakes)."""

    def __init__(self, address, metrics_address, http_address, seconds, folder):
        self.address, self.metrics_address, self.http_address = address, metrics_address, http_address
        self.folder = pathlib.Path(folder)
        self.end = time.monotonic() + seconds
        self.ended = 0  # connections that the server ended

    def goes_on(self):
        return time.monotonic() < self.end

    def open(self, first=b"", address=None):
        """A connection that has sent `first`; waits no longer than the attack lasts."""
        host, port = (address or self.address).rsplit(":", 1)
        connection = socket.socket()
        try:
            # From an address of its own, so that a proxy can tell it from honest clients. The port
            # is chosen by connect: one that bind chooses stays taken, for all clients of the
            # machine, until a minute after it is closed.
            connection.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            connection.bind(("127.0.0.2", 0))
            connection.settimeout(max(0.1, self.end - time.monotonic()))
            connection.connect((host, int(port)))
            connection.sendall(first)
        except OSError:
            connection.close()
            raise
        return connection

    @contextlib.contextmanager
    def connection(self, first=b"", to=None):
        """One that has sent `first`, for as long as the server lets it be."""
        with self.open(first, to) as connection:
            try:
                yield connection
            except (BrokenPipeError, ConnectionResetError):
                self.ended += 1

    def flood(self, first, repeated, at_once=1, to=None):
        """Sends `first` and then `repeated` without end on each of some connections, reading nothing."""
        while self.goes_on():
            with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
                connections = [stack.enter_context(self.connection(first, to)) for _ in range(at_once)]
                while self.goes_on():
                    for connection in connections:
                        connection.sendall(repeated)
            time.sleep(0.01)

    def hold(self, connections):
        """Keeps them open for the rest of the time."""
        time.sleep(max(0.0, self.end - time.monotonic()))
        for connection in connections:
            connection.close()

    def open_many(self, count, first=b"", address=None):
        connections = []
        with contextlib.suppress(OSError):
            while len(connections) < count and self.goes_on():
                connections.append(self.open(first, address))
        return connections

    def again(self, attempt):
        """attempt(), again and again; the server may end it at any time."""
        while self.goes_on():
            with contextlib.suppress(OSError):
                attempt()
            time.sleep(0.01)

    def garbage(self, beginning, address):
        """Random bytes, half of the time behind the beginning of a request."""
        def attempt():
            with self.open(address=address) as connection:
                connection.sendall(beginning * (os.urandom(1)[0] % 2) + os.urandom(4000))
        self.again(attempt)


HELLO = PREFACE + settings()


def open_call(method, stream=1):
    return frame(HEADERS, END_HEADERS, stream, request_block(SERVICE + method))
