#!/usr/bin/env python3
"""What connections that send nothing cost those that do, by the way in which gRPC waits for them.

Starts our server with each of the strategies, opens idle connections to it, and measures small calls over two
others. The threads of the server share the connections.

  bench/service/idle_connections.py --binaries build/release/bin [--receive-threads 1]

Needs Python 3.9 and nothing else, and as many file descriptors as connections. Linux only.
"""
import argparse
import contextlib
import socket
import statistics
import tempfile
from pathlib import Path

from overload import bench
from run import split_cores
from servers import KIB, Server, on_cores

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # and empty SETTINGS

BUSY = 2  # connections that are measured


def connect(stack, server):
    host, port = server.addresses["tcp"].rsplit(":", 1)
    connection = stack.enter_context(socket.create_connection((host, int(port))))
    connection.sendall(PREFACE)
    connection.recv(1)  # the server's own SETTINGS: it has taken the connection


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binaries", default="build/release/bin", help="folder of histogram-server and histogram-client")
    p.add_argument("--receive-threads", type=int, default=1, help="of the server")
    p.add_argument("--idle", default="0,100,300,1000,3000", help="numbers of idle connections")
    p.add_argument("--strategies", default="poll,epoll1")
    p.add_argument("--rounds", type=int, default=3)
    a = p.parse_args()
    server_cores, client_cores = split_cores(BUSY)
    binaries = Path(a.binaries)
    client = on_cores(client_cores, [binaries / "histogram-client"])
    with tempfile.TemporaryDirectory(prefix="histogram-bench-") as folder, contextlib.ExitStack() as running:
        servers = []
        for strategy in a.strategies.split(","):
            servers.append(Server(strategy, "cpu", [
                "env", f"GRPC_POLL_STRATEGY={strategy}", binaries / "histogram-server", "--listen", "127.0.0.1:0",
                "--metrics-listen", "off", "--log-level", "warn", "--port-file", "@PORT_FILE@", "--drain-delay", "0",
                "--backend", "cpu", "--receive-threads", a.receive_threads], Path(folder), server_cores))
            running.callback(servers[-1].stop)
        print(f"thousand calls of 4 KiB a second, {a.receive_threads} threads, median of {a.rounds}")
        for idle in map(int, a.idle.split(",")):
            with contextlib.ExitStack() as connections:
                for _ in range(idle):
                    for server in servers:
                        connect(connections, server)
                rates = {server.name: [] for server in servers}
                for _ in range(a.rounds):
                    for server in servers:
                        sample = bench(client, server, 0.7, payload=4 * KIB, connections=BUSY, in_flight=8)
                        rates[server.name].append(sample["requests_per_second"])
            print(f"{idle:>6} idle  " + "  ".join(f"{name} {statistics.median(r) / 1e3:5.1f}" for name, r in rates.items()),
                  flush=True)


if __name__ == "__main__":
    main()
