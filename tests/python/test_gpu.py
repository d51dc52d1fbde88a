"""Arrays in a GPU's memory, of torch, cupy and jax: counted there, as numpy counts their copies."""

import concurrent.futures
import gc
import warnings

import histogram
import numpy as np
import pytest
from arrays import RANGES, TYPES, make_samples
from histogram import _gpu_plugin

torch = pytest.importorskip("torch", reason="no torch, which makes the arrays for these tests")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)
try:
    _gpu_plugin.plugin()
except TypeError as error:
    pytest.skip(str(error), allow_module_level=True)

EDGES = np.linspace(-40, 40, 101)


def some(dtype, size, seed=1):
    return make_samples(np.random.default_rng(seed), dtype, EDGES, size)


def on_gpu(a, device="cuda"):
    return torch.from_numpy(np.ascontiguousarray(a)).to(device)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("bins", [(100, (-40, 40)), (1, (0.0, 3)), (EDGES.tolist(), None), (5000, (-7, 9.5)),
                                  ([0, 0, 3, 3], None), ([-np.inf, 0, np.inf], None), (70_000, (-1, 60))],
                         ids=lambda bins: str(bins)[:20])
def test_counts_are_those_of_the_cpu(dtype, bins):
    if dtype == "f2" and bins[0] in (5000, 70_000):  # more than f2 has numbers there
        bins = (np.linspace(-7, 9.5, bins[0] + 1), None)
    for size in (0, 1, 1000, 300_001):
        a = some(dtype, size)
        assert histogram.count(on_gpu(a), *bins) == histogram.count(a, *bins)


@pytest.mark.parametrize("dtype", TYPES)
def test_the_range_of_the_data(dtype):
    a = np.random.default_rng(0).normal(0, 30, 5000).astype("i1").astype(dtype)
    for samples in (a, a[:1], a[:0]):
        assert histogram.count(on_gpu(samples), 33) == histogram.count(samples, 33)
    b = on_gpu(a).to(torch.bfloat16)
    assert histogram.count(b, 33) == histogram.count(b.float().cpu().numpy(), 33)
    if a.dtype.kind == "f":
        a[7] = np.nan
        with pytest.raises(ValueError, match=r"autodetected range of .* is not finite"):
            histogram.count(on_gpu(a), 33)


def outcome(function, *arguments, **options):
    """The answer, or the kind of the error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            h = function(*arguments, **options)
    except (TypeError, ValueError) as error:
        return type(error)
    return h, h.edges.dtype, h.edges.tobytes()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("bins", [1, 2, 33, 2048, 30_000])
def test_any_range(dtype, bins):
    """Samples on numpy's edges and one step beside them, at addresses of all alignments."""
    for number, given in enumerate(RANGES):
        edges = np.linspace(-40, 40, 33)
        try:
            edges = np.histogram_bin_edges(np.empty(0, dtype), min(bins, 2048), given)[:: max(1, bins // 100)]
        except (ValueError, RuntimeWarning):
            pass
        a = make_samples(np.random.default_rng(number), dtype, edges.astype(float), 3000, nan=given is not None)
        if given is None:
            a = a[np.isfinite(a)][:2000] if a.dtype.kind == "f" else a
        b = on_gpu(a)
        for cut in (slice(None), slice(number % 7 + 1, None), slice(3, 900)):
            part = np.ascontiguousarray(a[cut])
            expected = outcome(histogram.count, part, bins, given)
            assert outcome(histogram.count, b[cut], bins, given) == expected, given


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1"])
def test_the_range_of_special_data(dtype):
    big, step = (3e38, 1e-45) if dtype == "f4" else (1e308, 5e-324)
    data = [[5] * 70, [0] * 9, [0], [1, 2], [100, 101, 127]]
    if dtype[0] == "f":
        data += [[-big, big], [0, step], [-step, 3 * step], [1, np.nextafter(np.dtype(dtype).type(1), 2)],
                 [-1, np.inf], [np.nan, 1], [-0.0, -1.0], [np.nan] * 3, [1e30, 1e30]]
    for samples in data:
        a = np.array(samples, dtype)
        for bins in (1, 10, 1000):
            found, expected = (outcome(histogram.count, x, bins) for x in (on_gpu(a), a))
            # The last edge may be 0.0 for -0.0.
            assert found == expected or found[0] == expected[0], samples


@pytest.mark.parametrize("dtype", TYPES)
def test_rows_over_any_range(dtype):
    a = some(dtype, 60 * 701).reshape(60, 701)
    b = on_gpu(a)
    for bins in (7, 256, 2048):
        for given in ((-3, 0), [-9.5, 7], (np.float32(-1.1), np.float32(0.1)), (0, 256), (1e-40, 5e-39), (-40, 40)):
            for shaped, axis in ((a, 1), (a.reshape(4, 15, 701), (1, 2)), (a, 0)):
                if dtype == "f2" and (bins > 100 or given[1] < 1e-9):
                    continue  # more than f2 has numbers there
                expected = histogram.count(shaped, bins, given, axis=axis)
                there = b.reshape(shaped.shape)
                assert histogram.count(there, bins, given, axis=axis) == expected
                h = histogram.count(there, bins, given, axis=axis, on_device=True)
                assert h.histogram() == expected
                rows = torch.as_tensor(h, device="cuda").cpu().numpy()
                assert np.array_equal(rows[..., :bins], expected.counts())
                assert np.array_equal(rows[..., bins], expected.below)
                assert np.array_equal(rows[..., bins + 2], expected.nan)


def test_rows_stay_on_the_device():
    a = some("f4", 24 * 1000)
    b = on_gpu(a)
    for cut in ({"channels": 3}, {"windows": 4096}, {"windows": (512, 100)}, {"windows": 7, "channels": 4}):
        for bins in ((100, (-40, 40)), (EDGES, None)):
            expected = histogram.count(a, *bins, **cut)
            h = histogram.count(b, *bins, **cut, on_device=True)
            assert np.array_equal(torch.as_tensor(h, device="cuda").cpu()[..., :100], expected.counts())
            assert h.histogram() == expected
    wide = torch.arange(2_000_000, device="cuda").reshape(2000, 1000)  # more than is kept
    h = histogram.count(wide, 2000, (0, 2e6), axis=1, on_device=True)
    view = torch.as_tensor(h, device="cuda")
    expected = histogram.count(wide.cpu().numpy(), 2000, (0, 2e6), axis=1)
    assert h.histogram() == expected
    del h
    gc.collect()
    assert histogram.count(wide, 2000, (0, 2e6), axis=1) == expected
    assert np.array_equal(view.cpu()[:, :2000], expected.counts())


@pytest.mark.parametrize("dtype", TYPES)
def test_quantiles_of_rows(dtype):
    a = some(dtype, 6 * 5 * 400)
    a = a if a.dtype.kind in "iu" else np.where(np.abs(a) < 100, a, a.dtype.type(2))
    a = a.reshape(6, 5, 400)
    for view, there in ((a, on_gpu(a)), (a.transpose(2, 0, 1), on_gpu(a).permute(2, 0, 1))):
        for axis in (0, 1, 2, -1, (0, 1), (1, 2), (0, 1, 2)):
            for q in (0.5, [0.02, 0.98], np.linspace(0, 1, 30)):
                found, expected = histogram.quantile(there, q, axis=axis), histogram.quantile(view, q, axis=axis)
                assert found.dtype == expected.dtype and np.array_equal(found, expected)
    if a.dtype.kind == "f":
        a[1, 2, 3] = np.nan
        found, expected = histogram.quantile(on_gpu(a), [0.2, 0.5], axis=2), histogram.quantile(a, [0.2, 0.5], axis=2)
        assert np.array_equal(found, expected, equal_nan=True)
    b = on_gpu(np.abs(a.astype("f4"))).to(torch.bfloat16)
    found, expected = (histogram.quantile(x, 0.3, axis=1) for x in (b, b.float().cpu().numpy()))
    assert np.array_equal(found, expected, equal_nan=True)


def test_device_memory_is_used_again():
    """By later calls, with fewer samples or more, other samples, and on other threads."""
    a = some("f4", 90_000)
    calls = [lambda b: histogram.count(b, 50, (-40, 40)), lambda b: histogram.quantile(b, [0.1, 0.9]),
             lambda b: histogram.count(b, 50, (-40, 40), windows=1000),
             lambda b: histogram.count(b, 20_000, (-40, 40), channels=2)]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for size in (40_000, 10, 90_000, 40_000):
            part = np.ascontiguousarray(a[-size:])
            part = np.where(np.isfinite(part), part, 1).astype("f4")
            for call in calls:
                expected = call(part)
                for found in [call(on_gpu(part)), *pool.map(call, [on_gpu(part)] * 6)]:
                    assert np.array_equal(found, expected) if isinstance(found, np.ndarray) else found == expected


def test_other_types_and_layouts():
    a = some("f4", 6000)
    b = on_gpu(a).to(torch.bfloat16)
    assert histogram.count(b, 50, (-9, 9)) == histogram.count(b.float().cpu().numpy(), 50, (-9, 9))
    mask = on_gpu(a) > 0
    assert histogram.count(mask, 2) == histogram.count(a > 0, 2)
    grid = on_gpu(a).reshape(20, 30, 10)
    expected = histogram.count(a, EDGES)
    for view in (grid, grid.permute(2, 0, 1), grid[None]):
        assert histogram.count(view, EDGES) == expected
    with pytest.raises(ValueError, match=r"strides .* pass a.contiguous\(\)"):
        histogram.count(grid[:, ::2], EDGES)
    assert histogram.count(grid[3:7], EDGES) == histogram.count(a[900:2100], EDGES)
    with pytest.raises(TypeError, match="complex64"):
        histogram.count(torch.zeros(3, dtype=torch.complex64, device="cuda"), EDGES)


def test_cupy_and_jax():
    a = some("f4", 5000)
    expected = histogram.count(a, EDGES)
    cupy = pytest.importorskip("cupy")
    assert histogram.count(cupy.asarray(a), EDGES) == expected
    assert histogram.count(cupy.asfortranarray(cupy.asarray(a.reshape(50, -1))), EDGES) == expected
    assert histogram.count(cupy.asarray(a[np.isfinite(a)]), 9) == histogram.count(a[np.isfinite(a)], 9)
    with cupy.cuda.Stream(non_blocking=True):
        negative = -cupy.asarray(a)  # its subnormals are 0: cupy's arithmetic has none
        assert histogram.count(negative, EDGES) == histogram.count(negative.get(), EDGES)
    with pytest.raises(ValueError, match="ascontiguousarray"):
        histogram.count(cupy.asarray(a)[::2], EDGES)
    jax = pytest.importorskip("jax")
    assert histogram.count(jax.device_put(a, jax.devices("gpu")[0]), EDGES) == expected
    b = jax.device_put(a, jax.devices("gpu")[0]).astype("bfloat16")
    assert histogram.count(b, EDGES) == histogram.count(np.asarray(b), EDGES)


@pytest.mark.parametrize("dtype", TYPES)
def test_rows(dtype):
    a = some(dtype, 24 * 1000)
    b = on_gpu(a)
    for cut in ({"channels": 3}, {"windows": 4096}, {"windows": (512, 100)}, {"windows": 7, "channels": 4},
                {"windows": 50_000}, {"windows": (50_000, 2)}, {"channels": 1}):
        assert histogram.count(b, 100, (-40, 40), **cut) == histogram.count(a, 100, (-40, 40), **cut)
        assert histogram.count(b[:0], 9, (0, 9), **cut) == histogram.count(a[:0], 9, (0, 9), **cut)
        with pytest.raises(ValueError, match="Too many bins"):
            histogram.count(b[:0], 2000, (1, 1 + 2e-16), **cut)
    shape = (4, 6, 10, 100)
    for axis in (0, 1, 3, -2, (0, 1), (1, 2), (2, 3), (0, 3), (0, 2, 3), (1, 3), (0, 1, 2, 3)):
        expected = histogram.count(a.reshape(shape), EDGES, axis=axis)
        assert histogram.count(b.reshape(shape), EDGES, axis=axis) == expected
    view = a.reshape(shape).transpose(0, 3, 1, 2)  # as torch.channels_last lies
    for axis in (1, (0, 2, 3), (2, 3), 3):
        expected = histogram.count(view, EDGES, axis=axis)
        assert histogram.count(b.reshape(shape).permute(0, 3, 1, 2), EDGES, axis=axis) == expected
    if dtype == "i4":
        assert histogram.count(b.reshape(shape), 9, axis=3) == histogram.count(a.reshape(shape), 9, axis=3)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [1, 2, 1000, 300_001])
def test_quantiles_are_those_of_the_cpu(dtype, size):
    a = some(dtype, size)
    samples = a if a.dtype.kind in "iu" else np.append(a[np.abs(a) < 100], np.ones(1, dtype))
    for q in (0.5, 0, 1, [0.25, 0.999], np.linspace(0, 1, 41).reshape(1, 41), np.float32(0.3)):
        found, expected = histogram.quantile(on_gpu(samples), q), histogram.quantile(samples, q)
        assert found.dtype == expected.dtype and np.array_equal(found, expected)
    if a.dtype.kind == "f":
        a[-1] = np.nan
        assert np.isnan(histogram.quantile(on_gpu(a), [0.0, 0.5])).all()


def test_on_the_producers_stream():
    """Samples that are written late on a stream are seen, and the default stream is not waited for."""
    stream = torch.cuda.Stream()
    a = torch.zeros(1 << 20, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        a.fill_(3.0)
        assert histogram.count(a, 10, (0, 10)).counts()[3] == a.numel()


def test_new_edges_on_streams_that_wait_for_nothing():
    """What a plan needs in the device's memory is there before it is used, on any stream."""
    a = some("f4", 5000)
    b = on_gpu(a)
    torch.cuda.synchronize()
    for number in range(50):
        with torch.cuda.stream(torch.cuda.Stream()):
            edges = np.sort(np.random.default_rng(number).normal(0, 30, 3000))
            assert histogram.count(b, edges) == histogram.count(a, edges)


def test_counts_stay_on_the_device():
    a = some("f4", 100_000)
    b = on_gpu(a)
    expected = histogram.count(a, 100, (-40, 40))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        h = histogram.count(b, 100, (-40, 40), on_device=True)
        assert not stream.query()  # nothing has waited
        there = torch.as_tensor(h, device="cuda")
        total = there.sum()
    stream.synchronize()  # the default stream waits for none of torch's
    assert total.item() == a.size
    assert there[:100].cpu().numpy().tolist() == expected.counts().tolist()
    assert there[100:].tolist() == [expected.below, expected.above, expected.nan]
    assert h.histogram() == expected and h.edges.tolist() == expected.edges.tolist()
    # A view keeps the counts while others are counted.
    del h
    gc.collect()
    before = there.clone()
    with torch.cuda.stream(stream):
        others = [histogram.count(b * 2, 100, (-40, 40), on_device=True) for _ in range(3)]
    assert others[0].histogram() == others[2].histogram() != expected
    assert torch.equal(there, before)
    with pytest.raises(ValueError, match="on_device: takes finite edges"):
        histogram.count(b, [0, 1, 1], on_device=True)


def test_more_devices_than_one():
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    a = some("f4", 1000)
    assert histogram.count(on_gpu(a, "cuda:1"), EDGES) == histogram.count(a, EDGES)
    assert torch.cuda.current_device() == 0
