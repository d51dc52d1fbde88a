"""Every refusal is counted under its reason, and the reasons are those that the runbook lists."""

import re

import grpc
import pytest

from harness import specs
from harness.api import REPOSITORY, Client, bearer, error_of, expect_error, metadata_of, pb
from harness.specs import random_bytes
from harness.waiting import wait_until
from test_streams import Feed

Code = grpc.StatusCode
MIB = 1 << 20
ALICE, BOB = "token-of-alice-0123456789", "token-of-bob-0123456789"
RUNBOOK = REPOSITORY / "docs" / "operations" / "alerts.md"


def documented_reasons():
    """The first column of the runbook's table of reasons."""
    section = RUNBOOK.read_text().split("## HistogramRefusingCallers")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


@pytest.fixture
def server(start_server, token_file):
    """Two MiB a payload, a queue of four, and nothing leaves it: what is queued is waited for long."""
    tokens = token_file(f"alice {ALICE}", f"bob {BOB} 1000")
    return start_server(
        "--token-file", tokens, "--queue-bytes-max", 4 * MIB, "--batch-bytes-max", 4 * MIB,
        "--payload-bytes-max", 2 * MIB, "--receive-bytes-max", 64 * MIB,
        "--inline-bytes-max", 4096, "--batch-delay-max", "10s")


class Provoked:
    """A call for each reason; `rejected` says how often the server has counted it."""

    def __init__(self, server, client):
        self.server, self.client, self.calls = server, client, []

    def compute(self, payload=b"x", spec=None, token=ALICE, metadata=(), **options):
        return self.client.compute(payload, spec, metadata=bearer(token) + metadata, **options)

    def queue(self, payload, token=ALICE):
        """A call that stays in the queue until it is cancelled."""
        before = self.server.metrics().value("histsvc_queue_payloads")
        call = self.client.stub.Compute.future(
            pb.ComputeRequest(payload=payload), timeout=100, metadata=bearer(token))
        wait_until(lambda: self.server.metrics().value("histsvc_queue_payloads") > before, 60,
                   "a queued call")
        self.calls.append(call)

    def empty_queue(self):
        while self.calls:
            self.calls.pop().cancel()
        wait_until(lambda: self.server.metrics().value("histsvc_queue_payloads") == 0, 60, "an empty queue")

    def refused(self, *expected, mentions=(), **call):
        expect_error(lambda: self.compute(**call), *expected, mentions=mentions)

    def payload_too_large(self):
        self.refused(Code.RESOURCE_EXHAUSTED, "PAYLOAD_TOO_LARGE", "payload", 2 * MIB, payload=b"x" * (2 * MIB + 1),
                     mentions=[str(2 * MIB + 1), "Accumulate"])

    def bad_request(self):
        self.refused(Code.INVALID_ARGUMENT, "BAD_BINNING", spec=specs.even(0))

    def too_many_bins(self):
        self.refused(Code.INVALID_ARGUMENT, "TOO_MANY_BINS", spec=specs.even(70_000))

    def compressed(self):
        self.refused(Code.UNIMPLEMENTED, "COMPRESSED_MESSAGE", payload=b"x" * 10_000,
                     compression=grpc.Compression.Gzip, mentions=["switch compression off"])

    def headers_too_large(self):
        self.refused(Code.RESOURCE_EXHAUSTED, "HEADERS_TOO_LARGE", "headers", 16_384,
                     metadata=(("x-much", "y" * 20_000),), mentions=["less metadata"])

    def unauthenticated(self):
        self.refused(Code.UNAUTHENTICATED, "UNAUTHENTICATED", token="nobody-has-this-token")

    def quota(self):
        payload = random_bytes(MIB + MIB // 2)
        self.queue(payload, BOB)
        self.refused(Code.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED", payload=payload, token=BOB)
        self.empty_queue()

    def queue_full(self):
        payload = random_bytes(MIB + MIB // 2)
        self.queue(payload)
        self.refused(Code.RESOURCE_EXHAUSTED, "QUEUE_FULL", payload=payload, mentions=["by this caller"])
        self.empty_queue()

    def draining(self):
        """An open stream is ended; a call in the queue keeps the process alive to be asked."""
        self.queue(random_bytes(100_000))
        feed = Feed()
        stream = self.client.stub.Accumulate(iter(feed), timeout=100, metadata=bearer(ALICE))
        wait_until(lambda: self.server.metrics().value("histsvc_streams_open") == 1, 60, "the stream")
        self.server.terminate()
        expect_error(lambda: list(stream), Code.UNAVAILABLE, "DRAINING")
        feed.half_close()

    def rejected(self, reason):
        return self.server.metrics().value("histsvc_rejected_total", reason=reason)


def test_each_documented_reason(server):
    reasons = {labels["reason"] for name, labels, _ in server.metrics().samples
               if name == "histsvc_rejected_total"}
    assert documented_reasons() == reasons
    reasons.remove("receive_memory")  # test_receive_guard.py
    with Client(server.address) as client:
        provoked = Provoked(server, client)
        for reason in sorted(reasons, key=lambda name: name == "draining"):  # that one comes last
            getattr(provoked, reason)()
            wait_until(lambda reason=reason: provoked.rejected(reason) == 1, 60, f"{reason} counted")
        assert sum(map(provoked.rejected, reasons)) == len(reasons)
        provoked.calls.pop().cancel()
        server.wait()


@pytest.mark.parametrize("size", (2 * MIB + 1, 20 * MIB))
def test_what_is_too_large_is_refused_by_the_service(server, size):
    """Far beyond the limit, too: gRPC's own maximum is what all messages together may take."""
    payload, metadata = b"x" * size, bearer(ALICE)
    with Client(server.address) as client:
        of_payload = expect_error(lambda: client.compute(payload, metadata=metadata), Code.RESOURCE_EXHAUSTED,
                                  "PAYLOAD_TOO_LARGE", "payload", 2 * MIB, [str(size), "Accumulate"])
        of_chunk = expect_error(lambda: list(client.stub.Accumulate(
            iter([pb.AccumulateRequest(chunk=payload)]), timeout=60, metadata=metadata)),
            Code.RESOURCE_EXHAUSTED, "PAYLOAD_TOO_LARGE", "chunk", 2 * MIB, ["smaller chunks"])
        for error in (of_payload, of_chunk):
            assert metadata_of(error)["grpc-retry-pushback-ms"] == "-1"
            assert not error_of(error).HasField("retry_after_ms")
        [reply] = client.stub.ComputeMany(iter([pb.ComputeManyRequest(
            request_id=7, request=pb.ComputeRequest(payload=payload))]), timeout=60, metadata=metadata)
        assert (reply.request_id, reply.error.reason) == (7, "PAYLOAD_TOO_LARGE")
        wait_until(lambda: server.metrics().value(
            "histsvc_requests_total", code="RESOURCE_EXHAUSTED") == 3, 60, "three refusals counted")
        assert server.metrics().value("histsvc_rejected_total", reason="payload_too_large") == 3
        assert "request failed" in server.stderr()  # lines that come within 10 ms are one


def test_what_grpc_refuses_is_counted_once(server):
    """As CANCELLED; as RESOURCE_EXHAUSTED where the call guard was first, and only there."""
    def ended_by_the_guard():
        return server.metrics().value("histsvc_rejected_total", reason="receive_memory")

    payload, metadata = b"x" * (65 * MIB), bearer(ALICE)
    with Client(server.address) as client:
        calls = {
            "Compute": lambda: client.compute(payload, metadata=metadata),
            "ComputeMany": lambda: list(client.stub.ComputeMany(iter([pb.ComputeManyRequest(
                request=pb.ComputeRequest(payload=payload))]), timeout=60, metadata=metadata)),
            "Accumulate": lambda: list(client.stub.Accumulate(
                iter([pb.AccumulateRequest(chunk=payload)]), timeout=60, metadata=metadata))}
        for method, call in calls.items():
            before = ended_by_the_guard()
            with pytest.raises(grpc.RpcError) as caught:
                call()
            assert caught.value.code() == Code.RESOURCE_EXHAUSTED
            def counted_once(method=method, before=before):
                cancelled, exhausted = (server.metrics().value(
                    "histsvc_requests_total", method=method, code=code)
                    for code in ("CANCELLED", "RESOURCE_EXHAUSTED"))
                return cancelled + exhausted == 1 and exhausted == ended_by_the_guard() - before
            wait_until(counted_once, 60, method)


def test_a_compressed_item_ends_its_stream_after_what_came_before(start_server):
    """Nobody can read the id of the item, so no answer could name it."""
    items = [pb.ComputeManyRequest(request_id=1, request=pb.ComputeRequest(payload=b"a")),
             pb.ComputeManyRequest(request_id=2, request=pb.ComputeRequest(payload=b"b" * 10_000))]
    server = start_server()
    with Client(server.address) as client:
        call = client.stub.ComputeMany(iter(items), timeout=60,
                                       compression=grpc.Compression.Gzip)
        assert next(call).request_id == 1  # gRPC sends uncompressed what would grow
        expect_error(lambda: list(call), Code.UNIMPLEMENTED, "COMPRESSED_MESSAGE")
        expect_error(lambda: list(client.stub.Accumulate(
            iter([pb.AccumulateRequest(chunk=b"b" * 10_000)]), timeout=60,
            compression=grpc.Compression.Deflate)), Code.UNIMPLEMENTED, "COMPRESSED_MESSAGE")
        wait_until(lambda: server.metrics().value("histsvc_rejected_total", reason="compressed") == 2, 60, "two refusals")
