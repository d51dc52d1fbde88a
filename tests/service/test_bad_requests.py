"""Bad requests of every kind: each is refused with its code, reason, field and limit, and harms nobody."""

import math
import struct
import time

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import oracle, specs, wire
from harness.api import Client, check_error, error_of, expect_error, pb
from harness.encodings import MALFORMED, MALFORMED_SPECS, TABLE, UNKNOWN_FIELDS, UNUSUAL

INVALID = grpc.StatusCode.INVALID_ARGUMENT
EVEN, EDGES, ALPHABET, BYTE_TABLE = (f"spec.binning.{kind}" for kind in (
    "even.", "edges.edges", "alphabet.", "byte_table."))

# (reason, field, limit, specs); None: not looked at.
BAD_SPECS = (
    ("BAD_BINNING", EVEN + "bin_count", None, specs.even(0)),
    ("TOO_MANY_BINS", EVEN + "bin_count", 65536, specs.even(65537), specs.even(2**32 - 1)),
    ("BAD_BINNING", EVEN + "upper", None, specs.even(5, lower=1), specs.even(5, 3, math.nan), specs.even(5, 3, math.inf)),
    ("BAD_BINNING", EVEN + "lower", None, specs.even(5, upper=1), specs.even(5, math.nan, 3),
     specs.even(5, -math.inf, 3)),
    # Equal, descending, a width or a sum that overflows, the last symbol beyond.
    ("BAD_BINNING", None, None, specs.even(5, 3, 3), specs.even(5, 4, 3), specs.even(5, -1.7e308, 1.7e308),
     specs.alphabet(250, 7, 1), specs.alphabet(2, 2**32 - 1, 1), specs.alphabet(2**32 - 1, 2, 1)),
    ("BAD_BINNING", EDGES, None, specs.edges([]), specs.edges([1])),
    ("TOO_MANY_BINS", EDGES, 65536, specs.edges([float(i) for i in range(65538)])),
    ("BAD_BINNING", EDGES + "[0]", None, specs.edges([math.nan, 3]), specs.edges([-math.inf, 1])),
    ("BAD_BINNING", EDGES + "[1]", None, specs.edges([-0.0, 0.0]), specs.edges([1, math.nan, 3]),
     specs.edges([1, math.inf])),
    ("BAD_BINNING", EDGES + "[2]", None, specs.edges([1, 3, 2]), specs.edges([1, 2, 2, 3])),
    ("BAD_BINNING", ALPHABET + "symbol_count", None, specs.alphabet(5, 0, 1)),
    ("BAD_BINNING", ALPHABET + "symbols_per_bin", None, specs.alphabet(5, 5, 0)),
    ("BAD_BINNING", ALPHABET + "first_symbol", None, specs.alphabet(256, 1, 1)),
    ("BAD_BINNING", BYTE_TABLE + "bin_count", None, specs.byte_table(0, TABLE)),
    ("TOO_MANY_BINS", BYTE_TABLE + "bin_count", 65536, specs.byte_table(65537, TABLE)),
    ("BAD_BINNING", BYTE_TABLE + "bin_of_byte", None, specs.byte_table(4, TABLE[:255]),
     specs.byte_table(4, [*TABLE, 1]), specs.byte_table(4, [])),
    ("BAD_QUANTILE", "spec.quantiles[1]", None, pb.Spec(quantiles=[0.5, 1.0000001])),
    ("BAD_QUANTILE", "spec.quantiles[0]", None, *(pb.Spec(quantiles=[bad]) for bad in (-1e-7, math.nan, math.inf))),
    ("TOO_MANY_QUANTILES", "spec.quantiles", 1024, pb.Spec(quantiles=[0.5] * 1025)),
    ("UNKNOWN_ENUM_VALUE", "spec.sample_type", None, pb.Spec(sample_type=13), pb.Spec(sample_type=-1)),
)


def still_right(client):
    payload = b"still here"
    oracle.check_histogram(client.compute(payload).histogram, payload, pb.Spec())


def many_item(request_bytes, request_id=5):
    """A ComputeManyRequest around the bytes of a ComputeRequest."""
    return wire.uint(1, request_id) + wire.length_delimited(15, request_bytes)


def expect_item_error(client, item, code, reason=None, field=None, limit=None, mentions=(),
                      request_id=5):
    """The item fails alone: those before and after it on the same stream are answered."""
    good = [many_item(wire.payload(b"good"), 1), many_item(wire.payload(b"also good"), 2)]
    replies = {reply.request_id: reply
               for reply in client.compute_many_bytes(iter([good[0], item, good[1]]), timeout=60)}
    assert sorted(replies) == sorted([1, 2, request_id])
    assert replies[1].response.histogram.samples == 4
    assert replies[2].response.histogram.samples == 9
    assert replies[request_id].WhichOneof("result") == "error", replies[request_id]
    check_error(replies[request_id].error, code, reason, field, limit, mentions)
    return replies[request_id].error


@pytest.mark.parametrize("bad", BAD_SPECS, ids=lambda bad: f"{bad[0]} {bad[1]}")
def test_bad_specs(client, bad):
    reason, field, limit, *bad_specs = bad
    for spec in bad_specs:
        expect_error(lambda spec=spec: client.compute(b"abc", spec), INVALID, reason, field, limit)
        request = pb.ComputeRequest(spec=spec, payload=b"abc").SerializeToString()
        error = expect_item_error(client, many_item(request), INVALID, reason)
        assert field is None or error.field.endswith(field)
        expect_error(lambda spec=spec: client.accumulate([b"abc", b"def"], spec), INVALID, reason, field, limit)
    still_right(client)


@pytest.mark.parametrize("name", UNKNOWN_FIELDS)
def test_unknown_fields_are_refused(client, name):
    request, number = UNKNOWN_FIELDS[name]
    pb.ComputeRequest.FromString(request)  # protobuf takes it: an answer would ignore something
    reason = "UNKNOWN_FIELD"
    error = expect_error(lambda: client.compute_bytes(request, timeout=60), INVALID, reason,
                         mentions=[str(number)])
    assert error_of(error).field.endswith(f".{number}")
    expect_item_error(client, many_item(request), INVALID, reason, mentions=[str(number)])
    if name != "request, varint":  # AccumulateRequest has a field 2: snapshot
        expect_error(lambda: list(client.accumulate_bytes(iter([request]), timeout=60)), INVALID,
                     reason, mentions=[str(number)])
    still_right(client)


def test_unknown_fields_of_the_streams_own_messages(client):
    for item, number in ((wire.uint(1, 5) + wire.uint(2, 1), 2),
                         (wire.uint(1, 5) + wire.length_delimited(3, b"x"), 3),
                         (wire.uint(1, 5) + wire.uint(15, 1), 15)):
        expect_item_error(client, item, INVALID, "UNKNOWN_FIELD", mentions=[str(number)])
    for message, number in ((wire.uint(3, 1), 3), (wire.payload(b"abc") + wire.uint(4, 1), 4),
                            (wire.length_delimited(2, b"\x01"), 2)):
        expect_error(lambda: list(client.accumulate_bytes(iter([message]), timeout=60)), INVALID,
                     "UNKNOWN_FIELD", mentions=[str(number)])
        later = [wire.payload(b"abc"), message]
        expect_error(lambda: list(client.accumulate_bytes(iter(later), timeout=60)), INVALID,
                     "UNKNOWN_FIELD", mentions=[str(number)])
    expect_error(lambda: client.describe_bytes(wire.uint(1, 1), timeout=60), INVALID,
                 mentions=["1"])
    still_right(client)


@pytest.mark.parametrize("name", (*MALFORMED, *MALFORMED_SPECS))
def test_malformed_messages_are_refused(client, name):
    request = {**MALFORMED, **MALFORMED_SPECS}[name]
    expect_error(lambda: client.compute_bytes(request, timeout=60), INVALID)
    expect_error(lambda: list(client.accumulate_bytes(iter([request]), timeout=60)), INVALID)
    if name in MALFORMED:  # the spec is read from the first message only
        expect_error(lambda: list(client.accumulate_bytes(
            iter([wire.payload(b"abc"), request]), timeout=60)), INVALID)
    # The item is malformed, the stream's own message is not: the stream stays open.
    expect_item_error(client, many_item(request), INVALID)
    still_right(client)


def test_a_malformed_stream_message(client):
    """Without an id that can be trusted there is nothing to answer: the stream may end, no more."""
    good = many_item(wire.payload(b"good"), 1)
    for message in (b"\x80", b"\x0a", b"\x7a\x05", wire.tag(7, wire.END_GROUP)):
        call = client.compute_many_bytes(iter([good, message, good]), timeout=60)
        replies = []
        try:
            for reply in call:
                replies.append(reply)
        except grpc.RpcError as error:
            assert error.code() == INVALID
            check_error(error_of(error), INVALID)
        else:
            assert [reply.error.code for reply in replies if reply.HasField("error")] == [
                INVALID.value[0]]
        assert any(reply.response.histogram.samples == 4 for reply in replies)
    still_right(client)


# ------------------------------------------------------- valid messages that few encoders make
def check_as_protobuf_reads_it(client, request):
    """The answer is that to the request as the generated code parses it."""
    message = pb.ComputeRequest.FromString(request)
    spec = message.spec
    response = client.compute_bytes(request, timeout=60)
    oracle.check_histogram(response.histogram, message.payload, spec)
    [reply] = client.compute_many_bytes(iter([many_item(request)]), timeout=60)
    assert reply.response.histogram == response.histogram
    [reply] = client.accumulate_bytes(iter([request]), timeout=60)
    assert reply.histogram == response.histogram


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_encodings_mean_what_protobuf_says(client, name):
    check_as_protobuf_reads_it(client, UNUSUAL[name])


def test_a_spec_of_a_megabyte(client):
    """More header than payload, merged from thousands of pieces that repeat themselves."""
    table = wire.packed_uints(2, [5] * 256)
    cleared = wire.length_delimited(1, wire.uint(1, 3))  # Even: replaces the table before it
    pieces = (wire.binning(wire.length_delimited(4, table)) + wire.binning(cleared)) * 4500
    request = wire.length_delimited(1, pieces) + wire.payload(b"abc")
    assert len(request) > 1 << 20
    check_as_protobuf_reads_it(client, request)


@pytest.mark.timeout(60)
def test_a_spec_in_a_million_pieces_costs_no_more_than_its_bytes(client):
    """A large spec and then pieces of two bytes each: work grows with the bytes, not their square."""
    table = wire.binning(wire.length_delimited(4, wire.packed_uints(2, [200] * 256)))
    large = wire.spec(table * 3000)
    request = large + wire.spec() * 1_000_000 + wire.payload(b"abc")
    assert len(large) > 1 << 20
    began = time.monotonic()
    try:
        client.compute_bytes(request, timeout=60)
    except grpc.RpcError as error:
        assert error.code() == INVALID, error
    assert time.monotonic() - began < 10
    still_right(client)


# ------------------------------------------------------------------------------------- hypothesis
def check_refused_or_right(client, data):
    """Whatever it is, it never gets a wrong answer."""
    try:
        message = pb.ComputeRequest.FromString(data)
    except Exception:
        message = None
    try:
        response = client.compute_bytes(data, timeout=60)
    except grpc.RpcError as error:
        assert error.code() == INVALID
        check_error(error_of(error), INVALID)
    else:
        assert message is not None, "an answer to what is no message"
        if message.spec.sample_type <= pb.SAMPLE_TYPE_UINT8:  # a flipped bit may make it another
            oracle.check_histogram(response.histogram, message.payload, message.spec)


@settings(max_examples=150)
@given(spec=specs.specs(), payload=st.binary(max_size=300), data=st.data())
def test_flipped_and_cut_messages(client, spec, payload, data):
    """A valid message with one byte changed, or cut short."""
    request = bytearray(pb.ComputeRequest(spec=spec, payload=payload).SerializeToString() or b"\0")
    at = data.draw(st.integers(0, len(request) - 1))
    if data.draw(st.booleans()):
        request[at] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del request[at:]
    check_refused_or_right(client, bytes(request))


def test_a_small_limit_of_bins_holds_for_an_empty_accumulate(start_server):
    """The default spec is one bin per value: 256, whether a message came or not."""
    with Client(start_server("--bin-count-max", 100).address) as client:
        for call in (lambda: client.compute(b""), lambda: client.accumulate([]), lambda: client.accumulate([b""])):
            expect_error(call, INVALID, "TOO_MANY_BINS", limit=100)


def test_numbers_that_are_nearly_too_much(client):
    """Doubles at the ends of their range make bins or an error, never a crash."""
    tiny, huge = struct.unpack("<d", struct.pack("<Q", 1))[0], 1.7976931348623157e308
    payload = bytes(range(256))
    for lower, upper in ((0, tiny), (tiny, 2 * tiny), (0, huge), (-huge, 0), (huge / 2, huge),
                         (255, math.nextafter(255, 256)), (math.nextafter(0, -1), 0)):
        for count in (1, 2, 1000):
            try:
                histogram = client.compute(payload, specs.even(count, lower, upper)).histogram
            except grpc.RpcError as error:
                check_error(error_of(error), INVALID, "BAD_BINNING")
                continue
            assert len(histogram.counts) == count
            inside = [value for value in payload if lower <= value <= upper]
            assert sum(histogram.counts) == len(inside)
            assert histogram.below == sum(value < lower for value in payload)
            assert histogram.above == sum(value > upper for value in payload)
