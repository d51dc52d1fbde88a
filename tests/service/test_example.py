"""The example that a newcomer copies: it has to run as it stands."""

import pathlib
import subprocess
import sys

import pytest

from harness.api import REPOSITORY, Client
from harness.server import clean_environment

EXAMPLE = REPOSITORY / "examples" / "python" / "histogram_example.py"


def test_the_python_example_runs(server, tmp_path):
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), server.address], capture_output=True, text=True, timeout=60,
        cwd=tmp_path, env=clean_environment(), check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_python_example_says_when_nobody_answers(tmp_path):
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "127.0.0.1:1"], capture_output=True, text=True, timeout=60,
        cwd=tmp_path, env=clean_environment(), check=False)
    assert done.returncode != 0
    assert done.stderr.strip()
