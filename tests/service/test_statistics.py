"""Statistics, quantiles and Otsu's threshold against numpy and exact arithmetic."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import oracle, specs
from harness.api import pb
from harness.specs import BINNINGS, PAYLOADS

DEMANDING = pb.Spec(statistics=True)


def statistics_of(client, payload, spec=DEMANDING):
    histogram = client.compute(payload, spec).histogram
    oracle.check_histogram(histogram, payload, spec)
    return histogram.statistics


def test_known_values(client):
    statistics = statistics_of(client, bytes([1, 1, 2, 4]))
    assert statistics.minimum == 1
    assert statistics.maximum == 4
    assert statistics.mean == 2
    assert statistics.standard_deviation == pytest.approx(1.224744871391589, rel=1e-15)
    assert statistics.median == 1.5
    assert statistics.mode == 1
    assert statistics.entropy_bits == 1.5
    # Classes {1,1},{2,4}: 2*2*(1-3)^2 = 16; {1,1,2},{4}: 3*1*(4/3-4)^2 = 21.3.
    assert statistics.otsu_threshold == 2


def test_one_distinct_value_has_no_threshold(client):
    statistics = statistics_of(client, b"\x07" * 100)
    assert statistics.entropy_bits == 0
    assert statistics.standard_deviation == 0
    assert statistics.median == 7
    assert not statistics.HasField("otsu_threshold")


def test_zero_is_a_value_and_not_an_absence(client):
    statistics = statistics_of(client, bytes(10))
    for name in ("minimum", "maximum", "mean", "standard_deviation", "median", "mode",
                 "entropy_bits"):
        assert statistics.HasField(name) and getattr(statistics, name) == 0, name


def test_uniform_bytes_have_eight_bits(client):
    statistics = statistics_of(client, bytes(range(256)) * 4)
    assert statistics.entropy_bits == 8
    assert statistics.mode == 0
    assert statistics.median == 127.5


def test_no_binned_samples_have_no_statistics(client):
    spec = specs.even(5, 300, 400, statistics=True, quantiles=[0.5])
    histogram = client.compute(b"abc", spec).histogram
    assert histogram.HasField("statistics")
    assert histogram.statistics == pb.Statistics()
    assert (histogram.samples, histogram.below) == (3, 3)


def test_only_binned_samples_count(client):
    spec = specs.alphabet(ord("a"), 26, 26, statistics=True)
    statistics = statistics_of(client, b"0000 aac ZZZZ", spec)
    assert (statistics.minimum, statistics.maximum) == (ord("a"), ord("c"))
    assert statistics.mode == ord("a")
    assert statistics.entropy_bits == 0  # all letters lie in the one bin


def test_quantiles_come_alone_and_in_the_order_asked(client):
    payload = bytes(range(101))
    asked = [1.0, 0.0, 0.5, 0.5, 0.255, 0.001]
    histogram = client.compute(payload, pb.Spec(quantiles=asked)).histogram
    assert list(histogram.statistics.quantiles) == pytest.approx([100, 0, 50, 50, 25.5, 0.1])
    oracle.check_histogram(histogram, payload, pb.Spec(quantiles=asked))


def test_as_many_quantiles_as_allowed(client):
    asked = list(np.linspace(0, 1, 1024))
    payload = specs.random_bytes(4000)
    histogram = client.compute(payload, pb.Spec(quantiles=asked)).histogram
    oracle.check_histogram(histogram, payload, pb.Spec(quantiles=asked))


@pytest.mark.parametrize("kind", PAYLOADS)
def test_statistics_of_a_million_samples(client, kind):
    statistics_of(client, PAYLOADS[kind](1_000_003), specs.with_everything(BINNINGS["absent"]))


@pytest.mark.parametrize("payload", [
    bytes([10] * 500 + [200] * 500),  # every threshold from 10 to 199 is equally good
    bytes([0, 1]), bytes([0, 255]), bytes([0, 128, 255]), bytes([0, 1, 2]),
    bytes([5, 6, 7, 8]), bytes([1, 2, 3, 4, 5, 6, 7]), bytes(range(256)), bytes(range(255)),
    bytes([0] * 1000 + [255]), bytes([0] + [255] * 1000),
])
def test_otsu_takes_the_smallest_of_equal_thresholds(client, payload):
    statistics_of(client, payload)


@settings(max_examples=200)
@given(payload=st.one_of(
    st.binary(max_size=300),
    st.lists(st.sampled_from([0, 1, 50, 128, 200, 255]), max_size=40).map(bytes)))
def test_statistics_of_anything(client, payload):
    statistics_of(client, payload)


@settings(max_examples=100)
@given(payload=st.binary(min_size=1, max_size=64),
       quantiles=st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_quantiles_of_anything(client, payload, quantiles):
    spec = pb.Spec(quantiles=quantiles)
    oracle.check_histogram(client.compute(payload, spec).histogram, payload, spec)
