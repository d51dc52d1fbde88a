"""An honest client beside an attack: calls, checks every answer, and says how it fared."""

import http.client
import json
import os
import random
import statistics
import threading
import time

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
import grpc  # noqa: E402
from harness import oracle  # noqa: E402
from harness.api import CHANNEL_OPTIONS, pb, pb_grpc  # noqa: E402

CALL_TIMEOUT_S = 5


class Connection:
    def __init__(self, address, authority=None):
        """`authority`: the certificate that it trusts; None: plaintext."""
        self.channel = (grpc.insecure_channel(address, CHANNEL_OPTIONS) if authority is None else
                        grpc.secure_channel(address, grpc.ssl_channel_credentials(authority),
                                            CHANNEL_OPTIONS))
        self._stub = pb_grpc.HistogramServiceStub(self.channel)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def call(self, payload, timeout=CALL_TIMEOUT_S):
        """Raises RpcError, or AssertionError where the answer is wrong."""
        reply = self._stub.Compute(pb.ComputeRequest(payload=payload), timeout=timeout)
        oracle.check_histogram(reply.histogram, payload, pb.Spec())


class Caller(threading.Thread):
    """Calls call(payload) one after the other, with pauses; AssertionError: the answer is wrong."""

    def __init__(self, call, pause_s):
        super().__init__(daemon=True)
        self.call, self.pause_s = call, pause_s
        self.durations_ms, self.failed, self.wrong, self.over = [], [], [], False

    def run(self):
        rng = random.Random(1)
        payloads = [rng.randbytes(size) for size in (1, 300, 4096, 65536)]
        while not self.over:
            begin = time.monotonic()
            try:
                self.call(rng.choice(payloads))
                self.durations_ms.append((time.monotonic() - begin) * 1e3)
            except AssertionError as error:
                self.wrong.append(str(error)[:300])
            except grpc.RpcError as error:
                self.failed.append(error.code().name)
            except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
                self.failed.append(f"{type(error).__name__} {error}"[:60])
            time.sleep(self.pause_s)

    def answered(self):
        return len(self.durations_ms) / max(1, len(self.durations_ms) + len(self.failed))

    def p99_ms(self):
        ordered = sorted(self.durations_ms)
        return ordered[len(ordered) * 99 // 100] if ordered else float("inf")

    def median_ms(self):
        return statistics.median(self.durations_ms) if self.durations_ms else float("inf")


def get(address, method, path, body, timeout):
    """What a call over HTTP answers, on a connection of its own."""
    connection = http.client.HTTPConnection(address, timeout=timeout)
    try:
        connection.request(method, path, body)
        reply = connection.getresponse()
        if reply.status != 200:
            raise OSError(reply.status)
        return reply.read()
    finally:
        connection.close()


def call_over_http(address, payload):
    """As curl does it."""
    histogram = json.loads(get(address, "POST", "/v1/histogram", payload, CALL_TIMEOUT_S))["histograms"][0]
    assert histogram["counts"] == oracle.expected(payload, pb.Spec()).counts.tolist(), f"over HTTP: {histogram}"


def call_anew(where, payload):
    with Connection(*where) as connection:
        connection.call(payload)


class Users:
    """Honest users of each kind: calls on one connection, on new ones and over HTTP, probes."""

    def __init__(self, where, metrics_address, http_address):
        self.kept = Connection(*where)
        self.own = Caller(self.kept.call, 0.005)
        self.new = Caller(lambda payload: call_anew(where, payload), 0.1)
        self.web = Caller(lambda payload: call_over_http(http_address, payload), 0.05)
        # As an orchestrator asks: with a second's patience.
        self.probes = Caller(lambda _: get(metrics_address, "GET", "/healthz", None, 1), 0.2)

    def use(self, wait):
        """Uses the server while wait() lasts."""
        threads = [self.own, self.new, self.web, self.probes]
        for thread in threads:
            thread.start()
        wait()
        for thread in threads:
            thread.over = True
        for thread in threads:
            thread.join(CALL_TIMEOUT_S + 10)
        self.kept.channel.close()

    def wrong(self):
        """What was wrong with answers."""
        return self.own.wrong + self.new.wrong + self.web.wrong


def answered_soon(where, limit_s):
    """Whether a new client is answered within that time."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        try:
            with Connection(*where) as connection:
                connection.call(b"abc", timeout=1)
            return True
        except grpc.RpcError:
            pass
    return False
