"""The API as Python sees it: stubs generated from proto/, raw calls, and the error in the trailer.

The stubs are generated into a temporary folder when this module is imported, so that the tests know
nothing but the .proto file.
"""

import atexit
import importlib
import pathlib
import shutil
import sys
import tempfile

import grpc
import grpc_tools
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from grpc_tools import protoc

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
PROTO_ROOT = REPOSITORY / "proto"
PROTO_FILE = "histogram/v1/histogram.proto"
SERVICE = "histogram.v1.HistogramService"


def _generate():
    folder = tempfile.mkdtemp(prefix="histogram-stubs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    status = protoc.main([
        "protoc", f"-I{PROTO_ROOT}", f"-I{well_known}", f"--python_out={folder}",
        f"--grpc_python_out={folder}", PROTO_FILE,
    ])
    if status != 0:
        raise RuntimeError(f"protoc failed on {PROTO_FILE} with status {status}")
    sys.path.insert(0, folder)


_generate()
pb = importlib.import_module("histogram.v1.histogram_pb2")
pb_grpc = importlib.import_module("histogram.v1.histogram_pb2_grpc")

# One channel option set for all: nothing here may be the client's own limit.
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
)


def open_channel(address, **options):
    """A plaintext channel of its own connection; options override CHANNEL_OPTIONS."""
    merged = dict(CHANNEL_OPTIONS)
    merged.update({f"grpc.{name}": value for name, value in options.items()})
    return grpc.insecure_channel(address, options=list(merged.items()))


class Client:
    """The service over one channel: messages (stub) and raw bytes (the *_bytes methods)."""

    def __init__(self, address, **options):
        self.address = address
        self.channel = open_channel(address, **options)
        self.stub = pb_grpc.HistogramServiceStub(self.channel)
        self.compute_bytes = self.channel.unary_unary(
            f"/{SERVICE}/Compute", response_deserializer=pb.ComputeResponse.FromString)
        self.describe_bytes = self.channel.unary_unary(
            f"/{SERVICE}/Describe", response_deserializer=pb.DescribeResponse.FromString)
        self.compute_many_bytes = self.channel.stream_stream(
            f"/{SERVICE}/ComputeMany", response_deserializer=pb.ComputeManyResponse.FromString)
        self.accumulate_bytes = self.channel.stream_stream(
            f"/{SERVICE}/Accumulate", response_deserializer=pb.AccumulateResponse.FromString)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def compute(self, payload=None, spec=None, timeout=60, **call_options):
        request = pb.ComputeRequest(payload=payload)
        if spec is not None:
            request.spec.CopyFrom(spec)
        return self.stub.Compute(request, timeout=timeout, **call_options)

    def compute_many(self, payloads, spec=None, timeout=60):
        """The responses of `payloads` (in their order), each sent as one item of one stream."""
        def requests():
            for index, payload in enumerate(payloads):
                item = pb.ComputeManyRequest(request_id=index)
                item.request.payload = payload
                if spec is not None:
                    item.request.spec.CopyFrom(spec)
                yield item
        responses = {}
        for response in self.stub.ComputeMany(requests(), timeout=timeout):
            assert response.request_id not in responses, "an item was answered twice"
            assert response.WhichOneof("result") == "response", response.error
            responses[response.request_id] = response.response
        assert sorted(responses) == list(range(len(payloads)))
        return [responses[index] for index in range(len(payloads))]

    def accumulate(self, chunks, spec=None, timeout=60, snapshots=()):
        """All replies to `chunks` sent as one payload; a snapshot is asked for after those indices."""
        def requests():
            for index, chunk in enumerate(chunks):
                message = pb.AccumulateRequest(chunk=chunk, snapshot=index in snapshots)
                if spec is not None and index == 0:
                    message.spec.CopyFrom(spec)
                yield message
        return list(self.stub.Accumulate(requests(), timeout=timeout))


def bearer(token):
    """The metadata of a call with that token."""
    return (("authorization", f"Bearer {token}"),)


def metadata_of(error):
    """The trailing metadata of a failed call, as a dictionary."""
    return {item.key: item.value for item in error.trailing_metadata() or ()}


def error_of(error):
    """The histogram.v1.Error of a failed call, or None."""
    encoded = metadata_of(error).get("histogram-error-bin")
    return None if encoded is None else pb.Error.FromString(encoded)


def check_error(detail, code, reason=None, field=None, limit=None, mentions=()):
    """Checks the parts of a histogram.v1.Error; parts that are None may be anything."""
    assert detail is not None, "the failed call carries no histogram-error-bin"
    assert detail.code == code.value[0], detail
    assert detail.reason and detail.reason == detail.reason.upper(), detail
    if reason is not None:
        assert detail.reason == reason, detail
    if field is not None:
        assert detail.field == field, detail
    if limit is not None:
        assert detail.limit == limit, detail
    assert len(detail.message) > 10, detail
    for part in mentions:
        assert part in detail.message, (part, detail.message)


DETAILS = (error_details_pb2.ErrorInfo, error_details_pb2.BadRequest, error_details_pb2.RetryInfo)


def check_details(error, own):
    """google.rpc.Status and its details, as every language's gRPC library reads them, say what `own` says."""
    status = rpc_status.from_call(error)  # also checks that code and message agree with the call's
    details = {}
    for packed in status.details:
        message = next(kind for kind in DETAILS if packed.Is(kind.DESCRIPTOR))()
        assert packed.Unpack(message)
        details[type(message).__name__] = message
    info = details.pop("ErrorInfo")
    assert (info.reason, info.domain) == (own.reason, "histogram.v1")
    assert dict(info.metadata) == ({"field": own.field} if own.field else {}) | (
        {"limit": str(own.limit)} if own.limit else {})
    if own.field:
        [violation] = details.pop("BadRequest").field_violations
        assert (violation.field, violation.description) == (own.field, status.message)
    if own.HasField("retry_after_ms"):
        assert details.pop("RetryInfo").retry_delay.ToMilliseconds() == own.retry_after_ms
    assert not details


def expect_error(call, code, reason=None, field=None, limit=None, mentions=()):
    """Runs `call`, which must fail as said here, with the same words in status and trailer."""
    try:
        result = call()
    except grpc.RpcError as error:
        assert error.code() == code, (error.code(), error.details())
        detail = error_of(error)
        check_error(detail, code, reason, field, limit, mentions)
        assert detail.message == error.details()
        check_details(error, detail)
        return error
    said = " ".join(str(result).split())[:200]
    raise AssertionError(f"expected {code}, but the call succeeded: {said}")
