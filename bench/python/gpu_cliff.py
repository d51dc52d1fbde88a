#!/usr/bin/env python3
"""Measures histogram.count of torch tensors over a new range with each call, beside torch.histc; rows; quantiles.

  PYTHONPATH=build/release/python python3 bench/python/gpu_cliff.py --output python-gpu-cliff.json

In each round all calls of a row are measured once, one after the other; a number is the median over the
rounds, in microseconds a call, with the least and the greatest. Results arrive in the CPU's memory, but for
"on device": these calls are queued, and the time is that until all are done. "same": one range, "new": another
pair of floats with each call, "list", "numpy" and "to 0": the same as a list, of float32 scalars, and up to 0;
"data": none is given. "rows, range": of 4,096 rows of 4,096; "rows, own ranges": range="rows", beside torch's
aminmax, arithmetic and bincount. Needs torch and a GPU. --check ends with 1 if a bound below is not met.
"""

import argparse
import itertools
import json
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from provenance import origin  # noqa: E402

ROUNDS = 5
SECONDS = 0.02  # of each call, in each round, at least
SIZES = [1 << k for k in range(10, 27, 2)]
BINS = [256, 2048]
RANGES = [(-4 - k / 8192, 4 + k / 4096) for k in range(1000)]  # the package remembers 32
# Microseconds that a call may take, by its case and its name.
BOUNDS = {**{(f"{1 << 16} float32, {bins} bins", name): bound for bins in BINS
             for name, bound in (("new", 40), ("list", 40), ("numpy", 40), ("to 0", 40), ("data", 60))},
          ("rows, range", "on host"): 1000, ("rows, range", "on device"): 100,
          ("rows, own ranges", "on host"): 1000, ("rows, own ranges", "on device"): 100,
          ("quantiles of 14 rows", "one call"): 1500}


def microseconds_of(call, finish=lambda: None):
    call()
    finish()
    calls, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < SECONDS:
        for _ in range(4):
            call()
        calls += 4
    finish()
    return (time.perf_counter() - begin) / calls * 1e6


def row_of(case, calls, finish=lambda: None, alone=()):
    """Measures the calls in turn; `alone` are the names of those that are not finished one by one."""
    times = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times[name].append(microseconds_of(call, finish if name in alone else lambda: None))
    row = {"case": case, "microseconds": {
        name: {"median": round(statistics.median(numbers), 1), "least": round(min(numbers), 1),
               "greatest": round(max(numbers), 1)} for name, numbers in times.items()}}
    print(f"{case:32}", *(f"{name} {time['median']:.1f}" for name, time in row["microseconds"].items()), sep="  ",
          flush=True)
    return row


def measure(np, torch):
    import histogram
    rows = []
    new = itertools.cycle(RANGES)
    lists = itertools.cycle([list(r) for r in RANGES])
    scalars = itertools.cycle([tuple(np.float32(r)) for r in RANGES])
    to_0 = itertools.cycle([(low, 0.0) for low, _ in RANGES])
    generator = torch.Generator("cuda").manual_seed(1)
    for size, bins in itertools.product(SIZES, BINS):
        a = torch.randn(size, device="cuda", generator=generator)
        rows.append(row_of(f"{size} float32, {bins} bins", {
            "same": lambda a=a, bins=bins: histogram.count(a, bins, (-4, 4)).counts(),
            "new": lambda a=a, bins=bins: histogram.count(a, bins, next(new)).counts(),
            "list": lambda a=a, bins=bins: histogram.count(a, bins, next(lists)).counts(),
            "numpy": lambda a=a, bins=bins: histogram.count(a, bins, next(scalars)).counts(),
            "to 0": lambda a=a, bins=bins: histogram.count(a, bins, next(to_0)).counts(),
            "torch.histc": lambda a=a, bins=bins: torch.histc(a, bins, *next(new)).cpu().numpy(),
            "data": lambda a=a, bins=bins: histogram.count(a, bins).counts(),
            "torch.histc, data": lambda a=a, bins=bins: torch.histc(a, bins).cpu().numpy(),
        }))
    many = torch.randn(4096, 4096, device="cuda", generator=generator)
    kept = []

    def there(given):
        kept.append(histogram.count(many, 256, given, axis=1, on_device=True))
        del kept[:-2]

    rows.append(row_of("rows, range", {
        "on host": lambda: histogram.count(many, 256, next(new), axis=1).counts(),
        "on device": lambda: there(next(new)),
    }, torch.cuda.synchronize, ["on device"]))
    kept.clear()
    first = (torch.arange(4096, device="cuda") * 256)[:, None]

    def torchs():
        least, greatest = torch.aminmax(many, dim=1, keepdim=True)
        at = ((many - least) * (256 / (greatest - least))).long().clamp_(max=255)
        return torch.bincount((at + first).view(-1), minlength=4096 * 256).view(4096, 256)

    rows.append(row_of("rows, own ranges", {
        "on host": lambda: histogram.count(many, 256, "rows", axis=1).counts(), "on device": lambda: there("rows"),
        "with edges": lambda: histogram.count(many, 256, "rows", axis=1).edges,
        "axis 0": lambda: histogram.count(many, 256, "rows", axis=0).counts(),
        "torch": lambda: torchs().cpu().numpy(), "torch, on device": torchs,
    }, torch.cuda.synchronize, ["on device", "torch, on device"]))
    kept.clear()
    channels = torch.randn(14, 14_700_000, device="cuda", generator=generator)
    q = [0.02, 0.98]
    rows.append(row_of("quantiles of 14 rows", {
        "one call": lambda: histogram.quantile(channels, q, axis=1),
        "a loop": lambda: [histogram.quantile(channel, q) for channel in channels],
    }))
    return rows


def failures(rows):
    for row in rows:
        medians = {name: time["median"] for name, time in row["microseconds"].items()}
        for name, median in medians.items():
            bound = BOUNDS.get((row["case"], name))
            if bound is not None and median > bound:
                yield f"{row['case']}: {name} takes {median} us; at most {bound}"
            other = medians.get("torch.histc, data" if name == "data" else "torch.histc")
            if other is not None and not name.startswith("torch") and median > other:
                yield f"{row['case']}: {name} takes {median} us; torch.histc {other}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="where the results go")
    parser.add_argument("--commit", help="what is measured, where git cannot tell")
    parser.add_argument("--check", action="store_true", help="end with 1 if a bound is not met")
    options = parser.parse_args()
    import numpy as np
    import torch
    result = {
        **origin("bench/python/gpu_cliff.py", options.commit),
        "gpu": torch.cuda.get_device_name(),
        "versions": {"torch": torch.__version__, "numpy": np.__version__},
        "rounds": ROUNDS,
        "rows": measure(np, torch),
    }
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    missed = list(failures(result["rows"]))
    print(*missed, sep="\n")
    sys.exit(1 if options.check and missed else 0)


if __name__ == "__main__":
    main()
