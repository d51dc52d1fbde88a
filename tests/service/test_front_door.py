"""Whether the server can be reached, as it says itself; and what it does where it has too little to start."""

import contextlib
import os
import resource
import subprocess
import threading

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from harness.api import Client
from harness.http2 import connect
from harness.server import clean_environment
from harness.waiting import wait_until
from test_security import TOKEN, pki, tls_flags  # noqa: F401

NOBODY = 65534


def probes(server, outcome):
    return server.metrics().value("histsvc_self_probes_total", outcome=outcome)


def asked(server, path, status):
    """The answer if it has that status. Who takes the last descriptors is chance: a probe may be lost."""
    try:
        answer = server.http(path)
    except OSError:
        return None
    return answer if answer[0] == status else None


def test_not_ready_while_descriptors_are_out(start_server, sanitized):
    """Nobody can connect any more, not even the server to itself, and it says so; /metrics still answers."""
    if sanitized:
        pytest.skip("UndefinedBehaviorSanitizer needs a descriptor to check a vptr, and reports a false one")
    server = start_server(wrapper=("sh", "-c", 'ulimit -n 100; exec "$0" "$@"'))
    assert server.http("/readyz")[0] == 200
    with contextlib.ExitStack() as connections:
        for _ in range(150):
            connections.enter_context(connect(server.address))
        not_ready = wait_until(lambda: asked(server, "/readyz", 503), 60, "503")
        assert f"{server.address} does not answer" in not_ready[2]
        wait_until(lambda: asked(server, "/healthz", 200), 60, "200")
        wait_until(lambda: "not ready" in server.stderr(), 60, "a line of the log")


def test_ready_behind_certificates_and_tokens_and_on_a_unix_socket(start_server, pki, token_file, socket_folder):  # noqa: F811
    tokens = token_file(f"alice {TOKEN}")
    server = start_server(*tls_flags(pki), "--tls-client-ca", pki / "ca.pem", "--token-file", tokens, "--log-level",
                          "info", listen=("127.0.0.1:0", f"unix:{socket_folder}/s"))
    wait_until(lambda: probes(server, "reached") >= 6, 60, "three rounds")
    assert probes(server, "missed") == 0
    assert server.http("/readyz")[0] == 200
    assert "grpc message=" not in server.stderr(), "a probe leaves nothing in the log"


@pytest.mark.parametrize("what, most", [
    ("threads", 1), ("threads", 4), ("threads", 12), ("descriptors", 18), ("descriptors", 21), ("descriptors", 30)])
def test_too_few_threads_or_descriptors_are_a_sentence_and_no_abort(server_bin, what, most):
    if os.getuid() != 0:
        pytest.skip("needs root: the limit counts all threads of a user")

    def limit():
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        kind = {"threads": resource.RLIMIT_NPROC, "descriptors": resource.RLIMIT_NOFILE}[what]
        resource.setrlimit(kind, (most, most))
    result = subprocess.run([server_bin, "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"],
                            preexec_fn=limit, env=clean_environment(), cwd="/",
                            capture_output=True, text=True, timeout=60)
    assert result.returncode == 1, (result.returncode, result.stderr)
    assert "cannot start" in result.stderr and what in result.stderr


def test_reflection_has_few_threads(start_server):
    """Each of its streams has one; a client may open as many as it likes."""
    server = start_server()
    threads = lambda: len(os.listdir(f"/proc/{server.pid}/task"))  # noqa: E731
    before, over = threads(), threading.Event()

    def requests():
        yield reflection_pb2.ServerReflectionRequest(list_services="")
        over.wait(60)

    with Client(server.address) as client:
        stub = reflection_pb2_grpc.ServerReflectionStub(client.channel)
        calls = [stub.ServerReflectionInfo(requests(), timeout=60) for _ in range(60)]
        answered = 0
        for call in calls[:40]:
            with contextlib.suppress(grpc.RpcError):  # refused: there is no thread for it
                answered += next(call).HasField("list_services_response")
        assert answered
        assert threads() - before <= 20
        over.set()
        for call in calls:
            call.cancel()
