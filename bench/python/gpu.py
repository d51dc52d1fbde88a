#!/usr/bin/env python3
"""Measures histogram.count of arrays in a GPU's memory beside torch and cupy, results on the host.

  PYTHONPATH=build/release/python python3 bench/python/gpu.py --output python-gpu.json

In each round all rows are measured once, one counter after the other; a number is the median over the
rounds, in microseconds a call with its result on the host, with the least and the greatest. "device API" is
python/cuda/plugin.h called in a loop of C++ with the same array, plan and stream. Needs torch, a GPU and
g++ for the loop; cupy where it is installed. A counter whose counts differ from numpy's is named with the
share of samples that it misplaces.
"""

import argparse
import ctypes
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from provenance import origin  # noqa: E402

ROUNDS = 7
SECONDS = 0.05  # of each counter, in each round, at least
ROWS = [(size, bins) for size in (1 << 12, 1 << 16, 1 << 20, 1 << 28) for bins in (256, 2048)]

LOOP = r"""
#include "python/cuda/plugin.h"
#include <chrono>
#include <vector>
// Microseconds a call.
extern "C" double loop(HistogramCounter* counter, const void* samples, uint64_t count, void* stream,
                       uint64_t bins, double seconds, decltype(histogram_cuda_count_and_read)* call) {
  char error[256];
  std::vector<int64_t> counts(bins), outside(3);
  uint64_t calls = 0;
  const auto begin = std::chrono::steady_clock::now();
  double taken = 0;
  while (taken < seconds) {
    for (int i = 0; i < 8; ++i) {
      if (call(counter, nullptr, samples, count, stream, counts.data(), outside.data(), error, 256)) return -1;
    }
    calls += 8;
    taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  return taken / calls * 1e6;
}
"""


def loop_library():
    folder = Path(tempfile.mkdtemp())
    (folder / "loop.cc").write_text(LOOP)
    subprocess.run(["g++", "-std=c++20", "-O2", "-shared", "-fPIC", f"-I{ROOT}", folder / "loop.cc",
                    "-o", folder / "loop.so"], check=True)
    library = ctypes.CDLL(str(folder / "loop.so"))
    address = ctypes.c_void_p
    library.loop.argtypes = (address, address, ctypes.c_uint64, address, ctypes.c_uint64, ctypes.c_double, address)
    library.loop.restype = ctypes.c_double
    return library


def microseconds_of(call):
    call()
    calls, begin = 0, time.perf_counter()
    while (taken := time.perf_counter() - begin) < SECONDS:
        for _ in range(4):
            call()
        calls += 4
    return taken / calls * 1e6


def measure(numpy, torch):
    import histogram
    from histogram import _gpu_plan, _gpu_plugin
    try:
        import cupy
    except ImportError:
        cupy = None
    loop, plugin = loop_library(), _gpu_plugin.plugin()
    address = ctypes.cast(plugin.histogram_cuda_count_and_read, ctypes.c_void_p)
    rows = []
    for size, bins in ROWS:
        a = torch.randn(size, device="cuda", generator=torch.Generator("cuda").manual_seed(1))
        expected = histogram.count(a.cpu().numpy(), bins, (-4, 4)).counts()
        edges = numpy.histogram_bin_edges(numpy.empty(0, numpy.float32), bins, (-4, 4)).astype(float)
        plan = _gpu_plan.DevicePlan(edges, "f32", 0)
        stream = torch.cuda.current_stream().cuda_stream
        counter = plan.counters.counter(stream)

        def api(a=a, counter=counter, stream=stream, size=size, bins=bins):
            return loop.loop(counter.handle, a.data_ptr(), size, stream, bins, SECONDS, address)

        calls = {
            "histogram": lambda a=a, bins=bins: histogram.count(a, bins, (-4, 4)).counts(),
            "torch.histc": lambda a=a, bins=bins: torch.histc(a, bins, -4, 4).cpu().numpy(),
        }
        if cupy is not None:
            same = cupy.asarray(a)
            calls["cupy.histogram"] = lambda same=same, bins=bins: cupy.histogram(same, bins, (-4, 4))[0].get()
        wrong = {name: float(numpy.abs(call().astype(numpy.int64) - expected).sum() / 2 / size)
                 for name, call in calls.items()}
        times = {"device API": [], **{name: [] for name in calls}}
        for _ in range(ROUNDS):
            times["device API"].append(api())
            for name, call in calls.items():
                times[name].append(microseconds_of(call))
        rows.append({"type": "float32", "samples": size, "bins": bins, "misplaced": wrong,
                     "microseconds": {name: {"median": round(statistics.median(numbers), 2),
                                             "least": round(min(numbers), 2),
                                             "greatest": round(max(numbers), 2)}
                                      for name, numbers in times.items()}})
        print(json.dumps(rows[-1]), file=sys.stderr)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="where the results go")
    parser.add_argument("--commit", help="what is measured, where git cannot tell")
    options = parser.parse_args()
    import numpy
    import torch
    result = {
        **origin("bench/python/gpu.py", options.commit),
        "gpu": torch.cuda.get_device_name(),
        "versions": {"torch": torch.__version__, "numpy": numpy.__version__},
        "rounds": ROUNDS,
        "rows": measure(numpy, torch),
    }
    options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
