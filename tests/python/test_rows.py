"""channels= and windows=: a row of counts for each part, as numpy counts that part."""

import histogram
import numpy as np
import pytest
from arrays import CHECKED_BY_TYPE, TYPES, laid_out, make_samples, same_bits, seeds
from hypothesis import given
from hypothesis import strategies as st

EDGES = [np.linspace(0, 100, 8), np.array([-np.inf, 0, 3, 3, 50]), np.array([1, 2.5, 40, 40])]


def parts_of(samples, channels, windows):
    """The samples of each row, by plain slices, and the shape of the rows."""
    pixels = samples.reshape(-1, channels or 1)
    if windows is None:
        stretches, shape = [pixels], ()
    else:
        size, step = windows if isinstance(windows, tuple) else (windows, None)
        if step is None:
            stretches = [pixels[at:at + size] for at in range(0, len(pixels), size)]
        else:
            stretches = [pixels[at:at + size] for at in range(0, len(pixels) - size + 1, step)]
        shape = (len(stretches),)
    rows = [stretch[:, c] for stretch in stretches for c in range(channels or 1)]
    return rows, shape if channels is None else (*shape, channels)


def check(samples, edges, channels, windows, threads=(None,)):
    rows, shape = parts_of(np.ascontiguousarray(samples), channels, windows)
    expected = np.array([np.histogram(row, edges)[0] for row in rows], np.int64)
    flat = (len(rows), len(edges) - 1)
    outside = [[(row < edges[0]).sum() for row in rows], [(row > edges[-1]).sum() for row in rows],
               [(row != row).sum() for row in rows]]
    for number in threads:
        h = histogram.count(samples, edges, channels=channels, windows=windows, threads=number)
        assert h.counts().shape == (*shape, len(edges) - 1)
        assert same_bits(h.counts().reshape(flat), expected.reshape(flat))
        assert np.ravel(h.samples).tolist() == [row.size for row in rows]
        assert [np.ravel(one).tolist() for one in (h.below, h.above, h.nan)] == outside


@pytest.mark.parametrize("dtype", TYPES)
@CHECKED_BY_TYPE
@given(seed=seeds, edges=st.sampled_from(EDGES), channels=st.sampled_from((None, 1, 2, 3, 5)),
       windows=st.one_of(st.none(), st.integers(1, 700),
                         st.tuples(st.integers(1, 90), st.integers(1, 90))))
def test_rows_are_numpys(dtype, seed, edges, channels, windows):
    rng = np.random.default_rng(seed)
    samples = make_samples(rng, dtype, edges[np.isfinite(edges)], int(rng.integers(21)) * 30)
    check(laid_out(rng, samples), edges, channels, windows)


@pytest.mark.parametrize(("channels", "windows"), [
    (3, None), (4, 1000), (3, (5000, 700)), (None, 1 << 20), (None, (1 << 16, 1 << 14)), (2, 1 << 21),
    (None, 1 << 30), (None, (1 << 30, 1)),
])
def test_long_arrays_on_threads(channels, windows):
    rng = np.random.default_rng(5)
    check(rng.integers(0, 120, 12 << 18, np.uint8), EDGES[0], channels, windows, threads=(1, 2, 5))
    check(rng.normal(50, 30, 12 << 16), EDGES[0], channels, windows, threads=(1, 2, 5))


def test_channels_are_an_axis_of_a_picture():
    image = np.random.default_rng(1).integers(0, 256, (40, 30, 3), np.uint8)
    assert (histogram.count(image, 16, (0, 256), channels=3)
            == histogram.count(image, 16, (0, 256), axis=(0, 1)))


def test_rows_add_up_and_share_the_range_of_the_data():
    a = np.random.default_rng(1).normal(size=1000).astype(np.float32)
    h = histogram.count(a, 10, windows=99)
    assert (h.counts().sum(axis=0) == np.histogram(a, 10)[0]).all()
    assert (h + h).samples.tolist() == [198] * 10 + [20]


def test_axes_and_windows_may_be_arrays():
    a = np.arange(24).reshape(2, 3, 4)
    for one, other in (({"axis": np.array([0, 1])}, {"axis": (0, 1)}),
                       ({"windows": np.array([4, 2])}, {"windows": (4, 2)}),
                       ({"windows": np.int64(4)}, {"windows": 4})):
        assert histogram.count(a, 3, (0, 24), **one) == histogram.count(a, 3, (0, 24), **other)
    for bad in ({"axis": {0, 1}}, {"windows": {2, 1}}, {"axis": (i for i in (0, 1))}):
        with pytest.raises(TypeError, match=f"{next(iter(bad))}: .*; must be a whole number, or a"):
            histogram.count(a, 3, (0, 24), **bad)
    with pytest.raises(ValueError, match="axis: -1; a single number has no axes"):
        histogram.count(np.array(3), 3, (0, 24), axis=-1)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"channels": 3}, "channels: 3; must divide the number of samples, which is 10"),
    ({"channels": 0}, "channels: 0; must be a whole number >= 1"),
    ({"windows": 0}, "windows: 0; must be a whole number >= 1"),
    ({"windows": (3, 0)}, "windows, step: 0; must be a whole number >= 1"),
    ({"windows": 3, "axis": 0}, "axis: is not combined with channels or windows"),
])
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(")", r"\)")):
        histogram.count(np.arange(10), 2, (0, 10), **arguments)
