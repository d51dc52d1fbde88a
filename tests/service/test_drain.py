"""SIGTERM: health turns at once, nothing that was accepted is lost, and the process ends with 0."""

import math
import threading
import time

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from harness import http2, oracle, wire
from harness.api import SERVICE, Client, check_error, error_of, pb
from harness.specs import BINNINGS, even, random_bytes, with_everything
from harness.waiting import wait_until
from test_streams import Feed

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVING = health_pb2.HealthCheckResponse.SERVING
PAYLOAD = random_bytes(100_000)


def expect_draining(call):
    """The rest of a stream that ends because the server goes."""
    replies = []
    with pytest.raises(grpc.RpcError) as caught:
        for reply in call:
            replies.append(reply)
    assert caught.value.code() == UNAVAILABLE, caught.value
    assert error_of(caught.value) is not None, caught.value
    check_error(error_of(caught.value), UNAVAILABLE, "DRAINING")
    return replies


QUICK_S = 10  # where gRPC alone would wait for its peers up to the drain's bound, 30 s by default


def stop_quickly(server):
    began = time.monotonic()
    server.stop()
    assert time.monotonic() - began < QUICK_S


def test_silent_connections_hold_up_the_end_no_longer_than_its_bound(start_server):
    """A port scanner, a balancer's probe, a peer that froze: gRPC gives them 20 s to say goodbye."""
    server = start_server("--drain-max", "1s")
    with http2.connect(server.address), http2.RawConnection(server.address) as connection:
        connection.settle()
        stop_quickly(server)


def test_a_watcher_of_health_does_not_hold_up_the_end(start_server):
    """Every client that balances by health has such a stream open."""
    server = start_server()
    with Client(server.address) as client:
        health = health_pb2_grpc.HealthStub(client.channel)
        watch = health.Watch(health_pb2.HealthCheckRequest(service=SERVICE), timeout=60)
        assert next(watch).status == SERVING
        stop_quickly(server)


def test_health_turns_first_and_calls_are_served_on(start_server):
    server = start_server("--drain-delay", "20s")
    with Client(server.address) as client:
        health = health_pb2_grpc.HealthStub(client.channel)
        watches = {name: health.Watch(health_pb2.HealthCheckRequest(service=name), timeout=60)
                   for name in ("", SERVICE, "liveness")}
        for watch in watches.values():
            assert next(watch).status == SERVING
        server.terminate()
        assert next(watches[""]).status == NOT_SERVING
        assert next(watches[SERVICE]).status == NOT_SERVING
        check = health.Check(health_pb2.HealthCheckRequest(service="liveness"), timeout=60)
        assert check.status == SERVING
        assert health.Check(health_pb2.HealthCheckRequest(), timeout=60).status == NOT_SERVING
        oracle.check_histogram(client.compute(PAYLOAD).histogram, PAYLOAD, pb.Spec())
        assert server.metrics().value("histsvc_draining") == 1
        assert server.http("/readyz")[0] == 503
        assert server.http("/healthz")[0] == 200
        for watch in watches.values():
            watch.cancel()
        server.stop()  # a second signal cuts the delay short


def test_queued_calls_are_answered(start_server):
    server = start_server("--batch-delay-max", "3s", "--inline-bytes-max", 0)
    with Client(server.address) as client:
        spec = with_everything(BINNINGS["even-7"])
        calls = [client.stub.Compute.future(
            pb.ComputeRequest(payload=PAYLOAD, spec=spec), timeout=60) for _ in range(10)]
        wait_until(lambda: server.metrics().value("histsvc_queue_payloads") == 10, 60,
                   "ten queued payloads")
        server.terminate()
        for call in calls:
            oracle.check_histogram(call.result().histogram, PAYLOAD, spec)
    server.wait()


def test_an_open_accumulate_gets_its_histogram_so_far(start_server):
    server = start_server()
    with Client(server.address) as client:
        spec = with_everything(BINNINGS["alphabet-letters"])
        feed = Feed()
        call = client.stub.Accumulate(iter(feed), timeout=60)
        feed.send(pb.AccumulateRequest(spec=spec, chunk=b"abc"))
        feed.send(pb.AccumulateRequest(chunk=PAYLOAD))
        feed.send(pb.AccumulateRequest(chunk=b"xyz", snapshot=True))
        assert next(call).chunks == 3
        server.terminate()
        [reply] = expect_draining(call)
        assert not reply.final  # it is not the whole payload
        assert reply.chunks == 3
        oracle.check_histogram(reply.histogram, b"abc" + PAYLOAD + b"xyz", spec)
        feed.half_close()
    server.wait()


@pytest.mark.parametrize(("method", "count"), (("Accumulate", 1), ("ComputeMany", 8)))
def test_a_stream_answers_what_waits_in_the_queue(start_server, method, count):
    server = start_server("--batch-delay-max", "3s", "--inline-bytes-max", 0)
    with Client(server.address) as client:
        feed = Feed()
        call = getattr(client.stub, method)(iter(feed), timeout=60)
        for index in range(count):
            feed.send(pb.AccumulateRequest(chunk=PAYLOAD) if method == "Accumulate" else
                      pb.ComputeManyRequest(request_id=index, request=pb.ComputeRequest(payload=PAYLOAD)))
        wait_until(lambda: server.metrics().value("histsvc_queue_payloads") == count, 60, "queued payloads")
        server.terminate()
        replies = expect_draining(call)
        if method == "ComputeMany":
            assert sorted(reply.request_id for reply in replies) == list(range(count))
            replies = [reply.response for reply in replies]
        assert len(replies) == count
        for reply in replies:
            oracle.check_histogram(reply.histogram, PAYLOAD, pb.Spec())
        feed.half_close()
    server.wait()


def test_an_upload_that_began_before_may_finish(start_server):
    """It is known from its headers on; gRPC says nothing of it before its message is whole."""
    server = start_server()
    payload = b"abc" * 5000
    message = pb.ComputeRequest(payload=payload).SerializeToString()
    with http2.RawConnection(server.address) as connection:
        connection.begin(1, f"/{SERVICE}/Compute")
        connection.data(1, http2.message_prefix(len(message)) + message[:100])
        connection.settle()
        server.terminate()
        wait_until(lambda: "draining" in server.stderr(), 60, "the drain")
        later = time.monotonic() + 2  # far beyond what ends a connection without calls
        wait_until(lambda: time.monotonic() > later, 60, "some time")
        server.assert_running()
        connection.data(1, message[100:], end=True)
        body, how = connection.finish(1)
        assert how == "end"
        oracle.check_histogram(pb.ComputeResponse.FromString(body[5:]).histogram, payload, pb.Spec())
    server.wait()


class Load:
    """Callers and streams on connections of their own, each of which checks every answer."""

    def __init__(self, address, payload):
        self.address = address
        self.payload = payload
        self.want = oracle.expected(payload, pb.Spec()).counts.tolist()
        self.answered = [0] * 7  # by each thread
        self.failures = []
        self.terminated_at = math.inf
        self.stop = threading.Event()
        works = [self._unary] * 3 + [self._many] * 2 + [self._accumulate] * 2
        self.threads = [threading.Thread(target=self._guarded, args=[work, index])
                        for index, work in enumerate(works)]
        for thread in self.threads:
            thread.start()

    def wait(self):
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive()

    def _guarded(self, work, index):
        try:
            with Client(self.address) as client:
                work(client, index)
        except BaseException as failure:
            self.failures.append(failure)

    def _unary(self, client, index):
        while not self.stop.is_set():
            began = time.monotonic()
            try:
                assert list(client.compute(self.payload).histogram.counts) == self.want
            except grpc.RpcError as error:
                # What reaches the server is answered. Later than that nobody listens any more.
                assert began > self.terminated_at, error
                assert error.code() == UNAVAILABLE, error
                return
            self.answered[index] += 1

    def _many(self, client, index):
        def requests():
            while not self.stop.is_set():
                yield pb.ComputeManyRequest(request=pb.ComputeRequest(payload=self.payload))
        call = client.stub.ComputeMany(requests(), timeout=60)
        for reply in expect_draining(self._counted(call, index)):
            assert list(reply.response.histogram.counts) == self.want

    def _accumulate(self, client, index):
        def requests():
            while not self.stop.is_set():
                yield pb.AccumulateRequest(chunk=self.payload, snapshot=True)
        call = client.stub.Accumulate(requests(), timeout=60)
        replies = expect_draining(self._counted(call, index))
        for reply in replies:
            assert list(reply.histogram.counts) == [reply.chunks * count for count in self.want]
        # One for each chunk that was read, and the histogram so far.
        assert [reply.chunks for reply in replies] == [
            *range(1, len(replies)), len(replies) - 1]

    def _counted(self, call, index):
        for reply in call:
            self.answered[index] += 1
            yield reply


@pytest.mark.parametrize("size", (1000, 200_000, 3 << 20))
def test_sigterm_under_load(start_server, size):
    """Everything that began before the signal is answered exactly; streams learn why they end."""
    server = start_server("--drain-delay", "100ms")
    load = Load(server.address, random_bytes(size))
    wait_until(lambda: load.failures or min(load.answered) > 0, 60, "answers to all threads")
    load.terminated_at = time.monotonic()
    server.terminate()
    server.wait()
    load.stop.set()
    load.wait()
    assert not load.failures, load.failures


@pytest.mark.parametrize("what", ("replies that nobody reads", "a message that never ends"))
def test_a_client_delays_the_end_only_so_long(start_server, what):
    """The drain gives up at its bound, and the process still ends well."""
    server = start_server("--drain-max", "1s")
    item = pb.ComputeManyRequest(
        request=pb.ComputeRequest(spec=even(65536), payload=b"x")).SerializeToString()
    with http2.RawConnection(server.address, [(http2.SETTING_INITIAL_WINDOW_SIZE, 0)]) as connection:
        connection.settle()
        if "replies" in what:
            connection.begin(1, f"/{SERVICE}/ComputeMany")
            for _ in range(20):
                connection.message(1, item)
            wait_until(lambda: server.metrics().value("histsvc_streams_open") == 1, 60, "the stream")
        else:
            connection.begin(1, f"/{SERVICE}/Compute")
            connection.data(1, http2.message_prefix(1000) + wire.tag(15, wire.LENGTH))
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 20
