#!/usr/bin/env python3
"""Measures the server against the strongest plain gRPC, side by side in one run.

The servers: the touch sink over completion queues, the same once more (what noise looks like), ours with each
backend; and, in a few rounds only, since they are only drawn: the null sink over completion queues, the touch
sink over gRPC's callbacks ("stock gRPC"), raw TCP (the ceiling) and Python peers. What each of them is: sinks.h,
raw_tcp.cc, peer_server.py. In each round of a row all servers take a turn, each round beginning with another one.
Turns are short and many: two turns of one server differ by how the host places its threads, whatever they last.
For the same reason client and servers have two cores each for a connection, and half of the host at most. `auto` has
a second of a row's load before the first round, in which to try. Rows and rounds are fixed before the first one and
written into the file with the command; a run replaces its whole file. Every reply is verified, except those of sinks
that have no right answer.

  bench/service/run.py --backends cpu --output service.json            all rows, six minutes
  bench/service/run.py --backends cpu --suite short --rounds 5         a glance
  bench/service/run.py --backends cpu,cuda,auto --peers numpy,torch --part 1/2 --output part1.json
  bench/service/run.py --merge part1.json part2.json --output service.json
  bench/service/run.py --plan                                          the rows, and how long they take

A part is every Nth row. Merging refuses parts that differ in build, machine or plan, or leave a row out. A part that
was stopped (OUTPUT.partial) lacks its last rows; the merged file names them.
Needs Python 3.9, and openssl for the TLS rows (the peers need what they need). Linux only.
"""
import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import CLIENT_BUSY_MAX, median, ratio, spread, void_reason
from merge import merge
from rows import part_of, rows_of
from servers import has_peers, on_cores, start_servers

ROOT = Path(__file__).resolve().parents[2]
SINK, AGAIN = ("touch_sink_queues", "cpu"), ("touch_sink_queues_again", "cpu")
REPLY_BYTES = 2304         # about what a reply of 256 counts takes
CHUNKS_ON_THEIR_WAY = 32   # of a raw TCP connection that stands beside an Accumulate stream
LEARN_SECONDS = 1.0        # that auto may take to find the better backend
LONG_TURN = 10             # times a turn, for a server that answers nothing within one: a busy machine, large payloads
START_SECONDS = 0.04       # of a client's process, about


def is_drawn_only(server):
    return server.name in ("null_sink_queues", "touch_sink", "raw_tcp") or server.name.startswith("peer")


def load_command(binaries, server, row, seconds, warm_up, certificate):
    if server.name == "raw_tcp":
        in_flight, reply = (CHUNKS_ON_THEIR_WAY, 1) if row.api == "accumulate" else (row.in_flight, REPLY_BYTES)
        return [binaries / "raw-tcp", "load", server.addresses["tcp"], row.payload, reply, row.connections, in_flight,
                seconds, warm_up]
    command = [binaries / "histogram-client", "bench", "--server", server.addresses[row.transport], "--api",
               row.api.replace("_", "-"), "--payload-bytes", row.payload, "--connections", row.connections,
               "--in-flight", row.in_flight, "--duration", seconds, "--warm-up", warm_up, "--format", "json"]
    if row.float_bins:
        command += ["--float-bins", row.float_bins, *(["--new-ranges"] if row.new_ranges else [])]
    if server.name.startswith("null") or (row.float_bins and server.name != "ours"):  # sinks count bytes
        command += ["--no-verify"]
    if row.transport == "tls":
        command += ["--tls", "--tls-ca", certificate[0], "--tls-server-name", "localhost"]
    return command


def measure(command, server, row, seconds, warm_up):
    """One turn of a server: what the client saw, and what it cost the server. None where nothing was answered."""
    before = server.cpu_seconds()
    try:
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True,
                              timeout=30 + 5 * (seconds + warm_up))
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{server.name} ({server.backend}), {row.name}: the client did not come to an end") from None
    after = server.cpu_seconds()
    if done.returncode != 0 and "no request was answered" in done.stderr:
        return None
    if done.returncode != 0:
        raise SystemExit(f"{server.name}, {row.name}: {done.stderr.strip()[-600:]}")
    sample = json.loads(done.stdout)
    if sample["errors"]:
        raise SystemExit(f"{server.name}, {row.name}: {sample['errors']} errors: {sample['error_messages']}")
    # The client's process also warms up, and the server's time covers that, too.
    sample["server_cpu_seconds"] = (after - before) * seconds / (seconds + warm_up)
    return sample


class Benchmark:
    def __init__(self, arguments, servers, certificate):
        self.a, self.servers, self.certificate = arguments, servers, certificate

    def turns(self, row, participants, rounds, seconds):
        """So many rounds; the samples of each (server name, backend)."""
        _, client_cores = split_cores(row.connections)
        samples = {(s.name, s.backend): [] for s in participants}
        for r in range(rounds):
            progress(f"round {r + 1} of {rounds}")
            first = r % len(participants)
            for server in participants[first:] + participants[:first]:
                if is_drawn_only(server) and r >= self.a.drawn_rounds:
                    continue
                for turn in (seconds, LONG_TURN * seconds):
                    command = load_command(Path(self.a.binaries), server, row, turn, self.a.warm_up, self.certificate)
                    if sample := measure(on_cores(client_cores, command), server, row, turn, self.a.warm_up):
                        samples[server.name, server.backend].append(sample)
                        break
                else:
                    raise SystemExit(f"{server.name}, {row.name}: no answer within {turn} s")
        return samples

    def run(self, row):
        """What each server did in this row, and what is to be known about the row itself."""
        participants = [s for s in self.servers if row.transport in s.addresses]
        participants = [s for s in participants if not s.name.startswith("peer") or has_peers(row)]
        participants = [s for s in participants if self.a.drawn_rounds > 0 or not is_drawn_only(s)]
        server_cores, client_cores = split_cores(row.connections)
        for server in participants:
            server.keep_to(server_cores)
        if learners := [s for s in participants if s.backend == "auto"]:
            self.turns(row, learners, 1, LEARN_SECONDS)
        speed = self.turns(row, participants, self.a.rounds, self.a.seconds * row.turn)
        rates = {key: [x["requests_per_second"] for x in samples] for key, samples in speed.items()}
        self_comparison = ratio(rates[AGAIN], rates[SINK])
        note = {"self_comparison": self_comparison, "spread": spread(self_comparison),
                "void": void_reason(self_comparison), "cores": {"servers": server_cores, "client": client_cores}}
        progress("")
        return [self.result_of(row, server, speed, rates) for server in participants], note

    def result_of(self, row, server, speed, rates):
        key = (server.name, server.backend)
        samples, mine = speed[key], rates[key]
        _, client_cores = split_cores(row.connections)
        gigabytes = sum(x["requests"] for x in samples) * row.payload / 1e9
        client_cpu = sum(x["client_cpu_seconds"] for x in samples)
        server_cpu = sum(x["server_cpu_seconds"] for x in samples)
        per_gigabyte = lambda seconds: round(seconds / gigabytes, 4) if gigabytes else None
        result = {
            "row": row.name, "server": server.name, "backend": server.backend, "api": row.api,
            "transport": row.transport, "payload_bytes": row.payload, "connections": row.connections,
            "in_flight": row.in_flight, "float_bins": row.float_bins,
            "new_ranges": row.new_ranges, "requests_per_second": round(median(mine), 1),
            "lowest": round(min(mine), 1), "highest": round(max(mine), 1), "rounds": [round(x, 1) for x in mine],
            "gbps": round(median(mine) * row.payload / 1e9, 4),
            "server_cpu_us": round(median([cpu_us(x) for x in samples]), 2),
            "server_cpu_seconds_per_gb": per_gigabyte(server_cpu), "client_cpu_seconds_per_gb": per_gigabyte(client_cpu),
            "client_cpu_busy": round(client_cpu / sum(x["seconds"] for x in samples) / len(client_cores), 3),
            "server_resident_mib": round(server.resident_mib(), 1),
        }
        if server.name == "ours":
            # The sink's two turns of a round together are less noisy than either.
            result[f"of_{SINK[0]}"] = ratio(mine, [(x + y) / 2 for x, y in zip(rates[SINK], rates[AGAIN])])
            result[f"server_cpu_of_{SINK[0]}"] = cpu_ratio(speed, key, [SINK, AGAIN])
            for other in [k for k in rates if k[0] == "ours" and k[1] != "auto" and server.backend == "auto"]:
                result[f"of_{other[1]}"] = ratio(mine, rates[other])
        return result


def cpu_us(sample):
    """The server's CPU time for a payload."""
    return 1e6 * sample["server_cpu_seconds"] / max(sample["requests"], 1)


def cpu_ratio(speed, key, others):
    """The same beside the mean of other servers, round by round."""
    means = [sum(map(cpu_us, together)) / len(others) for together in zip(*(speed[other] for other in others))]
    return ratio([cpu_us(x) for x in speed[key]], means)


def progress(text):
    """Where a row stands, on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K  {text}", end="" if text else "\r", file=sys.stderr, flush=True)


def split_cores(connections):
    """The cores of the servers, and of the client: two for each connection, at most half of all."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return cores, cores
    half = len(cores) // 2
    each = min(2 * connections, half)
    spread_out = lambda part: part[::half // each][:each]
    return spread_out(cores[:half]), spread_out(cores[half:2 * half])


def output_of(command):
    try:
        return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def machine_fields(binaries):
    """The machine, and the build that is measured: the commit is the one that the server was built from."""
    gpu = output_of(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]).splitlines()
    device, driver = gpu[0].split(", ") if gpu else ("", "")
    cpu = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    cuda = re.search(r"CUDA Version:\s*([\d.]+)", output_of(["nvidia-smi"]))
    commit = re.search(r"commit ([^,)]+)", output_of([Path(binaries) / "histogram-server", "--version"]))
    return {"device": device or (cpu.group(1) if cpu else platform.machine()), "driver": driver or "none",
            "cuda": cuda.group(1) if cuda else "none", "commit": commit.group(1) if commit else "unknown",
            "date": time.strftime("%Y-%m-%d", time.gmtime()), "cpu": cpu.group(1) if cpu else platform.machine(),
            "cores": len(os.sched_getaffinity(0))}


def plan_of(a, rows):
    """All that is fixed before a run: the same in all its parts."""
    names = ("backends", "peers", "rounds", "drawn_rounds", "seconds", "warm_up", "server_flags")
    return {**{name: getattr(a, name) for name in names}, "rows": [row.name for row in rows]}


def seconds_of(a, rows):
    """About how long these rows take."""
    ours = len(a.backends.split(","))
    total = 0.0
    for row in rows:
        turn = a.seconds * row.turn + a.warm_up + START_SECONDS
        drawn = 2 + (row.transport == "tcp") + (len(a.peers.split(",")) if a.peers and has_peers(row) else 0)
        total += turn * ((2 + ours) * a.rounds + drawn * min(a.drawn_rounds, a.rounds))
        total += LEARN_SECONDS if "auto" in a.backends else 0
    return total


def print_row(results, note):
    for r in results:
        beside, cpu_beside = (r.get(f"{of}of_touch_sink_queues") for of in ("", "server_cpu_"))
        print(f"  {r['server']:24s} {r['backend']:6s} {r['requests_per_second']:>10.0f}/s"
              f" ({r['lowest']:.0f} to {r['highest']:.0f}) {r['gbps']:>8.3f} GB/s"
              f"  cpu {r['server_cpu_us']:>9.2f} us"
              + (f"  of the touch sink {beside['median']:.3f} ({beside['low']:.3f} to {beside['high']:.3f})"
                 if beside else "")
              + (f", CPU {cpu_beside['median']:.3f} ({cpu_beside['low']:.3f} to {cpu_beside['high']:.3f})"
                 if cpu_beside else "")
              + ("  (client full)" if r["client_cpu_busy"] > CLIENT_BUSY_MAX else ""), flush=True)
    if note["void"]:
        print(f"  void: {note['void']}", flush=True)


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binaries", default=str(ROOT / "build/release/bin"),
                   help="folder of histogram-server, histogram-client, histogram-sink and raw-tcp")
    p.add_argument("--backends", default="cpu", help="of ours: cpu, cuda, auto; comma-separated")
    p.add_argument("--suite", choices=("full", "short", "wide"), default="full",
                   help="wide: 16 to 256 connections, for hosts of several GPUs")
    p.add_argument("--rows", default="", help="only the rows of these names: compute-tcp-*,accumulate-tcp-1MiB-x8")
    p.add_argument("--part", default="", help="of the rows only every Nth, from the Kth on: K/N")
    p.add_argument("--rounds", type=int, default=17)
    p.add_argument("--drawn-rounds", type=int, default=3,
                   help="of what is only drawn: the null sink, stock gRPC, raw TCP, peers")
    p.add_argument("--seconds", type=float, default=0.1, help="measured time of a turn; three times that for 16 MiB")
    p.add_argument("--warm-up", type=float, default=0.04)
    p.add_argument("--peers", default="", help="Python servers to measure too: numpy, torch; comma-separated")
    p.add_argument("--server-flags", default="", help="more flags for our server")
    p.add_argument("--plan", action="store_true", help="print what would be measured, and end")
    p.add_argument("--merge", nargs="+", metavar="PART", help="write the output file from those of all parts")
    p.add_argument("--output", default="")
    return p.parse_args()


def run(a, rows, result):
    """Measures the rows into `result`, which stands in OUTPUT.partial after each of them."""
    partial = Path(a.output + ".partial") if a.output else None
    with tempfile.TemporaryDirectory(prefix="histogram-bench-") as folder:
        cores, _ = split_cores(max(row.connections for row in rows))
        servers, certificate = start_servers(a, rows, Path(folder), cores)
        try:
            bench = Benchmark(a, servers, certificate)
            for i, row in enumerate(rows, 1):
                print(f"[{i} of {len(rows)}] {row.name}", flush=True)
                measured, note = bench.run(row)
                print_row(measured, note)
                result["rows"] += measured
                result["notes"][row.name] = note
                if partial:  # a run that is cut short leaves what it has, under another name
                    partial.write_text(json.dumps(result, indent=1) + "\n")
        finally:
            for s in servers:
                s.stop()


def main():
    a = parse_arguments()
    if a.merge:
        result = merge(a.merge)
        Path(a.output or "/dev/stdout").write_text(json.dumps(result, indent=1) + "\n")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))  # the servers end with it
    rows = rows_of(a.suite, a.rows)
    chosen = part_of(rows, a.part)
    print(f"{len(chosen)} rows, about {seconds_of(a, chosen):.0f} s", flush=True)
    if a.plan:
        return print("\n".join(row.name for row in chosen))
    result = {**machine_fields(a.binaries), "command": " ".join(sys.argv), "part": a.part, "plan": plan_of(a, rows),
              "rows": [], "notes": {}}
    run(a, chosen, result)
    if a.output:
        Path(a.output).write_text(json.dumps(result, indent=1) + "\n")
        Path(a.output + ".partial").unlink()


if __name__ == "__main__":
    main()
