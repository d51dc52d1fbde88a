"""numpy's functions with the package in their place: the same answers, bit for bit."""

import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from unittest import mock

import histogram
import numpy as np
import pytest
from arrays import CHECKED, RANGES, TYPES, laid_out, make_samples, same_bits, seeds
from histogram import _patch
from hypothesis import given
from hypothesis import strategies as st
from test_numpy_count import KINDS, range_of

NUMPYS = {name: getattr(np, name) for name in ("histogram", "quantile", "percentile", "median")}
METHODS = ("linear", "linear", *_patch.METHODS)

def run(*arguments, **options):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True,
                          timeout=250, check=False, **options)


def test_numpys_own_tests_pass():
    """With the package in place for few samples, too."""
    done = run(Path(__file__).with_name("callers.py"), "--suite", "numpy", "1")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    outcomes, answers = json.loads(done.stdout.splitlines()[-1])
    assert {"passed"} <= set(outcomes.values()) <= {"passed", "skipped"}, done.stdout[-4000:]
    assert len(answers) == len(NUMPYS) and min(answers.values()) >= 20


def outcome(function, *values, **named):
    """What a call answers, warns and raises."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            answer = function(*values, **named)
        except Exception as error:  # noqa: BLE001
            answer = type(error), str(error)
    return answer, [(one.category, str(one.message)) for one in told]


def same(ours, theirs):
    if isinstance(theirs, tuple):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(theirs, (np.ndarray, np.generic)):
        if theirs is np.ma.masked:
            return ours is theirs
        if theirs.dtype == np.longdouble:  # it has bytes without a meaning
            ours, theirs = ours.astype("f8"), theirs.astype("f8")
        return type(ours) is type(theirs) and same_bits(ours, theirs)
    return ours == theirs


def check(name, *values, **named):
    ours = outcome(getattr(np, name), *values, **named)
    theirs = outcome(NUMPYS[name], *values, **named)
    assert same(ours[0], theirs[0]), (name, values, named, ours, theirs)
    assert ours[1] == theirs[1]


@pytest.fixture
def patched(monkeypatch):
    """With the package in place for few samples, too."""
    monkeypatch.setattr(_patch, "_FEW", 1)
    with histogram.patch_numpy():
        yield


def drawn(rng, dtype, ends):
    size = int(rng.choice([0, 1, 2, 7, 600, 3000]))
    with np.errstate(invalid="ignore"):
        samples = make_samples(rng, dtype, ends, size, nan=rng.random() < 0.3)
    if dtype in ("i8", "u8") and rng.random() < 0.5:
        far = [2**53 + 1, np.iinfo(dtype).max, np.iinfo(dtype).min]
        samples = np.where(rng.random(size) < 0.1, rng.choice(np.array(far, dtype), size), samples)
    if dtype[0] == "f" and rng.random() < 0.7:
        samples = samples[np.isfinite(samples)]
    return laid_out(rng, samples)


@CHECKED
@given(seeds, st.sampled_from(TYPES))
def test_histograms(seed, dtype):
    rng = np.random.default_rng(seed)
    with histogram.patch_numpy(), mock.patch.object(_patch, "_FEW", 1):
        ends = RANGES[rng.integers(len(RANGES) - 1)] if seed % 2 else range_of(rng, dtype, str(rng.choice(KINDS)))
        bins = int(10 ** rng.uniform(0, 4))
        even = np.linspace(float(ends[0]), float(ends[1]), min(bins, 200) + 1)
        a = drawn(rng, dtype, even)
        check("histogram", a, bins, ends)
        check("histogram", a, bins, ends)  # with the rule remembered
        check("histogram", a, np.int32(bins % 50 + 1), density=rng.random() < 0.5)
        for edges in (even, np.clip(even, -3e38, 3e38).astype("f4"), np.clip(even, -2**62, 2**62).astype("i8"), even.tolist(), [-np.inf, *even, np.inf],
                      np.repeat(even, 2), even[::-1]):
            check("histogram", a, edges, density=rng.random() < 0.2)


@CHECKED
@given(seeds, st.sampled_from(TYPES))
def test_quantiles(seed, dtype):
    rng = np.random.default_rng(seed)
    with histogram.patch_numpy(), mock.patch.object(_patch, "_FEW", 1):
        a = drawn(rng, dtype, [-3, 0, 5, 1000])
        q = rng.choice([0, 1, 0.5, 0.25, *rng.random(4)], int(rng.integers(1, 5)))
        for one in (q, q.tolist(), q[0], float(q[0]), int(q[0]), q.astype("f4")):
            check("quantile", a, one, method=str(rng.choice(METHODS)))
        check("percentile", a, q * 100, keepdims=True)
        check("percentile", a, float(q[0]) * 100)
        check("median", a, keepdims=bool(rng.integers(2)))
        check("median", a.ravel(), axis=0)


@pytest.mark.parametrize("a", [
    [1, 2, 2.5], (1, 2), 3, True, np.array([True, False, True]), np.array([1j, 2]), np.array([1, None], object),
    np.array(["2020-01-01", "2020-01-05"], "M8[D]"), np.array([1, 2, 5], "m8[s]"), np.array([1, 2], np.longdouble),
    np.array([0.0, -0.0, -0.0]), np.array([-0.0, 0.0]), np.array([1, np.nan]), np.array([np.inf, 1, -np.inf]),
    np.array([-128, 127], "i1"), np.array([2**53 + 1, 2**53]), np.array([2**64 - 1, 0], np.uint64), "abc", None,
    np.ma.masked_array([1.0, 2, 3], [0, 1, 0]), np.array([[1, 2], [3, 4]]).view(type("Sub", (np.ndarray,), {})), np.zeros((0, 3)), np.float16([1, 2]),
], ids=repr)
def test_what_numpy_answers_as_before(a, patched):
    for bins in (3, [0, 1, 2], np.array([2**53, 2**53 + 1, 2**53 + 2]), [0, np.nan, 1], "auto", 0, 2.5, [[1, 2]], [1], []):
        check("histogram", a, bins)
        check("histogram", a, bins, (0, 4))
    check("histogram", a, 3, None, True)
    for weights in (np.ones(np.shape(a)), [1, 2]):
        check("histogram", a, 3, weights=weights)
        check("quantile", a, 0.5, weights=weights, method="inverted_cdf")
    for q in (0.5, [0.1, 0.9], 2, None, [[0.5, 0.1]], np.nan, [], True, "x"):
        check("quantile", a, q)
        check("percentile", a, q)
    check("median", a)
    check("median", a, axis=0)
    check("quantile", a, 0.5, method="no such")
    check("histogram", a, 3, no_such=1)
    check("median")


def test_zeros_keep_their_sign(patched):
    check("median", np.array([-0.0] * 9))
    check("quantile", np.array([-0.0] * 5 + [0.0] * 5, "f4"), [0.1, 0.5, 0.9])
    assert _patch._median(np.zeros(9)) == 0  # without a negative zero the package answers


def test_results_are_the_callers(patched):
    a, edges = np.arange(100.0), np.array([0.0, 10, 20])
    counts, found = np.histogram(a, edges)
    assert found is edges and counts.flags.writeable
    for _ in range(2):
        counts, found = np.histogram(a, 4, (0, 8))
        counts[:] = found[:] = -1


class Duck:
    """An array with functions of its own."""

    def __array_function__(self, func, types, args, kwargs):
        return {np.histogram: "its histogram", np.median: "its median"}[func]


def test_libraries_with_functions_of_their_own(patched):
    assert np.histogram(Duck()) == np.histogram([1], Duck()) == "its histogram"
    assert np.median(Duck()) == "its median"


def test_a_stand_in_looks_like_numpys_function(patched):
    assert np.histogram is not NUMPYS["histogram"]
    assert np.histogram == NUMPYS["histogram"] and {np.median: 1}[NUMPYS["median"]] == 1
    assert pickle.loads(pickle.dumps(np.histogram)) is np.histogram
    assert np.quantile.__doc__ == NUMPYS["quantile"].__doc__
    assert str(__import__("inspect").signature(np.quantile)).startswith("(a, q, axis=None")


def test_patches_nest_and_end():
    with histogram.patch_numpy():
        inner = np.histogram
        with histogram.patch_numpy():
            assert np.histogram is inner
        assert np.histogram is inner
    assert all(getattr(np, name) is one for name, one in NUMPYS.items())
    histogram.patch_numpy()
    histogram.unpatch_numpy()
    histogram.unpatch_numpy()
    assert all(getattr(np, name) is one for name, one in NUMPYS.items())


def test_another_version_of_numpys_arithmetic_is_left_alone():
    assert _patch._has_our_arithmetic("quantile", NUMPYS["quantile"])
    other = lambda a, q, method: NUMPYS["quantile"](a, q, method=method) * (1 + 2**-52)  # noqa: E731
    assert not _patch._has_our_arithmetic("quantile", other)


def test_programs_run_unchanged(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import sys, numpy, beside\n"
                       "print(__name__, type(numpy.histogram).__name__, sys.argv[1:], beside.x)\n")
    (tmp_path / "beside.py").write_text("x = 7\n")
    expected = "__main__ _StandIn ['-a', 'b'] 7\n"
    for arguments in ((str(program),), ("-m", "program")):
        done = run("-m", "histogram.patch", *arguments, "-a", "b", cwd=tmp_path,
                   env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        assert done.returncode == 0 and done.stdout == expected, done.stderr
        assert done.stderr == ""
    assert "SCRIPT" in run("-m", "histogram.patch").stderr
