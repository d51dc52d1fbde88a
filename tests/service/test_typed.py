"""Typed samples against numpy: twelve types, every way in, values on edges and beside them."""

import grpc
import numpy as np
import pytest

from harness import specs
from harness.api import expect_error, pb
from harness.typed import TYPES, check_counts, typed

INVALID = grpc.StatusCode.INVALID_ARGUMENT

FLOATS = ("f16", "bf16", "f32", "f64")
BINNINGS = {
    "even": specs.even(100, 0.0, 100.0),
    "even, fractions": specs.even(37, -3.3, 91.7),
    "even, many": specs.even(5000, 0.0, 128.0),
    "edges": specs.edges([-2.5, 0, 0.1, 1, 2, 3.5, 50, 51, 99.9, 120]),
}


def edges_of(spec):
    if spec.binning.WhichOneof("kind") == "even":
        even = spec.binning.even
        return np.linspace(even.lower, even.upper, even.bin_count + 1)
    return np.array(spec.binning.edges.edges)


def sample_values(name, edges, count):
    """`count` samples, half of them on edges or beside them, as the type's own array and as float64."""
    rng = np.random.default_rng(abs(hash(name)) % 1000)
    width = edges[-1] - edges[0]
    wanted = np.concatenate([
        rng.choice(edges, count // 2) + rng.choice([-1, 0, 1], count // 2) * rng.choice([0, 1], count // 2),
        rng.uniform(edges[0] - 0.2 * width, edges[-1] + 0.2 * width, count - count // 2)])
    rng.shuffle(wanted)
    if name not in FLOATS:
        limits = np.iinfo(TYPES[name][1])
        samples = np.clip(np.rint(wanted), float(limits.min), min(float(limits.max), 2.0**62)).astype(TYPES[name][1])
        return samples, samples.astype(np.float64)
    dtype = TYPES[name][1] or np.float32
    samples = wanted.astype(dtype)
    beside = rng.integers(0, 4, count)
    samples = np.where(beside == 1, np.nextafter(samples, dtype(np.inf)), samples)
    samples = np.where(beside == 2, np.nextafter(samples, dtype(-np.inf)), samples)
    samples[::97] = np.nan
    samples[1::97] = np.inf
    samples[2::97] = -np.inf
    samples[3::97] = -0.0
    if name == "bf16":  # the upper halves of float32
        bits = (samples.view(np.uint32) >> 16).astype(np.uint16)
        samples = (bits.astype(np.uint32) << 16).view(np.float32)
        return bits, samples.astype(np.float64)
    return samples, samples.astype(np.float64)


@pytest.mark.parametrize("binning", BINNINGS)
@pytest.mark.parametrize("name", TYPES)
def test_every_type_by_every_method(client, name, binning):
    spec = typed(BINNINGS[binning], name)
    spec.edges = True
    edges = edges_of(spec)
    samples, values = sample_values(name, edges, 20_000)
    payload = samples.tobytes()
    response = client.compute(payload, spec)
    check_counts(response.histogram, values, edges)
    np.testing.assert_array_equal(np.array(response.histogram.edges), edges)
    assert response.receipt.kernel
    size = samples.itemsize
    parts = [samples[:7], samples[7:1000], samples[1000:]]
    for part, answer in zip(parts, client.compute_many([p.tobytes() for p in parts], spec), strict=True):
        check_counts(answer.histogram, values[:part.size] if part is parts[0] else
              values[7:1000] if part is parts[1] else values[1000:], edges)
    chunks = [payload[at:at + 777 * size] for at in range(0, len(payload), 777 * size)]
    replies = client.accumulate(chunks, spec, snapshots=(3,))
    check_counts(replies[0].histogram, values[:4 * 777], edges)
    check_counts(replies[-1].histogram, values, edges)
    assert replies[-1].final


@pytest.mark.parametrize("name", ("f32", "f64", "u16", "i64"))
def test_payloads_that_are_cut_over_lanes(client, name):
    spec = typed(specs.even(2048, 0.0, 100.0), name)
    edges = edges_of(spec)
    samples, values = sample_values(name, edges, 1_500_001)
    check_counts(client.compute(samples.tobytes(), spec).histogram, values, edges)


@pytest.mark.parametrize("name, lower, upper", (
    ("i8", -128, 128), ("u16", 0, 65536), ("i16", -32768, 32768)))
def test_narrow_integers_need_no_binning(client, name, lower, upper):
    dtype = TYPES[name][1]
    samples = np.arange(lower, upper).astype(dtype)
    histogram = client.compute(np.repeat(samples, 2).tobytes(), typed(pb.Spec(), name)).histogram
    assert list(histogram.counts) == [2] * (upper - lower)
    histogram = client.compute(samples.tobytes(), typed(specs.even(2), name)).histogram
    assert list(histogram.counts) == [(upper - lower) // 2] * 2


def test_integers_of_64_bits_are_compared_exactly(client):
    big = 2**53
    samples = np.array([big - 1, big, big + 1, big + 2, 2**63 - 1, -2**63], np.int64)
    spec = typed(specs.edges([0.0, float(big), float(big + 2)]), "i64")
    histogram = client.compute(samples.tobytes(), spec).histogram
    assert list(histogram.counts) == [1, 3]
    assert (histogram.below, histogram.above) == (1, 1)


@pytest.mark.parametrize("name, size", (("u16", 2), ("f32", 4), ("f64", 8)))
def test_a_part_of_a_sample_is_refused(client, name, size):
    spec = typed(BINNINGS["even"], name)
    expected = (INVALID, "PARTIAL_SAMPLE")
    mentions = [f"{3 * size + 1} bytes", name]
    payload = bytes(3 * size + 1)
    expect_error(lambda: client.compute(payload, spec), *expected, "payload", size, mentions)
    expect_error(lambda: client.accumulate([payload], spec), *expected, "chunk", size, mentions)
    expect_error(lambda: client.accumulate([bytes(size), payload], spec), *expected, "chunk", size)


@pytest.mark.parametrize("name", ("u32", "i64", "f16", "bf16", "f32", "f64"))
def test_wide_types_need_a_binning(client, name):
    mentions = ["needs", {"u32": "UINT32", "i64": "INT64", "f16": "FLOAT16", "bf16": "BFLOAT16",
                          "f32": "FLOAT32", "f64": "FLOAT64"}[name]]
    expect_error(lambda: client.compute(b"", typed(pb.Spec(), name)), INVALID, "BAD_BINNING",
                 "spec.binning", None, mentions)
    expect_error(lambda: client.compute(b"", typed(specs.even(7), name)), INVALID, "BAD_BINNING",
                 "spec.binning.even", None, mentions)


def test_bins_of_bytes_are_for_bytes(client):
    for spec, field in ((specs.alphabet(5, 5, 1), "spec.binning.alphabet"),
                        (specs.byte_table(2, [0, 1] * 128), "spec.binning.byte_table")):
        expect_error(lambda spec=spec: client.compute(b"", typed(spec, "i8")), INVALID, "BAD_BINNING",
                     field, None, ["INT8"])


@pytest.mark.parametrize("binning", ("even", "edges"))
@pytest.mark.parametrize("name", TYPES)
def test_statistics(client, name, binning):
    spec = typed(BINNINGS[binning], name)
    edges = edges_of(spec)
    quantiles = [0.0, 0.25, 0.5, 0.77, 1.0]
    spec.statistics = True
    spec.quantiles.extend(quantiles)
    samples, values = sample_values(name, edges, 9_001)
    binned = np.sort(values[(values >= edges[0]) & (values <= edges[-1])]) + 0.0
    histogram = client.compute(samples.tobytes(), spec).histogram
    check_counts(histogram, values, edges)
    statistics = histogram.statistics
    assert (statistics.minimum, statistics.maximum) == (binned[0], binned[-1])
    tolerance = 1e-12 * (edges[-1] - edges[0])
    assert abs(statistics.mean - binned.mean()) <= tolerance
    assert abs(statistics.standard_deviation - binned.std()) <= tolerance
    assert statistics.median == np.median(binned)
    np.testing.assert_array_equal(np.array(statistics.quantiles), np.quantile(binned, quantiles))
    shares = np.array(histogram.counts) / binned.size
    shares = shares[shares > 0]
    assert abs(statistics.entropy_bits + (shares * np.log2(shares)).sum()) < 1e-9
    wide = samples.itemsize > 2
    assert statistics.HasField("mode") is not wide
    assert not wide or statistics.otsu_threshold in edges
    # Seen once, chunk by chunk.
    half = samples.size // 2
    chunks = [samples[:half].tobytes(), samples[half:].tobytes()]
    if wide:
        expect_error(lambda: client.accumulate(chunks, spec), INVALID, "BAD_QUANTILE", "spec.quantiles")
        del spec.quantiles[:]
    seen = client.accumulate(chunks, spec)[-1].histogram.statistics
    assert (seen.minimum, seen.maximum) == (binned[0], binned[-1])
    assert abs(seen.mean - statistics.mean) <= tolerance
    assert abs(seen.standard_deviation - statistics.standard_deviation) <= tolerance
    assert seen.otsu_threshold == statistics.otsu_threshold
    assert seen.HasField("median") is not wide
    assert list(seen.quantiles) == ([] if wide else list(statistics.quantiles))


@pytest.mark.parametrize("name", TYPES)
def test_no_samples(client, name):
    spec = typed(BINNINGS["even"], name)
    spec.statistics = True
    for histogram in (client.compute(b"", spec).histogram, client.accumulate([b""], spec)[-1].histogram):
        assert (histogram.samples, list(histogram.counts)) == (0, [0] * 100)
        assert histogram.HasField("statistics")
        assert not histogram.statistics.ListFields()
