"""Real sockets: peers that vanish, talk nonsense, stall, come by the hundred, or cancel."""

import socket

import grpc
import pytest

from harness import http2, oracle, wire
from harness.api import SERVICE, Client, open_channel, pb, pb_grpc
from harness.specs import even, random_bytes
from harness.waiting import wait_until

METHODS = ("Compute", "ComputeMany", "Accumulate")


def still_right(client):
    payload = random_bytes(3000)
    oracle.check_histogram(client.compute(payload).histogram, payload, pb.Spec())


def is_idle(server):
    """Nothing is open, queued or executing."""
    metrics = server.metrics()
    return all(metrics.value(f"histsvc_{name}") == 0 for name in (
        "streams_open", "queue_payloads", "queue_bytes", "in_flight"))


def wait_idle(server):
    wait_until(lambda: is_idle(server), 60, "an idle server")


@pytest.mark.parametrize("how", ("reset the connection", "close the connection", "reset the stream"))
@pytest.mark.parametrize(("method", "whole"), (*((method, 0) for method in METHODS), ("ComputeMany", 2), ("Accumulate", 2)))
def test_a_client_that_vanishes_mid_message(server, client, method, whole, how):
    """After some messages, one announces a megabyte, of which 20 KB come."""
    payload = wire.payload(b"x" * 5_000)
    message = wire.length_delimited(15, payload) if method == "ComputeMany" else payload
    for _ in range(5):
        with http2.RawConnection(server.address) as connection:
            connection.settle()
            connection.begin(1, f"/{SERVICE}/{method}")
            for _ in range(whole):
                connection.message(1, message)
            header = wire.tag(15, wire.LENGTH) + wire.varint(1 << 20)
            connection.data(
                1, http2.message_prefix(len(header) + (1 << 20)) + header + b"x" * 20_000)
            if how == "reset the connection":
                connection.abort()
            elif how == "reset the stream":
                connection.reset(1)
    wait_idle(server)
    still_right(client)


@pytest.mark.parametrize("greeting", (
    b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\x00" * 1000, b"\xff" * 100_000, http2.PREFACE + b"\xff" * 1000,
    http2.PREFACE + http2.frame(http2.SETTINGS, 0, 0, b"odd"),
    http2.PREFACE + http2.frame(http2.SETTINGS, 0, 0) + http2.frame(http2.DATA, 0, 77, b"x"),
    http2.PREFACE + http2.frame(http2.SETTINGS, 0, 0) + http2.frame(
        http2.HEADERS, http2.END_HEADERS, 1, b"\xff" * 500),
), ids=("silence", "http1", "tls", "zeros", "ones", "frames", "settings", "stray", "headers"))
def test_nonsense_on_the_port(server, client, greeting):
    with http2.connect(server.address) as connection:
        try:
            connection.sendall(greeting)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
        except OSError:
            pass  # it may well be cut off
    still_right(client)


def test_a_message_that_comes_byte_by_byte(server):
    """Every byte in a DATA frame of its own, with empty ones between: slices of one byte."""
    payload = b"byte by byte, abc"
    request = pb.ComputeRequest(spec=even(7, 97, 123, statistics=True), payload=payload)
    body = request.SerializeToString()
    with http2.RawConnection(server.address) as connection:
        connection.settle()
        connection.begin(1, f"/{SERVICE}/Compute")
        for byte in http2.message_prefix(len(body)) + body:
            connection.data(1, bytes([byte]))
            connection.data(1)
        connection.data(1, end=True)
        reply, how = connection.finish(1)
    assert how == "end"
    response = pb.ComputeResponse.FromString(reply[5:])
    oracle.check_histogram(response.histogram, payload, request.spec)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("body", (
    b"", b"\x00", http2.message_prefix(100) + b"x" * 50, http2.message_prefix(2**32 - 1) + b"x",
    http2.message_prefix(3, flags=1) + b"abc", http2.message_prefix(3, flags=255) + b"abc",
), ids=("nothing", "half a prefix", "half", "4 GiB", "compressed flag", "odd flags"))
def test_half_messages_before_the_half_close(server, client, method, body):
    with http2.RawConnection(server.address) as connection:
        connection.settle()
        connection.begin(1, f"/{SERVICE}/{method}")
        connection.data(1, body, end=True)
        _, how = connection.finish(1)
        assert how in ("end", "reset", "closed")
    wait_idle(server)
    still_right(client)


def test_two_hundred_connections(server):
    """All open at once, each with a unary call and a stream, beside 200 that say nothing."""
    silent = [http2.connect(server.address) for _ in range(200)]
    channels = [open_channel(server.address, client_id=index) for index in range(200)]
    try:
        payloads = [random_bytes(500 + index, seed=index) for index in range(200)]
        stubs = [pb_grpc.HistogramServiceStub(channel) for channel in channels]
        calls = [stub.Compute.future(pb.ComputeRequest(payload=payload), timeout=60)
                 for stub, payload in zip(stubs, payloads, strict=True)]
        streams = [stub.Accumulate(iter([pb.AccumulateRequest(chunk=payload)] * 2), timeout=60)
                   for stub, payload in zip(stubs, payloads, strict=True)]
        for call, payload in zip(calls, payloads, strict=True):
            oracle.check_histogram(call.result().histogram, payload, pb.Spec())
        for stream, payload in zip(streams, payloads, strict=True):
            [reply] = stream
            oracle.check_histogram(reply.histogram, payload * 2, pb.Spec())
    finally:
        for channel in channels:
            channel.close()
        for connection in silent:
            connection.close()
    wait_idle(server)


def test_more_calls_than_a_connection_may_have(start_server):
    server = start_server("--streams-max", 4)
    with Client(server.address) as client:
        payloads = [random_bytes(70_000, seed=index) for index in range(40)]
        calls = [client.stub.Compute.future(pb.ComputeRequest(payload=payload), timeout=60)
                 for payload in payloads]
        for call, payload in zip(calls, payloads, strict=True):
            oracle.check_histogram(call.result().histogram, payload, pb.Spec())


# ------------------------------------------------------------------- deadlines and cancellation
def test_deadlines_that_have_passed(server, client):
    """A microsecond is over before anything could be counted: dropped, counted, nothing leaks."""
    before = server.metrics()
    body = pb.ComputeRequest(payload=b"x" * 1000).SerializeToString()
    with http2.RawConnection(server.address) as connection:
        connection.settle()
        for stream in range(1, 101, 2):
            connection.begin(stream, f"/{SERVICE}/Compute", [("grpc-timeout", "1u")])
            connection.message(stream, body[:1000], end=True)
            answer, how = connection.finish(stream)
            assert how in ("end", "reset")
            assert answer == b""  # no histogram
    wait_idle(server)
    after = server.metrics()
    for name in ("histsvc_integrity_failures_total", "histsvc_fallback_total"):
        assert after.value(name) == before.value(name)
    still_right(client)


def test_a_call_cancelled_in_the_queue(start_server):
    server = start_server("--batch-delay-max", "3s", "--inline-bytes-max", 0)
    with Client(server.address) as client:
        calls = [client.stub.Compute.future(pb.ComputeRequest(payload=b"x" * 100_000), timeout=60)
                 for _ in range(5)]
        wait_until(lambda: server.metrics().value("histsvc_queue_payloads") == 5, 60,
                   "five queued payloads")
        for call in calls[:4]:
            call.cancel()
        assert calls[4].result().histogram.samples == 100_000
        wait_idle(server)

        def counted():  # a call is counted just after its reply has left
            metrics = server.metrics()
            return metrics.value("histsvc_cancelled_total") == 4 and [
                metrics.value("histsvc_requests_total", method="Compute", code=code)
                for code in ("CANCELLED", "OK")] == [4, 1]
        wait_until(counted, 60, "four cancelled calls and one answered")


@pytest.mark.parametrize("method", ("ComputeMany", "Accumulate"))
def test_streams_cancelled_while_they_wait(start_server, method):
    server = start_server("--batch-delay-max", "2s", "--inline-bytes-max", 0)
    with Client(server.address) as client:
        request = pb.ComputeRequest(payload=b"x" * 100_000)
        messages = {"ComputeMany": [pb.ComputeManyRequest(request=request)] * 5,
                    "Accumulate": [pb.AccumulateRequest(chunk=request.payload)] * 5}[method]
        call = getattr(client.stub, method)(iter(messages), timeout=60)
        wait_until(lambda: server.metrics().value("histsvc_queue_payloads") >= 1, 60,
                   "a queued payload")
        call.cancel()
        with pytest.raises(grpc.RpcError):
            list(call)
        assert call.code() == grpc.StatusCode.CANCELLED
        wait_idle(server)
        wait_until(lambda: server.metrics().value("histsvc_cancelled_total") >= 1, 60, "a cancelled payload counted")
        still_right(client)
