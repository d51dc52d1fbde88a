"""What operators see: health, reflection, listeners, metrics, and the process around them."""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import time

import grpc
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from harness import oracle, specs
from harness.api import PROTO_FILE, SERVICE, Client, pb
from harness.server import Server, clean_environment, free_port
from harness.specs import random_bytes
from harness.waiting import wait_until

SERVING = health_pb2.HealthCheckResponse.SERVING


# ----------------------------------------------------------------------------------------- health
@pytest.mark.parametrize("name", ("", SERVICE, "liveness", "backend/cpu"))
def test_health(client, name):
    health = health_pb2_grpc.HealthStub(client.channel)
    request = health_pb2.HealthCheckRequest(service=name)
    assert health.Check(request, timeout=60).status == SERVING
    watch = health.Watch(request, timeout=60)
    assert next(watch).status == SERVING
    watch.cancel()


@pytest.mark.parametrize("method", ("Check", "Watch"))
def test_health_refuses_what_is_no_request(client, method):
    call = client.channel.unary_stream(f"/grpc.health.v1.Health/{method}")
    with pytest.raises(grpc.RpcError) as caught:
        list(call(b"\x0a\x7f", timeout=60))  # a string that is longer than the message
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "HealthCheckRequest" in caught.value.details()


def test_health_tells_all_watchers_of_a_name(client):
    health = health_pb2_grpc.HealthStub(client.channel)
    watches = [health.Watch(health_pb2.HealthCheckRequest(service=SERVICE), timeout=60)
               for _ in range(40)]  # more than a queue awaits at a time
    assert [next(watch).status for watch in watches] == [SERVING] * len(watches)
    for watch in watches:
        watch.cancel()


# -------------------------------------------------------------------------------------- reflection
def reflect(channel, **request):
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    requests = iter([reflection_pb2.ServerReflectionRequest(**request)])
    [reply] = stub.ServerReflectionInfo(requests, timeout=60)
    return reply


def test_reflection_lists_and_resolves(client):
    reply = reflect(client.channel, list_services="")
    names = {service.name for service in reply.list_services_response.service}
    assert {SERVICE, "grpc.health.v1.Health"} <= names
    reply = reflect(client.channel, file_containing_symbol=SERVICE)
    files = [descriptor_pb2.FileDescriptorProto.FromString(encoded)
             for encoded in reply.file_descriptor_response.file_descriptor_proto]
    [file] = [file for file in files if file.package == "histogram.v1"]
    assert file.name == PROTO_FILE
    [service] = file.service
    assert [method.name for method in service.method] == [
        "Compute", "ComputeMany", "Accumulate", "Describe"]
    # The same contract as the one in the repository.
    own = descriptor_pb2.FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(own)
    for message in (file, own):
        message.ClearField("source_code_info")
    assert file == own


def test_no_reflection_under_authentication(start_server, token_file):
    server = start_server("--token-file", token_file("alice " + "t" * 32))
    with Client(server.address) as client, pytest.raises(grpc.RpcError) as caught:
        reflect(client.channel, list_services="")
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_health_names_are_short(client):
    """A name that there is not, and one that is too long."""
    health = health_pb2_grpc.HealthStub(client.channel)
    for size, code, said in ((200, grpc.StatusCode.NOT_FOUND, ""), (201, grpc.StatusCode.INVALID_ARGUMENT, "200")):
        request = health_pb2.HealthCheckRequest(service="x" * size)
        with pytest.raises(grpc.RpcError) as caught:
            health.Check(request, timeout=60)
        assert caught.value.code() == code and said in caught.value.details()
        watch = health.Watch(request, timeout=60)
        if size == 200:
            assert next(watch).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
            watch.cancel()
            continue
        with pytest.raises(grpc.RpcError) as caught:
            next(watch)
        assert caught.value.code() == code


# ----------------------------------------------------------------------------------------- process
@pytest.mark.parametrize("name", ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"))
def test_signals_that_end_a_process_drain(start_server, name):
    server = start_server()
    with Client(server.address) as client:
        client.compute(b"abc")
    server.process.send_signal(getattr(signal, name))
    server.wait()
    assert f"signal={name}" in server.stderr() and "drained" in server.stderr()


def test_a_terminal_that_closes_does_not_end_what_nohup_began(server_bin, tmp_path):
    script = tmp_path / "under-nohup"
    script.write_text(f'#!/bin/sh\ntrap "" HUP\nexec "{server_bin}" "$@"\n')
    script.chmod(0o755)
    with Server(script, tmp_path, ["--drain-delay", "0"]) as server, Client(server.address) as client:
        server.process.send_signal(signal.SIGHUP)
        client.compute(b"abc")


def test_the_limit_of_descriptors_is_raised(start_server):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = hard if 0 <= hard <= 1 << 20 else 1 << 20
    server = start_server(wrapper=("sh", "-c", 'ulimit -S -n 256; exec "$0" "$@"'))
    assert resource.prlimit(server.pid, resource.RLIMIT_NOFILE) == (most, hard)
    assert f"limit of descriptors now={most} before=256" in server.stderr()


def test_standard_descriptors_that_are_closed_are_taken_by_nothing(start_server):
    server = start_server(wrapper=("sh", "-c", 'exec "$0" "$@" <&- >&-'))
    for descriptor in (0, 1):
        assert os.readlink(f"/proc/{server.pid}/fd/{descriptor}") == "/dev/null"


def test_a_polling_strategy_that_grpc_does_not_know(server_bin):
    done = run_to_the_end(server_bin, "--listen", "127.0.0.1:0", GRPC_POLL_STRATEGY="epoll2")
    assert done.returncode != 0 and "epoll2" in done.stderr


def test_a_server_without_a_backend_is_not_ready(start_server):
    server = start_server("--batch-max", "1ms", "--cpu-lanes", 1, "--split-bytes-min", "1TiB", "--force-kernel",
                          "scalar")
    payload = random_bytes(60 << 20)  # no core counts it in a millisecond, whole and by this kernel
    with Client(server.address) as client, pytest.raises(grpc.RpcError):
        for _ in range(10):  # the watchdog may look too late on a busy machine
            client.compute(payload)
    wait_until(lambda: server.http("/readyz")[0] == 503, 60, "a server that is not ready")
    assert "no backend is up" in server.http("/readyz")[2]
    assert server.http("/healthz")[0] == 200
    with Client(server.address) as client:
        health = health_pb2_grpc.HealthStub(client.channel)
        wait_until(lambda: health.Check(health_pb2.HealthCheckRequest(), timeout=60).status ==
                   health_pb2.HealthCheckResponse.NOT_SERVING, 60, "NOT_SERVING")


# ---------------------------------------------------------------------------------------- describe
def test_describe(client):
    reply = client.stub.Describe(pb.DescribeRequest(), timeout=60)
    assert reply.version
    [backend] = [backend for backend in reply.backends if backend.name == "cpu"]
    assert backend.up and backend.lanes >= 1 and backend.device
    names = [kernel.name for kernel in reply.kernels if kernel.backend == "cpu"]
    assert "scalar" in " ".join(names) and len(set(names)) == len(names) >= 2
    assert all(kernel.summary for kernel in reply.kernels)
    assert reply.limits.receive_bytes_max >= 2 * reply.limits.queue_bytes_max
    assert {"types", "rows", "sparse"} <= set(reply.features)


def test_describe_shows_the_limits_that_were_set(start_server):
    server = start_server("--payload-bytes-max", "5MiB", "--bin-count-max", 300,
                          "--queue-bytes-max", "32MiB", "--receive-bytes-max", "100MiB",
                          "--batch-bytes-max", "7MiB", "--streams-max", 9,
                          "--cpu-lanes", 3)
    with Client(server.address) as client:
        reply = client.stub.Describe(pb.DescribeRequest(), timeout=60)
    mib = 1 << 20
    assert reply.limits == pb.DescribeResponse.Limits(
        payload_bytes_max=5 * mib, bin_count_max=300, queue_bytes_max=32 * mib,
        receive_bytes_max=100 * mib, batch_payloads_max=1024, batch_bytes_max=7 * mib,
        stream_payloads_max=64, streams_max=9, quantiles_max=1024, rows_max=1 << 20,
        reply_bytes_max=64 * mib, spec_bytes_max=2 * mib)
    assert [backend.lanes for backend in reply.backends if backend.name == "cpu"] == [3]


@pytest.mark.parametrize("lanes", (1, 2, 5))
def test_any_number_of_lanes_gives_the_same_answers(start_server, lanes):
    server = start_server("--cpu-lanes", lanes, "--split-bytes-min", 100_000, "--verify-fraction", 1)
    with Client(server.address) as client:
        payloads = [random_bytes(size, seed=size) for size in (
            0, 1, 99_999, 100_000, 100_001, 1 << 20, (4 << 20) + 7)]
        for payload in payloads:
            oracle.check_histogram(client.compute(payload).histogram, payload, pb.Spec())
        for payload, response in zip(payloads, client.compute_many(payloads), strict=True):
            oracle.check_histogram(response.histogram, payload, pb.Spec())
    assert server.metrics().value("histsvc_integrity_failures_total") == 0


def test_every_kernel_can_be_forced(start_server, client):
    # Those that count byte values; of the others the plan decides.
    kernels = [kernel.name for kernel in client.stub.Describe(pb.DescribeRequest()).kernels
               if kernel.backend == "cpu" and kernel.bin_count_max == 256]
    assert kernels
    payload = specs.PAYLOADS["runs"](100_001)
    for kernel in kernels:
        server = start_server("--force-kernel", kernel, "--backend", "cpu")
        with Client(server.address) as forced:
            response = forced.compute(payload)
            oracle.check_histogram(response.histogram, payload, pb.Spec())
            assert response.receipt.kernel == kernel
        server.stop()


# --------------------------------------------------------------------------------------- listeners
def test_a_unix_socket_and_a_port_at_once(start_server, socket_folder):
    path = socket_folder / "histogram.sock"
    server = start_server(listen=(f"unix:{path}", "127.0.0.1:0"))
    assert server.addresses[0] == f"unix:{path}"
    payload = random_bytes(200_000)
    for address in server.addresses:
        with Client(address) as client:
            oracle.check_histogram(client.compute(payload).histogram, payload, pb.Spec())
    server.stop()
    # A file left behind by a server that was killed is in nobody's way.
    first = start_server(listen=(f"unix:{path}",))
    first.kill()
    second = start_server(listen=(f"unix:{path}",))
    with Client(second.address) as client:
        oracle.check_histogram(client.compute(payload).histogram, payload, pb.Spec())


def run_to_the_end(server_bin, *flags, timeout_s=60, **environment):
    """Runs the server binary, which is expected to end by itself."""
    return subprocess.run(
        [server_bin, *map(str, flags)], capture_output=True, text=True, timeout=timeout_s,
        stdin=subprocess.DEVNULL, env=clean_environment(**environment), check=False)


def test_a_unix_socket_whose_owner_accepts_nobody(server_bin, socket_folder):
    """Its queue is full, so that a connection would wait for ever."""
    path = str(socket_folder / "s")
    with socket.socket(socket.AF_UNIX) as owner, contextlib.ExitStack() as waiting:
        owner.bind(path)
        owner.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                client = waiting.enter_context(socket.socket(socket.AF_UNIX))
                client.setblocking(False)
                client.connect(path)
        done = run_to_the_end(server_bin, "--listen", f"unix:{path}", "--metrics-listen", "127.0.0.1:0")
    assert done.returncode == 1
    assert "another server is listening there" in done.stderr, done.stderr


# ----------------------------------------------------------------------------------------- metrics
def test_metrics_are_there_and_counted(start_server):
    server = start_server("--payload-bytes-max", "1MiB", "--batch-bytes-max", "1MiB")
    with Client(server.address) as client:
        for _ in range(7):
            client.compute(b"x" * 1000)
        client.compute(b"x" * 500_000)
        client.compute_many([b"y" * 100] * 5)
        client.accumulate([b"z" * 10] * 3)
        client.stub.Describe(pb.DescribeRequest())
        for bad in (lambda: client.compute(b"x", specs.even(0)),
                    lambda: client.compute(b"x", specs.even(70_000)),
                    lambda: client.compute(b"x" * ((1 << 20) + 1))):
            with pytest.raises(grpc.RpcError):
                bad()
        # A call is counted just after its reply has left.
        wait_until(lambda: server.metrics().value(
            "histsvc_requests_total", method="Compute") == 11, 60, "eleven calls counted")
        metrics = server.metrics()

    def requests(method, code="OK"):
        return metrics.value("histsvc_requests_total", method=method, code=code)

    assert requests("Compute") == 8
    assert requests("ComputeMany") == 5  # payloads, not streams
    assert requests("Accumulate") == 1
    assert requests("Describe") == 1
    assert requests("Compute", "INVALID_ARGUMENT") == 2
    assert requests("Compute", "RESOURCE_EXHAUSTED") == 1
    assert metrics.value("histsvc_streams_total", method="ComputeMany") == 1
    assert metrics.value("histsvc_streams_total", method="Accumulate") == 1
    for reason in ("too_many_bins", "payload_too_large", "bad_request"):
        assert metrics.value("histsvc_rejected_total", reason=reason) == 1, reason
    assert metrics.value("histsvc_request_duration_seconds_count", method="Compute") >= 8
    assert metrics.value("histsvc_batches_total", backend="cpu") >= 1
    for stage in ("queue", "kernel", "fold", "reply"):
        assert metrics.value("histsvc_stage_duration_seconds_count", stage=stage) > 0, stage


def readyz(port):
    """The status line; empty while nobody listens."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
        return connection.recv(100).split(b"\r\n")[0]
    return b""


def test_who_is_ready_listens(server_bin):
    """From the moment of the first 200: asked without a pause, over several starts."""
    for _ in range(8):
        port, metrics_port = free_port(), free_port()
        command = [server_bin, "--listen", f"127.0.0.1:{port}", "--metrics-listen", f"127.0.0.1:{metrics_port}",
                   "--drain-delay", "0"]
        with subprocess.Popen(list(map(str, command)), stderr=subprocess.DEVNULL, env=clean_environment()) as process:
            try:
                until = time.monotonic() + 60
                while b" 200 " not in readyz(metrics_port):
                    assert process.poll() is None and time.monotonic() < until
                socket.create_connection(("127.0.0.1", port), 5).close()
            finally:
                process.terminate()
