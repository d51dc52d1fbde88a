"""Messages that are not finished: bounded by what the process holds, whoever sends them and however."""

import os
import selectors
import socket
import struct
import subprocess

import grpc
import pytest

from harness import oracle
from harness.api import SERVICE, Client, pb
from harness.http2 import (
    DATA, HEADERS, PREFACE, SETTING_INITIAL_WINDOW_SIZE, SETTINGS, RawConnection, frame, message_prefix)
from harness.specs import random_bytes
from harness.waiting import wait_until

MIB = 1 << 20
WINDOW_UPDATE = 8
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
        self.windows = dict.fromkeys([0, *self.left], 65535)
        self.out = PREFACE + frame(SETTINGS, 0, 0)
        raw = RawConnection.__new__(RawConnection)
        raw.socket, raw._received = self, b""
        for stream in self.left:
            raw.begin(stream, f"/{SERVICE}/{method}")
            self._send_data(stream, message_prefix(message_bytes))
        self.received = b""
        self.socket.setblocking(False)

    def sendall(self, data):
        self.out += data

    def close(self):
        self.socket.close()

    def _send_data(self, stream, body):
        self.windows[0] -= len(body)
        self.windows[stream] -= len(body)
        self.out += frame(DATA, 0, stream, body)

    def pump(self):
        """Reads what came and writes what may be written. False once the connection is gone."""
        try:
            while more := self.socket.recv(1 << 16):
                self.received += more
            return False
        except BlockingIOError:
            pass
        except OSError:
            return False
        self._take_frames()
        for stream in list(self.left):
            count = min(16384, self.left[stream], self.windows[0], self.windows[stream])
            if len(self.out) < MIB and count > 0:
                self.left[stream] -= count
                self._send_data(stream, bytes(count))
        try:
            self.out = self.out[self.socket.send(self.out):] if self.out else b""
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def _take_frames(self):
        while len(self.received) >= 9 and len(self.received) >= 9 + int.from_bytes(self.received[:3], "big"):
            length, kind, flags = int.from_bytes(self.received[:3], "big"), self.received[3], self.received[4]
            stream, body = int.from_bytes(self.received[5:9], "big"), self.received[9:9 + length]
            self.received = self.received[9 + length:]
            if kind == WINDOW_UPDATE and stream in self.windows:
                self.windows[stream] += int.from_bytes(body, "big")
            elif kind == SETTINGS and not flags & 1:
                self.out += frame(SETTINGS, 1, 0)
                for at in range(0, length, 6):
                    key, value = struct.unpack(">HI", body[at:at + 6])
                    if key == SETTING_INITIAL_WINDOW_SIZE:
                        for each in self.left:
                            self.windows[each] += value - 65535
            elif kind == 3 or kind == HEADERS and flags & 1:  # the call is over
                self.left.pop(stream, None)


def attack_until(senders, condition, what, timeout_s=120):
    with selectors.DefaultSelector():
        def step():
            for sender in list(senders):
                if not sender.pump():
                    sender.close()
                    senders.remove(sender)
            return condition()
        return wait_until(step, timeout_s, what, interval_s=0.001)


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
        assert slow.left
        attack_until([slow], lambda: not slow.out and slow.left[1] == 0, "the slow client's message")
        slow._send_data(1, b"\0")
        slow.out += frame(DATA, 1, 1)
        attack_until([slow], lambda: not slow.left, "the slow client's answer")
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
    assert len(slow.left) == 5
    if not sanitized:  # AddressSanitizer keeps what is freed
        assert server.memory_bytes() - before < 32 * MIB
    slow.close()


def test_a_call_without_a_token_is_refused_before_its_message(start_server, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("alice alice-has-this-token\n")
    server = start_server(*FEW, "--token-file", tokens)
    with RawConnection(server.address) as connection:
        connection.begin(1, f"/{SERVICE}/Compute")
        body, how = connection.finish(1)
        assert (body, how) == (b"", "end")
    assert server.metrics().value("histsvc_rejected_total", reason="unauthenticated") == 1


def test_a_call_that_ends_without_a_message_is_told_so(start_server):
    server = start_server()
    with grpc.insecure_channel(server.address) as channel:
        for method in ("Compute", "Describe"):
            call = channel.stream_unary(f"/{SERVICE}/{method}")
            with pytest.raises(grpc.RpcError) as caught:
                call(iter(()), timeout=60)
            assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT, caught.value
            assert "no message" in caught.value.details()
