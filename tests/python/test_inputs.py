"""What can be counted, and what is refused with a reason."""

import array
import threading
import tracemalloc

import histogram
import ml_dtypes
import numpy as np
import pytest
from histogram import _gpu


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


def test_bfloat16():
    a = np.array([-1, 0.5, 2, np.nan, np.inf, -0.0], ml_dtypes.bfloat16)
    h = histogram.count(a, 4, (-2, 2))
    same = histogram.count(a.astype("f4"), 4, (-2, 2))
    assert h == same
    assert h.edges.dtype == np.float32
    assert histogram.count(a[:3]) == histogram.count(a[:3].astype("f4"))
    assert histogram.quantile(a[:3], 0.25) == -0.25


@pytest.mark.parametrize(("a", "message"), [
    (np.array([1j]), "complex128"), (np.array(["x"]), "<U1"), (np.array([None]), "object"),
    (np.array(["2020-01-01"], "M8[D]"), "datetime64"), (np.array([1], np.longdouble), "float128|longdouble"),
    (np.ma.masked_array([1, 2], [0, 1]), "masked"),
    (Exporter(np.zeros(2), device=(2, 0)), "GPU"), (Exporter(np.zeros(2), device=(8, 0)), "8"),
    (type("Cuda", (), {"__cuda_array_interface__": {}})(), "GPU"),
])
def test_refused(a, message, monkeypatch):
    """Arrays on a GPU are where the plugin is not installed."""
    monkeypatch.setattr(_gpu, "_LIBRARY", "libnot_there.so")
    _gpu._plugin.cache_clear()
    with pytest.raises(TypeError, match=message):
        histogram.count(a, 4, (0, 1))
    with pytest.raises(TypeError, match=message):
        histogram.quantile(a, 0.5)


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


@pytest.mark.parametrize("layout", ["C", "F", "transposed", "reversed", "strided", "swapped"])
def test_copies_nothing_but_pieces(layout):
    a = np.zeros((1 << 10, 1 << 12), np.float32)  # 16 MiB
    a = {"C": a, "F": np.asfortranarray(a), "transposed": a.T, "reversed": a[::-1, ::-1],
         "strided": a[:, ::2], "swapped": a.astype(">f4")}[layout]
    peak = peak_of(lambda: histogram.count(a, 10, (0, 1)))
    if layout in ("C", "F", "transposed"):
        assert peak < 100_000
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
    wrong = []

    def work():
        for bins, counts in expected.items():
            if histogram.count(a, bins, (0, 1)).counts().tolist() != counts:
                wrong.append(bins)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
