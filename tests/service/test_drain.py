"""SIGTERM: health turns at once, nothing that was accepted is lost, and the process ends with 0."""

import threading
import time

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from harness import http2, oracle, wire
from harness.api import CHANNEL_OPTIONS, SERVICE, Client, check_error, error_of, pb, pb_grpc
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
    assert caught.value.code() == UNAVAILABLE
    check_error(error_of(caught.value), UNAVAILABLE, "DRAINING")
    return replies


def test_an_idle_server_ends_at_once(start_server):
    server = start_server()
    began = time.monotonic()
    server.stop()
    assert time.monotonic() - began < 10


def test_a_server_with_idle_connections_ends(start_server):
    server = start_server()
    with Client(server.address) as client, http2.connect(server.address):
        client.compute(b"abc")
        server.stop()


def test_health_turns_first_and_calls_are_served_on(start_server):
    server = start_server("--drain-delay-us", "2s")
    with Client(server.address) as client:
        health = health_pb2_grpc.HealthStub(client.channel)
        watches = {name: health.Watch(health_pb2.HealthCheckRequest(service=name), timeout=60)
                   for name in ("", SERVICE, "liveness")}
        for watch in watches.values():
            assert next(watch).status == SERVING
        began = time.monotonic()
        server.terminate()
        assert next(watches[""]).status == NOT_SERVING
        assert next(watches[SERVICE]).status == NOT_SERVING
        assert time.monotonic() - began < 1.5  # at once, long before the delay is over
        check = health.Check(health_pb2.HealthCheckRequest(service="liveness"), timeout=10)
        assert check.status == SERVING
        assert health.Check(health_pb2.HealthCheckRequest(), timeout=10).status == NOT_SERVING
        oracle.check_histogram(client.compute(PAYLOAD).histogram, PAYLOAD, pb.Spec())
        assert server.metrics().value("histsvc_draining") == 1
        assert server.http("/readyz")[0] == 503
        assert server.http("/healthz")[0] == 200
        server.wait()


def test_queued_calls_are_answered(start_server):
    server = start_server("--batch-delay-us-max", "1500ms", "--inline-bytes-max", 0)
    with Client(server.address) as client:
        spec = with_everything(BINNINGS["even-7"])
        calls = [client.stub.Compute.future(
            pb.ComputeRequest(payload=PAYLOAD, spec=spec), timeout=60) for _ in range(10)]
        wait_until(lambda: server.metrics().value("histsvc_queue_payloads") == 10, 10,
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


def test_an_accumulate_that_waits_in_the_queue_is_counted_first(start_server):
    server = start_server("--batch-delay-us-max", "1s", "--inline-bytes-max", 0)
    with Client(server.address) as client:
        feed = Feed()
        call = client.stub.Accumulate(iter(feed), timeout=60)
        feed.send(pb.AccumulateRequest(chunk=PAYLOAD))
        wait_until(lambda: server.metrics().value("histsvc_queue_payloads") == 1, 10,
                   "a queued chunk")
        server.terminate()
        [reply] = expect_draining(call)
        oracle.check_histogram(reply.histogram, PAYLOAD, pb.Spec())
        feed.half_close()
    server.wait()


def test_a_stream_of_many_answers_what_it_has_read(start_server):
    server = start_server("--batch-delay-us-max", "1s", "--inline-bytes-max", 0)
    with Client(server.address) as client:
        feed = Feed()
        call = client.stub.ComputeMany(iter(feed), timeout=60)
        for index in range(8):
            feed.send(pb.ComputeManyRequest(
                request_id=index, request=pb.ComputeRequest(payload=PAYLOAD)))
        wait_until(lambda: server.metrics().value("histsvc_queue_payloads") == 8, 10,
                   "eight queued payloads")
        server.terminate()
        replies = expect_draining(call)
        assert sorted(reply.request_id for reply in replies) == list(range(8))
        for reply in replies:
            oracle.check_histogram(reply.response.histogram, PAYLOAD, pb.Spec())
        feed.half_close()
    server.wait()


@pytest.mark.parametrize("size", (1000, 200_000, 3 << 20))
def test_sigterm_under_load(start_server, size):
    """Callers and streams on many connections: each call is answered exactly or ends UNAVAILABLE."""
    server = start_server("--drain-delay-us", "100ms")
    payload = random_bytes(size)
    want = oracle.expected(payload, pb.Spec()).counts.tolist()
    stop, failures, answered = threading.Event(), [], []

    def unary(client):
        while not stop.is_set():
            assert list(client.compute(payload).histogram.counts) == want
            answered.append("unary")

    def many(client):
        # Replies never outnumber what was sent, and each is right.
        def requests():
            while not stop.is_set():
                yield pb.ComputeManyRequest(request=pb.ComputeRequest(payload=payload))
        for reply in client.stub.ComputeMany(requests(), timeout=60):
            assert list(reply.response.histogram.counts) == want
            answered.append("many")

    def accumulate(client):
        def requests():
            while not stop.is_set():
                yield pb.AccumulateRequest(chunk=payload, snapshot=True)
        last = None
        try:
            for reply in client.stub.Accumulate(requests(), timeout=60):
                assert list(reply.histogram.counts) == [reply.chunks * count for count in want]
                last = reply
                answered.append("accumulate")
        finally:
            assert last is not None

    def guarded(work):
        def run():
            try:
                with Client(server.address, client_id=id(run)) as client:
                    work(client)
            except grpc.RpcError as error:
                if error.code() != UNAVAILABLE:
                    failures.append(error)
            except BaseException as failure:
                failures.append(failure)
        return threading.Thread(target=run)

    threads = [guarded(work) for work in (unary, unary, unary, many, many, accumulate, accumulate)]
    for thread in threads:
        thread.start()
    wait_until(lambda: failures or {"unary", "many", "accumulate"} <= set(answered), 30,
               "answers of every kind")
    server.terminate()
    server.wait()
    stop.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert not failures, failures


def test_a_client_that_reads_nothing_delays_the_end_only_so_long(start_server):
    """Replies that nobody takes: the drain gives up at its bound, and the process still ends well."""
    server = start_server("--drain-us-max", "1s")
    item = pb.ComputeManyRequest(
        request=pb.ComputeRequest(spec=even(65536), payload=b"x")).SerializeToString()
    settings = [(http2.SETTING_INITIAL_WINDOW_SIZE, 0)]
    with http2.RawConnection(server.address, settings) as connection:
        connection.settle()
        connection.begin(1, f"/{SERVICE}/ComputeMany")
        for _ in range(20):
            connection.message(1, item)
        wait_until(lambda: server.metrics().value("histsvc_streams_open") == 1, 10, "the stream")
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 20


def test_a_call_that_never_ends_its_message_delays_the_end_only_so_long(start_server):
    server = start_server("--drain-us-max", "1s")
    with http2.RawConnection(server.address) as connection:
        connection.settle()
        connection.begin(1, f"/{SERVICE}/Compute")
        connection.data(1, http2.message_prefix(1000) + wire.tag(15, wire.LENGTH))
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 20


def test_round_robin_loses_no_call_while_one_of_two_servers_drains(start_server):
    """The client watches health and leaves the server that drains before it stops accepting."""
    servers = [start_server("--drain-delay-us", "2s") for _ in range(2)]
    target = "ipv4:" + ",".join(server.address for server in servers)
    config = f"""{{"loadBalancingConfig": [{{"round_robin": {{}}}}],
                   "healthCheckConfig": {{"serviceName": "{SERVICE}"}}}}"""
    options = [*CHANNEL_OPTIONS, ("grpc.service_config", config)]
    payload = random_bytes(20_000)
    want = oracle.expected(payload, pb.Spec()).counts.tolist()
    served = [0, 0]

    def requests(server):
        return server.metrics().value("histsvc_requests_total", method="Compute", code="OK")

    with grpc.insecure_channel(target, options=options) as channel:
        stub = pb_grpc.HistogramServiceStub(channel)

        def call():
            reply = stub.Compute(pb.ComputeRequest(payload=payload), timeout=30,
                                 wait_for_ready=True)
            assert list(reply.histogram.counts) == want

        def both_are_used():
            call()
            served[:] = [requests(server) for server in servers]
            return min(served) > 5
        wait_until(both_are_used, 30, "calls on both servers", interval_s=0)
        servers[0].terminate()
        calls = 0
        while servers[0].running():
            call()
            calls += 1
        servers[0].wait()
        for _ in range(50):
            call()
        assert calls > 50
        assert requests(servers[1]) >= served[1] + 50 + calls / 4
