"""The server's counts and statistics against numpy: every binning, distribution and size, by every method."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


@settings(max_examples=250)
@given(spec=specs.specs(), payload=specs.payloads())
def test_compute_of_anything(client, spec, payload):
    oracle.check_histogram(client.compute(payload, spec).histogram, payload, spec)


@settings(max_examples=60)
@given(spec=specs.specs(), payload=specs.payloads(), parts=st.integers(1, 9))
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


# -------------------------------------------------------------------------------------- statistics
def statistics_of(client, payload, spec=pb.Spec(statistics=True)):
    histogram = client.compute(payload, spec).histogram
    oracle.check_histogram(histogram, payload, spec)
    return histogram.statistics


def test_known_statistics(client):
    """What the oracle says, said by hand."""
    statistics = statistics_of(client, bytes([1, 1, 2, 4]))
    assert statistics.standard_deviation == pytest.approx(1.224744871391589, rel=1e-15)
    # Classes {1,1},{2,4}: 2*2*(1-3)^2 = 16; {1,1,2},{4}: 3*1*(4/3-4)^2 = 21.3.
    assert [statistics.minimum, statistics.maximum, statistics.mean, statistics.median, statistics.mode,
            statistics.entropy_bits, statistics.otsu_threshold] == [1, 4, 2, 1.5, 1, 1.5, 2]
    assert statistics_of(client, bytes(range(256)) * 4).entropy_bits == 8
    assert not statistics_of(client, b"\x07" * 100).HasField("otsu_threshold")


def test_as_many_quantiles_as_allowed(client):
    statistics_of(client, random_bytes(4000), pb.Spec(quantiles=np.linspace(0, 1, 1024)))


@pytest.mark.parametrize("kind", PAYLOADS)
def test_statistics_of_a_million_samples(client, kind):
    statistics_of(client, PAYLOADS[kind](1_000_003), with_everything(BINNINGS["absent"]))


@pytest.mark.parametrize("payload", [
    bytes([10] * 500 + [200] * 500),  # every threshold from 10 to 199 is equally good
    bytes([0, 1]), bytes([0, 255]), bytes([0, 128, 255]), bytes([0, 1, 2]),
    bytes([5, 6, 7, 8]), bytes([1, 2, 3, 4, 5, 6, 7]), bytes(range(256)), bytes(range(255)),
    bytes([0] * 1000 + [255]), bytes([0] + [255] * 1000),
])
def test_otsu_takes_the_smallest_of_equal_thresholds(client, payload):
    statistics_of(client, payload)
