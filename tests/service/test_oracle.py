"""The server's counts against numpy: every binning, distribution and size, by every method."""

import numpy as np
import pytest
from hypothesis import given, settings

from harness import oracle, specs
from harness.api import pb
from harness.specs import BINNINGS, PAYLOADS, SIZES_LARGE, SIZES_SMALL, random_bytes, with_everything


@pytest.mark.parametrize("name", BINNINGS)
@pytest.mark.parametrize("kind", PAYLOADS)
def test_every_binning_of_every_distribution(client, name, kind):
    spec = with_everything(BINNINGS[name])
    payload = PAYLOADS[kind](5000)
    oracle.check_histogram(client.compute(payload, spec).histogram, payload, spec)


@pytest.mark.parametrize("name", BINNINGS)
def test_each_byte_value_alone(client, name):
    spec = BINNINGS[name]
    payloads = [bytes([value]) for value in range(256)]
    for payload, response in zip(payloads, client.compute_many(payloads, spec), strict=True):
        oracle.check_histogram(response.histogram, payload, spec)


@pytest.mark.parametrize("name", BINNINGS)
def test_no_samples(client, name):
    spec = with_everything(BINNINGS[name])
    oracle.check_histogram(client.compute(b"", spec).histogram, b"", spec)
    oracle.check_histogram(client.compute(None, spec).histogram, b"", spec)  # no payload at all
    [response] = client.compute_many([b""], spec)
    oracle.check_histogram(response.histogram, b"", spec)
    [reply] = client.accumulate([b""], spec)
    oracle.check_histogram(reply.histogram, b"", spec)
    assert reply.final


@pytest.mark.parametrize("kind", PAYLOADS)
@pytest.mark.parametrize("size", SIZES_SMALL)
def test_sizes_around_boundaries(client, kind, size):
    payload = PAYLOADS[kind](size)
    oracle.check_histogram(client.compute(payload).histogram, payload, pb.Spec())


@pytest.mark.parametrize("size", SIZES_LARGE)
def test_sizes_around_the_split_and_batch_bounds(client, size):
    payload = random_bytes(size, seed=size)
    for spec in (BINNINGS["absent"], BINNINGS["alphabet-letters"]):
        oracle.check_histogram(client.compute(payload, spec).histogram, payload, spec)


@pytest.mark.parametrize("kind", PAYLOADS)
def test_large_payloads_of_every_distribution(client, kind):
    payload = PAYLOADS[kind]((3 << 20) + 5)
    spec = with_everything(BINNINGS["even-7"])
    oracle.check_histogram(client.compute(payload, spec).histogram, payload, spec)


def test_the_largest_payload_allowed(client):
    limit = client.stub.Describe(pb.DescribeRequest()).limits.payload_bytes_max
    payload = np.resize(np.frombuffer(random_bytes(1 << 20), np.uint8), limit).tobytes()
    oracle.check_histogram(client.compute(payload).histogram, payload, pb.Spec())


@pytest.mark.parametrize("size", (1, 1000, 65537, 1 << 20, (5 << 20) + 1))
@pytest.mark.parametrize("name", ("absent", "even-10-fractions", "table-letters"))
def test_all_methods_agree(client, name, size):
    spec = with_everything(BINNINGS[name])
    payload = random_bytes(size, seed=3)
    one = client.compute(payload, spec).histogram
    oracle.check_histogram(one, payload, spec)
    [many] = client.compute_many([payload], spec)
    assert many.histogram == one
    for chunk_size in (size, size // 3 + 1, max(1, size // 50)):
        chunks = [payload[at:at + chunk_size] for at in range(0, size, chunk_size)]
        replies = client.accumulate(chunks, spec)
        assert len(replies) == 1
        assert replies[0].final and replies[0].chunks == len(chunks)
        assert replies[0].histogram == one


@pytest.mark.parametrize("bin_count", (1, 2, 3, 5, 10, 13, 49, 100, 255, 256, 257, 4095, 65535, 65536))
@pytest.mark.parametrize("bounds", ((None, None), (0, 255), (0.1, 0.7), (-3, 1.5), (1e-5, 1e5)))
def test_even_edges_are_those_of_linspace(client, bin_count, bounds):
    spec = specs.even(bin_count, *bounds, edges=True)
    histogram = client.compute(bytes(range(256)), spec).histogram
    lower, upper = (0, 256) if bounds == (None, None) else bounds
    want = np.linspace(lower, upper, bin_count + 1)
    np.testing.assert_array_equal(np.array(histogram.edges), want)
    oracle.check_histogram(histogram, bytes(range(256)), spec)


def test_values_at_rounded_edges(client):
    """Edges that fall on or beside whole numbers by rounding decide like numpy's, bin by bin."""
    payload = bytes(range(256))
    rng = np.random.default_rng(11)
    for _ in range(60):
        divisor = float(rng.choice([3.0, 7.0, 10.0, 49.0, 0.1, 0.7]))
        first, count = int(rng.integers(0, 100)), int(rng.integers(1, 500))
        spec = specs.even(count, first / divisor, (first + count) / divisor)
        oracle.check_histogram(client.compute(payload, spec).histogram, payload, spec)


def test_omitted_counts_leave_the_rest(client):
    payload = random_bytes(10_000)
    full = with_everything(BINNINGS["even-5-inside"])
    bare = pb.Spec()
    bare.CopyFrom(full)
    bare.omit_counts = True
    have, want = client.compute(payload, bare).histogram, client.compute(payload, full).histogram
    assert len(have.counts) == 0
    del want.counts[:]
    assert have == want


def test_sample_type_unspecified_means_uint8(client):
    payload = random_bytes(999)
    for sample_type in (pb.SAMPLE_TYPE_UNSPECIFIED, pb.SAMPLE_TYPE_UINT8):
        response = client.compute(payload, pb.Spec(sample_type=sample_type))
        oracle.check_histogram(response.histogram, payload, pb.Spec())


@settings(max_examples=250)
@given(spec=specs.specs(), payload=specs.payloads())
def test_compute_of_anything(client, spec, payload):
    oracle.check_histogram(client.compute(payload, spec).histogram, payload, spec)


@settings(max_examples=60)
@given(spec=specs.specs(), payload=specs.payloads(), parts=specs.st.integers(1, 9))
def test_streams_of_anything(client, spec, payload, parts):
    size = len(payload) // parts + 1
    chunks = [payload[at:at + size] for at in range(0, len(payload), size)] or [b""]
    replies = client.accumulate(chunks, spec, snapshots=range(len(chunks)))
    assert len(replies) == len(chunks) + 1
    for index, reply in enumerate(replies):
        oracle.check_histogram(reply.histogram, payload[:size * (index + 1)], spec)
        assert reply.final == (index == len(chunks))
        assert reply.chunks == min(index + 1, len(chunks))
    for chunk, response in zip(chunks, client.compute_many(chunks, spec), strict=True):
        oracle.check_histogram(response.histogram, chunk, spec)
