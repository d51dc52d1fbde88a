"""Messages that are not finished: bounded by what the process holds, whoever sends them and however."""

import os
import socket
import subprocess

import grpc
import pytest

from harness import oracle
from harness.api import SERVICE, Client, pb
from harness.http2 import (
    DATA, END_STREAM, PREFACE, SETTINGS, RawConnection, Windows, call_headers, frame, message_prefix, send_what_fits)
from harness.specs import random_bytes
from harness.waiting import wait_until

MIB = 1 << 20
SMALL_CALLS_S = int(os.environ.get("HISTOGRAM_SMALL_CALLS_S", "4"))
FEW = ("--receive-bytes-max", "64MiB", "--queue-bytes-max", "16MiB", "--payload-bytes-max", "8MiB",
       "--log-format", "json")


class HalfSender:
    """One connection with many calls, each of which sends as much of its message as the server lets it, but for
    the last byte."""

    def __init__(self, address, method, streams, message_bytes, source="127.0.0.1"):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), 20, (source, 0))
        self.left = {stream: message_bytes - 1 for stream in range(1, 2 * streams, 2)}
        self.windows = Windows()
        first = PREFACE + frame(SETTINGS, 0, 0)
        for stream in self.left:
            first += call_headers(stream, f"/{SERVICE}/{method}") + frame(DATA, 0, stream, message_prefix(message_bytes))
            self.windows.take(stream, 5)
        self.socket.sendall(first)

    def close(self):
        self.socket.close()

    def open_streams(self):
        return self.left.keys() - self.windows.ended

    def pump(self):
        """Reads what came and writes what may be written. False once the connection is gone."""
        try:
            send_what_fits(self.socket, self.windows, self.left)
            return True
        except OSError:
            return False


def attack_until(senders, condition, what):
    def step():
        for sender in list(senders):
            if not sender.pump():
                sender.close()
                senders.remove(sender)
        return condition()
    return wait_until(step, 120, what, interval_s=0.001)


def ended(server):
    return server.metrics().value("histsvc_rejected_total", reason="receive_memory")


@pytest.mark.parametrize("method", ("Compute", "ComputeMany", "Accumulate", "Describe"))
def test_half_sent_messages_are_bounded_and_others_served(start_server, sanitized, method):
    if sanitized:
        pytest.skip("a sanitizer's allocator does not say what it has given out")
    server = start_server(*FEW)
    before = server.memory_bytes()
    slow = HalfSender(server.address, "Compute", 1, 1 * MIB, source="127.0.0.2")  # and honest
    slow.pump()
    senders = [HalfSender(server.address, method, 20, 7 * MIB) for _ in range(8)]
    with Client(server.address) as client:
        answered = 0

        def some_are_ended():
            nonlocal answered
            payload = random_bytes(10_000)
            oracle.check_histogram(client.compute(payload).histogram, payload, pb.Spec())
            answered += 1
            return ended(server) > 20 and answered > 20
        attack_until(senders, some_are_ended, "the end of some calls")
        # The slow one, of another host, has been left alone.
        assert slow.open_streams()
        attack_until([slow], lambda: slow.left[1] == 0, "the slow client's message")
        slow.socket.sendall(frame(DATA, END_STREAM, 1, b"\0"))
        attack_until([slow], lambda: not slow.open_streams(), "the slow client's answer")
    for sender in [*senders, slow]:
        sender.close()
    # They count with the status that their callers got.
    def counted():
        metrics = server.metrics()
        return metrics.value("histsvc_requests_total", method=method, code="RESOURCE_EXHAUSTED") >= 0.9 * ended(server)
    wait_until(counted, 60, "calls that count as what they are")
    assert server.memory_bytes("VmHWM") - before < (64 + 128) * MIB
    log = server.stderr()
    assert '"event":"ended calls whose messages are not finished: memory is short"' in log
    assert "127.0.0.1" in log


@pytest.mark.timeout(120 + SMALL_CALLS_S)
def test_without_pressure_a_slow_sender_is_left_alone(start_server, client_bin, sanitized):
    """Many small calls beside it, and not one is ended: nothing adds up. HISTOGRAM_SMALL_CALLS_S=600 is the
    long form: ten million calls, on a machine that does nothing else."""
    server = start_server(*FEW)
    slow = HalfSender(server.address, "Compute", 5, 1000)
    slow.pump()
    before = server.memory_bytes()
    subprocess.run([client_bin, "bench", "--server", server.address, "--payload-bytes", "16", "--in-flight", "64",
                    "--duration", str(SMALL_CALLS_S)], check=True, capture_output=True)
    assert server.metrics().value("histsvc_requests_total", method="Compute", code="OK") > 1000
    assert ended(server) == 0
    slow.pump()
    assert len(slow.open_streams()) == 5
    if not sanitized:  # AddressSanitizer keeps what is freed
        assert server.memory_bytes() - before < 32 * MIB
    slow.close()


def test_a_call_without_a_token_is_refused_before_its_message(start_server, token_file):
    tokens = token_file("alice alice-has-this-token")
    server = start_server(*FEW, "--token-file", tokens)
    with RawConnection(server.address) as connection:
        connection.begin(1, f"/{SERVICE}/Compute")
        body, how = connection.finish(1)
        assert (body, how) == (b"", "end")
    # A unary call and its refusal count just after its reply has left.
    wait_until(lambda: server.metrics().value("histsvc_rejected_total", reason="unauthenticated") == 1, 60, "it counts")


def test_a_call_that_ends_without_a_message_is_told_so(start_server):
    server = start_server()
    with grpc.insecure_channel(server.address) as channel:
        for method in ("Compute", "Describe"):
            call = channel.stream_unary(f"/{SERVICE}/{method}")
            with pytest.raises(grpc.RpcError) as caught:
                call(iter(()), timeout=60)
            assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT, caught.value
            assert "no message" in caught.value.details()
