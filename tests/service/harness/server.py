"""A real histogram-server as a child process: started with flags, watched, stopped, inspected."""

import mmap
import os
import pathlib
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request

from harness.waiting import wait_until

SANITIZER_OUTPUT = re.compile(
    r"(AddressSanitizer|LeakSanitizer|ThreadSanitizer|MemorySanitizer|UndefinedBehaviorSanitizer"
    r"|runtime error:)")
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60


def is_sanitized(binary):
    """Whether `binary` was built with AddressSanitizer (its memory use says nothing then)."""
    with open(binary, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return text.find(b"__asan_init") >= 0


def clean_environment(**extra):
    """This process's environment without the server's own settings and without proxies."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("HISTSVC_") and not name.lower().endswith("_proxy")}
    environment.update(extra)
    return environment


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """One server process. `stop` (or leaving the with-block) checks that it ended well."""

    def __init__(self, binary, folder, flags=(), env=None, listen=("127.0.0.1:0",), wrapper=(),
                 metrics="127.0.0.1:0"):
        self.binary = str(binary)
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port_file = self.folder / "ports"
        self.port_file.unlink(missing_ok=True)  # of one that ran here before
        self.stderr_path = self.folder / "stderr"
        self.stdout_path = self.folder / "stdout"
        self.command = [*wrapper, self.binary]  # a wrapper ends with exec, so that the process is the server
        for address in listen:
            self.command += ["--listen", address]
        self.command += ["--metrics-listen", metrics, "--port-file", str(self.port_file),
                         *map(str, flags)]
        self.checked = False
        with open(self.stdout_path, "wb") as out, open(self.stderr_path, "wb") as err:
            self.process = subprocess.Popen(
                self.command, stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                env=clean_environment(**(env or {})))
        try:
            wait_until(self._ready, START_TIMEOUT_S, "the server's port file")
        except BaseException:
            self.kill()
            raise
        settings = [line.split("=", 1) for line in self.port_file.read_text().split()]
        self.addresses = [value for name, value in settings if name == "address"]
        self.address = self.addresses[0]
        self.metrics_address = dict(settings).get("metrics")
        self.http_address = dict(settings).get("http")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.kill()
        elif not self.checked:
            self.stop()

    def _ready(self):
        if self.process.poll() is not None:
            raise AssertionError(
                f"{self.command} exited with {self.process.returncode} at start:\n{self.stderr()}")
        return self.port_file.exists()

    @property
    def pid(self):
        return self.process.pid

    def stderr(self):
        return self.stderr_path.read_text(errors="replace")

    def output(self):
        """Everything that it printed."""
        return self.stdout_path.read_text(errors="replace") + self.stderr()

    def running(self):
        return self.process.poll() is None

    def assert_running(self):
        assert self.running(), f"the server died with {self.process.returncode}:\n{self.output()}"

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self, timeout_s=STOP_TIMEOUT_S):
        """Waits for the end and checks it: status 0 and nothing from a sanitizer."""
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"the server did not end within {timeout_s} s:\n{self.output()}") from None
        self.checked = True
        text = self.output()
        assert not SANITIZER_OUTPUT.search(text), text
        assert status == 0, f"exit status {status}:\n{text}"

    def stop(self, timeout_s=STOP_TIMEOUT_S):
        self.assert_running()
        self.terminate()
        self.wait(timeout_s)

    def kill(self):
        self.checked = True
        if self.running():
            self.process.kill()
        self.process.wait()

    def memory_bytes(self, name="VmRSS"):
        """A value of /proc/PID/status; VmHWM is the highest resident size so far."""
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"no {name} in /proc/{self.pid}/status")

    def http(self, path):
        """(status, content type, text) of a GET on the metrics listener."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://{self.metrics_address}{path}", timeout=60) as reply:
                return reply.status, reply.headers["Content-Type"], reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["Content-Type"], error.read().decode()

    def metrics(self):
        status, _, text = self.http("/metrics")
        assert status == 200
        return Metrics(text)


class Metrics:
    """One scrape, parsed from Prometheus' text format."""

    _SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
    _LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')

    def __init__(self, text):
        self.text = text
        self.types = {}
        self.helps = set()
        self.samples = []
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                assert name not in self.types, f"{name} is declared twice"
                self.types[name] = kind
            elif line.startswith("# HELP "):
                self.helps.add(line.split()[2])
            elif line:
                name, labels, value = self._SAMPLE.match(line).groups()
                self.samples.append((name, dict(self._LABEL.findall(labels or "")), float(value)))

    def value(self, name, **labels):
        """The sum over all samples of that name whose labels include `labels`; 0 without any."""
        return sum(value for sample, have, value in self.samples
                   if sample == name and labels.items() <= have.items())

    def has(self, name):
        return name in self.types
