"""An honest client beside an attack: calls, checks every answer, and says how it fared."""

import http.client
import json
import os
import random
import statistics
import threading
import time
import urllib.request

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


class Honest(threading.Thread):
    """Calls one after the other, on its own connection or on a new one for each."""

    def __init__(self, where, new_connections=False):
        super().__init__(daemon=True)
        self.where, self.new_connections = where, new_connections
        self.durations_ms, self.failed, self.wrong, self.over = [], [], [], False

    def run(self):
        rng = random.Random(1)
        payloads = [rng.randbytes(size) for size in (1, 300, 4096, 65536)]
        kept = None if self.new_connections else Connection(*self.where)
        while not self.over:
            connection = kept or Connection(*self.where)
            begin = time.monotonic()
            try:
                connection.call(rng.choice(payloads))
                self.durations_ms.append((time.monotonic() - begin) * 1e3)
            except grpc.RpcError as error:
                self.failed.append(error.code().name)
            except AssertionError as error:
                self.wrong.append(str(error))
            if connection is not kept:
                connection.channel.close()
            time.sleep(0.1 if self.new_connections else 0.005)
        if kept:
            kept.channel.close()

    def answered(self):
        return len(self.durations_ms) / max(1, len(self.durations_ms) + len(self.failed))

    def p99_ms(self):
        ordered = sorted(self.durations_ms)
        return ordered[len(ordered) * 99 // 100] if ordered else float("inf")

    def median_ms(self):
        return statistics.median(self.durations_ms) if self.durations_ms else float("inf")


class Web(threading.Thread):
    """Calls over HTTP, as curl makes them: on a new connection each."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address, self.over = address, False
        self.answered_count, self.failed, self.wrong = 0, [], []

    def run(self):
        rng = random.Random(2)
        payloads = [rng.randbytes(size) for size in (1, 4096, 65536)]
        while not self.over:
            payload = rng.choice(payloads)
            try:
                histogram = self.call(payload)
                if histogram["counts"] != oracle.expected(payload, pb.Spec()).counts.tolist():
                    self.wrong.append(f"over HTTP: {histogram}"[:300])
                self.answered_count += 1
            except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
                self.failed.append(f"{type(error).__name__} {error}"[:60])
            time.sleep(0.05)

    def call(self, payload):
        connection = http.client.HTTPConnection(self.address, timeout=CALL_TIMEOUT_S)
        try:
            connection.request("POST", "/v1/histogram", payload)
            reply = connection.getresponse()
            if reply.status != 200:
                raise OSError(reply.status)
            return json.loads(reply.read())["histograms"][0]
        finally:
            connection.close()

    def answered(self):
        return self.answered_count / max(1, self.answered_count + len(self.failed))


class Probes(threading.Thread):
    """/healthz as an orchestrator asks for it: a second's patience."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address, self.asked, self.answered_count, self.over = address, 0, 0, False
        self.failed = []

    def run(self):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while not self.over:
            self.asked += 1
            try:
                with opener.open(f"http://{self.address}/healthz", timeout=1) as reply:
                    self.answered_count += reply.status == 200
            except OSError as error:
                self.failed.append(type(error).__name__)
            time.sleep(0.2)

    def answered(self):
        return self.answered_count / max(1, self.asked)


class Users:
    """Honest users of each kind: calls on one connection, on new ones and over HTTP, probes."""

    def __init__(self, where, metrics_address, http_address):
        self.own, self.new = Honest(where), Honest(where, new_connections=True)
        self.web, self.probes = Web(http_address), Probes(metrics_address)

    def use(self, wait):
        """Uses the server while wait() lasts."""
        together([self.own, self.new, self.web, self.probes], wait)

    def wrong(self):
        """What was wrong with answers."""
        return self.own.wrong + self.new.wrong + self.web.wrong


def together(threads, wait):
    """Runs the threads while wait() does."""
    for thread in threads:
        thread.start()
    wait()
    for thread in threads:
        thread.over = True
    for thread in threads:
        thread.join(CALL_TIMEOUT_S + 10)


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
