"""The processes that bench/service/run.py compares: sinks, our server and Python peers."""
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

KIB = 1024
ROOT = Path(__file__).resolve().parents[2]
# What the results call them, and what histogram-sink does. The second touch sink over queues is the first one
# again: what noise looks like.
SINKS = {"null_sink_queues": "null-queues", "touch_sink_queues": "touch-queues",
         "touch_sink_queues_again": "touch-queues", "touch_sink": "touch"}


def on_cores(cores, command):
    """The command, kept to these cores."""
    return ["taskset", "-c", ",".join(map(str, cores)), *command]


class Server:
    """A server process with its addresses, CPU time and memory."""

    def __init__(self, name, backend, command, folder, cores, tls=False):
        self.name, self.backend, self.tls = name, backend, tls
        mark = "-tls" if tls else ""
        self.port_file = folder / f"{name}-{backend}{mark}.port"
        self.socket = folder / f"{name}-{backend}{mark}.sock"
        command = [str(c).replace("@PORT_FILE@", str(self.port_file)).replace("@SOCKET@", f"unix:{self.socket}")
                   for c in command]
        command = on_cores(cores, command)
        self.log = open(folder / f"{name}-{backend}{mark}.log", "w+b")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        self.addresses = self.wait()

    def wait(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                self.log.seek(0)
                raise SystemExit(f"{self.name} ended at once: {self.log.read().decode()[-800:]}")
            if self.port_file.exists():
                lines = [line.split("=", 1) for line in self.port_file.read_text().split()]
                return {self.transport_of(a): a for k, a in lines if k == "address"}
            time.sleep(0.02)
        self.stop()
        raise SystemExit(f"{self.name} was not ready within 60 s")

    def transport_of(self, address):
        if self.tls:
            return "tls"
        return "unix" if address.startswith("unix:") else "tcp"

    def cpu_seconds(self):
        """Of all its threads, those that ended included. /proc/PID/stat has the same in steps of 10 ms: too coarse."""
        return time.clock_gettime((~self.process.pid << 3) | 2)  # the clock that clock_getcpuclockid names

    def keep_to(self, cores):
        """Keeps all its threads, and those that they start, to these cores."""
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            try:
                os.sched_setaffinity(int(task.name), cores)
            except ProcessLookupError:  # the thread has just ended
                continue

    def resident_mib(self):
        match = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text())
        return int(match.group(1)) / KIB

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()


def has_peers(row):
    """Whether the Python peers are measured, too: unary calls over eight connections."""
    return (row.api, row.transport, row.float_bins, row.connections) == ("compute", "tcp", 0, 8)


def find_descriptor(binaries, folder):
    """The compiled proto, for the peers: beside the binaries, or made by protoc."""
    beside = binaries / "histogram.binpb"
    if beside.exists():
        return beside
    if shutil.which("protoc") is None:
        raise SystemExit(f"the peers need {beside}, or protoc to make it with")
    out = folder / "histogram.binpb"
    subprocess.run(["protoc", "--include_imports", f"--descriptor_set_out={out}", f"-I{ROOT / 'proto'}",
                    "histogram/v1/histogram.proto"], check=True)
    return out


def find_certificate(binaries):
    """A certificate for localhost and its key that lie beside the binaries, or None."""
    files = binaries / "localhost.pem", binaries / "localhost.key"
    return files if all(file.exists() for file in files) else None


def make_certificate(folder):
    """A certificate for localhost and its key, made by openssl."""
    if shutil.which("openssl") is None:
        raise SystemExit("the TLS rows need openssl, or localhost.pem and localhost.key beside the binaries")
    certificate, key = folder / "server.pem", folder / "server.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


def start_servers(a, rows, folder, cores):
    """Every server that the rows need, each with the transports that it listens on; and the certificate. The
    TLS ones are processes of their own, since a server with a certificate speaks nothing else on its TCP ports."""
    binaries = Path(a.binaries)
    servers, certificate = [], None
    if any(row.transport == "tls" for row in rows):
        certificate = find_certificate(binaries) or make_certificate(folder)
    try:
        for tls in ((), certificate) if certificate else ((),):
            listen = "127.0.0.1:0" if tls else "127.0.0.1:0,@SOCKET@"
            secure = {"tls": bool(tls)}
            for name, kind in SINKS.items():
                command = [binaries / "histogram-sink", kind, listen, "@PORT_FILE@", *tls]
                servers.append(Server(name, "none" if kind == "null-queues" else "cpu", command, folder, cores, **secure))
            flags = ["--metrics-listen", "off", "--log-level", "warn", "--port-file", "@PORT_FILE@", "--drain-delay",
                     "0", *a.server_flags.split()]
            for address in listen.split(","):
                flags += ["--listen", address]
            if tls:
                flags += ["--tls-cert", tls[0], "--tls-key", tls[1]]
            for backend in a.backends.split(","):
                servers.append(Server("ours", backend, [binaries / "histogram-server", "--backend", backend, *flags],
                                      folder, cores, **secure))
        servers.append(Server("raw_tcp", "none", [binaries / "raw-tcp", "serve", "127.0.0.1:0", "@PORT_FILE@"],
                              folder, cores))
        for mode in filter(None, a.peers.split(",") if any(has_peers(row) for row in rows) else []):
            command = [sys.executable, Path(__file__).with_name("peer_server.py"), mode, "127.0.0.1:0", "@PORT_FILE@",
                       "--descriptor", find_descriptor(binaries, folder)]
            servers.append(Server(f"peer_{mode}", "python", command, folder, cores))
    except BaseException:
        for server in servers:
            server.stop()
        raise
    return servers, certificate
