"""Runs each attack against a server of its own, beside an honest client that checks every answer.

    run.py [--server-bin PROGRAM] [--seconds S] [--build package|static] [--behind nginx|envoy]
           [ATTACK...]

What must hold while an attack lasts, and after it: the server lives; its resident memory stays
below receive-bytes-max + 512 MiB; every answer is exact; a new client is answered once the attack
is over. From 20 s an attack on, when shares mean something: 99 % of the honest client's calls are
answered, on its own connection, on a new one for each, and over HTTP; those on its own have a p99
below ten times what it is without the attack; 99 % of the probes of the metrics port are answered;
and within ten seconds afterwards the median is what it was before, within a factor of two. The same users use
the server before, during and after the attack. Ends with status 1 if one attack does not hold.

With --build package, what is known of the distribution's gRPC (OPEN_IN_PACKAGE,
docs/operations/security.md) is shown and not counted. With --behind, the attacks on the port for
calls go to a proxy with the configuration of deploy/ in front of the server.

Prints a table, below what made it: the command, the server, the date and the machine. An attack takes its
time and 9 s more.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "service")]
from attacks import ATTACKS  # noqa: E402
from floods import FLOODS  # noqa: E402
from harness.certificates import self_signed  # noqa: E402
from harness.server import Server  # noqa: E402
from holders import HOLDERS  # noqa: E402
from honest import Users, answered_soon  # noqa: E402
from proxies import COMMANDS, in_front  # noqa: E402

MIB = 1 << 20
RECEIVE_MIB = 256
BEYOND_RECEIVE_MIB = 512
FLAGS = ("--drain-delay", "0", "--payload-bytes-max", "16MiB", "--log-format", "json",
         "--http-listen", "127.0.0.1:0")
# Of the server's log; "error" without one.
LOG_LEVELS = {"log_that_hangs": "debug", "forged_log_lines": "info"}
LOG_LINES_A_SECOND_MAX = 100
# Few descriptors, as a service manager gives: 1,024 soft and hard.
WITH_FEW_DESCRIPTORS = ("sh", "-c", 'ulimit -n 1024; exec "$0" "$@"')
# Its log goes to a pipe that it holds open itself and nobody reads.
WITH_A_FULL_LOG = ("sh", "-c", 'p=$(mktemp -u); mkfifo "$p"; exec 2<>"$p"; rm "$p"; exec "$0" "$@"')
ANSWERED_MIN = 0.99
SLOWER_MAX = 10
AFTERWARDS_MAX = 2
AFTERWARDS_LOOKS = 4
DESCRIPTORS_MIN = 10_100
SECONDS_FOR_SHARES_MIN = 20

# Not an attack: honest calls that no guard may end.
SMALL_CALLS = "small_calls_without_end"
# As docs/operations/sizing.md has it for thousands of connections.
ENVIRONMENTS = {"idle_connections": {"GRPC_POLL_STRATEGY": "epoll1"},
                # The clients here silence gRPC, and the server would inherit that.
                "forged_log_lines": {"GRPC_VERBOSITY": "ERROR"}}
# Whoever is out of descriptors can accept nobody. Those who are connected are served.
LOCKED_OUT = ("descriptors_run_out",)
WRAPPERS = {"descriptors_run_out": WITH_FEW_DESCRIPTORS, "log_that_hangs": WITH_A_FULL_LOG,
            "http_descriptors_run_out": WITH_FEW_DESCRIPTORS}
TLS = ("half_tls_handshakes", "certificates_rotated_wrongly")
# Whether the server has to end connections of the attack, or must not.
ENDED = {
    **dict.fromkeys(("window_updates_past_2_gib", "empty_data_past_2_gib", "continuation_without_end",
                     "hpack_length_without_end", "hpack_string_too_long", "hpack_bomb", "rapid_reset",
                     "ping_flood", "settings_flood", "goaway_flood", "http_headers_without_end",
                     "http_header_without_end", "http_target_without_end",
                     "http_chunk_extensions_without_end", "http_chunk_sizes_without_end",
                     "http_trailers_without_end"), True),
    **dict.fromkeys(("unknown_frames_past_2_gib", "bad_base64_headers"), False)}
BEHIND_A_PROXY = [function.__name__ for function in (*FLOODS, *HOLDERS)
                  if function.__name__ not in (*WRAPPERS, *TLS)]

OPEN_IN_PACKAGE = {
    "descriptors_run_out": "CVE-2023-4785",
    "idle_connections": "CVE-2023-4785, where descriptors run out",
    "connect_and_close_storm": "accepts until nobody waits",
    "empty_data_past_2_gib": "keeps its thread busy", "ping_flood": "keeps its thread busy",
    "window_updates_past_2_gib": "keeps its thread busy", "goaway_flood": "keeps its thread busy",
    "unknown_frames_past_2_gib": "keeps its thread busy", "forged_log_lines": "keeps its thread busy",
    "continuation_without_end": "CVE-2023-33953, memory",
    "hpack_bomb": "CVE-2023-33953, memory",
    "headers_over_many_frames": "CVE-2023-33953, memory",
    "hpack_length_without_end": "CVE-2023-33953, CPU",
    "hpack_string_too_long": "CVE-2023-33953, CPU",
    "streams_without_acknowledgement": "streams without a limit",
    "one_byte_data_frames": "a slice for each frame",
    "rapid_reset": "CVE-2023-44487: takes CPU", "settings_flood": "takes CPU",
    "bad_base64_headers": "CVE-2023-32732",
}


def make_certificates(folder):
    for name in ("server", "other"):
        self_signed(folder, name)
    return (folder / "server.crt").read_bytes()


def attacking(name, options, server, address, folder):
    """The command that attacks."""
    if name == SMALL_CALLS:
        client = pathlib.Path(options.server_bin).with_name("histogram-client")
        return [client, "bench", "--server", address, "--payload-bytes", "16", "--connections", "1",
                "--in-flight", "64", "--warm-up", "0", "--duration", str(options.seconds),
                "--format", "json"]
    return [sys.executable, HERE / "attacks.py", name, address, server.metrics_address,
            server.http_address, str(options.seconds), folder]


def ended_calls(output):
    """Of the load: what was not answered, as a sentence; none where all was."""
    result = json.loads(output)
    return "" if result["requests"] > 0 and not result["errors"] else f"{result['errors']} of them"


def log_problems(lines, seconds):
    """What an attacker may not do to the log: write lines of its own, or many."""
    try:
        events = [json.loads(line)["event"] for line in lines]
    except ValueError as error:
        return [f"a line of the log that is no JSON: {error}"]
    wrong = {"forged": "forged" in events, "none of the attack": "grpc" not in events,
             f"{len(events)}": len(events) > LOG_LINES_A_SECOND_MAX * (seconds + 1)}
    return [f"lines of the log: {what}" for what, so in wrong.items() if so]


def users(where, server):
    return Users(where, server.metrics_address, server.http_address)


class Outcome:
    """What an attack did to the server and to the honest client."""

    def __init__(self):
        self.peak_mib, self.problems = 0, []
        self.before = self.during = self.after = None

    def judge(self, server, name, receive_mib, where, seconds):
        if not server.running():
            self.problems.append(f"the server ended with {server.process.returncode}: "
                                 f"{server.stderr()[-300:]!r}")
            return
        self.peak_mib = server.memory_bytes("VmHWM") // MIB
        if self.peak_mib > receive_mib + BEYOND_RECEIVE_MIB:
            self.problems.append(f"{self.peak_mib} MiB")
        if not answered_soon(where, 30):
            self.problems.append("no answer after it")
            return
        wrong = self.during.wrong()
        for _ in range(AFTERWARDS_LOOKS):
            self.after = users(where, server)
            self.after.use(lambda: time.sleep(min(2.0, seconds / 2)))
            wrong += self.after.wrong()
            if seconds < SECONDS_FOR_SHARES_MIN or self.afterwards() <= AFTERWARDS_MAX:
                break
        self.problems += [f"wrong answer: {text}" for text in wrong]
        if seconds >= SECONDS_FOR_SHARES_MIN:
            self.judge_shares(name)

    def judge_shares(self, name):
        for what, client in (("calls", self.during.own), ("calls of new clients", self.during.new),
                             ("calls over HTTP", self.during.web), ("probes", self.during.probes)):
            if name in LOCKED_OUT and client is self.during.new:
                continue
            if client.answered() < ANSWERED_MIN:
                self.problems.append(f"{client.answered():.1%} of {what} answered"
                                     f" ({', '.join(sorted(set(client.failed)))})")
        quiet = self.before.own.p99_ms()
        if self.during.own.p99_ms() > SLOWER_MAX * quiet:
            self.problems.append(f"p99 {self.during.own.p99_ms() / quiet:.0f} times")
        if self.afterwards() > AFTERWARDS_MAX:
            self.problems.append(f"afterwards {self.afterwards():.1f} times slower")

    def afterwards(self):
        if not self.after:
            return float("inf")
        return self.after.own.median_ms() / self.before.own.median_ms()

    def row(self, name, known):
        text = "; ".join(self.problems)
        outcome = "held" if not text else text + (f" [{known[name]}]" if name in known else "")
        during = self.during
        return (f"{name:<32} {self.peak_mib:>8} {during.own.answered():>6.1%} "
                f"{during.new.answered():>6.1%} {during.web.answered():>6.1%} "
                f"{during.probes.answered():>6.1%} "
                f"{during.own.p99_ms():>8.1f} {self.before.own.p99_ms():>6.1f} "
                f"{self.afterwards():>6.2f}  {outcome}")


HEADER = (f"{'attack':<32} {'peak MiB':>8} {'own':>6} {'new':>6} {'http':>6} {'probes':>6} {'p99 ms':>8} "
          f"{'quiet':>6} {'after':>6}  outcome")


def made_by(options):
    """What the table is of."""
    version = subprocess.run([options.server_bin, "--version"], check=True, capture_output=True,
                             text=True).stdout.strip()
    behind = f" --behind {options.behind}" if options.behind else ""
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return [
        f"tests/hostile/run.py --build {options.build}{behind} --seconds {options.seconds:g}",
        version,
        f"{len(os.sched_getaffinity(0))} cores{f' ({model[1]})' if model else ''}; "
        f"--receive-bytes-max {RECEIVE_MIB}MiB",
        "own: the honest client's calls on its own connection; new: on a new one for each; http: so over HTTP;",
        "quiet: its p99 before the attack; after: its median then, in those before the attack.",
        f"{datetime.date.today()}, load at the start {os.getloadavg()[0]:.1f}"]


def run(name, options, folder):
    if name.startswith("http_") and ENDED.get(name):
        # The HTTP port lets a client read its last reply for a second before it ends a connection.
        options = argparse.Namespace(**{**vars(options), "seconds": max(options.seconds, 2)})
    outcome = Outcome()
    folder.mkdir()
    receive_mib = 64 if name == SMALL_CALLS else RECEIVE_MIB
    flags = [*FLAGS, "--receive-bytes-max", f"{receive_mib}MiB", "--queue-bytes-max",
             f"{receive_mib // 3}MiB", "--log-level", LOG_LEVELS.get(name, "error")]
    authority = None
    if name in TLS:
        authority = make_certificates(folder)
        flags += ["--tls-cert", folder / "server.crt", "--tls-key", folder / "server.key"]
    server = Server(options.server_bin, folder, flags, env=ENVIRONMENTS.get(name),
                    wrapper=WRAPPERS.get(name, ()))
    try:
        with contextlib.ExitStack() as stack:
            address = server.address
            if options.behind:
                address = stack.enter_context(
                    in_front(options.behind, folder / options.behind, server.address))
            where = (address, authority)
            outcome.before = users(where, server)
            outcome.before.use(lambda: time.sleep(min(5.0, options.seconds / 2)))
            outcome.during = users(where, server)
            attack = subprocess.Popen(attacking(name, options, server, address, folder),
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            said = []
            outcome.during.use(lambda: said.extend(attack.communicate()))
            if attack.returncode != 0:
                outcome.problems.append(f"the attack itself failed: {said[1][-300:]}")
            elif name == SMALL_CALLS and ended_calls(said[0]):
                outcome.problems.append(f"calls were ended: {ended_calls(said[0])}")
            elif name in ENDED and not options.behind and bool(int(said[0])) != ENDED[name]:
                outcome.problems.append(f"{int(said[0])} connections of the attack were ended")
            if name == "forged_log_lines" and not options.behind:
                outcome.problems += log_problems(server.stderr().splitlines(), options.seconds)
            outcome.judge(server, name, receive_mib, where, options.seconds)
            if server.running() and not outcome.problems:
                server.stop()
        return outcome
    finally:
        server.kill()


def main():
    every = [*ATTACKS, SMALL_CALLS]
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server-bin",
                        default=HERE.parents[1] / "build/release/bin/histogram-server")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--build", choices=("package", "static"), default="package")
    parser.add_argument("--behind", choices=sorted(COMMANDS))
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", choices=[[], *every])
    options = parser.parse_args()
    # A proxy keeps what gRPC cannot stand from the server, whatever gRPC that is.
    package = options.build == "package" and not options.behind
    known = OPEN_IN_PACKAGE if package else {}
    if (options.seconds >= SECONDS_FOR_SHARES_MIN and
            resource.getrlimit(resource.RLIMIT_NOFILE)[1] < DESCRIPTORS_MIN):
        sys.exit(f"needs a hard limit of {DESCRIPTORS_MIN:,} descriptors (ulimit -Hn)")
    attacks = options.attacks or (BEHIND_A_PROXY if options.behind else every)
    print(*made_by(options), "", HEADER, sep="\n", flush=True)
    not_held = []
    with tempfile.TemporaryDirectory() as folder:
        for name in attacks:
            outcome = run(name, options, pathlib.Path(folder) / name)
            print(outcome.row(name, known), flush=True)
            if outcome.problems and name not in known:
                not_held.append(name)
    print(f"\nnot held: {', '.join(not_held) or 'none'}")
    return 1 if not_held else 0


if __name__ == "__main__":
    sys.exit(main())
