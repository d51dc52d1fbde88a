#!/usr/bin/env python3
"""Checks that the Python package takes less time than numpy, whatever the range: a grid of ratios.

  PYTHONPATH=build/release/python .venv/bin/python bench/python/ratios.py --output ratios.json

Each cell is a type, a number of bins, a number of samples and a kind of range. Ours and numpy's calls
run in turn on one thread. The ratio is that of the medians of the thread's CPU time. Fails if a ratio
is above its limit. Takes some 5 minutes.
"""

import argparse
import itertools
import json
import platform
import statistics
import sys
import time
from pathlib import Path

import numpy as np

import histogram

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import origin  # noqa: E402

TYPES = ("float32", "float64", "float16", "int64", "int32", "uint16", "uint8")
BINS = (10, 100, 2048)
SIZES = (100, 1000, 16384, 1 << 20)
LIMIT = 0.95
# What is asked of 1,000 float32 with a new range each call.
LIMITS = {("float32", 100, 1000, "new tuple"): 0.2, ("float32", 2048, 1000, "new tuple"): 0.35}
SECONDS = 0.15  # of a cell, and three calls of each at least


def ranges(dtype):
    """(name, the range of call k). A new one differs from all before."""
    scalar = np.float32 if dtype == "float32" else np.float64
    yield "repeated tuple", lambda _: (-4.0, 4.0)
    yield "new tuple", lambda k: (-4.0 - k * 1e-3, 4.0)
    yield "new tuple to 0", lambda k: (-4.0 - k * 1e-3, 0.0)
    yield "new list", lambda k: [-4.0 - k * 1e-3, 4.0]
    yield "new numpy scalars", lambda k: (scalar(-4.0 - k * 1e-3), scalar(4.0))
    yield "None", lambda _: None


def samples_of(dtype, size):
    random = np.random.default_rng(1)
    if dtype.startswith("uint"):
        return random.integers(0, 6, size).astype(dtype)
    return (random.normal(size=size) * 1.5).astype(dtype)


def medians(ours, numpys, seconds):
    """The medians, in microseconds, of calls in turn."""
    taken = [], []
    begin = time.thread_time()
    call = 0
    while call < 3 or time.thread_time() - begin < seconds:
        for function, times in zip((ours, numpys), taken, strict=True):
            started = time.thread_time_ns()
            function(call)
            times.append((time.thread_time_ns() - started) / 1e3)
        call += 1
    return [statistics.median(times) for times in taken]


def cells():
    for dtype in TYPES:
        for size in SIZES:
            samples = samples_of(dtype, size)
            for bins in BINS[: 2 if dtype == "float16" else 3]:  # 2,048 edges of float16 repeat
                for name, range_of in ranges(dtype):
                    found = medians(lambda k: histogram.count(samples, bins, range_of(k), threads=1),  # noqa: B023
                                    lambda k: np.histogram(samples, bins, range_of(k)), SECONDS)  # noqa: B023
                    limit = LIMITS.get((dtype, bins, size, name), LIMIT)
                    yield row(found, limit, type=dtype, samples=size, bins=bins, range=name)


def cells_of_rows():
    """Rows, each over its own range, beside numpy in a loop; and quantiles of rows."""
    for dtype in ("float32", "float64", "int32", "uint8"):
        samples = samples_of(dtype, 1 << 20).reshape(-1, 1024)
        for bins in BINS:
            found = medians(lambda _: histogram.count(samples, bins, "rows", axis=1, threads=1),  # noqa: B023
                            lambda _: [np.histogram(its, bins) for its in samples], SECONDS)  # noqa: B023
            yield row(found, LIMIT, type=dtype, samples=samples.size, bins=bins, range="1,024 rows")
    samples = samples_of("float32", 10_000_000).reshape(-1, 1000)
    q = [0.25, 0.5, 0.75]
    found = medians(lambda _: histogram.quantile(samples, q, axis=1, threads=1),
                    lambda _: np.quantile(samples, q, axis=1), SECONDS)
    yield row(found, 0.25, type="float32", samples=samples.size, bins=0, range="quantiles of 10,000 rows")


def row(found, limit, **names):
    ratio = round(found[0] / found[1], 3)
    return {**names, "microseconds": round(found[0], 2), "numpy": round(found[1], 2), "ratio": ratio, "limit": limit}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="where the results go")
    options = parser.parse_args()
    rows = []
    for cell in itertools.chain(cells(), cells_of_rows()):
        rows.append(cell)
        if cell["ratio"] > cell["limit"]:
            print("above its limit:", cell, file=sys.stderr)
    above = sum(cell["ratio"] > cell["limit"] for cell in rows)
    result = {
        **origin("bench/python/ratios.py"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "above_their_limits": above,
        "worst": max(cell["ratio"] / cell["limit"] * LIMIT for cell in rows),
        "rows": rows,
    }
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
