#!/usr/bin/env python3
"""Twice as much load as the server can carry: what it answers, how soon it refuses, how much memory it takes.

Starts our server with one slow lane (the scalar kernel, hand-over instead of counting in place), so that
counting and not the link is what gives way. Each round measures the capacity in a closed loop, offers twice
that in an open loop, goes back to the closed loop at once, and measures the capacity again. A shared core may
be a third slower from one second to the next: what a round finds is compared with the capacities before and
after it, and the medians of the rounds count.

  bench/service/overload.py --binaries build/release/bin --output overload.json

Needs Python 3.9 and nothing else. Linux only. Exits with 1 where an asked number is missed.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from run import machine_fields, split_cores
from servers import Server, on_cores

KIB, MIB = 1024, 1 << 20
PAYLOAD = 256 * KIB
CONNECTIONS_MAX = 8


def bench(client, server, seconds, warm_up=0.2, rate=0.0, in_flight=4, payload=PAYLOAD, connections=4):
    command = [*client, "bench", "--server", server.addresses["tcp"], "--payload-bytes", payload, "--connections",
               connections, "--in-flight", in_flight, "--duration", seconds, "--warm-up", warm_up, "--format", "json"]
    if rate:
        command += ["--rate", f"{rate:.1f}"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the client failed: {done.stderr[-600:]}")
    return json.loads(done.stdout)


class Watch(threading.Thread):
    """The largest resident memory of a server."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.over, self.most = server, threading.Event(), 0.0
        self.start()

    def run(self):
        while not self.over.wait(0.02):
            self.most = max(self.most, self.server.resident_mib())

    def stop(self):
        self.over.set()
        self.join()
        return self.most


def capacity(client, server, seconds):
    return bench(client, server, seconds)["requests_per_second"]


def overload_round(client, server, seconds, before):
    watch = Watch(server)
    flood = bench(client, server, seconds, rate=2 * before)
    most = watch.stop()
    recovering = bench(client, server, seconds, warm_up=0.0)["requests_per_second"]
    later = capacity(client, server, seconds)
    around = (before + later) / 2
    refusals = sum(n for text, n in flood["error_messages"].items() if text.startswith("refused"))
    return later, {
        "capacity_per_second": round(around, 1), "goodput_per_second": round(flood["requests_per_second"], 1),
        "goodput_of_capacity": round(flood["requests_per_second"] / around, 3),
        "recovered_of_capacity": round(recovering / around, 3),
        "refused": flood["refused"], "refused_p99_ms": round(flood["refused_p99_us"] / 1e3, 2),
        "wrong": flood["wrong"], "other_errors": flood["errors"] - refusals - flood["wrong"],
        "error_messages": flood["error_messages"], "resident_mib_most": round(most, 1)}


def overload(client, server, seconds, rounds, receive_mib):
    at_rest = server.resident_mib()
    capacity(client, server, seconds)  # what a server allocates first, it allocates here
    before, results = capacity(client, server, seconds), []
    for _ in range(rounds):
        before, result = overload_round(client, server, seconds, before)
        results.append(result)
    median = lambda name: statistics.median(r[name] for r in results)
    return {"payload_bytes": PAYLOAD, "receive_mib_max": receive_mib,
            **{name: round(median(name), 3) for name in (
                "capacity_per_second", "goodput_per_second", "goodput_of_capacity", "recovered_of_capacity",
                "refused_p99_ms")},
            **{name: sum(r[name] for r in results) for name in ("refused", "wrong", "other_errors")},
            "resident_mib_at_rest": round(at_rest, 1),
            "resident_mib_most": max(r["resident_mib_most"] for r in results),
            "resident_mib_bound": round(at_rest + receive_mib + 64, 1), "rounds": results}


def missed(result):
    o = result["overload"]
    if o["goodput_of_capacity"] < 0.9:
        yield f"goodput {o['goodput_of_capacity']} of capacity, asked 0.9"
    if o["refused"] == 0:
        yield "nothing was refused: the load was no overload"
    if o["refused_p99_ms"] > 5:
        yield f"refused within {o['refused_p99_ms']} ms (p99), asked 5"
    if o["wrong"] or o["other_errors"]:
        yield f"{o['wrong']} wrong answers, {o['other_errors']} errors that are no refusals"
    if o["resident_mib_most"] > o["resident_mib_bound"]:
        yield f"{o['resident_mib_most']} MiB resident, asked at most {o['resident_mib_bound']}"
    if o["recovered_of_capacity"] < 0.9:
        yield f"{o['recovered_of_capacity']} of its capacity right after, asked 0.9"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binaries", default="build/release/bin", help="folder of histogram-server and histogram-client")
    p.add_argument("--seconds", type=float, default=1.5, help="of each part of a round of overload")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--receive-mib", type=int, default=128,
                   help="the server's --receive-bytes-max; a quarter of it is its queue")
    p.add_argument("--output", default="")
    a = p.parse_args()
    server_cores, client_cores = split_cores(CONNECTIONS_MAX)
    client = on_cores(client_cores, [Path(a.binaries) / "histogram-client"])
    flags = ["--listen", "127.0.0.1:0", "--metrics-listen", "off", "--log-level", "warn", "--port-file", "@PORT_FILE@",
             "--drain-delay", "0", "--backend", "cpu"]
    slow = ["--cpu-lanes", "1", "--force-kernel", "scalar", "--inline-bytes-max", "0", "--queue-bytes-max",
            a.receive_mib * MIB // 4, "--receive-bytes-max", a.receive_mib * MIB, "--payload-bytes-max", 16 * MIB]
    result = {**machine_fields(a.binaries), "pinned": {"server": server_cores, "client": client_cores}}
    with tempfile.TemporaryDirectory(prefix="histogram-bench-") as folder:
        server = Server("ours", "cpu", [Path(a.binaries) / "histogram-server", *flags, *slow], Path(folder),
                        server_cores)
        try:
            result["overload"] = overload(client, server, a.seconds, a.rounds, a.receive_mib)
        finally:
            server.stop()
    print(json.dumps(result, indent=1))
    if a.output:
        Path(a.output).write_text(json.dumps(result, indent=1) + "\n")
    complaints = list(missed(result))
    for text in complaints:
        print(f"missed: {text}", file=sys.stderr)
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
