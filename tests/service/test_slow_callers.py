"""A caller that thinks between its messages: the time that it takes is not the server's."""

import threading
import time

import pytest

from harness.api import Client, pb
from harness.waiting import wait_until
from test_streams import Feed

SLOW_S = 0.4


def think():
    """Thinks for a while, and says for how long."""
    began = time.monotonic()
    threading.Event().wait(2 * SLOW_S)
    return time.monotonic() - began


def check_time(server, method, elapsed_s, thought_s):
    """All that the server says it took fits beside the thinking, and its log agrees."""
    wait_until(lambda: server.metrics().value("histsvc_requests_total", method=method, code="OK") >= 1,
               20, "the call counted")
    name = "histsvc_request_duration_seconds"
    metrics = server.metrics()
    took_s = metrics.value(f"{name}_sum", method=method)
    assert metrics.value(f"{name}_count", method=method) > 0
    assert took_s <= elapsed_s - thought_s, (took_s, elapsed_s, thought_s)
    if took_s < SLOW_S:  # as it is unless the machine stood still
        assert "slow request" not in server.stderr()


@pytest.fixture
def slow_server(start_server):
    return start_server("--slow-request", f"{int(SLOW_S * 1000)}ms")


def test_an_accumulate_that_is_typed(slow_server):
    """Lines with thinking between them and before the end, as from a terminal."""
    thought_s, feed = 0, Feed()
    with Client(slow_server.address) as client:
        began = time.monotonic()
        call = client.stub.Accumulate(iter(feed), timeout=100)
        for line in (b"one\n", b"two\n"):
            thought_s += think()
            feed.send(pb.AccumulateRequest(chunk=line, snapshot=True))
            assert not next(call).final  # from here on the server waits
        thought_s += think()
        feed.half_close()
        [reply] = call
        elapsed_s = time.monotonic() - began
    assert reply.final and reply.histogram.samples == 8
    assert reply.receipt.total_ns / 1e9 <= elapsed_s - thought_s
    check_time(slow_server, "Accumulate", elapsed_s, thought_s)


def test_items_with_thinking_between_them(slow_server):
    thought_s, feed = 0, Feed()
    with Client(slow_server.address) as client:
        began = time.monotonic()
        call = client.stub.ComputeMany(iter(feed), timeout=100)
        for index in range(3):
            thought_s += think()
            feed.send(pb.ComputeManyRequest(request_id=index, request=pb.ComputeRequest(payload=b"a")))
            assert next(call).request_id == index
        feed.half_close()
        assert list(call) == []
        elapsed_s = time.monotonic() - began
    check_time(slow_server, "ComputeMany", elapsed_s, thought_s)
