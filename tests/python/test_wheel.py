"""The wheel: it is made from what is in the source distribution, needs nothing of the source tree, and
the document's examples run with it."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZE_MAX = 5_000_000


def run(arguments, **options):
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True,
                          timeout=280, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The source distribution, unpacked."""
    folder = tmp_path_factory.mktemp("source")
    code = "import sys, scikit_build_core.build as b; print(b.build_sdist(sys.argv[1]))"
    name = run(["-c", code, folder], cwd=ROOT).split()[-1]
    subprocess.run(["tar", "-xzf", folder / name, "-C", folder], check=True)
    return folder / name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(["-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", folder, source],
        env={**os.environ, "CCACHE_NOHASHDIR": "1", "CCACHE_BASEDIR": str(source)})
    return next(folder.glob("*.whl"))


def test_what_is_in_it(source, wheel):
    assert wheel.stat().st_size < SIZE_MAX
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {f"histogram/{path.name}" for path in (ROOT / "python" / "histogram").iterdir() if path.is_file()}
    inside = {name for name in names if name.startswith("histogram/")}
    assert sources <= inside
    assert [name for name in inside - sources if not name.endswith(".so")] == []
    assert not (source / "server").exists()


def test_it_runs_without_the_source_tree(wheel, tmp_path):
    installed = tmp_path / "installed"
    run(["-m", "pip", "install", "--no-deps", "--no-index", "--target", installed, wheel])
    document = tmp_path / "PYTHON.md"
    document.write_text((ROOT / "docs" / "PYTHON.md").read_text())
    code = ("import doctest, histogram, sys; print(histogram.__file__); "
            "sys.exit(doctest.testfile(sys.argv[1], module_relative=False).failed)")
    out = run(["-c", code, document], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(installed)})
    assert out.startswith(str(installed))
    # Beside libc and libm it needs no library, a C++ compiler's among them.
    native = next((installed / "histogram").glob("_native*.so"))
    needed = subprocess.run(["readelf", "-d", native], capture_output=True, text=True, check=True).stdout
    libraries = [line.split("[")[1].rstrip("]") for line in needed.splitlines() if "(NEEDED)" in line]
    assert libraries
    assert {name.partition(".")[0] for name in libraries} <= {"libc", "libm", "ld-linux-x86-64", "ld-linux-aarch64"}


def test_what_an_index_shows_has_no_link_that_leads_nowhere(source):
    text = (source / "PKG-INFO").read_text()
    assert "# histogram for Python" in text
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == []


def test_without_a_compiler_one_line_says_what_to_install(source, tmp_path):
    fresh = shutil.copytree(source, tmp_path / "source", ignore=shutil.ignore_patterns("build"))
    done = subprocess.run([sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w",
                           tmp_path, fresh], env={**os.environ, "CXX": "/nonexistent/c++"},
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert len(re.findall(r"To compile histogram, install .*g\+\+ python3-dev", done.stdout + done.stderr)) == 1
