#!/usr/bin/env python3
"""Measures the library beside the loop that everybody writes first and beside numpy, on one thread.

  bench/library/run.py --program build/release/bin/bench_library --output library.json
  bench/library/run.py --table library.json      prints the rows as a table in Markdown

Each row is a size and a distribution of the bytes. In each of the rounds all rows are measured once, loop,
library and numpy one after the other; a row's numbers are the medians over the rounds, with the least and
the greatest. Rates are by CPU time. Needs numpy. Linux only.
"""
import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import ROOT, origin  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
SIZES = (256, 4 * KIB, 64 * KIB, MIB, 64 * MIB)
DISTRIBUTIONS = ("uniform", "constant")
COUNTERS = ("loop", "library", "numpy")
ROUNDS = 7
SECONDS = 0.2  # of each counter, in each round


def human(size):
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB" if size >= KIB else f"{size} B"


def numpy_rate(size, distribution):
    import numpy
    data = numpy.full(size, 42, numpy.uint8)
    if distribution == "uniform":
        data = numpy.random.default_rng(1).integers(0, 256, size, numpy.uint8)
    group = 1 + (1 << 18) // size
    counted, begin = 0, time.thread_time()
    while (taken := time.thread_time() - begin) < SECONDS:
        for _ in range(group):
            numpy.bincount(data, minlength=256)
        counted += group * size
    return counted / taken / 1e9


def measure(program, size, distribution):
    done = subprocess.run([program, str(size), distribution, str(SECONDS)], check=True,
                          capture_output=True, text=True)
    rates = {name: float(rate) for name, rate in (line.split() for line in done.stdout.splitlines())}
    return rates | {"numpy": numpy_rate(size, distribution)}


def run(program):
    import numpy
    rows = [(size, distribution) for distribution in DISTRIBUTIONS for size in SIZES]
    rates = {row: {name: [] for name in COUNTERS} for row in rows}
    for number in range(ROUNDS):
        print(f"round {number + 1} of {ROUNDS}", file=sys.stderr)
        for row in rows:
            for name, rate in measure(program, *row).items():
                rates[row][name].append(rate)
    return {
        **origin("bench/library/run.py"),
        "numpy": numpy.__version__, "python": platform.python_version(),
        "rounds": ROUNDS, "seconds": SECONDS, "threads": 1,
        "rows": [{
            "payload_bytes": size, "distribution": distribution,
            **{f"{name}_gbps": round(statistics.median(of), 4) for name, of in rates[size, distribution].items()},
            **{f"{name}_gbps_range": [round(min(of), 4), round(max(of), 4)]
               for name, of in rates[size, distribution].items()},
        } for size, distribution in rows]}


def table(results):
    lines = ["| one thread, GB/s | `++h[x]` | this library | `numpy.bincount` |", "|---|---|---|---|"]
    for row in results["rows"]:
        rates = " | ".join(f"{row[f'{name}_gbps']:.1f}" for name in COUNTERS)
        lines.append(f"| {row['distribution']}, {human(row['payload_bytes'])} | {rates} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build/release/bin/bench_library")
    parser.add_argument("--output")
    parser.add_argument("--table", metavar="RESULTS")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(json.loads(Path(arguments.table).read_text())))
        return
    results = run(arguments.program)
    if arguments.output:
        Path(arguments.output).write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
