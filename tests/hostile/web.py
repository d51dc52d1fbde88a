"""Against the port for calls over HTTP: requests that never end, contradict themselves, or come in floods."""

import contextlib
import os
import re
import time

from attack import MIB, PREFACE

HOST = b"Host: localhost\r\n"
LARGE_REPLY = b"/v1/histogram?bins=65536&range=0:1&type=f64"  # megabytes for no bytes at all
JSON = b"Content-Type: application/json\r\n"


def head(*fields, path=b"/v1/histogram", method=b"POST"):
    return b"%s %s HTTP/1.1\r\n%s%s\r\n" % (method, path, HOST, b"".join(field + b"\r\n" for field in fields))


CHUNKED = head(b"Transfer-Encoding: chunked")


def http_slow_headers(attack):
    """As many connections as the port has, and more, each with a byte of a header in a while."""
    trickle(attack, b"GET /v1/describe HTTP/1.1\r\nX-Slow: ", b"a")


def http_slow_bodies(attack):
    trickle(attack, head(b"Content-Length: 16000000"), b"a")


def http_slow_chunks(attack):
    trickle(attack, CHUNKED, b"1\r\na\r\n")


def trickle(attack, first, piece):
    connections = []
    while attack.goes_on():
        connections += attack.open_many(min(100, 1500 - len(connections)), first, attack.http_address)
        for connection in list(connections):
            try:
                connection.setblocking(False)
                connection.send(piece)
            except BlockingIOError:
                pass
            except OSError:
                connections.remove(connection)
                connection.close()
        time.sleep(0.05)


def http_half_sent_bodies(attack):
    """16 MiB each, all but the last byte, as fast as they are taken."""
    first, rest = head(b"Content-Length: %d" % (16 * MIB)), bytes(16 * MIB - 1)
    held = []

    def attempt():
        held.append(attack.open(first, attack.http_address))
        held[-1].sendall(rest)
        while len(held) > 100:
            held.pop(0).close()
    attack.again(attempt)


def http_expected_and_never_sent(attack):
    attack.hold(attack.open_many(2000, head(b"Content-Length: 1000000", b"Expect: 100-continue"), attack.http_address))


def http_headers_without_end(attack):
    attack.flood(b"GET /v1/describe HTTP/1.1\r\n" + HOST, b"X-Pad: %s\r\n" % (b"p" * 50) * 1000, to=attack.http_address)


def http_header_without_end(attack):
    attack.flood(b"GET /v1/describe HTTP/1.1\r\nX-Pad: ", b"p" * 65536, to=attack.http_address)


def http_target_without_end(attack):
    attack.flood(b"GET /", b"p" * 65536, to=attack.http_address)


def http_one_byte_chunks(attack):
    attack.flood(CHUNKED, b"1\r\na\r\n" * 10_000, at_once=4, to=attack.http_address)


def http_chunk_extensions_without_end(attack):
    attack.flood(CHUNKED + b"1", b";x=" + b"y" * 65536, to=attack.http_address)


def http_chunk_sizes_without_end(attack):
    attack.flood(CHUNKED, b"0" * 65536, to=attack.http_address)


def http_trailers_without_end(attack):
    attack.flood(CHUNKED + b"0\r\n", b"X-Pad: %s\r\n" % (b"p" * 50) * 1000, to=attack.http_address)


SMUGGLERS = (
    (b"Content-Length: 5", b"Transfer-Encoding: chunked"), (b"Transfer-Encoding: chunked", b"Content-Length: 5"),
    (b"Content-Length: 5", b"Content-Length: 6"), (b"Content-Length: 5, 6",), (b"Content-Length: 5\x0b",),
    (b"Transfer-Encoding: chunked, identity",), (b"Transfer-Encoding: \x0bchunked",),
    (b"Transfer-Encoding : chunked",), (b"X: y\rTransfer-Encoding: chunked", b"Content-Length: 5"),
    (b"Content-Length: 5", b" Transfer-Encoding: chunked"), (b"Content-Length: -5",), (b"Content-Length: 0x5",))


def http_request_smuggling(attack):
    """Two lengths: whoever is in front may see one request where the server sees two. It must see none."""
    hidden = b"0\r\n\r\n" + head(method=b"GET", path=b"/v1/describe")

    def attempt():
        for fields in SMUGGLERS:
            with attack.open(head(*fields) + hidden, attack.http_address) as connection:
                received = read_to_the_end(connection)
            statuses = re.findall(rb"^HTTP/1.1 (\d+)", received, re.M)
            # An attack that has no time left may have no answer.
            assert statuses == [b"400"] or not attack.goes_on(), (fields, received[:300])
            attack.ended += 1
    attack.again(attempt)


def read_to_the_end(connection):
    received = b""
    with contextlib.suppress(OSError):
        while piece := connection.recv(1 << 16):
            received += piece
    return received


def http_many_sockets(attack):
    """5,000, each with the start of a request."""
    attack.hold(attack.open_many(5000, b"POST /v1/histogram HTTP/1.1\r\n", attack.http_address))


def http_connect_storm(attack):
    attack.again(lambda: attack.open(address=attack.http_address).close())


def http_pipelining(attack):
    """Requests without end on each connection, whose answers nobody reads."""
    attack.flood(b"", (head(b"Content-Length: 3") + b"abc") * 500, at_once=20, to=attack.http_address)


def http_pipelining_that_reads(attack):
    requests = (head(b"Content-Length: 3") + b"abc") * 100

    def attempt():
        with attack.open(address=attack.http_address) as connection:
            while attack.goes_on():
                connection.sendall(requests)
                if not connection.recv(1 << 20):
                    return
    attack.again(attempt)


def http_replies_never_read(attack):
    """Small requests with answers of megabytes."""
    request = head(b"Content-Length: 0", path=LARGE_REPLY)
    connections = []
    while attack.goes_on():
        connections += attack.open_many(min(50, 300 - len(connections)), request * 20, attack.http_address)
        if len(connections) >= 300:
            for connection in connections[:50]:
                connection.close()
            del connections[:50]
        time.sleep(0.05)


def http_upgrades(attack):
    """To protocols that the server does not speak; then their frames."""
    def attempt():
        for first in (head(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk",
                           method=b"GET", path=b"/v1/describe"),
                      head(b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13",
                           b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", method=b"GET", path=b"/v1/describe"),
                      b"", head(method=b"CONNECT", path=b"localhost:22")):
            with attack.open(first + PREFACE + os.urandom(2000), attack.http_address) as connection:
                connection.settimeout(2)
                received = read_to_the_end(connection)
                assert b" 101 " not in received.split(b"\r\n")[0], received[:100]
    attack.again(attempt)


def http_json_of_brackets(attack):
    """A Connect body that nests as deep as it is long, and one of many numbers."""
    bodies = (b"[" * (4 * MIB - 1), b'{"spec":{"quantiles":[%s0]}}' % (b"0," * MIB))
    path = b"/histogram.v1.HistogramService/Compute"

    def attempt():
        for body in bodies:
            with attack.open(head(JSON[:-2], b"Content-Length: %d" % len(body), path=path) + body,
                             attack.http_address) as connection:
                connection.recv(1 << 16)
    attack.again(attempt)


def http_garbage(attack):
    attack.garbage(b"POST /v1/histogram?", attack.http_address)


def http_descriptors_run_out(attack):
    """More connections than the process may have descriptors."""
    attack.hold(attack.open_many(1500, b"", attack.http_address))


WEB = (
    http_slow_headers, http_slow_bodies, http_slow_chunks, http_half_sent_bodies, http_expected_and_never_sent,
    http_headers_without_end, http_header_without_end, http_target_without_end, http_one_byte_chunks,
    http_chunk_extensions_without_end, http_chunk_sizes_without_end, http_trailers_without_end,
    http_request_smuggling, http_many_sockets, http_connect_storm, http_pipelining, http_pipelining_that_reads,
    http_replies_never_read, http_upgrades, http_json_of_brackets, http_garbage, http_descriptors_run_out)
