"""A bare HTTP/2 client on a socket, for what no gRPC library would do: half messages, dead peers.

RawConnection knows just enough to begin calls and to cut them off: no flow control (a call sends less than
the initial window of 64 KiB; Windows is for more), header fields as plain literals, answers as frames only.
"""

import socket
import struct
import time

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
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


def call_headers(stream, path, extra=()):
    """The headers of a gRPC call; `stream` is an odd number, growing."""
    fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"),
              ("te", "trailers"), ("content-type", "application/grpc"), *extra]
    return frame(HEADERS, END_HEADERS, stream, b"".join(_literal(name, value) for name, value in fields))


class Frames:
    """Those that a connection has brought: (type, flags, stream, body)."""

    def __init__(self):
        self._received = b""

    def read(self, connection):
        received = connection.recv(1 << 16)
        if not received:
            raise ConnectionResetError
        self._received += received

    def __iter__(self):
        while len(self._received) >= 9:
            end = 9 + int.from_bytes(self._received[:3], "big")
            if len(self._received) < end:
                break
            whole, self._received = self._received[:end], self._received[end:]
            yield whole[3], whole[4], int.from_bytes(whole[5:9], "big"), whole[9:]


class Windows:
    """What the server lets this connection send, by stream; 0 is the connection's own window."""

    def __init__(self):
        self._connection, self._initial, self._streams, self._frames = WINDOW_BYTES, WINDOW_BYTES, {}, Frames()
        self.ended = set()  # streams that the server has ended

    def left(self, stream):
        return min(self._connection, self._initial + self._streams.get(stream, 0))

    def take(self, stream, size):
        self._connection -= size
        self._streams[stream] = self._streams.get(stream, 0) - size

    def read(self, connection, wait_s=0.0):
        """Takes in the updates that have come; waits for some for so long."""
        connection.settimeout(wait_s)
        try:
            self._frames.read(connection)
        except (BlockingIOError, TimeoutError):
            pass
        finally:
            connection.settimeout(5)
        for kind, flags, stream, body in self._frames:
            self._take_frame(kind, flags, stream, body)
            if kind == SETTINGS and not flags & ACK:
                connection.sendall(frame(SETTINGS, ACK, 0))

    def _take_frame(self, kind, flags, stream, body):
        if kind == WINDOW_UPDATE and stream == 0:
            self._connection += int.from_bytes(body, "big")
        elif kind == WINDOW_UPDATE:
            self._streams[stream] = self._streams.get(stream, 0) + int.from_bytes(body, "big")
        elif kind == RST_STREAM or kind == HEADERS and flags & END_STREAM:
            self.ended.add(stream)
        elif kind == SETTINGS:
            for key, value in struct.iter_unpack(">HI", body):
                if key == SETTING_INITIAL_WINDOW_SIZE:
                    self._initial = value


def send_what_fits(connection, windows, left):
    """Sends zeros on the streams of `left` (bytes by stream), as far as their windows let it; the frames of it."""
    windows.read(connection)
    frames = []
    for stream in left:
        size = min(windows.left(stream), left[stream], 16384)
        if size > 0:
            frames.append(frame(DATA, 0, stream, bytes(size)))
            windows.take(stream, size)
            left[stream] -= size
    connection.sendall(b"".join(frames))
    return frames


class RawConnection:
    def __init__(self, address, settings=()):
        self.socket = connect(address)
        self._frames = Frames()
        body = b"".join(struct.pack(">HI", key, value) for key, value in settings)
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0, body))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def begin(self, stream, path, extra=()):
        """Sends the request headers of a gRPC call."""
        self.socket.sendall(call_headers(stream, path, extra))

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
            for kind, flags, stream, body in self._frames:
                if kind in (SETTINGS, PING) and not flags & ACK:
                    self.socket.sendall(frame(kind, ACK, 0, body if kind == PING else b""))
                return kind, flags, stream, body
            self.socket.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                self._frames.read(self.socket)
            except ConnectionResetError:
                return None

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
