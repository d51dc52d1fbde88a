"""Runs each attack of attacks.py against a server of its own, beside an honest client that checks every answer.

    run.py [--server-bin PROGRAM] [--seconds S] [--build package|static] [--result FILE] [ATTACK...]

What must hold while an attack lasts, and after it: the server lives; its resident memory stays below
receive-bytes-max + 512 MiB; every answer is exact; a new client is answered once the attack is over. From
20 s an attack on, when shares mean something, 99 % of the honest client's calls on its own connection and of
the probes of the metrics port are answered, too. Ends with status 1 if one attack does not hold. With --build package, what is known of the
distribution's gRPC (OPEN_IN_PACKAGE, docs/operations/security.md) is shown and not counted.
"""

import argparse
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "service")]
os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # of the honest client
import grpc  # noqa: E402
from attacks import ATTACKS  # noqa: E402
from harness import oracle  # noqa: E402
from harness.api import Client, pb  # noqa: E402
from harness.server import Server  # noqa: E402

MIB = 1 << 20
RECEIVE_MIB = 256
MEMORY_MIB_MAX = RECEIVE_MIB + 512
FLAGS = ("--drain-delay", "0", "--receive-bytes-max", f"{RECEIVE_MIB}MiB", "--queue-bytes-max", "64MiB",
         "--payload-bytes-max", "16MiB", "--log-level", "error")
# Few descriptors, as a service manager gives: 1,024 soft and hard.
OF_FEW = ("sh", "-c", 'ulimit -n 1024; exec "$0" "$@"')
CALL_TIMEOUT_S = 5
ANSWERED_MIN = 0.99
SECONDS_FOR_SHARES_MIN = 20

OPEN_IN_PACKAGE = {
    "descriptors_run_out": "CVE-2023-4785", "idle_connections": "CVE-2023-4785, where descriptors run out",
    "connect_and_close_storm": "CVE-2023-4785",
    "window_updates_past_2_gib": "the read target overflows", "empty_data_past_2_gib": "the read target overflows",
    "continuation_without_end": "CVE-2023-33953, memory", "headers_over_many_frames": "CVE-2023-33953, memory",
    "hpack_length_without_end": "CVE-2023-33953, CPU", "hpack_string_too_long": "CVE-2023-33953, CPU",
    "streams_without_acknowledgement": "streams without a limit",
    "one_byte_data_frames": "a slice for each frame",
    "rapid_reset": "CVE-2023-44487: takes CPU", "settings_flood": "takes CPU",
}
# What no build holds yet, with the reason; shown and not counted.
OPEN = {
    "reflection_streams": "a thread for each stream",
    "descriptors_run_out": "who takes the last descriptors is chance: some probes wait",
    "connect_and_close_storm": "each connection takes CPU", "half_tls_handshakes": "each connection takes CPU",
}


class Honest(threading.Thread):
    """Calls one after the other, on its own connection or on a new one for each; every answer is checked."""

    def __init__(self, address, new_connections):
        super().__init__(daemon=True)
        self.address, self.new_connections = address, new_connections
        self.durations_ms, self.failed, self.wrong, self.over = [], [], [], False

    def run(self):
        rng = random.Random(1)
        payloads = [rng.randbytes(size) for size in (1, 300, 4096, 65536)]
        client = None if self.new_connections else Client(self.address)
        while not self.over:
            payload = rng.choice(payloads)
            own = client or Client(self.address)
            begin = time.monotonic()
            try:
                histogram = own.compute(payload, timeout=CALL_TIMEOUT_S).histogram
                self.durations_ms.append((time.monotonic() - begin) * 1e3)
                oracle.check_histogram(histogram, payload, pb.Spec())
            except grpc.RpcError as error:
                self.failed.append(error.code().name)
            except AssertionError as error:
                self.wrong.append(str(error))
            if own is not client:
                own.channel.close()
            time.sleep(0.1 if self.new_connections else 0.005)
        if client:
            client.channel.close()

    def answered(self):
        return len(self.durations_ms) / max(1, len(self.durations_ms) + len(self.failed))

    def p99_ms(self):
        ordered = sorted(self.durations_ms)
        return ordered[len(ordered) * 99 // 100] if ordered else float("inf")


class Probes(threading.Thread):
    """/healthz as an orchestrator asks for it: a second's patience."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address, self.asked, self.answered_count, self.over = address, 0, 0, False

    def run(self):
        import urllib.request
        while not self.over:
            self.asked += 1
            try:
                with urllib.request.urlopen(f"http://{self.address}/healthz", timeout=1) as reply:
                    self.answered_count += reply.status == 200
            except OSError:
                pass
            time.sleep(0.2)

    def answered(self):
        return self.answered_count / max(1, self.asked)


def together(threads, seconds_or_process):
    for thread in threads:
        thread.start()
    if isinstance(seconds_or_process, subprocess.Popen):
        seconds_or_process.wait()
    else:
        time.sleep(seconds_or_process)
    for thread in threads:
        thread.over = True
    for thread in threads:
        thread.join(CALL_TIMEOUT_S + 10)


def answers_soon(address, limit_s):
    """Whether a new client is answered within that time."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        try:
            with Client(address) as client:
                oracle.check_histogram(client.compute(b"abc", timeout=1).histogram, b"abc", pb.Spec())
            return True
        except grpc.RpcError:
            pass
    return False


def run(name, options, folder):
    """(peak MiB, own, new, probes, quiet ms, problem) of one attack."""
    server = Server(options.server_bin, folder / name, FLAGS,
                    wrapper=OF_FEW if name == "descriptors_run_out" else ())
    try:
        quiet = Honest(server.address, False)
        together([quiet], min(2.0, options.seconds))
        own, new, probes = Honest(server.address, False), Honest(server.address, True), Probes(server.metrics_address)
        attack = subprocess.Popen([sys.executable, HERE / "attacks.py", name, server.address, server.metrics_address,
                                   str(options.seconds)], stderr=subprocess.PIPE, text=True)
        together([own, new, probes], attack)
        problems = []
        if attack.returncode != 0:
            problems.append(f"the attack itself failed: {attack.stderr.read()[-300:]}")
        attack.stderr.close()
        peak = server.memory_bytes("VmHWM") // MIB if server.running() else 0
        if not server.running():
            problems.append(f"the server ended with {server.process.returncode}")
        elif peak > MEMORY_MIB_MAX:
            problems.append(f"{peak} MiB")
        problems += [f"wrong answer: {text}" for text in own.wrong + new.wrong]
        for what, client in (("calls", own), ("probes", probes)):
            if options.seconds >= SECONDS_FOR_SHARES_MIN and client.answered() < ANSWERED_MIN:
                problems.append(f"{client.answered():.1%} of {what} answered")
        if server.running() and not answers_soon(server.address, 30):
            problems.append("no answer after it")
        if server.running() and not problems:
            server.stop()
        return peak, own, new, probes, quiet.p99_ms(), "; ".join(problems)
    finally:
        server.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server-bin", default=HERE.parents[1] / "build" / "release" / "bin" / "histogram-server")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--build", choices=("package", "static"), default="package")
    parser.add_argument("--result", type=pathlib.Path)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", choices=[[], *ATTACKS])
    options = parser.parse_args()
    known = {**(OPEN_IN_PACKAGE if options.build == "package" else {}), **OPEN}
    lines = [f"{'attack':<32} {'peak MiB':>8} {'own':>6} {'new':>6} {'probes':>6} {'p99 ms':>8} {'quiet':>6}  outcome"]
    print(lines[0], flush=True)
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.attacks or ATTACKS:
            peak, own, new, probes, quiet_ms, problem = run(name, options, pathlib.Path(folder))
            if problem and name not in known:
                failed.append(name)
            outcome = "held" if not problem else problem + (f" [{known[name]}]" if name in known else "")
            lines.append(f"{name:<32} {peak:>8} {own.answered():>6.1%} {new.answered():>6.1%} {probes.answered():>6.1%} "
                         f"{own.p99_ms():>8.1f} {quiet_ms:>6.1f}  {outcome}")
            print(lines[-1], flush=True)
    if options.result:
        options.result.write_text("\n".join(lines) + "\n")
    if failed:
        print("not held:", ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
