"""What the server logs: for people, for machines, and about whom."""

import contextlib
import json
import os
import socket
import threading

import grpc
import pytest

from harness import specs
from harness.api import SERVICE, Client
from harness.certificates import self_signed
from harness.waiting import wait_until
from test_operations import run_to_the_end


@pytest.fixture(scope="module")
def tls_flags(tmp_path_factory):
    certificate, key = self_signed(tmp_path_factory.mktemp("tls"))
    return ["--tls-cert", certificate, "--tls-key", key]


def events(server, name):
    """The fields of each event of that name; every line must be JSON without empty fields."""
    whole, _, _ = server.stderr().rpartition("\n")  # a line may be in the middle of being written
    lines = [json.loads(line) for line in whole.splitlines()]
    for line in lines:
        assert "" not in line.values(), line
    return [line for line in lines if line["event"] == name]


def test_protobufs_own_lines_are_json_too(start_server):
    server = start_server("--log-format", "json")
    with Client(server.address) as client, pytest.raises(grpc.RpcError):
        client.channel.unary_unary("/grpc.health.v1.Health/Check")(b"\x0a\x01\xff", timeout=60)  # is no UTF-8
    [line] = events(server, "protobuf")
    assert line["level"] == "warn" and "UTF-8" in line["message"] and ".cc:" in line["source"]


def test_grpcs_own_lines_are_json_too(start_server, tls_flags):
    server = start_server(*tls_flags, "--log-format", "json")
    host, port = server.address.rsplit(":", 1)

    def told():
        with socket.create_connection((host, int(port)), 10) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            connection.settimeout(10)
            while connection.recv(1000):
                pass
        return events(server, "grpc")

    wait_until(told, 60, "a failed handshake in the log")
    [first, *_] = told()
    assert first["level"] == "warn" and "andshake" in first["message"] and ".cc:" in first["source"]


@pytest.mark.parametrize("listen, level", [("127.0.0.1:0", "info"), ("0.0.0.0:0", "warn")])
def test_a_start_says_where_to_read_what_a_client_can_do(start_server, listen, level):
    # The distribution's gRPC; the static programs have none of these flaws, and say nothing.
    flags = ["--allow-plaintext"] if level == "warn" else []
    server = start_server("--log-format", "json", *flags, listen=[listen])
    [line] = events(server, "whoever can connect can stop this server: its gRPC lacks later fixes")
    assert line["level"] == level and line["grpc"].startswith("1.")
    assert line["see"] == "docs/operations/security.md"


def test_requests_that_failed_or_were_slow_name_their_caller(start_server):
    server = start_server("--log-format", "json", "--slow-request", "1us")
    with Client(server.address) as client:
        client.compute(b"abc")
        with pytest.raises(grpc.RpcError):
            client.compute(b"abc", specs.even(0))
    wait_until(lambda: events(server, "request failed") and events(server, "slow request"), 60, "both lines")
    [failed], [slow] = events(server, "request failed"), events(server, "slow request")
    assert (failed["code"], failed["level"]) == ("INVALID_ARGUMENT", "info")
    assert (slow["code"], slow["level"], slow["payload_bytes"]) == ("OK", "warn", 3)
    for line in (failed, slow):
        assert line["method"] == "Compute" and line["peer"].startswith("127.0.0.1:")


@pytest.mark.parametrize("method", ("Compute", "ComputeMany", "Accumulate"))
def test_a_call_that_was_given_up_names_its_caller(start_server, method):
    server, over = start_server("--log-format", "json"), threading.Event()

    def requests():
        over.wait(60)
        yield b""

    with Client(server.address) as client:
        call = client.channel.stream_stream(f"/{SERVICE}/{method}")(requests())
        client.compute(b"abc")  # once it is answered, the server has the call before it, too
        call.cancel()
        wait_until(lambda: events(server, "request failed"), 60, "the line")
    over.set()
    [line] = events(server, "request failed")
    assert (line["method"], line["code"]) == (method, "CANCELLED")
    assert line["peer"].startswith("127.0.0.1:")


def test_debug_tells_of_settings_requests_and_batches(start_server):
    server = start_server("--log-format", "json", "--log-level", "debug", "--drain-max", "40s",
                          env={"HISTSVC_LANES": "3"})
    with Client(server.address) as client:
        client.compute(b"x" * 1000)
    wait_until(lambda: events(server, "request") and events(server, "batch"), 60, "a request and a batch")
    settings = {line["name"]: (line["value"], line["set_by"]) for line in events(server, "setting")}
    assert settings["drain-max"] == ("40s", "--drain-max")
    assert settings["lanes"] == ("3", "HISTSVC_LANES")
    [request], [batch] = events(server, "request"), events(server, "batch")
    assert (request["method"], request["code"], request["payload_bytes"]) == ("Compute", "OK", 1000)
    assert (batch["backend"], batch["payloads"], batch["bytes"]) == ("cpu", 1, 1000)
    server.stop()
    [draining] = events(server, "draining")
    assert draining["drain_max_us"] == 40_000_000


# What a second server is started with beside the first, and why it cannot.
CANNOT = {
    "a port in use": (["--listen", "{address}"], "cannot listen on {address}: Address already in use"),
    "a metrics port in use": (["--metrics-listen", "{metrics}"],
                              "cannot bind --metrics-listen {metrics}: Address already in use"),
    "another machine's address": (["--listen", "192.0.2.1:50051", "--allow-plaintext"],
                                  "cannot listen on 192.0.2.1:50051: Cannot assign requested address"),
    "a name of nobody": (["--listen", "no.such.host.invalid:50051", "--allow-plaintext"],
                         "cannot listen on no.such.host.invalid:50051: "),
    "no folder for the socket": (["--listen", "unix:/no/such/folder/x.sock"],
                                 "unix:/no/such/folder/x.sock: No such file or directory"),
    "a certificate that is not there": (["--tls-cert", "/no/such.crt", "--tls-key", "/no/such.key"],
                                        "cannot read /no/such.crt: No such file or directory"),
    "tokens that are not there": (["--token-file", "/no/such/tokens"],
                                  "cannot read /no/such/tokens: No such file or directory"),
    "a folder of tokens": (["--token-file", "/"], "cannot read /: Is a directory"),
    "a folder of certificates": (["--tls-cert", "/", "--tls-key", "/"], "cannot read /: Is a directory"),
}


@pytest.mark.parametrize("name", CANNOT)
def test_what_cannot_start_says_why_in_one_line(server, server_bin, name):
    flags, why = CANNOT[name]
    places = {"address": server.address, "metrics": server.metrics_address}
    listen = [] if "--listen" in flags else ["--listen", "127.0.0.1:0"]
    metrics = [] if "--metrics-listen" in flags else ["--metrics-listen", "off"]
    done = run_to_the_end(server_bin, *listen, *metrics, "--log-level", "error", *(one.format(**places) for one in flags))
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert why.format(**places) in line and ("in use" in why or "in use" not in line)


def test_a_port_file_that_cannot_be_written(server_bin, tmp_path):
    for path, why in ((tmp_path / "no" / "ports", "No such file or directory"), (tmp_path, "Is a directory")):
        flags = ("--listen", "127.0.0.1:0", "--metrics-listen", "off", "--port-file", path)
        done = run_to_the_end(server_bin, *flags)
        assert done.returncode == 1 == run_to_the_end(server_bin, *flags, "--log-level", "off").returncode
        lines = done.stderr.splitlines()
        assert f"cannot write --port-file {path}: {why}" in lines[-1]
        assert not any("info  ready" in line for line in lines)
    assert not list(tmp_path.parent.glob("*.new"))


def test_a_log_that_nobody_reads_stops_nobody(start_server, tmp_path):
    """Standard error is a full pipe: calls are answered, lines are counted, and it drains."""
    fifo = tmp_path / "log"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    server = start_server("--log-level", "debug", "--log-format", "json",
                          wrapper=("sh", "-c", f'exec "$0" "$@" 2> "{fifo}"'))
    with Client(server.address) as client:

        def lost():
            for _ in range(50):
                client.compute(b"abc", timeout=60)
            return server.metrics().value("histsvc_log_lines_lost_total")

        wait_until(lambda: lost() > 0, 60, "lines that are lost")
        text = b""

        def written():
            nonlocal text
            client.compute(b"abcdefg", timeout=60)
            with contextlib.suppress(BlockingIOError):
                text += os.read(reader, 1 << 20)
            return b'"payload_bytes":7,' in text

        wait_until(written, 60, "a line of later")
    for line in text.splitlines()[:-1]:
        json.loads(line)
    server.stop()
    os.close(reader)
