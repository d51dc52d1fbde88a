"""The second oracle: what numpy says about a payload and a Spec, and how to compare a reply with it.

Nothing here is derived from the server's code: counts come from numpy.histogram and numpy.bincount,
statistics from numpy on the binned samples, Otsu's threshold from exact integers.
"""

import dataclasses
import math
from fractions import Fraction

import numpy as np

# Beyond this numpy.histogram gets the 256 values with their counts as weights (exact below 2^53).
DIRECT_BYTES_MAX = 1 << 20


@dataclasses.dataclass
class Expected:
    counts: np.ndarray  # uint64, one per bin
    below: int
    above: int
    ignored: int
    edges: np.ndarray | None  # None where bins are no intervals
    bin_of: np.ndarray  # of each byte value; -1: in no bin
    values: np.ndarray  # how often each byte value occurs among the binned samples


def _intervals(samples, value_counts, bins, bounds):
    """Counts and edges of numeric bins: `bins` is a number (then `bounds` holds) or an array of edges."""
    if samples.size <= DIRECT_BYTES_MAX:
        counts, edges = np.histogram(samples.astype(np.float64), bins=bins, range=bounds)
        return counts.astype(np.uint64), edges
    counts, edges = np.histogram(
        np.arange(256, dtype=np.float64), bins=bins, range=bounds,
        weights=value_counts.astype(np.float64))
    return counts.astype(np.uint64), edges


def expected(payload, spec):
    """What the histogram of `payload` (bytes) under `spec` (histogram.v1.Spec) has to be."""
    samples = np.frombuffer(payload, dtype=np.uint8)
    value_counts = np.bincount(samples, minlength=256).astype(np.uint64)
    kind = spec.binning.WhichOneof("kind")
    values = np.arange(256, dtype=np.float64)
    if kind is None:
        edges = np.arange(257, dtype=np.float64)
        return Expected(value_counts, 0, 0, 0, edges, np.arange(256), value_counts)

    if kind in ("even", "edges"):
        if kind == "even":
            even = spec.binning.even
            bounds = (even.lower, even.upper) if even.HasField("lower") else (0.0, 256.0)
            counts, edges = _intervals(samples, value_counts, even.bin_count, bounds)
        else:
            edges = np.array(spec.binning.edges.edges, dtype=np.float64)
            counts, edges = _intervals(samples, value_counts, edges, None)
        bin_of = np.searchsorted(edges, values, side="right") - 1
        bin_of[values == edges[-1]] = len(counts) - 1
        bin_of[(values < edges[0]) | (values > edges[-1])] = -1
        below = int(value_counts[values < edges[0]].sum())
        above = int(value_counts[values > edges[-1]].sum())
        binned = np.where(bin_of >= 0, value_counts, 0).astype(np.uint64)
        return Expected(counts, below, above, 0, edges, bin_of, binned)

    bin_of = np.full(256, -1)
    if kind == "alphabet":
        alphabet = spec.binning.alphabet
        symbols = np.arange(alphabet.symbol_count)
        bin_of[alphabet.first_symbol + symbols] = symbols // alphabet.symbols_per_bin
        bin_count = -(-alphabet.symbol_count // alphabet.symbols_per_bin)
    else:
        table = np.array(spec.binning.byte_table.bin_of_byte, dtype=np.int64)
        bin_count = spec.binning.byte_table.bin_count
        bin_of = np.where(table < bin_count, table, -1)
    bins = bin_of[samples]
    counts = np.bincount(bins[bins >= 0], minlength=bin_count).astype(np.uint64)
    binned = np.where(bin_of >= 0, value_counts, 0).astype(np.uint64)
    return Expected(counts, 0, 0, int((bins < 0).sum()), None, bin_of, binned)


def otsu_threshold(values):
    """The smallest t that maximises the between-class variance, in exact arithmetic; None if undefined."""
    counts = [int(count) for count in values]
    if sum(count > 0 for count in counts) < 2:
        return None
    total, weighted = sum(counts), sum(value * count for value, count in enumerate(counts))
    best, threshold = Fraction(-1), None
    below_count = below_weighted = 0
    for value, count in enumerate(counts):
        below_count += count
        below_weighted += value * count
        if below_count in (0, total):
            continue
        # n0 * n1 * (mean0 - mean1)^2, up to a factor that does not depend on t.
        difference = weighted * below_count - below_weighted * total
        variance = Fraction(difference * difference, below_count * (total - below_count))
        if variance > best:
            best, threshold = variance, value
    return threshold


def check_statistics(statistics, want, quantiles):
    """Compares a histogram.v1.Statistics with numpy on the binned samples."""
    total = int(want.values.sum())
    names = ("minimum", "maximum", "mean", "standard_deviation", "median", "mode", "entropy_bits")
    if total == 0:
        for name in (*names, "otsu_threshold"):
            assert not statistics.HasField(name), name
        assert not statistics.quantiles
        return
    for name in names:
        assert statistics.HasField(name), name
    present = np.flatnonzero(want.values)
    assert statistics.minimum == present[0]
    assert statistics.maximum == present[-1]
    assert statistics.mode == int(np.argmax(want.values))
    numbers = np.arange(256, dtype=np.float64)
    weights = want.values.astype(np.float64)
    mean = float(np.average(numbers, weights=weights))
    deviation = math.sqrt(float(np.average((numbers - mean) ** 2, weights=weights)))
    assert math.isclose(statistics.mean, mean, rel_tol=1e-12, abs_tol=1e-12)
    assert math.isclose(statistics.standard_deviation, deviation, rel_tol=1e-9, abs_tol=1e-7)

    probabilities = want.counts[want.counts > 0].astype(np.float64) / total
    entropy = float(-(probabilities * np.log2(probabilities)).sum())
    assert math.isclose(statistics.entropy_bits, entropy, rel_tol=1e-9, abs_tol=1e-9)
    assert statistics.entropy_bits >= 0

    threshold = otsu_threshold(want.values)
    if threshold is None:
        assert not statistics.HasField("otsu_threshold")
    else:
        assert statistics.HasField("otsu_threshold")
        assert statistics.otsu_threshold == threshold

    samples = np.repeat(numbers, want.values.astype(np.int64))
    assert statistics.median == np.median(samples)
    assert len(statistics.quantiles) == len(quantiles)
    if len(quantiles) > 0:
        np.testing.assert_allclose(
            list(statistics.quantiles), np.quantile(samples, list(quantiles), method="linear"),
            rtol=1e-12, atol=1e-9)


def check_histogram(histogram, payload, spec):
    """Compares a histogram.v1.Histogram with numpy's answer to the same payload and spec."""
    want = expected(payload, spec)
    assert histogram.samples == len(payload)
    assert (histogram.below, histogram.above, histogram.ignored) == (
        want.below, want.above, want.ignored)
    assert int(want.counts.sum()) + want.below + want.above + want.ignored == len(payload)
    if spec.omit_counts:
        assert len(histogram.counts) == 0
    else:
        np.testing.assert_array_equal(np.array(histogram.counts, dtype=np.uint64), want.counts)
    if spec.edges and want.edges is not None:
        np.testing.assert_array_equal(np.array(histogram.edges), want.edges)
    else:
        assert len(histogram.edges) == 0
    if spec.statistics and spec.statistics_only:
        # test_rows.py says which of them are there then. A flipped bit may ask for some.
        assert histogram.HasField("statistics")
    elif spec.statistics or spec.quantiles:
        assert histogram.HasField("statistics")
        check_statistics(histogram.statistics, want, spec.quantiles)
    else:
        assert not histogram.HasField("statistics")
