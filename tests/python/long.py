#!/usr/bin/env python3
"""The long form of the comparison with numpy: the tests' own checks, over many more configurations.

  PYTHONPATH=build/release/python .venv/bin/python tests/python/long.py --output numpy-parity.json

A configuration is a sample type, a size, a layout of memory, and bins and range (of a number of
bins, of edges, of the data) or quantiles; half of the samples lie on edges or one step beside them.
Without --configurations it is 100,000 for each of twelve types. With --seconds no configuration
begins later: the result says how many of each type were compared. Any difference ends the run with
the numbers that repeat it. All types advance together, in --jobs processes.
"""

import argparse
import collections
import concurrent.futures
import datetime
import json
import os
import platform
import shlex
import sys
import time
from pathlib import Path

os.environ["HISTOGRAM_EXAMPLES"] = "1"  # the tests draw nothing themselves
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "bench")]

import numpy as np  # noqa: E402
import test_bfloat16 as bfloat16  # noqa: E402
import test_numpy_count as counts  # noqa: E402
import test_numpy_quantile as quantiles  # noqa: E402
import test_rows as rows  # noqa: E402
from arrays import TYPES  # noqa: E402
from provenance import commit, processor  # noqa: E402

ALL_TYPES = (*TYPES, "bf16")
PART = 500  # configurations of one type, compared in one go


def one_of(rng, choices):
    return choices[rng.integers(len(choices))]


def draw(rng):
    """A test and its arguments, from the values that hypothesis draws from."""
    seed = int(rng.integers(2**32))
    which = one_of(rng, ("range", "range", "data", "edges", "quantiles", "rows"))
    if which == "range":
        return counts.test_even_bins_over_a_range, {
            "seed": seed, "kind": one_of(rng, counts.KINDS), "bins": int(10 ** rng.uniform(0, 3.7)),
            "size": one_of(rng, (0, 1, 6, 600, 3000))}
    if which == "data":
        return counts.test_the_range_of_the_data, {
            "seed": seed, "size": one_of(rng, (0, 1, 2, 600)), "bins": int(rng.integers(1, 400))}
    if which == "edges":
        return counts.test_edges, {
            "seed": seed, "size": one_of(rng, (0, 1, 600)),
            "edges": np.sort(rng.normal(0, 10.0 ** rng.integers(-2, 4), rng.integers(2, 40))).tolist(),
            "form": one_of(rng, ("plain", "repeated", "infinite", "float32", "integers"))}
    if which == "quantiles":
        return quantiles.test_numbers, {
            "seed": seed, "size": one_of(rng, (1, 2, 3, 7, 600, 5001)),
            "q": one_of(rng, (float(rng.random()), 0.5, rng.random(3), np.array([[0.0, 1], [0.25, 0.5]])))}
    return rows.test_rows_are_numpys, {
        "seed": seed, "edges": one_of(rng, rows.EDGES), "channels": one_of(rng, (None, 1, 2, 3, 5)),
        "windows": one_of(rng, (None, int(rng.integers(1, 700)),
                                (int(rng.integers(1, 90)), int(rng.integers(1, 90)))))}


def draw_bfloat16(rng):
    return bfloat16.test_bfloat16_is_counted_as_float32, {
        "seed": int(rng.integers(2**32)), "form": one_of(rng, bfloat16.FORMS), "kind": one_of(rng, counts.KINDS),
        "bins": int(10 ** rng.uniform(0, 3.7)), "size": one_of(rng, (1, 6, 600, 3000))}


def check(dtype, numbers, seed, end):
    """How many of each test were run; raises at the first difference."""
    np.seterr(all="ignore")
    done = collections.Counter()
    for number in numbers:
        if time.time() > end:
            break
        rng = np.random.default_rng([seed, ALL_TYPES.index(dtype), number])
        test, arguments = draw_bfloat16(rng) if dtype == "bf16" else draw(rng)
        if dtype != "bf16":
            arguments["dtype"] = dtype
        try:
            test.hypothesis.inner_test(**arguments)
        except Exception as error:
            raise AssertionError(f"{test.__name__}(**{arguments!r})") from error
        done[test.__name__.removeprefix("test_")] += 1
    return dtype, done


def compare(options):
    """How many of each test were run, by type."""
    end = time.time() + options.seconds
    found = {dtype: collections.Counter() for dtype in ALL_TYPES}
    parts = [(dtype, range(first, min(first + PART, options.configurations)))
             for first in range(0, options.configurations, PART) for dtype in ALL_TYPES]
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(check, *part, options.seed, end) for part in parts]
        try:
            for job in concurrent.futures.as_completed(jobs):
                dtype, done = job.result()
                found[dtype] += done
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="where the result goes")
    parser.add_argument("--configurations", type=int, default=100_000, metavar="N", help="of each type")
    parser.add_argument("--seconds", type=float, default=float("inf"), metavar="N", help="at most")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="processes")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    begin, tested = time.monotonic(), commit()
    found = compare(options)
    for dtype, done in found.items():
        print(f"{dtype}: {done.total()} configurations, 0 differences")
    options.output.write_text(json.dumps({
        "command": shlex.join(["tests/python/long.py", *sys.argv[1:]]),
        "commit": tested, "date": datetime.date.today().isoformat(), "cpu": processor(),
        "python": platform.python_version(), "numpy": np.__version__, "seed": options.seed,
        "seconds": round(time.monotonic() - begin), "differences": 0,
        "configurations": {dtype: dict(sorted(done.items())) for dtype, done in found.items()},
    }, indent=1) + "\n")


if __name__ == "__main__":
    main()
