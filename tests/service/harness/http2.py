"""A bare HTTP/2 client on a socket, for what no gRPC library would do: half messages, dead peers.

It knows just enough to begin calls and to cut them off: no flow control (a call sends less than the
initial window of 64 KiB), header fields as plain literals, and answers seen as frames only.
"""

import socket
import struct
import time

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_STREAM, ACK, END_HEADERS = 1, 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTING_INITIAL_WINDOW_SIZE = 4
WINDOW_BYTES = 65535


def connect(address, timeout_s=60):
    """A plain socket to "HOST:PORT"."""
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout_s)


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def _literal(name, value):
    assert len(name) < 127 and len(value) < 127
    return (b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode())


def message_prefix(length, flags=0):
    """gRPC's five bytes before a message."""
    return struct.pack(">BI", flags, length)


class RawConnection:
    def __init__(self, address, settings=()):
        self.socket = connect(address)
        self._received = b""
        body = b"".join(struct.pack(">HI", key, value) for key, value in settings)
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0, body))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def begin(self, stream, path, extra=(), end=False):
        """Sends the request headers of a gRPC call; `stream` is an odd number, growing."""
        fields = [(":method", "POST"), (":scheme", "http"), (":path", path),
                  (":authority", "localhost"), ("te", "trailers"),
                  ("content-type", "application/grpc"), *extra]
        block = b"".join(_literal(name, value) for name, value in fields)
        flags = END_HEADERS | (END_STREAM if end else 0)
        self.socket.sendall(frame(HEADERS, flags, stream, block))

    def data(self, stream, body=b"", end=False, piece=16384):
        """Sends `body` in DATA frames of `piece` bytes."""
        assert len(body) <= WINDOW_BYTES
        pieces = [body[at:at + piece] for at in range(0, len(body), piece)] or [b""]
        for index, part in enumerate(pieces):
            last = end and index + 1 == len(pieces)
            self.socket.sendall(frame(DATA, END_STREAM if last else 0, stream, part))

    def message(self, stream, body, end=False, piece=16384):
        self.data(stream, message_prefix(len(body)) + body, end, piece)

    def reset(self, stream, error=8):
        """Cancels the call (RST_STREAM)."""
        self.socket.sendall(frame(RST_STREAM, 0, stream, struct.pack(">I", error)))

    def abort(self):
        """Goes away without a word: the peer sees a connection reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def next_frame(self, timeout_s=60):
        """(kind, flags, stream, body) of the next frame; None at the connection's end."""
        deadline = time.monotonic() + timeout_s
        while True:
            if len(self._received) >= 9:
                length = int.from_bytes(self._received[:3], "big")
                if len(self._received) >= 9 + length:
                    kind, flags = self._received[3:5]
                    stream = int.from_bytes(self._received[5:9], "big")
                    body = self._received[9:9 + length]
                    self._received = self._received[9 + length:]
                    if kind == SETTINGS and not flags & ACK:
                        self.socket.sendall(frame(SETTINGS, ACK, 0))
                    if kind == PING and not flags & ACK:
                        self.socket.sendall(frame(PING, ACK, 0, body))
                    return kind, flags, stream, body
            self.socket.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                more = self.socket.recv(65536)
            except ConnectionResetError:
                return None
            if not more:
                return None
            self._received += more

    def settle(self, timeout_s=60):
        """Waits until the server has acknowledged the settings, so has read what was sent first."""
        while True:
            have = self.next_frame(timeout_s)
            assert have is not None, "the server closed the connection"
            if have[0] == SETTINGS and have[1] & ACK:
                return

    def finish(self, stream, timeout_s=60):
        """All DATA of `stream` until it ends, and how: "end", "reset" or "closed"."""
        body = b""
        while True:
            have = self.next_frame(timeout_s)
            if have is None:
                return body, "closed"
            kind, flags, of_stream, content = have
            if of_stream != stream:
                continue
            if kind == DATA:
                body += content
            if kind == RST_STREAM:
                return body, "reset"
            if kind in (DATA, HEADERS) and flags & END_STREAM:
                return body, "end"
