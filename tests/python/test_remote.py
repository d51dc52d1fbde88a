"""server=: a real server gives the answers that this process gives, or an error that says why not."""

import itertools
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import histogram
import ml_dtypes
import numpy as np
import pytest
from arrays import TYPES, laid_out, make_samples
from histogram import _connect, _remote_quantile, _wire

if "HISTOGRAM_SERVER_BIN" not in os.environ:
    pytest.skip("HISTOGRAM_SERVER_BIN names no server to test with", allow_module_level=True)

ROOT = pathlib.Path(__file__).resolve().parents[2]

BINNINGS = {
    "even": (100, (-50, 50)), "of the data": (33, None), "edges": ([-3, 0, 0.5, 7, 40], None),
    "repeated": ([-3, 0, 0, 7, 7], None), "infinite": ([-np.inf, 0, 9, np.inf], None),
    "a rule": ("sturges", None), "many": (np.linspace(-1, 60, 70_001), None),
}
LONG = _connect.MESSAGE_BYTES_MAX  # in bytes: what is longer is sent in chunks


def some(dtype, size, seed=3, finite=False):
    a = make_samples(np.random.default_rng(seed), dtype, np.linspace(-50, 50, 12), size)
    if finite and a.dtype.kind == "f":
        return np.where(np.isfinite(a) & (np.abs(a.astype("f8")) < 1e4), a, a.dtype.type(3.5))
    return a


@pytest.mark.parametrize("binning", BINNINGS)
@pytest.mark.parametrize("dtype", TYPES)
def test_counts(server, dtype, binning):
    bins, range = BINNINGS[binning]
    for size in (0, 1, 6000):
        a = some(dtype, size, finite=range is None)
        a = laid_out(np.random.default_rng(size), a)
        assert histogram.count(a, bins, range, server=server) == histogram.count(a, bins, range)


def test_bfloat16_and_booleans(server):
    for a in (some("f4", 999).astype(ml_dtypes.bfloat16), some("u1", 99) > 7):
        assert histogram.count(a, 9, (-1, 3), server=server) == histogram.count(a, 9, (-1, 3))


@pytest.mark.parametrize("layout", [
    lambda a: a, lambda a: a.reshape(3, -1), lambda a: np.asfortranarray(a.reshape(4, -1)),
    lambda a: a[::3], lambda a: a.astype(">f4"), lambda a: a[::-1]], ids=itertools.count())
def test_long_arrays_go_in_chunks(server, layout):
    a = layout(some("f4", 3 * LONG))
    assert histogram.count(a, 50, (-60, 60), server=server) == histogram.count(a, 50, (-60, 60))


@pytest.mark.parametrize("arguments", [
    {"axis": 0}, {"axis": (0, 2)}, {"axis": ()}, {"channels": 4}, {"windows": 7}, {"windows": (50, 20)},
    {"channels": 4, "windows": 11}, {"channels": 2, "windows": (30, 45)}, {"windows": 10**9},
    {"windows": (10**9, 1)},
], ids=str)
@pytest.mark.parametrize("bins", [20, [-3, 0, 0, 50]], ids=str)
def test_rows(server, arguments, bins):
    a = some("i2", 2400).reshape(20, 30, 4)
    expected = histogram.count(a, bins, (-50, 50), **arguments)
    assert histogram.count(a, bins, (-50, 50), server=server, **arguments) == expected


@pytest.mark.parametrize("arguments", [
    {"windows": 999_999}, {"channels": 3}, {"channels": 3, "windows": LONG // 2}, {"axis": 1},
    {"windows": 300}, {"windows": (LONG + 5, LONG // 3)}, {"windows": (LONG // 2, 100_000)}, {"windows": (70, 701)},
    {},
], ids=str)
@pytest.mark.parametrize("bins", [[0, 30, 60], [0, 30, 60, 60]], ids=["once", "twice"])
def test_progress_of_long_arrays_and_rows(server, arguments, bins):
    a, told = np.asfortranarray(some("u1", 3 * LONG).reshape(2, -1)), []
    client = histogram.connect(server, progress=lambda *numbers: told.append(numbers))
    assert histogram.count(a, bins, server=client, **arguments) == histogram.count(a, bins, **arguments)
    sent, of = zip(*told)
    assert len(sent) > 2 and list(sent) == sorted(set(sent)) and {*of} == {sent[-1]}
    assert a.size - LONG // 2 < sent[-1] <= a.size  # without the samples of no window


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("q", [0.5, 1, [0.01, 0.5, 0.99], np.linspace(0, 1, 101)], ids=str)
def test_quantiles(server, dtype, q):
    for size in (1, 2, 3, 700, 9999):
        a = some(dtype, size)
        a = a[~np.isnan(a)] if a.dtype.kind == "f" else a // 2**11 if a.dtype.itemsize == 8 else a
        if dtype == "f8":
            a = np.clip(a, -1e300, 1e300)
        with np.errstate(all="ignore"):
            found = histogram.quantile(a, q, server=server)
            expected = histogram.quantile(a, q)
        assert np.array_equal(found, expected, equal_nan=True)
        assert np.asarray(found).dtype == np.asarray(expected).dtype


def test_quantiles_with_nan_and_of_bfloat16(server):
    assert np.isnan(histogram.quantile([1, np.nan], 0.5, server=server))
    a = some("f4", 999, finite=True).astype(ml_dtypes.bfloat16)
    assert histogram.quantile(a, 0.3, server=server) == histogram.quantile(a, 0.3)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("axis", [0, 1, (0, 2), (0, 1, 2), ()], ids=str)
def test_quantiles_of_rows(server, dtype, axis):
    a = some(dtype, 24 * 35).reshape(4, 35, 6)
    a = a // 2**11 if a.dtype.itemsize == 8 and a.dtype.kind != "f" else a
    if dtype == "f8":
        a = np.where(np.isfinite(a), np.clip(a, -1e300, 1e300), a)
    for samples in (a, a.T if axis != (0, 2) else a[:, ::-1]):
        for q in (0.5, [0, 0.01, 0.7, 1], np.linspace(0, 1, 23)):
            with np.errstate(all="ignore"):
                found = histogram.quantile(samples, q, axis=axis, server=server)
                expected = histogram.quantile(samples, q, axis=axis)
            assert np.array_equal(found, expected, equal_nan=True)
            assert np.asarray(found).dtype == np.asarray(expected).dtype


def test_quantiles_of_odd_rows(server):
    odd = np.array([[1, np.inf, -np.inf, 2, 3], [np.inf] * 5, [-np.inf] * 5, [1, 2, np.nan, 3, 4],
                    [-np.inf, np.inf, np.inf, -np.inf, 5], [7] * 5, [-1, 0, 3e38, 2, 1]])
    for dtype in ("f4", "f8", ml_dtypes.bfloat16):
        for q in (0, 0.25, 0.5, [0.75, 1]):
            with np.errstate(all="ignore"):
                found = histogram.quantile(odd.astype(dtype), q, axis=1, server=server)
                expected = histogram.quantile(odd.astype(dtype), q, axis=1)
            assert np.array_equal(found, expected, equal_nan=True)
    with pytest.raises(ValueError, match="samples from -1e.308 to 1e.308 lie too far apart"):
        histogram.quantile(np.array([[0, 1], [-1e308, 1e308]]), 0.5, axis=1, server=server)
    with pytest.raises(ValueError, match=r"a: integers from .* at most 2\*\*53"):
        histogram.quantile(np.array([[0, 2**60]]), 0.5, axis=1, server=server)


def test_quantiles_of_long_and_many_rows(server):
    a = some("f4", 6 * LONG // 4, finite=True)
    small = histogram.connect(server)
    small._limits = _wire.Limits(payload_bytes=60_000, bins=100, quantiles=2, rows=40, reply_bytes=4000,
                                 spec_bytes=1000)
    for client, rows in ((server, a.reshape(3, -1)), (server, a[:400_000].reshape(-1, 8000)),
                         (small, a[:30_000].reshape(-1, 30))):
        found = histogram.quantile(rows, [0.1, 0.5, 0.9], axis=1, server=client)
        assert np.array_equal(found, histogram.quantile(rows, [0.1, 0.5, 0.9], axis=1))
    with pytest.raises(ValueError, match="a: rows of .* bytes; the server takes 60000"):
        histogram.quantile(a[:40_000].reshape(2, -1), 0.5, axis=1, server=small)


@pytest.mark.parametrize("dtype", [one for one in TYPES if one not in ("f2", "f4")])
@pytest.mark.parametrize("arguments", [
    {"axis": 0}, {"axis": (0, 2)}, {"axis": ()}, {"channels": 4}, {"windows": 7}, {"windows": (50, 20)},
    {"channels": 4, "windows": 11}, {"windows": (10**9, 1)},
], ids=str)
def test_ranges_of_rows(server, dtype, arguments):
    a = some(dtype, 2400, finite=True).reshape(20, 30, 4)
    a = a // 2**11 if a.dtype.itemsize == 8 and a.dtype.kind != "f" else a
    for bins in (1, 20):
        expected = histogram.count(a, bins, "rows", **arguments)
        assert histogram.count(a, bins, "rows", server=server, **arguments) == expected


def test_ranges_of_long_rows_and_of_what_has_none(server):
    a = some("f8", 2 * LONG // 8 + 64, finite=True)
    for arguments in ({"channels": 2}, {"windows": 1000}, {"windows": LONG // 8 + 9}):
        expected = histogram.count(a, 20, "rows", **arguments)
        assert histogram.count(a, 20, "rows", server=server, **arguments) == expected
    assert (histogram.count(np.zeros((3, 0)), 4, "rows", axis=1, server=server)
            == histogram.count(np.zeros((3, 0)), 4, "rows", axis=1))
    for dtype in ("f2", "f4", ml_dtypes.bfloat16):
        with pytest.raises(ValueError, match="range: 'rows'; .*; convert a to float64, or leave out"):
            histogram.count(a[:4].astype(dtype), 4, "rows", windows=2, server=server)
    with pytest.raises(ValueError, match=r"a: integers from .* at most 2\*\*53"):
        histogram.count(np.array([[0, 2**60]]), 4, "rows", axis=1, server=server)
    with pytest.raises(histogram.ServerError, match="sample 1 of row 1 is nan"):
        histogram.count(np.array([[0, 1], [2, np.nan]]), 4, "rows", axis=1, server=server)
    small = histogram.connect(server)
    small._limits = _wire.Limits(payload_bytes=800, bins=100, quantiles=2, rows=4, reply_bytes=4000,
                                 spec_bytes=1000)
    with pytest.raises(ValueError, match="a: a stretch of 1600 bytes; the server takes 800"):
        histogram.count(a[:200], 4, "rows", channels=2, server=small)


def test_each_rank_has_a_share():
    """What exact quantiles over the wire rest on."""
    rng = np.random.default_rng(0)
    for samples in [1, 2, 3, 4, 5, *rng.integers(6, 1 << 30, 300).tolist()]:
        ranks = np.unique(rng.integers(0, samples, 200))
        added, shares = _remote_quantile._shares(ranks, samples)
        last = samples + added - 1
        assert (np.floor(shares * last) == ranks).all() and (shares * last == ranks).all()
        assert ((shares >= 0) & (shares <= 1)).all() and 0 <= added <= max(256, samples)


def test_refused_before_anything_is_sent(server):
    small = histogram.connect(server)
    small._limits = _wire.Limits(payload_bytes=1000, bins=100, quantiles=2, rows=4, reply_bytes=4000,
                                 spec_bytes=1000)
    a = some("u2", 5000)
    assert histogram.count(a, 1000, (0, 50), server=small) == histogram.count(a, 1000, (0, 50))
    assert histogram.count(a, 9, (0, 50), windows=20, server=small) == histogram.count(
        a, 9, (0, 50), windows=20)
    small._compute = small._accumulate = None  # nothing can be sent any more
    with pytest.raises(ValueError, match="a: 10000 bytes; the server takes 1000"):
        histogram.quantile(a, 0.5, server=small)
    with pytest.raises(ValueError, match="a: 10008 bytes and 2 that finding the ranks adds; the server takes 1000"):
        histogram.quantile(some("u2", 5004), 0.5, server=small)
    with pytest.raises(ValueError, match=r"bins: 99 of 50 channels make a reply of .* at most 2000"):
        histogram.count(a, 99, (0, 50), channels=50, server=small)
    with pytest.raises(ValueError, match=r"a: integers from .*; with server= they must be at most 2"):
        histogram.quantile(np.array([1, 2**60]), 0.5, server=small)
    with pytest.raises(TypeError, match="server: 7; must be an address"):
        histogram.count(a, server=7)


def test_a_refusal_tells_field_value_and_limit(start):
    client = histogram.connect(start("--payload-bytes-max", "65536"))
    client._limits = _wire.Limits(1 << 20, 65536, 1024, 1000, 1 << 20, 1 << 20)  # as of another server
    with pytest.raises(histogram.ServerError, match="100000 bytes are more than the limit of 65536") as caught:
        histogram.count(np.zeros(100_000, np.uint8), 4, (0, 4), server=client)
    error = caught.value
    assert (error.code, error.reason, error.limit) == ("RESOURCE_EXHAUSTED", "PAYLOAD_TOO_LARGE", 65536)
    assert error.field == "payload" and error.retry_after is None
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.field, copy.limit) == (str(error), error.field, error.limit)
    client._limits = None  # asks the server itself
    assert histogram.count(np.zeros(100_000, np.uint8), 4, (0, 4), server=client).samples == 100_000


def test_a_refusal_ends_a_stream(start):
    """The server answers before all is sent."""
    client = histogram.connect(start("--bin-count-max", "100"))
    client._limits = _wire.Limits(1 << 20, 65536, 1024, 1000, 1 << 20, 1 << 20)  # as of another server
    with pytest.raises(ValueError, match="the limit is 100") as caught:
        histogram.count(np.zeros(16 * LONG, np.uint8), 1000, (0, 4), server=client)
    assert caught.value.reason == "TOO_MANY_BINS"


def test_more_bins_than_a_request_takes(start):
    server = start("--bin-count-max", "1000000")
    a = some("f4", 6000)
    assert histogram.count(a, 1_000_000, (-50, 50), server=server) == histogram.count(a, 1_000_000, (-50, 50))


def test_a_deadline_passes(halting):
    client = histogram.connect(halting.address, deadline=0.2)
    halting.halt()
    with pytest.raises(TimeoutError) as caught:
        histogram.count([1], server=client)
    assert caught.value.code == "DEADLINE_EXCEEDED"


def test_many_threads_share_a_client(server):
    a = some("f4", 20_000)
    expected = {bins: histogram.count(a, bins, (0, 1)) for bins in range(1, 20)}

    def wrong(_):
        return [bins for bins, right in expected.items()
                if histogram.count(a, bins, (0, 1), server=server) != right]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(wrong, range(4))) == [[]] * 4


def test_the_examples_of_the_document(server):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "PYTHON.md").read_text(), re.DOTALL)
    remote = [block for block in blocks if "127.0.0.1:50051" in block]
    assert len(remote) == 2
    names = {"a": some("f4", 3 * LONG), "histogram": histogram}
    for block in remote:
        exec(block.replace("127.0.0.1:50051", server), names)  # noqa: S102
        assert names["counts"].tolist() == np.histogram(names["a"], 1000, (-4, 4))[0].tolist()
    assert np.isnan(names["median"]) or names["median"] == np.quantile(names["a"], 0.5)


def test_without_grpcio(server):
    code = ("import sys; sys.modules['grpc'] = None; import histogram; "
            f"histogram.count([1, 2], server={server!r})")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: server: needs the package grpcio; pip install grpcio" in done.stderr


def test_samples_are_copied_once():
    """Beside the message, nothing of the samples' size."""
    a = np.zeros(1 << 20, np.float32)
    tracemalloc.start()
    message = _wire.request(b"", a)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert a.nbytes < len(message) <= peak < a.nbytes * 1.1
