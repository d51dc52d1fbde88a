"""More bins than the default limit allows, through the whole line, against numpy."""

import grpc
import numpy as np
import pytest

from harness import specs
from harness.api import Client, expect_error, pb
from harness.typed import TYPES, check_counts, typed
from test_rows import rows_of, set_rows

INVALID = grpc.StatusCode.INVALID_ARGUMENT
MIB = 1 << 20
BINS = 1_000_000
NAMES = ("u8", "i16", "f32", "u64")


def spec_of(name, bins=BINS, lower=-3.0, upper=99.0, **options):
    return typed(specs.even(bins, lower, upper, **options), name)


@pytest.fixture
def many(start_server):
    """A server that takes 2^24 bins; a request of so many takes 24 bytes of each. With AddressSanitizer on a busy
    machine so many take longer than a batch may by default."""
    with start_server("--bin-count-max", 1 << 24, "--queue-bytes-max", 1024 * MIB, "--batch-max", "60s",
                      "--receive-bytes-max", 2048 * MIB) as server, Client(server.address) as client:
        yield client


def samples_of(name, count, seed=1):
    samples = np.random.default_rng(seed).normal(50, 40, count)
    samples = samples.clip(-200, 200) if name in ("i16", "f32") else samples.clip(0, 200)
    samples = samples.astype(TYPES[name][1])
    if name == "f32":
        samples[::2] = np.linspace(-3.0, 99.0, BINS + 1)[:: (BINS // count)][:samples[::2].size]
        samples[::100] = np.nan
    return samples


@pytest.mark.parametrize("name", NAMES)
def test_a_million_bins_by_every_method(many, name):
    """The first request makes the plan, the second one finds it."""
    samples = samples_of(name, 5000)
    edges, spec = np.linspace(-3.0, 99.0, BINS + 1), spec_of(name)
    for _ in range(2):
        check_counts(many.compute(samples.tobytes(), spec).histogram, samples, edges)
    [reply] = many.compute_many([samples.tobytes()], spec)
    check_counts(reply.histogram, samples, edges)
    half = samples.nbytes // 16 * 8
    payload = samples.tobytes()
    for seed in (0, 1):  # a plan of its own: chunks meet it before it is made
        spec.binning.even.lower, edges = -4.0 - seed, np.linspace(-4.0 - seed, 99.0, BINS + 1)
        check_counts(many.accumulate([payload[:half], payload[half:]], spec)[-1].histogram, samples, edges)


@pytest.mark.parametrize("name", NAMES)
def test_statistics_edges_and_sparse_counts(many, name):
    samples = samples_of(name, 5000)
    spec = spec_of(name, sparse=True, statistics=True, edges=True)
    histogram = many.compute(samples.tobytes(), spec).histogram
    edges = np.linspace(-3.0, 99.0, BINS + 1)
    assert len(histogram.bins) == len(histogram.counts) <= 5000
    check_counts(histogram, samples, edges)
    np.testing.assert_array_equal(np.array(histogram.edges), edges)
    values = samples.astype(np.float64)
    binned = values[(values >= -3) & (values <= 99)]
    assert histogram.statistics.minimum == binned.min()
    assert histogram.statistics.median == np.median(binned)
    assert abs(histogram.statistics.mean - binned.mean()) < 1e-9


def test_rows_and_the_datas_own_range(many):
    samples = samples_of("f32", 4000)
    samples = samples[~np.isnan(samples)][:3900]
    spec = set_rows(spec_of("f32", 100_000), windows=1000, channels=1)
    answer = many.compute(samples.tobytes(), spec).rows
    counts = np.array(answer.counts, np.uint64).reshape(4, -1)
    for r, row in enumerate(rows_of(samples, windows=1000)):
        np.testing.assert_array_equal(
            counts[r], np.histogram(row.astype(np.float64), np.linspace(-3, 99, 100_001))[0])
    spec = pb.Spec(sample_type=pb.SAMPLE_TYPE_FLOAT32, sparse=True)
    spec.binning.even.bin_count = BINS
    spec.binning.even.range_of_data = True
    values = samples.astype(np.float64)
    check_counts(many.compute(samples.tobytes(), spec).histogram, samples,
          np.linspace(values.min(), values.max(), BINS + 1))


def test_the_most_bins(many):
    samples = samples_of("f32", 3000)
    spec = spec_of("f32", 1 << 24, sparse=True)
    edges = np.linspace(-3.0, 99.0, (1 << 24) + 1)
    check_counts(many.compute(samples.tobytes(), spec).histogram, samples, edges)
    assert many.compute(b"", spec_of("u8", 1 << 24, omit_counts=True)).histogram.samples == 0


def test_many_edges(many):
    """As many as a spec holds."""
    samples = samples_of("f32", 5000)
    edges = np.unique(np.random.default_rng(3).normal(50, 40, 200_000))
    spec = typed(specs.edges(edges), "f32")
    for _ in range(2):
        check_counts(many.compute(samples.tobytes(), spec).histogram, samples, edges)


def test_more_than_a_reply_holds(many):
    limit = many.stub.Describe(pb.DescribeRequest()).limits.reply_bytes_max
    assert limit >= 16 << 24
    spec = spec_of("f32", 1 << 24, sparse=True, edges=True)
    expect_error(lambda: many.compute(bytes(64 * MIB), spec), INVALID, "REPLY_TOO_LARGE",
                 "spec.binning", limit, ["16777216 bins", "sparse"])


def test_other_callers_are_served_while_plans_are_made(many):
    """Small calls of the same connection, of which there are more than lanes to make plans."""
    specs_of_plans = [spec_of("f32", 1 << 22, upper=99.0 + i, sparse=True) for i in range(6)]
    calls = [many.stub.Compute.future(pb.ComputeRequest(payload=bytes(400), spec=spec), timeout=100)
             for spec in specs_of_plans]
    for _ in range(20):
        assert many.compute(b"abc").histogram.samples == 3
    for call in calls:
        assert call.result().histogram.samples == 100
