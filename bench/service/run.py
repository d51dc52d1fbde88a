#!/usr/bin/env python3
"""Measures the server against what gRPC itself can carry, side by side in one run.

Starts the null sink (never reads a payload), a second null sink (A/A: what noise looks like), the touch
sink (one counting pass, nothing else), our server, and optionally Python peers; puts the same load on
each in turn, many rounds interleaved; and reports, for each row, throughput, latency at half load, CPU
seconds, and the lower 95 % bound of the paired ratio to the sinks. Every reply is verified, except the
null sinks', which have no right answer.

  bench/service/run.py --binaries build/release/bin --output service.json
  bench/service/run.py --binaries build/release/bin --peer peer_server.py --peer-modes numpy,torch

Needs Python 3.9, openssl for the TLS rows, and nothing else (the peers need what they need). Linux only.
"""
import argparse
import json
import math
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from servers import on_cores, start_servers
from targets import print_targets, targets_of

KIB, MIB = 1024, 1 << 20
ROOT = Path(__file__).resolve().parents[2]

# Student's t, one-sided 95 %, by degrees of freedom.
T95 = {1: 6.31, 2: 2.92, 3: 2.35, 4: 2.13, 5: 2.02, 6: 1.94, 7: 1.89, 8: 1.86, 9: 1.83, 10: 1.81,
       11: 1.80, 12: 1.78, 13: 1.77, 14: 1.76, 15: 1.75, 20: 1.72, 30: 1.70}


def t95(degrees):
    return T95[max(k for k in T95 if k <= max(1, degrees))]


class Row:
    """One kind of load."""

    def __init__(self, api, transport, payload, connections, in_flight, noise=False):
        self.api, self.transport = api, transport
        self.noise = noise  # the null sink is also measured against itself
        self.payload, self.connections, self.in_flight = payload, connections, in_flight

    def name(self):
        return (f"{self.api:12s} {self.transport:5s} {human(self.payload):>8s} x{self.connections:<2d} "
                f"(in flight {self.in_flight} each)")


def rows_of(suite):
    in_flight = {256: 16, 4 * KIB: 16, 64 * KIB: 8, MIB: 2, 16 * MIB: 1}
    unary = [Row("compute", "tcp", p, c, in_flight[p], noise=c == 8)
             for p in (256, 4 * KIB, 64 * KIB, MIB, 16 * MIB) for c in (1, 8)]
    many = [Row("compute_many", "tcp", p, c, 64 if p < MIB else 8)
            for p, c in ((256, 1), (4 * KIB, 1), (4 * KIB, 8), (64 * KIB, 1), (MIB, 1))]
    chunks = [Row("accumulate", "tcp", p, c, 1) for p, c in ((64 * KIB, 1), (MIB, 1), (MIB, 8))]
    if suite == "quick":
        return [unary[2], unary[4], unary[6], many[1], chunks[1]]
    sixteen = [Row("compute", "tcp", 4 * KIB, 16, 8), Row("compute", "tcp", MIB, 16, 2)]
    elsewhere = [Row("compute", t, p, 4, in_flight[p]) for t in ("unix", "tls") for p in (4 * KIB, MIB)]
    return unary + sixteen + many + chunks + elsewhere


def human(size):
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB" if size >= KIB else f"{size} B"


def measure(client, server, row, seconds, warm_up, cores, rate=0, certificate=None):
    command = [client, "bench", "--server", server.addresses[row.transport], "--api", row.api.replace("_", "-"),
               "--payload-bytes", row.payload, "--connections", row.connections, "--in-flight", row.in_flight,
               "--duration", seconds, "--warm-up", warm_up, "--format", "json"]
    if server.name.startswith("null"):
        command += ["--no-verify"]
    if row.transport == "tls":
        command += ["--tls", "--tls-ca", certificate[0], "--tls-server-name", "localhost"]
    if rate:
        command += ["--rate", f"{rate:.3f}"]
    command = on_cores(cores, command)
    before, switches_before = server.cpu_seconds(), server.context_switches()
    try:
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True,
                              timeout=30 + 5 * (seconds + warm_up))
    except subprocess.TimeoutExpired:
        print(server.what_it_does(), file=sys.stderr)
        raise SystemExit(f"{server.name} ({server.backend}), {row.name()}: the client did not come to an end; the "
                         "threads of the server are above") from None
    after, switches_after = server.cpu_seconds(), server.context_switches()
    if done.returncode != 0:
        raise SystemExit(f"{server.name}, {row.name()}: {done.stderr.strip()[-600:]}")
    sample = json.loads(done.stdout)
    if sample["errors"]:
        raise SystemExit(f"{server.name}, {row.name()}: {sample['errors']} errors: {sample['error_messages']}")
    # The client's process also warms up; what the server spent covers that part of the time too.
    measured = seconds / (seconds + warm_up)
    sample["server_cpu_seconds"] = (after - before) * measured
    if switches_before is not None and switches_after is not None:
        sample["server_switches"] = max(0, switches_after - switches_before) * measured
    return sample


def lower_bound(ratios):
    """The lower 95 % bound of the geometric mean of paired ratios."""
    logs = [math.log(r) for r in ratios if r > 0]
    n = len(logs)
    if n == 0:
        return 0.0
    mean = sum(logs) / n
    if n == 1:
        return math.exp(mean)
    deviation = math.sqrt(sum((x - mean) ** 2 for x in logs) / (n - 1))
    return math.exp(mean - t95(n - 1) * deviation / math.sqrt(n))


def median(values):
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else 0.0


class Benchmark:
    def __init__(self, arguments, servers, certificate, client_cores, client_core_count):
        self.certificate = certificate
        self.a, self.servers = arguments, servers
        self.client = Path(arguments.binaries) / "histogram-client"
        self.client_cores, self.client_core_count = client_cores, client_core_count

    def throughput(self, row, participants):
        samples = {s: [] for s in participants}
        for r in range(self.a.rounds):
            progress(f"round {r + 1} of {self.a.rounds}")
            turn = participants[r % len(participants):] + participants[:r % len(participants)]
            for server in turn:
                rounds = self.a.peer_rounds if server.name.startswith("peer") else self.a.rounds
                if r < rounds:
                    samples[server].append(measure(self.client, server, row, self.a.seconds,
                                                   self.a.warm_up, self.client_cores,
                                                   certificate=self.certificate))
        return samples

    def latency(self, row, participants, rate):
        samples = {s: [] for s in participants}
        for r in range(self.a.latency_rounds):
            progress(f"latency round {r + 1} of {self.a.latency_rounds}")
            turn = participants[r % len(participants):] + participants[:r % len(participants)]
            for server in turn:
                samples[server].append(measure(self.client, server, row, self.a.latency_seconds,
                                               self.a.warm_up, self.client_cores, rate))
        return samples

    def run(self, row):
        participants = [s for s in self.servers if row.transport in s.addresses]
        participants = [s for s in participants if not s.name.startswith("peer") or row.api == "compute"]
        participants = [s for s in participants if s.name != "null_sink_again" or row.noise]
        if row.api != "compute":
            participants = [s for s in participants if not s.name.endswith("_queues")]
        speed = self.throughput(row, participants)
        by_name = {(s.name, s.backend): s for s in participants}
        rps = {s: median([x["requests_per_second"] for x in samples]) for s, samples in speed.items()}
        latency = {}
        if row.api == "compute" and row.transport == "tcp":
            touch = [s for s in participants if s.name == "touch_sink"]
            timed = [s for s in participants if not s.name.startswith("peer")]
            latency = self.latency(row, timed, 0.5 * min(rps[s] for s in touch))
        out = []
        for server in participants:
            out.append(self.row_of(row, server, speed, latency, by_name, rps))
        progress("")
        return out

    def row_of(self, row, server, speed, latency, by_name, rps):
        samples = speed[server]
        seconds = sum(x["seconds"] for x in samples)
        gigabytes = sum(x["requests"] for x in samples) * row.payload / 1e9
        client_cpu = sum(x["client_cpu_seconds"] for x in samples)
        touch = by_name.get(("touch_sink", "cuda" if server.backend == "cuda" else "cpu"),
                            by_name.get(("touch_sink", "cpu")))
        # A gap of the client is not the server's, and a sample in which no request ended measured
        # nothing: such a row says nothing.
        busy = client_cpu / seconds / self.client_core_count
        result = {
            "server": server.name, "backend": server.backend, "api": row.api, "transport": row.transport,
            "payload_bytes": row.payload, "connections": row.connections,
            "requests_per_second": round(rps[server], 1), "gbps": round(rps[server] * row.payload / 1e9, 4),
            "server_cpu_seconds_per_gb": round(sum(x["server_cpu_seconds"] for x in samples) / gigabytes, 4)
            if gigabytes else None,
            "client_cpu_seconds_per_gb": round(client_cpu / gigabytes, 4) if gigabytes else None,
            "client_cpu_busy": round(busy, 3), "rounds": len(samples), "valid": busy <= 0.9 and gigabytes > 0,
            "of_null_sink": self.bound(samples, speed, by_name.get(("null_sink", "none"))),
            "of_touch_sink": self.bound(samples, speed, touch),
            "server_resident_mib": round(server.resident_mib(), 1),
        }
        queues = by_name.get(("touch_sink_queues", touch.backend if touch else ""))
        if queues is not None:
            result["of_touch_sink_queues"] = self.bound(samples, speed, queues)
        requests = sum(x["requests"] for x in samples)
        if requests and all("server_switches" in x for x in samples):
            result["server_switches_per_request"] = round(sum(x["server_switches"] for x in samples) / requests, 3)
        if latency.get(server):
            timed = latency[server]
            result["p50_us"] = round(median([x["p50_us"] for x in timed]), 1)
            result["p99_us"] = round(median([x["p99_us"] for x in timed]), 1)
            result["p99_of_touch_sink"] = round(
                median([x["p99_us"] / y["p99_us"] for x, y in zip(timed, latency[touch]) if y["p99_us"]]), 3)
        return result

    @staticmethod
    def bound(samples, speed, other):
        if other is None:
            return None
        pairs = zip(samples, speed[other])
        return round(lower_bound([x["requests_per_second"] / y["requests_per_second"] for x, y in pairs
                                  if y["requests_per_second"]]), 4)


def progress(text):
    """Where a row stands, on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K  {text}", end="" if text else "\r", file=sys.stderr, flush=True)


def split_cores(spread):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2 or not spread:
        return "", "", len(cores)
    half = len(cores) // 2
    text = lambda part: ",".join(map(str, part))
    return text(cores[:half]), text(cores[half:]), len(cores) - half


def machine_fields():
    def output(command):
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return ""

    gpu = output(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]).splitlines()
    device, driver = gpu[0].split(", ") if gpu else ("", "")
    cpu = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    cuda = re.search(r"CUDA Version:\s*([\d.]+)", output(["nvidia-smi"]))
    return {"device": device or (cpu.group(1) if cpu else platform.machine()), "driver": driver or "none",
            "cuda": cuda.group(1) if cuda else "none",
            "commit": os.environ.get("HISTOGRAM_COMMIT") or output(["git", "-C", str(ROOT), "rev-parse", "HEAD"]),
            "date": time.strftime("%Y-%m-%d", time.gmtime()), "cpu": cpu.group(1) if cpu else platform.machine(),
            "cores": len(os.sched_getaffinity(0))}


def print_row(r):
    ratio = lambda x: f"{x:6.3f}" if x is not None else "     -"
    print(f"  {r['server']:16s} {r['backend']:6s} {r['requests_per_second']:>10.0f}/s {r['gbps']:>8.3f} GB/s"
          f"  p50 {r.get('p50_us', 0):>8.0f} p99 {r.get('p99_us', 0):>8.0f} us"
          f"  null {ratio(r['of_null_sink'])} touch {ratio(r['of_touch_sink'])}"
          + (f" (queues {ratio(r['of_touch_sink_queues'])})" if "of_touch_sink_queues" in r else "") +
          f"  cpu s/GB {r['server_cpu_seconds_per_gb'] or 0:>7.3f}"
          f"  switches {r.get('server_switches_per_request', 0):>6.2f}{'' if r['valid'] else '  (void: client busy)'}", flush=True)


def chosen_rows(a, tls):
    rows = list(enumerate(rows_of(a.suite), 1))
    if a.rows:
        parts = [[int(x) for x in part.split("-")] for part in a.rows.split(",")]
        rows = [row for row in rows if any(part[0] <= row[0] <= part[-1] for part in parts)]
    if not tls:
        print("without the TLS rows: openssl is not installed", flush=True)
    return [(i, row) for i, row in rows if tls or row.transport != "tls"]


def row_key(row):
    """What a row of the results is of; of the same, the newest is kept."""
    return tuple(row[k] for k in ("server", "backend", "api", "transport", "payload_bytes", "connections"))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binaries", default=str(ROOT / "build/release/bin"), help="folder of histogram-server, -client and -sink")
    p.add_argument("--backends", default="cpu", help="of ours and the touch sink: cpu, cuda, auto; comma-separated")
    p.add_argument("--suite", choices=("full", "quick"), default="full")
    p.add_argument("--rows", default="", help="only these rows of the suite, counted from 1: 1-4,7")
    p.add_argument("--append", action="store_true", help="keep the rows of the output file that are not measured again")
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--seconds", type=float, default=0.4, help="measured time of one sample")
    p.add_argument("--warm-up", type=float, default=0.1)
    p.add_argument("--latency-rounds", type=int, default=5)
    p.add_argument("--latency-seconds", type=float, default=0.8)
    p.add_argument("--peer", default="", help="peer_server.py, to be measured too")
    p.add_argument("--peer-modes", default="numpy")
    p.add_argument("--peer-rounds", type=int, default=3)
    p.add_argument("--server-flags", default="", help="more flags for our server")
    p.add_argument("--also", action="append", default=[], metavar="NAME:SERVER [FLAGS]",
                   help="another build of our server, or one with other flags, to be measured beside it; repeatable")
    p.add_argument("--queue-sinks", action="store_true",
                   help="in rows of unary calls also sinks over queues like our server's: what is left is ours")
    p.add_argument("--tls-cert", default="", help="for localhost, instead of one made by openssl")
    p.add_argument("--tls-key", default="")
    p.add_argument("--no-pin", action="store_true", help="let client and servers share all cores")
    p.add_argument("--output", default="")
    a = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))  # the servers end with it
    server_cores, client_cores, client_core_count = split_cores(not a.no_pin)
    with tempfile.TemporaryDirectory(prefix="histogram-bench-") as folder:
        servers, certificate = start_servers(a, Path(folder), server_cores)
        try:
            result = machine_fields()
            result["pinned"] = {"servers": server_cores, "client": client_cores}
            result["resident_mib_at_rest"] = {f"{s.name}/{s.backend}": round(s.resident_mib(), 1) for s in servers
                                              if not s.tls}
            result["rows"] = []
            if a.append and Path(a.output).exists():
                result["rows"] = json.loads(Path(a.output).read_text())["rows"]
            bench = Benchmark(a, servers, certificate, client_cores, client_core_count)
            for i, row in chosen_rows(a, bool(certificate)):
                print(f"[{i}] {row.name()}", flush=True)
                for r in bench.run(row):
                    print_row(r)
                    measured = {**r, "commit": result["commit"]}  # --append may mix builds
                    result["rows"] = [old for old in result["rows"] if row_key(old) != row_key(measured)] + [measured]
                result["targets"] = targets_of(result["rows"], result["cores"])
                if a.output:  # after each row: a run that is cut short keeps what it has
                    Path(a.output).write_text(json.dumps(result, indent=1) + "\n")
            print_targets(result["targets"])
        finally:
            for s in servers:
                s.stop()


if __name__ == "__main__":
    main()
