#!/usr/bin/env python3
"""What a body over HTTP costs the server, beside the same payload in a gRPC call.

Starts our server, and in turns sends it calls over gRPC (histogram-client bench) and bodies over
connections that are kept; the server's CPU time is divided by the calls of each turn.

  bench/service/over_http.py --binaries build/release/bin

Needs Python 3.9 and nothing else. Linux only.
"""
import argparse
import os
import re
import socket
import statistics
import tempfile
import threading
import time
from pathlib import Path

from overload import bench
from run import split_cores
from servers import KIB, Server, on_cores


def send_bodies(address, payload, until, answers):
    """Posts bodies over one connection, one after the other; counts the answers."""
    host, port = address.rsplit(":", 1)
    head = b"POST /v1/histogram HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(payload)
    with socket.create_connection((host, int(port))) as connection:
        received = b""
        while time.monotonic() < until:
            connection.sendall(head + payload)
            while not (reply := re.match(rb"HTTP/1.1 200 .*?Content-Length: (\d+).*?\r\n\r\n", received, re.S)):
                received += receive(connection)
            end = reply.end() + int(reply[1])
            while len(received) < end:
                received += receive(connection)
            received = received[end:]
            answers.append(1)


def receive(connection):
    piece = connection.recv(1 << 16)
    if not piece:
        raise SystemExit("the server closed a connection")
    return piece


def over_http(address, payload, connections, seconds):
    answers = []
    arguments = (address, payload, time.monotonic() + seconds, answers)
    threads = [threading.Thread(target=send_bodies, args=arguments) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(answers)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binaries", default="build/release/bin", help="folder of histogram-server and histogram-client")
    p.add_argument("--payload-kib", default="4,64,1024")
    p.add_argument("--connections", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    a = p.parse_args()
    server_cores, client_cores = split_cores(a.connections)
    binaries = Path(a.binaries)
    client = on_cores(client_cores, [binaries / "histogram-client"])
    with tempfile.TemporaryDirectory(prefix="histogram-bench-") as folder:
        server = Server("server", "cpu", [
            binaries / "histogram-server", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0",
            "--metrics-listen", "off", "--log-level", "warn", "--port-file", "@PORT_FILE@", "--drain-delay", "0",
            "--backend", "cpu"],
            Path(folder), server_cores)
        os.sched_setaffinity(0, client_cores)
        ports = dict(line.split("=", 1) for line in server.port_file.read_text().split())
        print(f"server's CPU in us a call, {a.connections} connections, median of {a.rounds}")
        for size in (int(kib) * KIB for kib in a.payload_kib.split(",")):
            costs = {"gRPC": [], "HTTP": []}
            payload = os.urandom(size)
            for _ in range(a.rounds):
                begin = server.cpu_seconds()
                calls = bench(client, server, 1, warm_up=0.0, payload=size, connections=a.connections,
                              in_flight=1)["requests"]
                between = server.cpu_seconds()
                bodies = over_http(ports["http"], payload, a.connections, 1)
                costs["gRPC"].append((between - begin) / calls)
                costs["HTTP"].append((server.cpu_seconds() - between) / bodies)
            print(f"{size // KIB:>6} KiB  " + "  ".join(
                f"{name} {statistics.median(c) * 1e6:7.1f}" for name, c in costs.items()), flush=True)
        server.stop()


if __name__ == "__main__":
    main()
