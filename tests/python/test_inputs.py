"""What can be counted, and what is refused with a reason."""

import array
import subprocess
import sys
import threading
import tracemalloc
from collections import UserList, deque
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction

import histogram
import ml_dtypes
import numpy as np
import pytest
from histogram import _gpu_plugin


class Exporter:
    """An array that only speaks DLPack."""

    def __init__(self, held, device=(1, 0)):
        self._held, self._device = held, device
        self.dtype = held.dtype

    def __dlpack__(self, **options):
        return self._held.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._device


SAMPLES = [3, 1, 4, 1, 5, 9, 2, 6]


@pytest.mark.parametrize("a", [
    SAMPLES, tuple(SAMPLES), bytes(SAMPLES), bytearray(SAMPLES), memoryview(bytes(SAMPLES)),
    array.array("h", SAMPLES), array.array("d", SAMPLES), np.array(SAMPLES, ">u2"),
    np.array(SAMPLES, np.longlong), Exporter(np.array(SAMPLES, "f4")),
    np.array(SAMPLES, ml_dtypes.bfloat16), np.array(SAMPLES).reshape(2, 2, 2),
], ids=lambda a: type(a).__name__)
def test_kinds_of_arrays(a):
    h = histogram.count(a, 5, (0, 5))
    assert h.counts().tolist() == [0, 2, 1, 1, 2]
    assert (h.above, h.samples) == (2, 8)
    assert histogram.quantile(a, 0.5) == 3.5


def test_scalars_and_booleans():
    assert histogram.count(3.5, 2, (3, 4)).counts().tolist() == [0, 1]
    h = histogram.count(np.array([True, False, True]), 2)
    assert h.counts().tolist() == [1, 2]
    assert h.edges.tolist() == [0, 0.5, 1]


@pytest.mark.parametrize(("a", "message"), [
    (np.array([1j]), "complex128"), (np.array(["x"]), "<U1"), (np.array([None]), "object"),
    (np.array([1], np.longdouble), "float128|longdouble"), ([np.ma.masked_array([1, 2], [0, 1])], "masked"),
    (Exporter(np.zeros(2), device=(2, 0)), "GPU"), (Exporter(np.zeros(2), device=(8, 0)), "8"),
    (type("Cuda", (), {"__cuda_array_interface__": {}})(), "GPU"),
])
def test_refused(a, message, monkeypatch):
    """Arrays on a GPU are where the plugin is not installed."""
    monkeypatch.setattr(_gpu_plugin, "_LIBRARY", "libnot_there.so")
    _gpu_plugin.plugin.cache_clear()
    with pytest.raises(TypeError, match=message):
        histogram.count(a, 4, (0, 1))
    with pytest.raises(TypeError, match=message):
        histogram.quantile(a, 0.5)


@pytest.mark.parametrize("a", [
    [2**53 + 1, 0.5], ([0.5, 1], [np.int64(2**53 + 1), 1]), [np.uint64(2**53 + 1), np.int64(-1)],
    [np.array([2**53 + 1]), np.array([np.nan])], [2**63 + 1, -1], deque([2**53 + 1, 0.5])], ids=str)
def test_integers_that_numpy_rounds_beside_floats_are_refused(a):
    with pytest.raises(ValueError, match=r"a: \d+ is not a float64"):
        histogram.count(a, [0, 1, 2])
    with pytest.raises(ValueError, match=r"a: \d+ is not a float64"):
        histogram.quantile(a, 0.5)
    assert histogram.count([2**53, 2**63, 0.5, 1e300], [0, 1, 2**60]).counts().tolist() == [1, 1]


@pytest.mark.parametrize("range", [
    (0, 2**53 + 1), [-2**53 - 1, 0], np.array([2**53 + 1, 2**53 + 9]), (np.uint64(2**64 - 1), 2**64),
    (np.array(2**53 + 1), 2**54), (2**53 + 1, 2**53 + 1), (0, 10**400), (10**400, 10**400),
], ids=str)
def test_ends_of_a_range_that_are_not_doubles_are_refused(range):
    for a in (np.array([0]), np.array([0.5])):
        with pytest.raises(ValueError, match=r"range: .+ is not a float64"):
            histogram.count(a, 2, range)


@pytest.mark.parametrize("range", [
    (Fraction(1, 3), 4), (Decimal("0.1"), 4), ("1", "2"), (None, 4), (1j, 2), ([1], [3]),
    (np.array([1]), np.array([3])), (np.datetime64("2020"), np.datetime64("2021")),
], ids=str)
def test_ends_of_a_range_that_are_no_numbers_are_refused(range):
    with pytest.raises(TypeError, match=r"^range: .+; must be a number"):
        histogram.count([1.0, 2], 2, range)


def test_ends_of_a_range_are_exact():
    h = histogram.count(np.array([0, 2**63, 2**64 - 1], np.uint64), 2, (0, 2**64))
    assert (h.counts().tolist(), h.edges.tolist()) == ([1, 2], [0, 2.0**63, 2.0**64])
    for least, greatest in ((0, 2**53 + 1), (-2**53 - 1, 0)):
        assert histogram.count(np.array([least, greatest]), 2).counts().tolist() == [1, 1]


@pytest.mark.parametrize("edges", [
    [0.5, np.int64(2**53 + 1)], [np.array(0.5), np.array(2**53 + 1)], [Fraction(1, 3), 4], [Decimal("0.1"), 4],
    np.array([Fraction(1, 3), Fraction(4)]), [0, 10**400], UserList([0.5, 2**53 + 1]),
], ids=str)
def test_edges_that_are_not_doubles_are_refused(edges):
    with pytest.raises(ValueError, match=r"bins: edge .+ is not a float64"):
        histogram.count([1, 2], edges)
    with pytest.raises(ValueError, match=r"edges: edge .+ is not a float64"):
        histogram.Histogram([[1] * (len(edges) - 1)], [list(edges)])
    with pytest.raises(TypeError, match=r"bins: edge None; must be a number"):
        histogram.count([1, 2], [None, 1])
    assert histogram.count([1, 2], [Fraction(1, 2), 4]).edges.tolist() == [0.5, 4]


def test_more_bins_than_any_array_holds():
    with pytest.raises(ValueError, match="bins: 9223372036854775808"):
        histogram.count([1, 2], 2**63)


def test_booleans_of_any_byte():
    a = np.frombuffer(b"\xff\x00\x02", bool)
    assert histogram.count(a, [0, 1, 2]).counts().tolist() == [1, 2]
    assert histogram.quantile(a, [0, 1]).tolist() == [0, 1]


def test_advice_is_given_where_it_helps():
    for a, advice in (([1, None], True), ([2**64], True), (np.array(["x", 1], object), False)):
        with pytest.raises(TypeError, match="type object is not supported") as caught:
            histogram.count(a, 2, (0, 4))
        assert ("numpy.asarray(a, float)" in str(caught.value)) == advice


def test_edges_of_bfloat16():
    h = histogram.count(np.array([0.5, 1, 3]), np.array([0, 1, 2], ml_dtypes.bfloat16))
    assert (h.counts().tolist(), h.above, h.edges.dtype) == ([1, 1], 1, np.float32)


def limited(code, limit):
    """Runs code after `limit`, a statement that takes resources away, and returns its output."""
    begin = "import os, resource, numpy as np, histogram\na = np.arange(1 << 24, dtype='f4')\n"
    begin += "histogram.median(a[:9]), histogram.count([1], 2, (0, 4)), histogram.count(a[None, :9], 2, axis=1)\n"
    code = begin + limit + "\n" + code
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


LIMITS = (
    # The limit binds nobody who is root.
    "resource.setrlimit(resource.RLIMIT_NPROC, (0, 0)); os.geteuid() or os.setuid(65533)",
    # A thread's stack has no room.
    "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize() + (6 << 20)\n"
    "resource.setrlimit(resource.RLIMIT_AS, (used, used))",
)


@pytest.mark.parametrize("limit", LIMITS, ids=("processes", "memory"))
def test_without_threads_it_counts_with_fewer(limit):
    counts = "histogram.count(a, 4, (0, 1 << 24), threads=3).counts()"
    rows = "histogram.count(a.reshape(16, -1), 2, (0, 1 << 24), axis=1, threads=3).counts().sum()"
    middle = "float(histogram.quantile(a, 0.5, threads=3)) == 8388607.5"
    assert limited(f"print(*{counts}, {rows}, {middle})", limit) == [*["4194304"] * 4, "16777216", "True"]


@pytest.mark.parametrize("connected", [False, True])
def test_without_threads_a_server_is_not_asked(server, connected):
    """gRPC would end the process, or never return."""
    limit = (f"import grpc, ipaddress, ssl, threading, histogram._remote\nserver = {server!r}\n"
             f"if {connected}: server = histogram.connect(server, deadline=60)\n{LIMITS[0]}")
    code = "try: histogram.count(a, 4, (0, 1 << 24), server=server)\nexcept RuntimeError as error: print(error)"
    assert "server: the system lets this process have 0 more threads of the" in " ".join(limited(code, limit))


def test_on_device_is_for_gpus():
    with pytest.raises(ValueError, match="on_device: True; is for arrays in the memory of a GPU"):
        histogram.count([1], 2, (0, 1), on_device=True)


def peak_of(work):
    work()
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("layout", ["C", "F", "transposed", "permuted", "reversed", "strided", "swapped"])
def test_copies_nothing_but_pieces(layout):
    a = np.zeros((1 << 10, 1 << 12), np.float32)  # 16 MiB
    a = {"C": a, "F": np.asfortranarray(a), "transposed": a.T, "permuted": a.reshape(64, 256, 256).transpose(1, 2, 0),
         "reversed": a[::-1, ::-1], "strided": a[:, ::2], "swapped": a.astype(">f4")}[layout]
    peak = peak_of(lambda: histogram.count(a, 10, (0, 1)))
    if layout in ("C", "F", "transposed", "permuted"):
        assert max(peak, peak_of(lambda: histogram.quantile(a, 0.5))) < 100_000
    else:
        assert peak < 1 << 21


def test_read_only_arrays():
    a = np.arange(10)
    a.setflags(write=False)
    assert histogram.count(a, 2, (0, 10)).counts().tolist() == [5, 5]


def test_the_lock_is_released():
    """A thread of Python goes on while another counts."""
    a = np.zeros(1 << 26, np.uint8)
    steps, stop = 0, threading.Event()

    def step():
        nonlocal steps
        while not stop.is_set():
            steps += 1

    thread = threading.Thread(target=step)
    thread.start()
    seen = 0
    # Each call runs to its end without the interpreter; so steps are made in most of them.
    for _ in range(200):
        before = steps
        histogram.count(a, 256, (0, 256), threads=1)
        seen += steps > before
        if seen > 20:
            break
    stop.set()
    thread.join()
    assert seen > 20


def test_from_many_threads_at_once():
    a = np.random.default_rng(0).random(50_000, np.float32)
    expected = {bins: np.histogram(a, bins, (0, 1))[0].tolist() for bins in range(1, 60)}

    def wrong(_):
        return [bins for bins, counts in expected.items()
                if histogram.count(a, bins, (0, 1)).counts().tolist() != counts]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(wrong, range(4))) == [[]] * 4


def test_masked_arrays():
    a = np.ma.masked_array([[1.0, 2, 7], [3, np.nan, 9]], [[0, 0, 1], [0, 0, 1]])
    h = histogram.count(a, 3, (0, 3))
    assert h.counts().tolist() == [0, 1, 2] and (h.samples, h.nan) == (4, 1)
    assert histogram.count(a[:1]).edges.tolist() == np.histogram([1.0, 2])[1].tolist()
    assert histogram.quantile(a[:1], 1) == 2 and histogram.median(a[:1]) == 1.5
    for rows in ({"axis": 1}, {"channels": 1}, {"windows": 2}):
        with pytest.raises(TypeError, match="a: has masked samples"):
            histogram.count(a, 3, (0, 3), **rows)
    assert histogram.count(np.ma.masked_array([[1, 2]]), 2, (0, 4), axis=1).counts().tolist() == [[1, 1]]
    odd = np.ma.masked_array([1.0, 2, 3], [0, 1, 0])
    for arguments in (([1], odd), ([1], 3, odd), ([odd, odd], 3, (0, 4)), ([deque([odd])], 3, (0, 4)),
                      ([1], 3, (0, odd))):
        with pytest.raises(TypeError, match="a masked array"):
            histogram.count(*arguments)
    with pytest.raises(TypeError, match="^q: a masked array"):
        histogram.quantile([1], odd)


@pytest.mark.parametrize("dtype", ["M8[D]", "M8[ns]", "m8[s]", ">M8[us]"])
def test_dates(dtype):
    """As numpy counts them between edges, which is all that it does with dates."""
    rng = np.random.default_rng(1)
    begin = {"M8[ns]": 1_700_000_000_123_456_789}.get(dtype, 20_000)
    edges = (begin + np.array([0, 1, 5, 5, 30])).astype(dtype)
    whole = begin + rng.integers(-9, 40, 3000)
    a = whole.astype(dtype)
    h = histogram.count(a, edges)
    assert h.counts().tolist() == np.histogram(a, edges)[0].tolist()
    assert h.edges.dtype == edges.dtype and (h.edges == edges).all()
    assert (h.below, h.above) == ((a < edges[0]).sum(), (a > edges[-1]).sum())
    ends = np.array([np.iinfo("i8").min + 1, np.iinfo("i8").max]).astype(dtype)
    far = histogram.count(np.append(a, ends).reshape(2, -1), edges)
    assert (far.below, far.above) == (h.below + 1, h.above + 1)
    rows = histogram.count(a.reshape(3, -1), edges, axis=1)
    assert rows.counts().sum(axis=0).tolist() == h.counts().tolist() and (rows.edges == edges).all()
    for method in ("linear", "lower", "hazen"):
        for q in (0.3, [0.0, 0.111, 1.0]):
            expected = np.quantile(a, q, method=method)
            found = histogram.quantile(a, q, method=method)
            assert found.dtype == expected.dtype.newbyteorder("=") and (found == expected).all()
    assert histogram.count(list(a), edges) == h
    a[7] = "NaT"
    without = histogram.count(a, edges)
    assert without.nan == 1 and without.samples == 3000
    assert without.counts().tolist() == np.histogram(a, edges)[0].tolist()
    assert np.isnat(histogram.quantile(a, [0.5, 1])).all()
    assert "nan" not in repr(h).lower() and len(h.axes[0]) == 4 and h._repr_html_()


def test_edges_of_dates_that_lie_far_apart():
    days = np.array(["1990-06-01", "2020-06-01", "2020-06-02", "NaT"], "M8[ns]")
    edges = np.array(["1980", "2000", "2020-06-02", "2040"], "M8[D]")
    h = histogram.count(days, edges)
    assert (h.counts().tolist(), h.nan) == ([1, 1, 1], 1)
    whole = np.array([-2**62, 2**62], "M8[D]")
    assert histogram.count(whole, whole).counts().tolist() == [2]
    with pytest.raises(ValueError, match="^a: 1 nulls; .*no axis"):
        histogram.count(days.reshape(2, 2), edges, axis=1)


@pytest.mark.parametrize(("bins", "message"), [
    (10, "bins: samples of type datetime64.D. take edges alone"), ("auto", "edges alone"),
    ([0, 1], "bins: edges of type int64; samples of type datetime64.D. take theirs"),
    (np.array(["2020-01-01T05", "2021-01-01T00"], "M8[h]"), "whole in datetime64.D., and no NaT"),
    (np.array(["2020-01-01", "NaT"], "M8[D]"), "no NaT"),
    # In days the last overflows, to a day after the first.
    (np.array([0, 50_506_000_000_000_000], "M8[Y]"), "within its range"),
    (np.array([-2**62, 2**62 - 1], "M8[D]"), "at most 2..53 units apart"),
])
def test_edges_that_dates_do_not_take(bins, message):
    with pytest.raises((TypeError, ValueError), match=message):
        histogram.count(np.array(["2020-01-01"], "M8[D]"), bins)
