#!/usr/bin/env python3
"""Measures the Python package beside numpy, boost-histogram, fast-histogram and OpenCV.

  PYTHONPATH=build/release/python .venv/bin/python bench/python/run.py \\
    --library build/release/bin/libbench_python_library.so --output python.json

In each round of a row its counters run one after the other; a number is the median over the rounds,
with the least and the greatest. "library" is the C++ library on the same array between the same
edges. All count on one thread, and times are CPU time of the thread. A counter whose counts differ
from numpy's is named with the share of samples that it misplaces. Needs
bench/python/requirements.txt; without --library there are no rows of the library. Linux only. Takes
some 7 minutes.
"""

import argparse
import ctypes
import importlib.metadata
import importlib.util
import json
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import origin  # noqa: E402

ROUNDS = 5
SECONDS = 0.1  # of each counter, in each round, at least
LONG = 64 << 20  # bytes
SHORT = (16, 1000)  # samples
BINS = (10, 256, 2048, 65536)
PEERS = ("numpy", "boost-histogram", "fast-histogram", "opencv-python-headless")


def samples_of(numpy, dtype, distribution, count, bins):
    random = numpy.random.default_rng(1)
    if dtype in ("uint8", "uint16"):
        samples = random.integers(0, numpy.iinfo(dtype).max, count, dtype, endpoint=True)
        return samples, (0, int(numpy.iinfo(dtype).max) + 1)
    limits = (-1_000_000, 1_000_000) if dtype == "int32" else (-4.0, 4.0)
    if distribution == "constant":
        samples = numpy.full(count, limits[0] + (limits[1] - limits[0]) * 0.37)
    elif distribution == "edges":
        edges = numpy.histogram_bin_edges(numpy.empty(0, dtype), bins, limits)
        samples = random.choice(edges, count)
        if dtype != "int32":
            beside = numpy.nextafter(samples, numpy.inf * random.choice([-1, 1], count))
            samples = numpy.where(random.random(count) < 0.5, beside.astype(dtype), samples.astype(dtype))
    else:
        samples = random.normal(0, limits[1] / 4, count)
    return numpy.ascontiguousarray(samples.astype(dtype)), limits


class Library:
    """The C++ library: bench/python/library.cc."""

    def __init__(self, path):
        self._calls = ctypes.CDLL(str(path.resolve()))
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        for name, result, arguments in (
            ("plan", pointer, (pointer, size, ctypes.c_char_p)),
            ("count", None, (pointer, pointer, size, pointer)),
        ):
            call = getattr(self._calls, f"library_{name}")
            call.restype, call.argtypes = result, arguments

    def counter(self, samples, bins, limits):
        """A call that counts on one thread."""
        import numpy
        kind = f"{samples.dtype.kind}{8 * samples.itemsize}"
        edges = numpy.histogram_bin_edges(numpy.empty(0, samples.dtype), bins, limits).astype(float)
        plan = self._calls.library_plan(edges.ctypes.data, len(edges), kind.encode())
        counts = numpy.empty(bins, numpy.int64)

        def count():
            self._calls.library_count(plan, samples.ctypes.data, samples.nbytes, counts.ctypes.data)
            return counts

        return count


def counters(samples, bins, limits):
    """(name, call) of what can count these samples. Each call returns counts."""
    import boost_histogram
    import cv2
    import fast_histogram
    import numpy

    import histogram

    def boost():
        axis = boost_histogram.axis.Regular(bins, *limits)
        filled = boost_histogram.Histogram(axis, storage=boost_histogram.storage.Int64())
        return filled.fill(samples).values()

    yield "histogram", lambda: histogram.count(samples, bins, limits, threads=1).counts()
    yield "numpy", lambda: numpy.histogram(samples, bins, limits)[0]
    yield "boost-histogram", boost
    yield "fast-histogram", lambda: fast_histogram.histogram1d(samples, bins, limits)
    if samples.dtype in (numpy.uint8, numpy.uint16, numpy.float32):
        yield "opencv", lambda: cv2.calcHist([samples], [0], None, [bins], list(limits)).ravel()


def seconds_of(call, seconds):
    """Seconds of this thread's CPU time for one call."""
    call()
    calls, begin = 0, time.thread_time()
    while (taken := time.thread_time() - begin) < seconds:
        for _ in range(1 if taken > seconds / 20 and calls < 100 else 1 + calls // 10):
            call()
            calls += 1
    return taken / calls


def misplaced(numpy, counts, expected):
    different = numpy.abs(numpy.asarray(counts, numpy.int64) - expected).sum() / 2
    return round(float(different / max(1, expected.sum())), 6)


def rows():
    for dtype in ("float32", "float64", "int32", "uint8", "uint16"):
        for bins in BINS:
            distributions = ("normal",) if dtype.startswith("uint") else ("normal", "constant", "edges")
            for distribution in distributions:
                yield dtype, bins, distribution


def measure(numpy, library):
    import cv2
    cv2.setNumThreads(1)
    long = []
    for dtype, bins, distribution in rows():
        print(dtype, bins, distribution, file=sys.stderr)
        count = LONG // numpy.dtype(dtype).itemsize
        samples, limits = samples_of(numpy, dtype, distribution, count, bins)
        calls = dict(counters(samples, bins, limits))
        if library is not None:
            calls["library"] = library.counter(samples, bins, limits)
        expected = calls["numpy"]()
        wrong = {name: misplaced(numpy, call(), expected) for name, call in calls.items()}
        rates = {name: [] for name in calls}
        for _ in range(ROUNDS):
            for name, call in calls.items():
                rates[name].append(count / seconds_of(call, SECONDS) / 1e9)
        long.append({"type": dtype, "bins": bins, "distribution": distribution, "samples": count,
                     "gigasamples_per_second": spread(rates), "misplaced": wrong})
    short = []
    for count in SHORT:
        samples, limits = samples_of(numpy, "float32", "normal", count, 100)
        calls = dict(counters(samples, 100, limits))
        times = {name: [] for name in calls}
        for _ in range(ROUNDS):
            for name, call in calls.items():
                times[name].append(seconds_of(call, SECONDS) * 1e6)
        short.append({"type": "float32", "bins": 100, "samples": count, "microseconds": spread(times)})
    return long, short, measure_quantiles(numpy)


def measure_quantiles(numpy):
    import histogram
    samples, _ = samples_of(numpy, "float32", "normal", LONG // 4, 100)
    q = numpy.array([0.01, 0.5, 0.99, 0.999])
    assert (histogram.quantile(samples, q) == numpy.quantile(samples, q)).all()
    rates = {"histogram": [], "numpy": []}
    for _ in range(ROUNDS):
        for name, call in (("histogram", lambda: histogram.quantile(samples, q, threads=1)),
                           ("numpy", lambda: numpy.quantile(samples, q))):
            rates[name].append(samples.size / seconds_of(call, SECONDS) / 1e9)
    return {"type": "float32", "samples": samples.size, "quantiles": q.tolist(),
            "gigasamples_per_second": spread(rates)}


def spread(values):
    return {name: {"median": round(statistics.median(numbers), 4), "least": round(min(numbers), 4),
                   "greatest": round(max(numbers), 4)} for name, numbers in values.items()}


def import_milliseconds():
    """What importing this package adds to importing numpy."""
    taken = []
    for _ in range(ROUNDS):
        code = ("import numpy, time; begin = time.process_time(); import histogram; "
                "print((time.process_time() - begin) * 1e3)")
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        taken.append(float(done.stdout))
    return round(statistics.median(taken), 2)


def run(options):
    import numpy
    library = None if options.library is None else Library(options.library)
    long, short, quantiles = measure(numpy, library)
    return {
        **origin("bench/python/run.py"),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in PEERS},
        "rounds": ROUNDS,
        "seconds": SECONDS,
        "threads": 1,
        "import_ms": import_milliseconds(),
        "long": long,
        "short": short,
        "quantiles": quantiles,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="where the results go")
    parser.add_argument("--library", type=Path, help="libbench_python_library.so, to measure the C++ library too")
    options = parser.parse_args()
    if importlib.util.find_spec("histogram") is None:
        parser.error("no package histogram: set PYTHONPATH=build/release/python, or pip install .")
    options.output.write_text(json.dumps(run(options), indent=1) + "\n")


if __name__ == "__main__":
    main()
