"""The package as a whole: examples in its documents, its types, what it needs."""

import ast
import doctest
import importlib
import os
import pathlib
import pkgutil
import subprocess
import sys

import histogram
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(histogram.__file__).parent
# The plugin for GPUs is a library that _gpu opens, and no module.
MODULES = ["histogram", *(f"histogram.{module.name}" for module in pkgutil.iter_modules([PACKAGE])
                          if not module.name.startswith("lib"))]


def test_examples_in_docstrings():
    tried = 0
    for name in MODULES:
        result = doctest.testmod(importlib.import_module(name))
        assert result.failed == 0
        tried += result.attempted
    assert tried > 20


def test_examples_in_the_document():
    result = doctest.testfile(str(ROOT / "docs" / "PYTHON.md"), module_relative=False)
    assert result.failed == 0
    assert result.attempted > 10


def test_version_and_names():
    assert f"VERSION {histogram.__version__} " in (ROOT / "CMakeLists.txt").read_text()
    assert {"__version__", "connect", "Client"} < set(dir(histogram))
    assert not {"Any", "TYPE_CHECKING", "extend_path"} & set(dir(histogram))


def test_generated_code_of_the_contract_is_found_beside_the_package(tmp_path):
    generated = tmp_path / "histogram" / "v1" / "histogram_pb2.py"
    generated.parent.mkdir(parents=True)
    generated.write_text("answer = 42\n")
    code = "from histogram.v1 import histogram_pb2; import histogram; print(histogram_pb2.answer, histogram.count)"
    path = os.pathsep.join([str(PACKAGE.parent), str(tmp_path)])
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path},
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("42 <function count")


@pytest.fixture(scope="module")
def mypy_cache(tmp_path_factory):
    """What mypy finds in numpy's stubs takes it most of its time."""
    return tmp_path_factory.mktemp("mypy")


def run_python(arguments, tmp_path, cache=None):
    environment = {**os.environ, "MYPYPATH": str(PACKAGE.parent), "MYPY_CACHE_DIR": str(cache or tmp_path)}
    done = subprocess.run([sys.executable, "-m", *arguments], cwd=tmp_path, env=environment,
                          capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_types(tmp_path, mypy_cache):
    run_python(["mypy", "--strict", "-p", "histogram"], tmp_path, mypy_cache)


CALLS = """
from uhi.typing.plottable import PlottableHistogram
import numpy as np, histogram
a = np.arange(10.)
h: PlottableHistogram = histogram.count(a, 3, [0, 1])
histogram.count(a, np.int64(3), np.array([0, 1]), axis=np.int64(0))
histogram.count(a, [0, 1, 2], axis=[0], threads=np.int64(1))
histogram.count(a, 3, windows=[2, 1], channels=np.int64(1))
histogram.count(a, 3, windows=np.array([2, 1])).counts().sum()
one: histogram.Histogram | histogram.DeviceHistogram = histogram.count(a, 3, on_device=len(a) > 20)
other: histogram.DeviceHistogram = histogram.count(a, 3, (0, 1), on_device=True)
histogram.quantile(a, np.float32(.5), threads=np.int64(2))
"""


def test_types_of_calls(tmp_path, mypy_cache):
    (tmp_path / "calls.py").write_text(CALLS)
    run_python(["mypy", "--strict", "calls.py"], tmp_path, mypy_cache)


def arguments_of(text):
    return {node.name: [argument.arg for argument in node.args.args]
            for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}


def test_the_stub_has_the_arguments_of_the_module(tmp_path):
    made = tmp_path / "made.pyi"
    run_python(["nanobind.stubgen", "-m", "histogram._native", "-o", str(made)], tmp_path)
    assert (PACKAGE / "py.typed").exists()
    stub = arguments_of((PACKAGE / "_native.pyi").read_text())
    assert len(stub) > 5
    assert stub == arguments_of(made.read_text())


def test_needs_numpy_alone():
    code = ("import sys, numpy; before = set(sys.modules); import histogram; "
            "print(*sorted({m.partition('.')[0] for m in set(sys.modules) - before}))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "histogram" in loaded
    assert loaded <= {"histogram", "numpy"} | set(sys.stdlib_module_names)
