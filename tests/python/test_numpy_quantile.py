"""quantile() equals numpy.quantile to the last bit."""

from fractions import Fraction

import histogram
import ml_dtypes
import numpy as np
import pytest
from arrays import CHECKED, CHECKED_BY_TYPE, TYPES, laid_out, make_samples, same_bits, seeds
from histogram._numpy_quantile import METHODS
from hypothesis import given
from hypothesis import strategies as st

SHARES = st.one_of(
    st.floats(0, 1), st.sampled_from((0, 1, 0.5, 0.25)),
    st.lists(st.floats(0, 1), min_size=1, max_size=9).map(np.array),
    st.just(np.array([[0.0, 0.5], [1.0, 0.3]])))


def wide(a):
    """numpy's difference of signed integers overflows; in 64 bits there is room."""
    return a.astype("i8") if a.dtype.name in ("int8", "int16", "int32") else a


def numpys(a, q, axis):
    with np.errstate(all="ignore"):
        return np.quantile(wide(a), q, axis)


def same_answer(found, expected):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected, equal_nan=found.dtype.kind == "f")


@pytest.mark.parametrize("dtype", TYPES)
@CHECKED_BY_TYPE
@given(seed=seeds, size=st.sampled_from((1, 2, 3, 60, 5000)), q=SHARES)
def test_numbers(dtype, seed, size, q):
    rng = np.random.default_rng(seed)
    a = make_samples(rng, dtype, rng.normal(0, 30, 9), size, nan=seed % 5 == 0)
    a = laid_out(rng, a)
    with np.errstate(all="ignore"):
        expected = np.quantile(wide(a), q)
        found = histogram.quantile(a, q)
    if np.asarray(q).dtype.kind in "iu":
        expected = expected.astype(np.asarray(found).dtype)
    same_answer(found, expected)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("data", ["spread", "constant", "two values", "narrow"])
def test_long_arrays_in_several_rounds(dtype, data):
    """Long enough that samples are counted by digits before any are collected."""
    rng = np.random.default_rng(11)
    a = {
        "spread": lambda: rng.normal(0, 30, 700_000),
        "constant": lambda: np.full(700_000, 17),
        "two values": lambda: rng.choice([3, 5], 700_000),
        "narrow": lambda: 100 + rng.random(700_000) / 1000,
    }[data]().astype("i8" if dtype[0] in "iu" else "f8").astype(dtype)
    q = np.concatenate([np.linspace(0, 1, 101), [0.999, 0.123456]])
    for threads in (1, 3):
        same_answer(histogram.quantile(a, q, threads=threads), np.quantile(a, q))


def test_full_range_of_64_bits():
    a = np.random.default_rng(4).integers(-2**63, 2**63 - 1, 300_001, dtype="i8")
    assert histogram.quantile(a, np.array([0.5]))[0] == float(np.sort(a)[150_000])
    u = a.view("u8")
    assert histogram.quantile(u, np.array([0.5]))[0] == float(np.sort(u)[150_000])


def test_a_difference_that_overflows():
    """numpy answers -128.5 for these."""
    assert histogram.quantile(np.array([-128, 127], np.int8), 0.5) == -0.5


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_nan(dtype):
    a = np.array([1, 2, np.nan, 4], dtype)
    assert np.isnan(histogram.quantile(a, 0.0))
    assert np.isnan(histogram.quantile(a, [0.0, 0.5])).all()
    a[:3] = -np.inf
    assert np.isnan(histogram.quantile(np.append(a, a.dtype.type(np.nan)), [0.0, 0.5])).all()  # and no warning
    same_answer(histogram.quantile(np.array([-0.0, 0.0], dtype), 0.5), np.zeros((), dtype))


@pytest.mark.parametrize(("a", "q", "message"), [
    ([1.0], 1.5, "q: 1.5"), ([1.0], -0.1, "q: -0.1"), ([1.0], np.nan, "q: nan"), ([], 0.5, "no samples"),
])
def test_bad_arguments(a, q, message):
    with pytest.raises(ValueError, match=message):
        histogram.quantile(a, q)


def test_what_is_numpys():
    with pytest.raises(TypeError, match="no argument 'weights': .*numpy.quantile"):
        histogram.quantile([1.0], 0.5, weights=[1])
    assert histogram.quantile([1.0], 0.5, axis=None, method="linear", weights=None, keepdims=False) == 1


@CHECKED
@given(method=st.sampled_from(METHODS), seed=seeds, dtype=st.sampled_from(TYPES),
       size=st.sampled_from((1, 2, 3, 8, 61)), q=SHARES)
def test_methods(method, seed, dtype, size, q):
    rng = np.random.default_rng(seed)
    a = make_samples(rng, dtype, [-30, 0, 30], size, nan=seed % 5 == 0)
    a = laid_out(rng, a)
    with np.errstate(all="ignore"):
        for one in (q, 0.5, np.arange(8) / 7):
            expected = np.quantile(wide(a), one, method=method)
            found = histogram.quantile(a, one, method=method)
            if np.asarray(found).dtype.kind in "iu":  # a sample
                expected = expected.astype(a.dtype)
            same_answer(found, expected.astype(expected.dtype.newbyteorder("=")))


@pytest.mark.parametrize("method", METHODS)
def test_methods_of_rows(method):
    rng = np.random.default_rng(3)
    for dtype in ("f4", "f8", "i8", "u1"):
        a = (rng.random((3, 4, 5)) * 100).astype(dtype)
        for q in (0.3, [0, 0.1, 1], 1, np.array([0, 1]), np.float64(0.7)):
            for axis, keepdims in ((1, False), ((0, 2), True), ((), False)):
                same_answer(histogram.quantile(a, q, axis=axis, method=method, keepdims=keepdims),
                            np.quantile(a, q, axis=axis, method=method, keepdims=keepdims))


def test_medians_of_rows_and_dates():
    a = np.array([[5, 1, 3, 2], [8, np.nan, 9, 7]])
    for b in (a, a.astype("f4"), a[:1].astype("i2")):
        for axis, keeps in ((0, False), (1, False), (1, True), ((0, 1), False)):
            same_answer(histogram.median(b, axis=axis, keepdims=keeps), np.median(b, axis=axis, keepdims=keeps))
    days = np.array(["2020-01-01", "2020-01-04", "2021-01-01"], "M8[D]")
    assert histogram.median(days) == days[1]
    assert histogram.median(days[:2]) == days[0] + 1
    assert np.isnat(histogram.median(np.array(["NaT", "2020-01-01"], "M8[D]")))
    far = np.array(["1677-10-01", "2262-01-01"], "M8[ns]")
    assert histogram.median(far) == np.datetime64("1969-11-16T12")
    for ends in ([-1, -2], [1, 2], [-5, 2], [2**63 - 3, 2**63 - 1], [2 - 2**63, 3 - 2**63]):
        assert histogram.median(np.array(ends, "m8[s]")) == np.timedelta64(int(Fraction(sum(ends), 2)), "s")
    with pytest.raises(ValueError, match="^a: type datetime64.ns.; neighbours lie more than 2..63 units apart"):
        histogram.quantile(far, 0.5)


def test_what_percentile_and_median_refuse():
    for q, message in ((101, "q: 101; must be 0 to 100"), ([5, np.nan], "q: nan; must be 0 to 100"),
                       ("5", "q: type <U1"), (None, "q: type object"), ([[1], [2, 3]], "q: list; ")):
        with pytest.raises((TypeError, ValueError), match=message):
            histogram.percentile([1.0], q)
    with pytest.raises(TypeError, match=r"median\(\) has no argument 'method'; quantile"):
        histogram.median([1.0], method="lower")


def test_methods_by_name():
    with pytest.raises(ValueError, match="method: 'median'; must be one of inverted_cdf, .*normal_unbiased"):
        histogram.quantile([1.0], 0.5, method="median")
    assert histogram.quantile(np.array([1, 2], ml_dtypes.bfloat16), 0.5, method="higher") == 2


@CHECKED
@given(seed=seeds, dtype=st.sampled_from(TYPES), size=st.sampled_from((1, 2, 12, 600)))
def test_percentiles_and_medians(seed, dtype, size):
    rng = np.random.default_rng(seed)
    a = make_samples(rng, dtype, [-30, 0, 30], size, nan=seed % 5 == 0)
    a = laid_out(rng, a)
    with np.errstate(all="ignore"):
        for q in (25, 99.9, [10.0, 50], np.array([[3, 4]]), 0):
            same_answer(histogram.percentile(a, q), np.percentile(wide(a), q))
        same_answer(histogram.percentile(a, 30, method="hazen"), np.percentile(wide(a), 30, method="hazen"))
        same_answer(histogram.percentile(a, [30], keepdims=True), np.percentile(wide(a), [30], keepdims=True))
        same_answer(histogram.median(a), np.median(a))


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "f2", "f4"])
@pytest.mark.parametrize("size", [5002, 70_000])
def test_q_of_a_small_type(dtype, size):
    """The index of a sample has more digits than such a type."""
    a = np.arange(float(size))
    q = np.array([0, 1], dtype)
    assert histogram.quantile(a, q).tolist() == [0, size - 1]
    if dtype.startswith("f"):
        q = np.array([0.25, 0.3], dtype)
        assert same_bits(histogram.quantile(a, q), np.quantile(a, q.astype("f8")))
        for samples in ("f2", "f4", "i1", "i4"):
            found = histogram.quantile(np.ones(size, samples), q)
            assert found.dtype == np.quantile(np.ones(3, samples), q).dtype
            assert found.tolist() == [1, 1]
            assert histogram.quantile(np.ones(size, samples), q.astype(q.dtype.newbyteorder(">"))).dtype == found.dtype
            assert histogram.quantile(np.ones(size, samples), q[0]) == 1


@pytest.mark.parametrize("dtype", TYPES)
@CHECKED_BY_TYPE
@given(seed=seeds, shape=st.sampled_from(((3, 5), (60, 4), (4, 130), (2, 70, 3), (5, 1), (2, 1, 200))),
       q=SHARES, axis=st.sampled_from((0, 1, -1, (0, 1), (1, 0), (-1,))))
def test_rows(dtype, seed, shape, q, axis):
    rng = np.random.default_rng(seed)
    a = make_samples(rng, dtype, rng.normal(0, 30, 9), int(np.prod(shape)), nan=seed % 2 == 0).reshape(shape)
    if seed % 3 == 0:
        a = np.asfortranarray(a).astype(a.dtype.newbyteorder(">"))
    with np.errstate(all="ignore"):
        expected = np.asarray(numpys(a, q, axis))
        found = np.asarray(histogram.quantile(a, q, axis=axis, threads=1 + seed % 3))
    if np.asarray(q).dtype.kind in "iu":
        expected = expected.astype(found.dtype)
    same_answer(found, expected)


@pytest.mark.parametrize("dtype", [*TYPES, "?"])
@pytest.mark.parametrize("data", ["spread", "skewed", "two values", "constant", "outlier"])
def test_rows_of_all_lengths(dtype, data):
    rng = np.random.default_rng(8)
    for length in (1, 47, 48, 49, 1000, 70_000):
        a = {
            "spread": lambda n: rng.normal(0, 30, n),
            "skewed": lambda n: np.exp(rng.normal(0, 2, n)),
            "two values": lambda n: rng.choice([3, 5], n),
            "constant": lambda n: np.full(n, 17),
            "outlier": lambda n: np.append(rng.random(n - 1) * 9, 100),
        }[data](length * 3).reshape(3, length).astype("i8" if dtype[0] in "iu" else "f8").astype(dtype)
        q = np.array([0, 0.1, 0.101, 0.5, 0.9, 1])
        for threads in (1, 3):
            found = histogram.quantile(a, q, axis=1, threads=threads)
            same_answer(found, numpys(a.view("u1") if dtype == "?" else a, q, 1))


def test_no_rows_and_no_samples():
    assert histogram.quantile(np.zeros((0, 4)), np.array([0.5, 1]), axis=1).shape == (2, 0)
    with pytest.raises(ValueError, match="a: has no samples"):
        histogram.quantile(np.zeros((4, 0)), 0.5, axis=1)
    for axis, message in ((2, "axis: 2; must be"), ((0, -2), "names an axis twice"), ("x", "axis: ")):
        with pytest.raises((TypeError, ValueError), match=message):
            histogram.quantile(np.zeros((4, 3)), 0.5, axis=axis)
