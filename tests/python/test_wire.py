"""Messages that the package writes and reads, held against the contract by generated code."""

import importlib
import pathlib
import sys

import numpy as np
import pytest
from grpc_tools import protoc
from histogram import _wire

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto" / "histogram"


@pytest.fixture(scope="module")
def pb(tmp_path_factory):
    """What protoc makes of the contract. Its usual name is this package's, so it gets another."""
    folder = tmp_path_factory.mktemp("stubs")
    assert protoc.main(["protoc", f"-I{PROTO}", f"--python_out={folder}", "v1/histogram.proto"]) == 0
    sys.path.insert(0, str(folder))
    yield importlib.import_module("v1.histogram_pb2")
    sys.path.remove(str(folder))


def test_sample_types(pb):
    names = {"u": "UINT", "i": "INT", "f": "FLOAT", "bf": "BFLOAT"}
    for short, number in _wire.SAMPLE_TYPES.items():
        kind = short.rstrip("0123456789")
        assert number == pb.SampleType.Value(f"SAMPLE_TYPE_{names[kind]}{short[len(kind):]}")
    assert len(_wire.SAMPLE_TYPES) == len(pb.SampleType.items()) - 1


@pytest.mark.parametrize("rows", [None, (0, 0, 3), (7, 0, 1), (300, 2**31, 1000)])
@pytest.mark.parametrize("quantiles", [(), (0.0, 0.25, 1.0)])
@pytest.mark.parametrize("size", [0, 1, 5000])
def test_requests(pb, rows, quantiles, size):
    edges = np.array([-1.5, 0, 1e300])
    samples = np.arange(size, dtype=np.float32)
    spec = _wire.spec("f32", edges, rows=rows, quantiles=quantiles)
    expected = pb.Spec(sample_type=pb.SAMPLE_TYPE_FLOAT32)
    expected.binning.edges.edges.extend(edges)
    if quantiles:
        expected.statistics = expected.omit_counts = True
        expected.quantiles.extend(quantiles)
        expected.statistics_only.append(pb.STATISTIC_MEDIAN)
    if rows is not None:
        if rows[0]:
            expected.rows.windows.samples, expected.rows.windows.step = rows[:2]
        expected.rows.channels = rows[2]
    message = pb.ComputeRequest.FromString(_wire.request(spec, samples[:3], samples[3:]))
    assert message.spec == expected and message.payload == samples.tobytes()
    chunk = pb.AccumulateRequest.FromString(_wire.request(spec, samples))
    assert chunk.spec == expected and chunk.chunk == samples.tobytes()
    expected.binning.even.bin_count, expected.binning.even.range_of_row = 300, True
    own = _wire.spec("f32", 300, rows=rows, quantiles=quantiles)
    assert pb.ComputeRequest.FromString(_wire.request(own, samples)).spec == expected
    later = pb.AccumulateRequest.FromString(_wire.request(None, samples))
    assert not later.HasField("spec") and later.chunk == samples.tobytes()


NUMBERS = [0, 1, 127, 128, 300, 2**31, 2**62]


def test_answers(pb):
    plain = pb.ComputeResponse(receipt=pb.Receipt(backend="cpu", queue_ns=5))
    plain.histogram.CopyFrom(pb.Histogram(counts=NUMBERS, samples=9, below=1, nan=2**40, edges=[1.5]))
    plain.histogram.statistics.median = 1
    plain.histogram.statistics.quantiles.extend([0.5, -3])
    found = _wire.answer(plain.SerializeToString())
    assert found.counts.tolist() == NUMBERS and found.samples == 9
    assert found.below.tolist() == [1] and found.above is None and found.nan.tolist() == [2**40]
    assert found.quantiles.tolist() == [0.5, -3]
    rows = pb.RowAnswers(row_count=7, bin_count=1, counts=NUMBERS, below=[0] * 7, nan=NUMBERS[::-1],
                         samples=NUMBERS, minimum=[1.0], quantiles=[2.0], lower=[3.0] * 7,
                         upper=[-4.0] * 7)
    found = _wire.answer(pb.ComputeResponse(rows=rows).SerializeToString())
    assert found.counts.tolist() == NUMBERS and found.above is None
    assert found.below.tolist() == [0] * 7 and found.nan.tolist() == NUMBERS[::-1]
    assert found.quantiles.tolist() == [2] and found.lower.tolist() == [3] * 7
    assert found.upper.tolist() == [-4] * 7
    stream = pb.AccumulateResponse(histogram=plain.histogram, chunks=4, rows=rows)
    assert _wire.accumulated(stream.SerializeToString()) is None
    stream.final = True
    assert _wire.accumulated(stream.SerializeToString()).nan.tolist() == NUMBERS[::-1]


def test_limits_and_errors(pb):
    told = pb.DescribeResponse(version="1", limits=pb.DescribeResponse.Limits(
        payload_bytes_max=1, bin_count_max=2, quantiles_max=3, rows_max=4, reply_bytes_max=2**40,
        spec_bytes_max=6))
    assert _wire.limits(told.SerializeToString()) == _wire.Limits(1, 2, 3, 4, 2**40, 6)
    error = pb.Error(code=3, message="é", reason="R", field="f", limit=9, retry_after_ms=0)
    assert _wire.error(error.SerializeToString()) == _wire.Error("é", "R", "f", 9, 0)
    assert _wire.error(b"").retry_after_ms is None


def test_bytes_that_are_no_message(pb):
    message = pb.ComputeResponse(histogram=pb.Histogram(counts=NUMBERS, samples=300),
                                 rows=pb.RowAnswers(counts=NUMBERS)).SerializeToString()
    _wire.answer(message)
    refused = 0
    for size in range(len(message)):
        try:
            _wire.answer(message[:size])
        except _wire.BadReply:
            refused += 1
    assert refused > len(message) - 6  # between two fields a message may end
    random = np.random.default_rng(0)
    for _ in range(3000):
        broken = bytearray(message)
        broken[random.integers(len(message))] = random.integers(256)
        try:
            _wire.answer(bytes(broken))
        except _wire.BadReply:
            refused += 1
    with pytest.raises(_wire.BadReply, match="limits.payload_bytes is 0"):
        _wire.limits(b"")
