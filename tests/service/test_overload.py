"""More than fits: unary calls are refused, streams pause and all are answered, memory stays bounded.

A long batch delay makes the queue fill up for certain: what is queued stays there until the delay is
over, whatever the machine's speed.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from harness import oracle
from harness.api import Client, error_of, expect_error, metadata_of, pb
from harness.specs import random_bytes
from harness.waiting import wait_until

EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
MIB = 1 << 20
SMALL_QUEUE = ("--queue-bytes-max", 4 * MIB, "--batch-bytes-max", 4 * MIB, "--payload-bytes-max",
               2 * MIB, "--receive-bytes-max", 64 * MIB, "--inline-bytes-max", 0)
PAYLOAD = random_bytes(MIB // 2)


def fill_queue(server, client):
    """Sends half megabytes until one is refused; returns the calls that are queued, and that one."""
    calls = []
    while True:
        call = client.stub.Compute.future(pb.ComputeRequest(payload=PAYLOAD), timeout=60)
        wait_until(lambda: call.done() or server.metrics().value(
            "histsvc_queue_payloads") == len(calls) + 1, 60, "a queued or refused call")
        if call.done():
            return calls, call
        calls.append(call)


@pytest.fixture
def full_server(start_server):
    """A server whose queue stays full for several times as long as it took to fill: that server, a client of it, and
    what fill_queue returns."""
    for delay_s in (2, 10):  # the longest delay
        server = start_server(*SMALL_QUEUE, "--batch-delay-max", f"{delay_s}s")
        with Client(server.address) as client:
            began = time.monotonic()
            filled = fill_queue(server, client)
            if delay_s == 10 or time.monotonic() - began < 0.4:
                yield server, client, *filled
                return


def test_unary_calls_are_refused_when_the_queue_is_full(full_server):
    server, client, queued, refused = full_server
    # Two thirds of the queue, in payloads of half a MiB and the counts that answer them.
    assert len(queued) == 5
    assert server.metrics().value("histsvc_queue_bytes") >= 5 * len(PAYLOAD)
    error = expect_error(refused.result, EXHAUSTED, "QUEUE_FULL")
    detail = error_of(error)
    assert detail.HasField("retry_after_ms") and detail.retry_after_ms > 0
    assert metadata_of(error)["grpc-retry-pushback-ms"] == str(detail.retry_after_ms)
    for _ in range(3):
        expect_error(lambda: client.compute(PAYLOAD), EXHAUSTED, "QUEUE_FULL")
    assert client.stub.Describe(pb.DescribeRequest(), timeout=60).version  # needs no room
    with Client(server.address) as other:  # and who holds nothing finds some
        oracle.check_histogram(other.compute(PAYLOAD).histogram, PAYLOAD, pb.Spec())
    for call in queued:
        oracle.check_histogram(call.result().histogram, PAYLOAD, pb.Spec())
    client.compute(PAYLOAD)  # there is room again
    wait_until(lambda: server.metrics().value("histsvc_rejected_total", reason="queue_full") == 4, 60, "four refusals")


def test_a_client_that_honours_the_pushback_gets_through(start_server):
    """gRPC's own retries, as a service config of ours asks for them."""
    server = start_server(*SMALL_QUEUE, "--batch-delay-max", "300ms")
    config = """{"methodConfig": [{"name": [{"service": "histogram.v1.HistogramService"}],
        "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.2s", "maxBackoff": "2s",
                        "backoffMultiplier": 2,
                        "retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]}}]}"""
    with Client(server.address, enable_retries=1, service_config=config,
                per_rpc_retry_buffer_size=4 * MIB) as client:
        def sent_faster_than_counted():
            calls = [client.stub.Compute.future(pb.ComputeRequest(payload=PAYLOAD), timeout=60)
                     for _ in range(12)]
            for call in calls:
                oracle.check_histogram(call.result().histogram, PAYLOAD, pb.Spec())
            return server.metrics().value("histsvc_rejected_total", reason="queue_full") > 0

        wait_until(sent_faster_than_counted, 60, "a refusal")


@pytest.mark.parametrize("method", ("ComputeMany", "Accumulate"))
def test_a_deadline_that_passes_while_the_stream_is_paused(full_server, method):
    """Dropped without any work, counted, and its place given to others."""
    server, client, queued, _ = full_server
    request = pb.ComputeRequest(payload=PAYLOAD)
    messages = {"ComputeMany": [pb.ComputeManyRequest(request=request)] * 3,
                "Accumulate": [pb.AccumulateRequest(chunk=PAYLOAD)] * 3}[method]
    with pytest.raises(grpc.RpcError) as caught:
        list(getattr(client.stub, method)(iter(messages), timeout=1))
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    for call in queued:
        oracle.check_histogram(call.result().histogram, PAYLOAD, pb.Spec())

    def counted(metrics, *samples):
        return sum(metrics.value("histsvc_" + name, **labels) for name, labels in samples)

    def dropped():
        metrics = server.metrics()
        # The client's own cancellation may come just before the server sees the deadline pass.
        return counted(metrics, ("expired_total", {}), ("cancelled_total", {})) >= 1 and counted(
            metrics, *(("requests_total", {"method": method, "code": code})
                       for code in ("DEADLINE_EXCEEDED", "CANCELLED"))) >= 1 and counted(
            metrics, ("streams_open", {}), ("queue_bytes", {})) == 0
    wait_until(dropped, 60, "a dropped and counted request, and nothing left of it")
    assert server.metrics().value("histsvc_requests_total", method=method, code="OK") == 0


# Beside the quota: what the process is without load, and what malloc keeps.
MARGIN_BYTES = 96 * MIB
CLIENTS = 32


def run_clients(server, work):
    """`work(client)` for 32 clients at once, each on its own connection; returns what they return."""
    def run(index):
        with Client(server.address, client_id=index) as client:
            try:
                return work(client)
            except grpc.RpcError as error:
                return error

    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(run, range(CLIENTS)))


def check_outcomes(outcomes, want):
    """Exact, or refused; a connection that gRPC closed to free memory counts as refused."""
    for outcome in outcomes:
        if isinstance(outcome, grpc.RpcError):
            assert outcome.code() in (EXHAUSTED, grpc.StatusCode.UNAVAILABLE), outcome
        else:
            assert outcome == want


def wait_until_recovered(server, work, want):
    """gRPC's last attempt to free memory may still hit a connection that is new."""
    def recovered():
        with Client(server.address) as client:
            try:
                outcome = work(client)
            except grpc.RpcError as error:
                outcome = error
        check_outcomes([outcome], want)
        return not isinstance(outcome, grpc.RpcError)
    wait_until(recovered, 60, "an answer after the overload")


def check_memory(server, idle_bytes, sanitized):
    if sanitized:
        pytest.skip("all answered; AddressSanitizer's own memory hides the server's")
    most = server.memory_bytes("VmHWM")
    assert most <= idle_bytes + 128 * MIB + MARGIN_BYTES, f"{most >> 20} MiB"


@pytest.fixture
def bounded_server(start_server):
    return start_server("--receive-bytes-max", 128 * MIB, "--queue-bytes-max", 64 * MIB,
                        "--payload-bytes-max", 32 * MIB)


@pytest.mark.slow
def test_memory_is_bounded_while_32_clients_stream_32_mebibytes_each(bounded_server, sanitized):
    idle_bytes = bounded_server.memory_bytes()
    chunk = random_bytes(MIB)
    want = oracle.expected(chunk, pb.Spec()).counts * 32

    def accumulate(client):
        [reply] = client.accumulate([chunk] * 32, timeout=100)
        return list(reply.histogram.counts) == want.tolist()

    outcomes = run_clients(bounded_server, accumulate)
    assert outcomes == [True] * CLIENTS
    check_memory(bounded_server, idle_bytes, sanitized)


@pytest.mark.slow
def test_streams_beyond_the_receive_limit_end_and_the_server_stays_up(start_server):
    """Twice the memory there is, in chunks that lanes let go of: gRPC ends streams, and nothing else."""
    server = start_server("--receive-bytes-max", 16 * MIB, "--queue-bytes-max", 8 * MIB,
                          "--batch-bytes-max", 8 * MIB, "--payload-bytes-max", 4 * MIB,
                          "--inline-bytes-max", 0)
    chunk = random_bytes(MIB)
    want = (oracle.expected(chunk, pb.Spec()).counts * 32).tolist()

    def accumulate(client):
        [reply] = client.accumulate([chunk] * 32, timeout=100)
        return list(reply.histogram.counts)

    check_outcomes(run_clients(server, accumulate), want)
    wait_until_recovered(server, accumulate, want)


IN_ONE_MESSAGE = {
    "Compute": lambda client, payload: client.compute(payload, timeout=100),
    "ComputeMany": lambda client, payload: client.compute_many([payload], timeout=100)[0],
    "Accumulate": lambda client, payload: client.accumulate([payload], timeout=100)[0],
}


@pytest.mark.slow
@pytest.mark.parametrize("method", IN_ONE_MESSAGE)
def test_memory_is_bounded_while_32_clients_send_32_mebibytes_at_once(bounded_server, sanitized, method):
    """32 messages of 32 MiB: exact, or refused, and never more memory than allowed.

    Whatever thread lets go of a message in the midst of this, the server stays up.
    """
    idle_bytes = bounded_server.memory_bytes()
    payload = random_bytes(MIB) * 32
    want = oracle.expected(payload, pb.Spec()).counts.tolist()

    def count(client):
        return list(IN_ONE_MESSAGE[method](client, payload).histogram.counts)

    outcomes = run_clients(bounded_server, count)
    check_outcomes(outcomes, want)
    assert sum(not isinstance(outcome, grpc.RpcError) for outcome in outcomes) > 0
    wait_until_recovered(bounded_server, count, want)
    check_memory(bounded_server, idle_bytes, sanitized)
