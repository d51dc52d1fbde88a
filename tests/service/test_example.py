"""The example that a newcomer copies: it has to run as it stands."""

import subprocess
import sys

from harness.api import REPOSITORY
from harness.server import clean_environment

EXAMPLE = REPOSITORY / "examples" / "python" / "histogram_example.py"


def run_example(tmp_path, server_address):
    file = tmp_path / "text"
    file.write_bytes(b"histogram" * 100 + b"z" * 777)
    return subprocess.run(
        [sys.executable, str(EXAMPLE), str(file), server_address], capture_output=True, text=True,
        timeout=60, cwd=tmp_path, env=clean_environment(), check=False)


def test_the_python_example_runs(server, tmp_path):
    done = run_example(tmp_path, server.address)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("1677 bytes")
    assert lines[1].split() == ["122", "'z'", "777"]


def test_the_python_example_reads_the_error(start_server, tmp_path):
    done = run_example(tmp_path, start_server("--payload-bytes-max", 1000).address)
    assert done.returncode == 1
    reason, sentence = done.stderr.splitlines()
    assert reason == "reason PAYLOAD_TOO_LARGE, {'field': 'payload', 'limit': '1000'}"
    assert sentence.startswith("RESOURCE_EXHAUSTED: payload: 1677 bytes")
