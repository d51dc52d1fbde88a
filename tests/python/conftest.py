"""Fixtures: the servers that tests of server= talk to."""

import importlib
import os
import pathlib
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "service"))


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Starts servers that end with the module."""
    if "HISTOGRAM_SERVER_BIN" not in os.environ:
        pytest.skip("HISTOGRAM_SERVER_BIN names no server to test with")
    server = importlib.import_module("harness.server").Server
    servers = []

    def one(*flags, **options):
        folder = tmp_path_factory.mktemp("server")
        servers.append(server(os.environ["HISTOGRAM_SERVER_BIN"], folder,
                              ["--drain-delay", "0", *flags], **options))
        return servers[-1].address

    yield one
    for server in servers:
        server.stop()


@pytest.fixture
def halting(tmp_path):
    """A server that halt() stops in its tracks, so that it answers nothing more."""
    if "HISTOGRAM_SERVER_BIN" not in os.environ:
        pytest.skip("HISTOGRAM_SERVER_BIN names no server to test with")
    server = importlib.import_module("harness.server").Server
    with server(os.environ["HISTOGRAM_SERVER_BIN"], tmp_path, ["--drain-delay", "0"]) as halting:
        def halt():
            os.kill(halting.pid, signal.SIGSTOP)
            os.waitpid(halting.pid, os.WUNTRACED)  # until all its threads have stopped

        halting.halt = halt
        yield halting
        os.kill(halting.pid, signal.SIGCONT)


@pytest.fixture(scope="module")
def server(start):
    return start()
