"""Replies that a client asks for and does not read: bounded, and ended, while others are served."""

import itertools
import struct

import grpc
import pytest

from harness import oracle, specs
from harness.api import SERVICE, Client, error_of, pb
from harness.http2 import SETTING_INITIAL_WINDOW_SIZE, WINDOW_UPDATE, RawConnection, frame
from harness.specs import random_bytes
from harness.typed import typed
from harness.waiting import wait_until
from test_log import events
from test_streams import Feed

MIB = 1 << 20
LARGE = specs.even(65536, 0, 256, edges=True)  # a reply of a megabyte
SHUT = ((SETTING_INITIAL_WINDOW_SIZE, 0),)


@pytest.fixture
def small_server(start_server):
    """16 MiB of unread replies make it look for who does not read; 32 are the most."""
    return start_server("--receive-bytes-max", "64MiB", "--queue-bytes-max", "16MiB", "--payload-bytes-max", "4MiB",
                        "--log-format", "json")


def ask(connection, method, streams, requests_each, counted=lambda: True):
    """Begins streams with that many requests, whose replies nobody reads. Unary ones find no room in the queue while
    those before are not `counted`."""
    if method == "Compute":
        message = pb.ComputeRequest(payload=b"x", spec=LARGE)
    elif method == "ComputeMany":
        message = pb.ComputeManyRequest(request_id=1, request=pb.ComputeRequest(payload=b"x", spec=LARGE))
    else:
        message = pb.AccumulateRequest(chunk=b"x", spec=LARGE, snapshot=True)
    for stream in streams:
        connection.begin(stream, f"/{SERVICE}/{method}")
        for index in range(requests_each):
            connection.message(stream, message.SerializeToString(), end=method == "Compute" or
                               (index + 1 == requests_each and method == "ComputeMany"))
        if method == "Compute":
            wait_until(counted, 60, "the count")


@pytest.mark.parametrize(("method", "streams", "requests_each"), (
    ("Compute", 100, 1), ("ComputeMany", 32, 20), ("Accumulate", 32, 20)))
def test_unread_replies_are_bounded_and_their_calls_ended(small_server, sanitized, method, streams, requests_each):
    server = small_server
    before = server.memory_bytes()
    with Client(server.address) as client, RawConnection(server.address, SHUT) as honest, \
            RawConnection(server.address, SHUT) as hostile:
        # One that is only slow: it has a single reply, and is to keep it.
        ask(honest, "ComputeMany", (1,), 1)
        wait_until(lambda: server.metrics().value("histsvc_unwritten_reply_bytes") > 0, 60, "the honest one's reply")
        ask(hostile, method, range(1, 2 * streams, 2), requests_each,
            lambda: server.metrics().value("histsvc_charged_bytes") == 0)
        wait_until(lambda: server.metrics().value("histsvc_unread_calls_total") > 0, 60, "the end of some calls")
        payload = random_bytes(100_000)
        for _ in range(20):
            oracle.check_histogram(client.compute(payload).histogram, payload, pb.Spec())
        wait_until(lambda: server.metrics().value("histsvc_unwritten_reply_bytes") <= 16 * MIB, 60, "room again")
        # It has room for large replies, too.
        oracle.check_histogram(client.compute(payload, LARGE).histogram, payload, LARGE)
        if not sanitized:
            assert server.memory_bytes("VmHWM") - before < 150 * MIB
        told = wait_until(lambda: events(server, "ended calls whose clients do not read their replies"), 60, "the line")
        assert told[0]["peer"].startswith("127.0.0.1:")
        for stream in (0, 1):
            honest.socket.sendall(frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", 8 * MIB)))
        body, how = honest.finish(1)
        assert how == "end" and len(body) > 500_000
    wait_until(lambda: server.metrics().value("histsvc_unwritten_reply_bytes") == 0, 60, "nothing held")


def test_where_there_is_no_room_a_call_is_told_so(small_server):
    """Only large replies are refused; the refusal says when to come back."""
    with Client(small_server.address) as client, RawConnection(small_server.address, SHUT) as hostile:
        streams = itertools.count(1, 2)

        def refused_for_its_reply():
            """Holds more unread replies, faster than the server ends their calls; some find no room in the queue."""
            ask(hostile, "Compute", itertools.islice(streams, 5), 1)
            try:
                client.compute(b"x", LARGE)
            except grpc.RpcError as error:
                detail = error_of(error)
                assert detail.reason == "QUEUE_FULL" and detail.retry_after_ms > 0
                return detail.limit == 32 * MIB
            return False

        wait_until(refused_for_its_reply, 60, "a refusal")
        client.compute(b"x")


def test_totals_of_idle_streams_leave_room_for_replies(small_server):
    """A stream holds some megabytes of totals while it is open; all of them together at most 8 MiB."""
    spec = typed(specs.even(65536, 0, 65536, statistics=True), "u16")
    with Client(small_server.address) as client:
        feeds, counted = [Feed() for _ in range(12)], []
        for feed in feeds:
            feed.send(pb.AccumulateRequest(spec=spec, chunk=bytes(2), snapshot=True))
            stream = client.stub.Accumulate(iter(feed), timeout=60)
            try:
                assert next(stream).histogram.samples == 1
                counted.append(stream)
            except grpc.RpcError as error:
                assert (error_of(error).reason, error_of(error).limit) == ("QUEUE_FULL", 8 * MIB)
        assert len(counted) in range(2, 9)
        oracle.check_histogram(client.compute(b"x", LARGE).histogram, b"x", LARGE)
        for feed in feeds:
            feed.half_close()
        assert all(reply.histogram.samples == 1 for stream in counted for reply in stream)
    wait_until(lambda: small_server.metrics().value("histsvc_unwritten_reply_bytes") == 0, 60, "nothing held")
