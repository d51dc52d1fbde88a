"""Errors as every language's gRPC library reads them: google.rpc.Status and its details."""

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from harness import specs
from harness.api import Client, error_of, pb
from harness.specs import random_bytes
from harness.waiting import wait_until

MIB = 1 << 20
DETAILS = (error_details_pb2.ErrorInfo, error_details_pb2.BadRequest, error_details_pb2.RetryInfo)


def details_of(call):
    """The google.rpc.Status of the failed call and its details by type name, checked against the call."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    error = caught.value
    status = rpc_status.from_call(error)  # also checks that code and message agree with the call's
    assert status is not None, "no grpc-status-details-bin"
    assert (status.code, status.message) == (error.code().value[0], error.details())
    details = {}
    for packed in status.details:
        kind = next(kind for kind in DETAILS if packed.Is(kind.DESCRIPTOR))
        message = kind()
        assert packed.Unpack(message)
        details[kind.__name__] = message
    own = error_of(error)
    info = details["ErrorInfo"]
    assert (info.reason, info.domain) == (own.reason, "histogram.v1")
    assert info.metadata.get("field", "") == own.field
    assert int(info.metadata.get("limit", "0")) == own.limit
    return status, details


def test_a_bad_field(client):
    status, details = details_of(lambda: client.compute(b"x", specs.even(70_000)))
    assert status.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert dict(details["ErrorInfo"].metadata) == {
        "field": "spec.binning.even.bin_count", "limit": "65536"}
    [violation] = details["BadRequest"].field_violations
    assert violation.field == "spec.binning.even.bin_count"
    assert violation.description == status.message
    assert "RetryInfo" not in details


def test_a_field_without_a_limit(client):
    _, details = details_of(lambda: client.compute(b"x", specs.even(0)))
    assert details["ErrorInfo"].reason == "BAD_BINNING"
    assert "BadRequest" in details


def test_a_stream(client):
    _, details = details_of(lambda: client.accumulate([b"x"], specs.even(0)))
    assert details["ErrorInfo"].reason == "BAD_BINNING"


def test_when_to_come_again(start_server):
    server = start_server("--queue-bytes-max", 4 * MIB, "--batch-bytes-max", 4 * MIB,
                          "--payload-bytes-max", 2 * MIB, "--receive-bytes-max", 64 * MIB,
                          "--inline-bytes-max", 0, "--batch-delay-max", "10s")
    payload = random_bytes(MIB + MIB // 2)
    with Client(server.address) as client:
        # One caller takes at most two thirds of the queue.
        queued = client.stub.Compute.future(pb.ComputeRequest(payload=payload), timeout=100)
        wait_until(lambda: server.metrics().value("histsvc_queue_payloads") == 1, 60, "a payload that waits")
        status, details = details_of(lambda: client.compute(payload))
        assert status.code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
        assert details["ErrorInfo"].reason == "QUEUE_FULL"
        delay = details["RetryInfo"].retry_delay
        assert 0 < delay.seconds + delay.nanos / 1e9 <= 100
        queued.cancel()


def test_a_small_histogram_limit_holds_for_an_empty_accumulate(start_server):
    """The default spec is one bin per value: 256, whether a message came or not."""
    server = start_server("--bin-count-max", 100)
    with Client(server.address) as client:
        for call in (lambda: client.compute(b""), lambda: client.accumulate([]),
                     lambda: client.accumulate([b""])):
            _, details = details_of(call)
            assert details["ErrorInfo"].reason == "TOO_MANY_BINS"
            assert details["ErrorInfo"].metadata["limit"] == "100"
