#!/usr/bin/env python3
"""The long form of the comparison with numpy: the tests' own checks, over many more configurations.

  PYTHONPATH=build/release/python .venv/bin/python tests/python/long.py --output numpy-parity.json

A configuration is what hypothesis draws for one of these tests: a size, a layout of memory, and bins and
range (of a number of bins, of edges, of the data), rows or quantiles of a sample type. The types advance
together, in --jobs processes; any difference ends the run with the numbers that repeat it.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "bench")]

import numpy as np  # noqa: E402
from arrays import TYPES  # noqa: E402
from provenance import origin  # noqa: E402

TESTS = ("numpy_count.py::test_even_bins_over_a_range", "numpy_count.py::test_the_range_of_the_data",
         "numpy_count.py::test_edges", "numpy_quantile.py::test_numbers", "rows.py::test_rows_are_numpys")
BFLOAT16 = "bfloat16.py::test_bfloat16_is_counted_as_float32"


def compare(dtype, options):
    """How many configurations of each test were compared."""
    tests = TESTS if dtype in TYPES else (BFLOAT16,)
    each = options.configurations // len(tests)
    names = [f"{HERE}/test_{test}[{dtype}]" if dtype in TYPES else f"{HERE}/test_{test}" for test in tests]
    examples = 3 * each if dtype in TYPES else each  # arrays.py divides those by type
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=0", f"--hypothesis-seed={options.seed}",
         *names], env={**os.environ, "HISTOGRAM_EXAMPLES": str(examples)}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{dtype}: {done.stdout}{done.stderr}")
    print(f"{dtype}: {each * len(tests)} configurations, 0 differences", flush=True)
    return {test.partition("::test_")[2]: each for test in tests}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="where the result goes")
    parser.add_argument("--configurations", type=int, default=100_000, metavar="N", help="of each type")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="processes")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    begin, types = time.monotonic(), (*TYPES, "bf16")
    result = origin("tests/python/long.py")
    with ThreadPoolExecutor(options.jobs) as pool:
        found = dict(zip(types, pool.map(lambda dtype: compare(dtype, options), types)))
    options.output.write_text(json.dumps({
        **result, "python": platform.python_version(), "numpy": np.__version__, "seed": options.seed,
        "seconds": round(time.monotonic() - begin), "differences": 0, "configurations": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
