"""The command line and typed samples: raw files and .npy files, in process and by a server."""

import json
import subprocess

import numpy as np
import pytest

from harness.server import SANITIZER_OUTPUT, clean_environment

TYPES = {"u8": "u1", "i8": "i1", "u16": "u2", "i16": "i2", "u32": "u4", "i32": "i4", "u64": "u8",
         "i64": "i8", "f16": "f2", "f32": "f4", "f64": "f8"}


@pytest.fixture
def count(client_bin):
    """Counts in process; the answer, or what it says where it fails."""
    def run(*arguments, status=0, stdin=b""):
        done = subprocess.run([client_bin, "count", *map(str, arguments)], capture_output=True,
                              input=stdin, timeout=60, env=clean_environment(), check=False)
        error = done.stderr.decode(errors="replace")
        assert not SANITIZER_OUTPUT.search(error), error
        assert done.returncode == status, (done.returncode, error)
        if status != 0:
            return error
        [answer] = json.loads(done.stdout)["histograms"] if "json" in arguments else [done.stdout]
        return answer
    return run


def samples_of(name, count=50_000):
    rng = np.random.default_rng(7)
    dtype = np.dtype("<" + TYPES[name])
    values = rng.normal(40, 30, count)
    if dtype.kind == "u":
        values = np.abs(values)
    samples = np.clip(values, -120, 250 if dtype.kind != "i" else 120).astype(dtype)
    if dtype.kind == "f":
        samples[::1000] = np.nan
        samples[1::1000] = np.inf
    return samples


def check(answer, samples, edges):
    numbers = samples.astype(np.float64)
    numbers = numbers[~np.isnan(numbers)]
    counts, _ = np.histogram(numbers[np.isfinite(numbers)], edges)
    assert answer["counts"] == counts.tolist()
    assert answer["edges"] == list(edges)
    assert answer["samples"] == samples.size
    assert answer["nan"] == samples.size - numbers.size
    assert answer["above"] == int((numbers > edges[-1]).sum())
    assert answer["below"] == int((numbers < edges[0]).sum())


@pytest.mark.parametrize("where", ("in process", "by a server"))
@pytest.mark.parametrize("name", TYPES)
def test_raw_files_and_arrays(count, server, tmp_path, name, where):
    samples = samples_of(name)
    raw, array = tmp_path / "samples.raw", tmp_path / "samples.npy"
    samples.tofile(raw)
    np.save(array, samples.reshape(100, -1).T)  # in Fortran's order
    place = () if where == "in process" else ("--server", server.address)
    edges = np.linspace(-3.5, 77.25, 38)
    # Arrays have numpy's edges, which it rounds to the array's type.
    of_array = np.histogram_bin_edges(samples, 37, (-3.5, 77.25)).astype(np.float64)
    for file, options, edges in ((raw, ("--type", name), edges), (array, (), of_array)):
        answer = count(file, *options, "--bins", 37, "--range", "-3.5:77.25", "--format", "json", *place)
        assert answer["sample_type"] == name
        check(answer, samples, edges)
    listed = [-1.5, 0.1, 2, 40, 99.9]
    answer = count(array, "--edges", ",".join(map(str, listed)), "--format", "json", *place)
    check(answer, samples, np.array(listed))


def test_equal_samples_none_and_truth_values(count, tmp_path):
    np.save(tmp_path / "truth.npy", np.array([True, False, True]))
    answer = count(tmp_path / "truth.npy", "--format", "json")
    assert (answer["sample_type"], answer["counts"][:3]) == ("u8", [1, 2, 0])
    np.save(tmp_path / "equal.npy", np.full(9, 7.0))
    answer = count(tmp_path / "equal.npy", "--bins", 4, "--format", "json")
    assert (answer["edges"][0], answer["edges"][-1], answer["counts"]) == (6.5, 7.5, [0, 0, 9, 0])
    np.save(tmp_path / "none.npy", np.zeros(0))
    answer = count(tmp_path / "none.npy", "--bins", 4, "--format", "json")
    assert (answer["edges"][0], answer["edges"][-1], answer["samples"]) == (0, 1, 0)


def test_a_pipe_is_looked_at_twice_where_the_question_needs_it(count):
    samples = samples_of("f32", 1000)
    options = ("-", "--type", "f32", "--bins", 5, "--statistics")
    answer = count(*options, "--format", "json", stdin=samples.tobytes())
    assert b"1,000 f32 samples, 5 bins" in count(*options, stdin=samples.tobytes())
    finite = samples[np.isfinite(samples)].astype(np.float64)
    check(answer, samples, np.linspace(finite.min(), finite.max(), 6))
    assert answer["statistics"]["median"] == np.median(finite)


def test_what_is_not_counted_is_said(count, tmp_path):
    samples = samples_of("f32", 100)
    files = {
        "complex.npy": (samples.astype(complex), "c16"),
        "records.npy": (np.zeros(3, dtype=[("x", "f4")]), "records"),
        "text.npy": (np.array(["a", "bc"]), "U2"),
    }
    for name, (array, said) in files.items():
        np.save(tmp_path / name, array)
        error = count(tmp_path / name, status=1)
        assert name in error and said in error
    np.save(tmp_path / "good.npy", samples)
    whole = (tmp_path / "good.npy").read_bytes()
    for name, data, said in (("cut.npy", whole[:-5], "400 bytes"), ("head.npy", whole[:50], "cut off"),
                             ("empty.npy", b"", "empty"),
                             ("new.npy", whole[:6] + b"\4" + whole[7:], "version 4"),
                             ("other.npy", b"hello world", "does not begin")):
        (tmp_path / name).write_bytes(data)
        error = count(tmp_path / name, status=1)
        assert name in error and said in error
    assert "f32" in count(tmp_path / "good.npy", "--type", "f64", status=2)
    np.save(tmp_path / "other_type.npy", samples.astype(np.float64))
    error = count(tmp_path / "good.npy", tmp_path / "other_type.npy", status=2)
    assert "f64" in error and "good.npy" in error
    assert "--alphabet" in count(tmp_path / "good.npy", "--alphabet", "a:26", status=2)
    assert "ends within a sample" in count("-", "--type", "f32", "--bins", 2, "--range", "0:1",
                                           stdin=bytes(10), status=1)


@pytest.mark.parametrize("where", ("in process", "by a server"))
@pytest.mark.parametrize("dtype", ("f2", "f4", "f8", "i2", "i4", "u4", "i8", ">f2", ">i4", ">f8"))
def test_arrays_are_counted_as_numpy_counts_them(count, server, tmp_path, dtype, where):
    rng = np.random.default_rng(3)
    place = () if where == "in process" else ("--server", server.address)
    steps = (np.arange(1, 9) * (0.1 if "f" in dtype else 1)).astype(dtype)
    drawn = rng.normal(0, 50, 3000).astype(dtype)
    cases = [(steps, 10, None), (steps, 37, None), (drawn, 100, None), (drawn, 10, (-3.3, 40.7))]
    if "f" in dtype:
        cases += [(np.full(3, 0.0003674, dtype), 13, None), (np.full(1, -0.0149, dtype), 10, None)]
    for samples, bins, wanted in cases:
        np.save(tmp_path / "a.npy", samples)
        given = () if wanted is None else ("--range", f"{wanted[0]}:{wanted[1]}")
        answer = count(tmp_path / "a.npy", "--bins", bins, *given, "--format", "json", *place)
        counts, edges = np.histogram(samples, bins, wanted)
        assert answer["edges"] == edges.astype(np.float64).tolist()
        assert answer["counts"] == counts.tolist()


def test_integers_on_the_command_line_keep_their_value(count, tmp_path):
    (tmp_path / "a").write_bytes(np.array([2**53, 2**53 + 1], "<u8").tobytes())
    def counted(option, value, status=0):
        return count(tmp_path / "a", "--type", "u64", option, value, "--format", "json", *(
            ("--bins", 2) if option == "--range" else ()), status=status)
    for option, value in (("--edges", "0,9007199254740993,18446744073709551616"),
                          ("--edges", "0,18446744073709551615"),
                          ("--edges", "0,9007199254740993.0"),
                          ("--range", "0:9007199254740993")):
        error = counted(option, value, status=2)
        assert option in error and "is no double; the nearest is " in error
    answer = counted("--edges", "0,9.007199254740992e15,18446744073709551616")
    assert answer["counts"] == [0, 2]
    assert count(tmp_path / "a", "--type", "f64", "--edges", "0,0.1,1e300", "--format", "json")


@pytest.mark.parametrize("header", (
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3L,), }",
    '{"descr": "<f4", "fortran_order": False, "shape": (3,), }',
    "{'shape' : (3,), 'fortran_order': True, 'descr' : '<f4'}   ",
    "{'descr': 'float32', 'fortran_order': False, 'shape': (1, 3), }"))
@pytest.mark.parametrize("version", (1, 2, 3))
def test_headers_as_numpy_reads_them(count, tmp_path, header, version):
    size = len(header).to_bytes(2 if version == 1 else 4, "little")
    data = b"\x93NUMPY" + bytes((version, 0)) + size + header.encode()
    # Its first bytes tell what it is, and numpy ignores what follows the samples.
    (tmp_path / "a").write_bytes(data + np.arange(3, dtype="<f4").tobytes() + b"more")
    answer = count(tmp_path / "a", "--bins", 3, "--statistics", "--format", "json")
    assert (answer["counts"], answer["statistics"]["median"]) == ([1, 1, 1], 1)
