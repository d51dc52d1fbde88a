#!/usr/bin/env python3
"""Callers of numpy, as they are, with the package in the place of numpy's functions.

  python3 -m venv env && env/bin/pip install -r tests/python/requirements-callers.txt
  PYTHONPATH=build/release/python env/bin/python tests/python/callers.py --output numpy-callers.json

The libraries' own tests, as far as their wheels carry them (matplotlib's lack its images, and
scikit-image and ONNX Runtime have none), run without and with the package in
place, which then answers for few samples, too. Each test must end alike. Calls of the libraries
are timed without and with it. Each answer must be the same, bit for bit. The script fails otherwise.
"""

import argparse
import collections
import importlib.metadata
import json
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import histogram
import numpy as np
from histogram import _patch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
from provenance import origin  # noqa: E402

SUITES = {
    "numpy": (["numpy/lib/tests/test_histograms.py", "numpy/lib/tests/test_function_base.py"],
              "histogram or Percentile or Quantile or Median or Lerp"),
    "dask": ([f"dask/array/tests/test_{name}.py" for name in ("routines", "percentiles", "array_function")],
             "hist or percentile or quantile or median or array_function"),
    "pandas": (["pandas/tests/frame/methods/test_quantile.py", "pandas/tests/series/methods/test_quantile.py",
                "pandas/tests/plotting/test_hist_method.py"], "quantile or hist"),
}
ANSWERS = collections.Counter()


def count_answers():
    for name, one in _patch._stand_ins().items():
        def ours(*values, _name=name, _ours=one._ours, **named):
            answer = _ours(*values, **named)
            ANSWERS[_name] += 1
            return answer
        one._ours = ours


class Outcomes:
    """A plugin of pytest that keeps how each test ended."""

    def __init__(self):
        self.found = {}

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            self.found[report.nodeid] = report.outcome


def run_suite(name, patched):
    """In a process of its own: prints the outcomes of the tests and the number of the answers."""
    import pytest

    site = Path(np.__file__).parents[1]
    files, chosen = SUITES[name]
    outcomes = Outcomes()
    if patched:
        _patch._FEW = 1
        count_answers()
        histogram.patch_numpy()
    os.chdir(site)
    pytest.main(["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(site), "-W", "ignore",
                 "--confcutdir", str(site), "-k", chosen, *files], plugins=[outcomes])
    print("\n" + json.dumps([outcomes.found, ANSWERS]))


def compare_suite(name):
    sides = []
    for patched in (0, 1):
        done = subprocess.run([sys.executable, __file__, "--suite", name, str(patched)], check=True,
                              capture_output=True, text=True)
        sides.append(json.loads(done.stdout.splitlines()[-1]))
    (before, _), (after, answers) = sides
    changed = {test: (before.get(test), after.get(test)) for test in before.keys() | after.keys()
               if before.get(test) != after.get(test)}
    ended = collections.Counter(after.values())
    if not ended["passed"] or not answers:
        sys.exit(f"{name}: no test passed, or none had an answer of the package; does its environment lack a package?")
    print(f"{name}: {dict(ended)}, {sum(answers.values()):,} answers, {len(changed)} tests end differently", flush=True)
    return {**ended, "answers": sum(answers.values()), "changed": changed}


def calls():
    """The calls by name, each with what it gives."""
    import dask.array as da
    import matplotlib
    matplotlib.use("agg")
    from matplotlib import pyplot as plt
    from onnxruntime.quantization.calibrate import HistogramCollector
    from skimage import exposure, filters

    rng = np.random.default_rng(0)
    a = rng.normal(size=1 << 24).astype(np.float32)
    image = np.abs(a).reshape(4096, 4096)
    chunked = da.from_array(a, chunks=1 << 21)

    def plotted(draw):
        plt.close("all")
        return draw()

    def collected():
        collector = HistogramCollector("entropy", False, 2048, 128, 99.99, "same")
        collector.collect({"x": [a[: 1 << 23], a[1 << 23:]]})
        return collector.histogram_dict["x"][:2]

    return {
        "np.histogram(a, 100, (-4, 4))": lambda: np.histogram(a, 100, (-4, 4)),
        "np.histogram(a, 'fd')": lambda: np.histogram(a, "fd"),
        "np.percentile(a, [1, 99])": lambda: np.percentile(a, [1, 99]),
        "np.median(a)": lambda: np.median(a),
        "plt.hist(a, 100)": lambda: plotted(lambda: plt.hist(a, 100)[:2]),
        "plt.boxplot(a)": lambda: plotted(lambda: plt.boxplot(a, showfliers=False)["medians"][0].get_ydata()),
        "skimage.filters.threshold_otsu(image)": lambda: filters.threshold_otsu(image),
        "skimage.filters.threshold_yen, _triangle, _isodata": lambda: [
            filters.threshold_yen(image), filters.threshold_triangle(image), filters.threshold_isodata(image)],
        "skimage.exposure.equalize_hist(image)": lambda: exposure.equalize_hist(image),
        "skimage.exposure.is_low_contrast(image)": lambda: exposure.is_low_contrast(image),
        "dask.array.histogram(a, 100, (-4, 4))": lambda: da.histogram(chunked, 100, (-4, 4))[0].compute(),
        "dask.array.percentile(a, [1, 50, 99])": lambda: da.percentile(chunked, [1, 50, 99]).compute(),
        "ONNX Runtime's HistogramCollector": collected,
    }


def timed(call, times=3):
    best, answer = np.inf, None
    for _ in range(times):
        begin = time.perf_counter()
        answer = call()
        best = min(best, time.perf_counter() - begin)
    return best, pickle.dumps(answer)


def compare_calls():
    found = {}
    for name, call in calls().items():
        call()
        before, expected = timed(call)
        with histogram.patch_numpy():
            after, answer = timed(call)
        found[name] = {"numpy_ms": round(before * 1e3, 1), "patched_ms": round(after * 1e3, 1), "same": answer == expected}
        print(f"{name}: {found[name]}", flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--suite", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.suite:
        return run_suite(options.suite[0], options.suite[1] == "1")
    timings = compare_calls()
    suites = {name: compare_suite(name) for name in SUITES}
    result = {
        **origin("tests/python/callers.py"), "cores": len(os.sched_getaffinity(0)), "python": sys.version.split()[0],
        "versions": {name: importlib.metadata.version(name) for name in (*SUITES, "matplotlib", "onnxruntime", "scikit-image")},
        "suites": suites, "calls": timings,
    }
    if options.output:
        options.output.write_text(json.dumps(result, indent=1) + "\n")
    if any(one["changed"] for one in suites.values()) or not all(one["same"] for one in timings.values()):
        sys.exit("a test ends or a call answers differently with the package in numpy's place")


if __name__ == "__main__":
    main()
