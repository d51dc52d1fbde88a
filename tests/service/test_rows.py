"""Rows, sparse answers, the data's own range and chosen statistics, against numpy."""

import grpc
import numpy as np
import pytest

from harness import specs
from harness.api import expect_error, pb
from harness.specs import random_bytes
from harness.typed import TYPES, check_counts, typed

INVALID = grpc.StatusCode.INVALID_ARGUMENT
NAMES = ("u8", "u16", "i32", "f32", "f64")
EDGES = np.linspace(0, 200, 21)


def spec_of(name, bins=20, **options):
    return typed(specs.even(bins, 0.0, 200.0, **options), name)


def samples_of(name, count, seed=1):
    rng = np.random.default_rng(seed)
    samples = np.clip(rng.normal(100, 60, count), 0, 255).astype(TYPES[name][1])
    if name.startswith("f"):
        samples[::50] = np.nan
    return samples


def rows_of(samples, windows=None, step=0, lengths=None, channels=1):
    """The rows that numpy would cut."""
    pixels = samples.reshape(-1, channels)
    if lengths is not None:
        cuts = np.cumsum([0, *lengths])
        stretches = [pixels[a:b] for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
    elif windows is None:
        stretches = [pixels]
    elif step == 0:
        stretches = [pixels[at:at + windows] for at in range(0, len(pixels), windows)]
    else:
        stretches = [pixels[at:at + windows] for at in range(0, len(pixels) - windows + 1, step)]
    return [stretch[:, c] for stretch in stretches for c in range(channels)]


def set_rows(spec, windows=None, step=0, lengths=None, channels=1):
    spec.rows.SetInParent()
    if channels > 1:
        spec.rows.channels = channels
    if windows is not None:
        spec.rows.windows.samples = windows
        spec.rows.windows.step = step
    if lengths is not None:
        spec.rows.lengths.samples.extend(lengths)
        spec.rows.lengths.SetInParent()
    return spec


def check_rows(answer, rows, edges=EDGES):
    assert answer.row_count == len(rows)
    assert answer.bin_count == len(edges) - 1 or not rows
    counts = np.array(answer.counts, np.uint64).reshape(len(rows), -1)
    zeros = [0] * len(rows)
    for r, row in enumerate(rows):
        values = row.astype(np.float64)
        numbers = values[~np.isnan(values)]
        np.testing.assert_array_equal(counts[r], np.histogram(numbers, edges)[0].astype(np.uint64))
        assert answer.samples[r] == row.size
        assert (list(answer.below) or zeros)[r] == int((numbers < edges[0]).sum())
        assert (list(answer.above) or zeros)[r] == int((numbers > edges[-1]).sum())
        assert (list(answer.nan) or zeros)[r] == row.size - numbers.size


CUTS = {
    "one row": {},
    "windows": {"windows": 100},
    "windows that overlap": {"windows": 100, "step": 30},
    "windows with gaps": {"windows": 50, "step": 130},
    "a window longer than the payload": {"windows": 10**9},
    "lengths": {"lengths": [0, 10, 500, 0, 290, 200, 0]},
    "channels": {"channels": 4},
    "windows of channels": {"windows": 30, "channels": 5},
    "overlapping windows of channels": {"windows": 30, "step": 7, "channels": 2},
    "lengths of channels": {"lengths": [100, 0, 400], "channels": 2},
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", NAMES)
def test_rows(client, name, cut):
    samples = samples_of(name, 1000)
    spec = set_rows(spec_of(name, edges=True), **CUTS[cut])
    response = client.compute(samples.tobytes(), spec)
    check_rows(response.rows, rows_of(samples, **CUTS[cut]))
    assert response.histogram.samples == 1000
    assert not response.histogram.counts
    np.testing.assert_array_equal(np.array(response.histogram.edges), EDGES)
    [many] = client.compute_many([samples.tobytes()], spec)
    assert many.rows == response.rows


def test_rows_of_bytes_by_every_binning(client):
    payload = random_bytes(1000)
    for spec in (pb.Spec(), specs.alphabet(ord("a"), 26, 6), specs.byte_table(3, [i % 4 for i in range(256)])):
        whole = client.compute(payload[:100], spec).histogram
        rows = client.compute(payload, set_rows(spec, windows=100)).rows
        assert list(rows.counts[:rows.bin_count]) == list(whole.counts)
        assert (list(rows.ignored) or [0])[0] == whole.ignored
        assert rows.row_count == 10


@pytest.mark.parametrize("name", NAMES)
def test_no_samples(client, name):
    assert client.compute(b"", set_rows(spec_of(name))).rows.row_count == 1
    assert client.compute(b"", set_rows(spec_of(name), windows=5)).rows.row_count == 0
    assert client.compute(b"", set_rows(spec_of(name), lengths=[])).rows.row_count == 0
    assert client.compute(b"", set_rows(spec_of(name), lengths=[0, 0])).rows.row_count == 2


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cut", [{"windows": 99}, {"lengths": [0, 1, 70_000, 30, 2, 9967]}, {"channels": 8},
                                 {"windows": 1000, "channels": 2}], ids=str)
def test_statistics_of_rows(client, name, cut):
    samples = samples_of(name, 1000 if cut == {"windows": 99} else 80_000)
    quantiles = [0, 0.25, 0.5, 0.999]
    spec = set_rows(spec_of(name, statistics=True, quantiles=quantiles), **cut)
    answer = client.compute(samples.tobytes(), spec).rows
    for r, row in enumerate(rows_of(samples, **cut)):
        values = row.astype(np.float64)
        binned = values[(values >= 0) & (values <= 200)]
        if not binned.size:
            assert np.isnan([answer.mean[r], answer.median[r], answer.quantiles[4 * r]]).all()
            continue
        assert (answer.minimum[r], answer.maximum[r]) == (binned.min(), binned.max())
        assert abs(answer.mean[r] - binned.mean()) < 1e-9
        assert abs(answer.standard_deviation[r] - binned.std()) < 1e-9
        assert answer.median[r] == np.median(binned)
        assert list(answer.quantiles[4 * r:4 * r + 4]) == list(np.quantile(binned, quantiles))
        shares = np.histogram(binned, EDGES)[0] / binned.size
        shares = shares[shares > 0]
        assert abs(answer.entropy_bits[r] + (shares * np.log2(shares)).sum()) < 1e-9
    [many] = client.compute_many([samples.tobytes()], spec)
    np.testing.assert_array_equal(many.rows.quantiles, answer.quantiles)


@pytest.mark.parametrize("name", ("i32", "f32", "f64"))
def test_chunks_tell_no_order_of_wide_types(client, name):
    payload = samples_of(name, 600).tobytes()
    spec = set_rows(spec_of(name, statistics=True), channels=3)
    [reply] = client.accumulate([payload], spec)
    assert np.isnan(reply.rows.median).all() and len(reply.rows.median) == 3
    spec.quantiles.append(0.5)
    expect_error(lambda: client.accumulate([payload], spec), INVALID, "BAD_QUANTILE", "spec.quantiles")


@pytest.mark.parametrize("name", ("u8", "u16", "f32"))
def test_channels_of_chunks(client, name):
    samples = samples_of(name, 3000)
    spec = set_rows(spec_of(name, statistics=True), channels=3)
    size = 3 * 70 * samples.itemsize
    payload = samples.tobytes()
    chunks = [payload[at:at + size] for at in range(0, len(payload), size)]
    replies = client.accumulate(chunks, spec, snapshots=(1,))
    check_rows(replies[0].rows, rows_of(samples[:2 * 3 * 70], channels=3))
    check_rows(replies[-1].rows, rows_of(samples, channels=3))
    assert replies[-1].histogram.samples == 3000
    whole = client.compute(payload, spec).rows
    np.testing.assert_allclose(replies[-1].rows.mean, whole.mean, rtol=1e-12)
    [empty] = client.accumulate([b""], spec)
    assert empty.rows.row_count == 3
    expect_error(lambda: client.accumulate([payload[:4 * samples.itemsize]], spec), INVALID, "BAD_ROWS",
                 "spec.rows.channels", 3)
    for cut, field in (({"windows": 5}, "windows"), ({"lengths": [1]}, "lengths")):
        expect_error(lambda cut=cut: client.accumulate([b""], set_rows(spec_of(name), **cut)), INVALID,
                     "BAD_ROWS", f"spec.rows.{field}")


def test_rows_that_do_not_fit(client):
    payload = random_bytes(100)
    for cut, field, mentions in (
            ({"channels": 3}, "spec.rows.channels", ["100 samples", "3 channels"]),
            ({"windows": 0}, "spec.rows.windows.samples", ["is 0", "at least 1"]),
            ({"lengths": [60, 60]}, "spec.rows.lengths", ["number 1 is 60", "100 samples", "40 are left"]),
            ({"lengths": [60, 30]}, "spec.rows.lengths", ["90", "100"]),
            ({"lengths": [2**63, 2**63, 100]}, "spec.rows.lengths", [])):
        expect_error(lambda cut=cut: client.compute(payload, set_rows(spec_of("u8"), **cut)), INVALID,
                     "BAD_ROWS", field, None, mentions)
    limits = client.stub.Describe(pb.DescribeRequest()).limits
    expect_error(lambda: client.compute(bytes(limits.rows_max + 1), set_rows(specs.even(1), windows=1)),
                 INVALID, "TOO_MANY_ROWS", "spec.rows", limits.rows_max)
    expect_error(lambda: client.compute(bytes(1 << 20), set_rows(specs.even(60000), windows=1024)),
                 INVALID, "REPLY_TOO_LARGE", "spec.rows", limits.reply_bytes_max)
    expect_error(lambda: client.compute(payload, set_rows(spec_of("u8", sparse=True))), INVALID, "BAD_ROWS",
                 "spec.sparse")


@pytest.mark.parametrize("name", NAMES)
def test_sparse(client, name):
    samples = samples_of(name, 50)
    spec = spec_of(name, 5000, sparse=True)
    for histogram in (client.compute(samples.tobytes(), spec).histogram,
                      client.accumulate([samples[:20].tobytes(), samples[20:].tobytes()], spec)[-1].histogram):
        check_counts(histogram, samples, np.linspace(0, 200, 5001))
        assert all(histogram.counts)
        assert list(histogram.bins) == sorted(histogram.bins)
    assert not client.compute(b"", spec).histogram.bins


def of_range(kind, name, bins=3):
    """Bins over the range of the data, or of each row."""
    return typed(pb.Spec(binning=pb.Binning(even=pb.Binning.Even(bin_count=bins, **{kind: True}))), name)


@pytest.mark.parametrize("name", NAMES)
def test_the_datas_own_range(client, name):
    samples = samples_of(name, 1000)
    samples = samples[~np.isnan(samples.astype(np.float64))]
    spec = of_range("range_of_data", name, 37)
    spec.edges = True
    values = samples.astype(np.float64)
    edges = np.linspace(values.min(), values.max(), 38)
    for payload, want in ((samples.tobytes(), edges), (b"", np.linspace(0, 1, 38)),
                          (samples[:1].tobytes(), np.linspace(values[0] - 0.5, values[0] + 0.5, 38))):
        histogram = client.compute(payload, spec).histogram
        np.testing.assert_array_equal(np.array(histogram.edges), want)
        check_counts(histogram, values[:len(payload) // samples.itemsize], want)
    answer = client.compute(samples.tobytes(), set_rows(spec, windows=100))
    np.testing.assert_array_equal(np.array(answer.histogram.edges), edges)
    check_rows(answer.rows, rows_of(samples, windows=100), edges)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", NAMES)
def test_each_rows_own_range(client, name, cut):
    samples = samples_of(name, 1000)
    samples[np.isnan(samples.astype(np.float64))] = 3
    samples[:200] = 5  # a row of equal samples, perhaps
    spec = set_rows(of_range("range_of_row", name, 7), **CUTS[cut])
    spec.statistics = True
    answer = client.compute(samples.tobytes(), spec).rows
    rows = rows_of(samples, **CUTS[cut])
    counts = np.array(answer.counts, np.int64).reshape(len(rows), 7)
    assert len(answer.lower) == len(answer.upper) == answer.row_count == len(rows)
    for r, row in enumerate(rows):
        expected, edges = np.histogram(row.astype(np.float64), 7)
        assert (answer.lower[r], answer.upper[r]) == (edges[0], edges[-1])
        assert counts[r].tolist() == np.histogram(row, edges)[0].tolist() == expected.tolist()
        if row.size:
            assert answer.median[r] == np.median(row.astype(np.float64))
    assert not answer.below and not answer.above and not answer.nan
    [many] = client.compute_many([samples.tobytes()], spec)
    assert many.rows == answer


def test_what_a_rows_own_range_is_not_for(client):
    payload = samples_of("f64", 100)[1:41].tobytes()
    for change, field in ((lambda even: setattr(even, "lower", 0), "spec.binning.even.lower"),
                          (lambda even: setattr(even, "upper", 9), "spec.binning.even.upper"),
                          (lambda even: setattr(even, "range_of_data", True),
                           "spec.binning.even.range_of_row")):
        spec = set_rows(of_range("range_of_row", "f64", 7), windows=10)
        change(spec.binning.even)
        expect_error(lambda spec=spec: client.compute(payload, spec), INVALID, "BAD_BINNING", field)
    expect_error(lambda: client.compute(payload, of_range("range_of_row", "f64", 7)), INVALID, "BAD_BINNING",
                 "spec.binning.even.range_of_row", None, ["spec.rows is absent"])
    spec = set_rows(of_range("range_of_row", "f64", 7), channels=2)
    expect_error(lambda: client.accumulate([payload], spec), INVALID, "BAD_BINNING",
                 "spec.binning.even.range_of_row")
    spec.edges = True
    expect_error(lambda: client.compute(payload, spec), INVALID, "BAD_BINNING", "spec.edges")
    spec = set_rows(of_range("range_of_row", "f32", 7), windows=2)
    for bad, name in ((np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")):
        broken = np.array([1, 2, 3, 4, 5, bad], np.float32).tobytes()
        expect_error(lambda broken=broken: client.compute(broken, spec), INVALID, "NOT_FINITE",
                     "spec.binning.even.range_of_row", None, [f"sample 1 of row 2 is {name};"])
    spec = set_rows(of_range("range_of_row", "f64", 60_000), windows=2)
    close = np.array([1, 2, 1, np.nextafter(1, 2)]).tobytes()
    expect_error(lambda: client.compute(close, spec), INVALID, "BAD_BINNING",
                 "spec.binning.even.bin_count", None, ["row 1"])


def test_rows_that_take_too_much(client):
    """Small requests that would keep a core busy, or fill the memory."""
    payload = random_bytes(1 << 20)
    for spec in (set_rows(spec_of("u8", omit_counts=True), windows=1 << 19, step=5),
                 set_rows(specs.even(60000, omit_counts=True), windows=16)):
        expect_error(lambda spec=spec: client.compute(payload, spec), INVALID, "TOO_MANY_ROWS", "spec.rows",
                     None, ["samples in", "counters"])
    spec = set_rows(spec_of("u16", statistics=True, omit_counts=True), channels=100_000)
    expect_error(lambda: client.accumulate([b""], spec), INVALID, "TOO_MANY_ROWS", "spec.rows")
    still = client.compute(payload, set_rows(spec_of("u8"), windows=4096, step=512)).rows
    assert still.row_count == ((1 << 20) - 4096) // 512 + 1


@pytest.mark.parametrize("rows", ({}, {"windows": 3}, {"lengths": [1, 2]}))
def test_a_part_of_a_sample_has_no_range(client, rows):
    for name, size in (("u16", 2), ("f32", 4), ("f64", 8)):
        spec = of_range("range_of_data", name)
        if rows:
            set_rows(spec, **rows)
        expect_error(lambda spec=spec, size=size: client.compute(bytes(3 * size - 1), spec), INVALID,
                     "PARTIAL_SAMPLE", "payload", size)
        assert client.compute(bytes(3 * size), spec).histogram.samples == 3


def test_the_range_of_what_has_none(client):
    spec = of_range("range_of_data", "f32")
    for bad, name in ((np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")):
        payload = np.array([1, bad, 2, np.nan], np.float32).tobytes()
        expect_error(lambda payload=payload: client.compute(payload, spec), INVALID, "NOT_FINITE",
                     "spec.binning.even.range_of_data", None, [f"sample 1 of the payload is {name};"])
    expect_error(lambda: client.accumulate([b""], spec), INVALID, "BAD_BINNING",
                 "spec.binning.even.range_of_data")
    spec.binning.even.lower = 1
    expect_error(lambda: client.compute(b"", spec), INVALID, "BAD_BINNING", "spec.binning.even.lower")


def test_chosen_statistics(client):
    payload = random_bytes(1000)
    for name in ("u8", "f32"):
        spec = spec_of(name, statistics=True)
        spec.statistics_only.extend([pb.STATISTIC_MINIMUM_MAXIMUM, pb.STATISTIC_OTSU])
        statistics = client.compute(payload, spec).histogram.statistics
        fields = {field.name for field, _ in statistics.ListFields()}
        assert fields <= {"minimum", "maximum", "otsu_threshold"}
        spec.omit_counts = True
        rows = client.compute(payload, set_rows(spec, windows=50)).rows
        assert {field.name for field, _ in rows.ListFields()} <= fields | {
            "row_count", "bin_count", "samples", "below", "above", "ignored", "nan"}
        assert len(rows.minimum) == rows.row_count
    for value in (0, 7, -1):
        spec = spec_of("u8", statistics=True)
        spec.statistics_only.append(value)
        expect_error(lambda spec=spec: client.compute(payload, spec), INVALID, "UNKNOWN_ENUM_VALUE",
                     "spec.statistics_only[0]")
