"""Fixtures of the deployment checks: where things are, and the programs that some of them need."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(ROOT / "tests" / "service"),
                str(ROOT / "tests" / "hostile")]


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def version():
    """This project's version, which what is deployed repeats."""
    return re.search(r"^project\(histogram VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M).group(1)


@pytest.fixture(scope="session")
def docs_address():
    """Where the runbook lies."""
    return subprocess.run([ROOT / "deploy/set-docs-address", "--print"], capture_output=True, text=True,
                          check=True).stdout.strip()


@pytest.fixture(scope="session")
def promtool():
    """promtool of the system, or the one that scripts/install-deps has put into .venv."""
    found = shutil.which("promtool") or shutil.which("promtool", path=str(ROOT / ".venv/bin"))
    if not found:
        pytest.skip("promtool is not installed (Debian's package prometheus)")
    return found


def binary(name, variable="HISTOGRAM_BIN_DIR"):
    """A program of this build: from the folder that the variable names, else from build/release/bin."""
    folder = pathlib.Path(os.environ.get(variable, ROOT / "build/release/bin"))
    path = folder.resolve() / name
    if not os.access(path, os.X_OK):
        pytest.exit(f"{path} is not there: build it, or name its folder with {variable}", 2)
    return path


@pytest.fixture(scope="session")
def server_bin():
    return binary("histogram-server")


@pytest.fixture(scope="session")
def client_bin():
    return binary("histogram-client")


@pytest.fixture(scope="session")
def load_bin():
    """The load of these tests: checks every answer and counts every failure (steady_load.cc)."""
    return binary("histogram_steady_load")


@pytest.fixture(scope="session")
def proxies():
    """nginx and Envoy with the configurations of deploy/, as the attacks of tests/hostile have them."""
    import proxies
    return proxies


@pytest.fixture(scope="session")
def metric_names():
    """Every series name that server/metrics can export, as its sources declare them."""
    text = "\n".join(path.read_text() for path in (ROOT / "server/metrics").glob("*.cc"))
    names = set()
    for name, rest in re.findall(
            r'(?:Declare|Family|Each|[Oo]ne|OneGauge)\(\s*"(\w+)",(.*?)\)(?:\s*\.first)?;', text, re.S):
        suffixes = ("_bucket", "_sum", "_count") if "Buckets" in rest else ("",)
        names |= {f"histsvc_{name}{suffix}" for suffix in suffixes if not name.startswith("process_")}
    assert len(names) > 30
    return names
