"""Fixtures: the binaries under test and the servers that the tests talk to."""

import itertools
import os
import pathlib
import shutil

import pytest
from hypothesis import HealthCheck, settings

from harness.api import REPOSITORY, Client
from harness.server import Server, is_sanitized

# Nothing is stored between runs; a failure prints what reproduces it.
settings.register_profile(
    "service", deadline=None, database=None, print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture,
                           HealthCheck.data_too_large])
settings.load_profile("service")


def pytest_addoption(parser):
    parser.addoption("--server-bin", help="histogram-server (default: $HISTOGRAM_SERVER_BIN)")
    parser.addoption("--client-bin", help="histogram-client (default: $HISTOGRAM_CLIENT_BIN)")


def _binary(config, option, variable, name):
    path = config.getoption(option) or os.environ.get(variable)
    if not path:
        path = REPOSITORY / "build" / "release" / "bin" / name
    path = pathlib.Path(path).resolve()
    if not os.access(path, os.X_OK):
        pytest.exit(f"{path} is not there: build it, or name it with {option} or {variable}", 2)
    return path


@pytest.fixture(scope="session")
def server_bin(pytestconfig):
    return _binary(pytestconfig, "--server-bin", "HISTOGRAM_SERVER_BIN", "histogram-server")


@pytest.fixture(scope="session")
def client_bin(pytestconfig):
    return _binary(pytestconfig, "--client-bin", "HISTOGRAM_CLIENT_BIN", "histogram-client")


@pytest.fixture(scope="session")
def sanitized(server_bin):
    return is_sanitized(server_bin)


@pytest.fixture(scope="session")
def shared_server(server_bin, tmp_path_factory):
    """One server with the default limits for all tests that leave it as it was."""
    with Server(server_bin, tmp_path_factory.mktemp("shared"), ["--drain-delay", "0"]) as server:
        yield server


@pytest.fixture
def server(shared_server):
    """The shared server, which must outlive every test."""
    shared_server.assert_running()
    yield shared_server
    shared_server.assert_running()


@pytest.fixture(scope="session")
def shared_client(shared_server):
    with Client(shared_server.address) as client:
        yield client


@pytest.fixture
def client(server, shared_client):
    return shared_client


@pytest.fixture
def start_server(server_bin, tmp_path):
    """A function that starts a server of the test's own; each is stopped and checked at the end."""
    servers, numbers = [], itertools.count()

    def start(*flags, **options):
        if "--drain-delay" not in flags:
            flags = (*flags, "--drain-delay", "0")
        server = Server(server_bin, tmp_path / f"server{next(numbers)}", flags, **options)
        servers.append(server)
        return server

    yield start
    problems = []
    for server in servers:
        try:
            if not server.checked:
                server.stop()
        except AssertionError as problem:
            problems.append(str(problem))
        finally:
            server.kill()
    assert not problems, "\n".join(problems)


@pytest.fixture
def token_file(tmp_path):
    """token_file("NAME TOKEN [BYTES_A_SECOND]", ...) is a file of these tenants."""
    def write(*tenants):
        path = tmp_path / "tokens"
        path.write_text("".join(f"{tenant}\n" for tenant in tenants))
        path.chmod(0o600)
        return path
    return write


@pytest.fixture
def socket_folder():
    """A folder with a path short enough for a unix socket's address."""
    import tempfile
    folder = pathlib.Path(tempfile.mkdtemp(prefix="hs-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)
