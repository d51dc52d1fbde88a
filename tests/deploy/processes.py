"""Programs that a test starts and ends: servers (also in a network namespace), load, and daemons."""

import base64
import contextlib
import json
import pathlib
import re
import socket
import subprocess
import urllib.error
import urllib.request

import harness.server
from harness.server import Metrics, clean_environment, free_port  # noqa: F401
from harness.waiting import wait_until


def wait_for_calls(servers, more=20, timeout_s=60):
    """Until each of these has answered so many more calls."""
    begin = [server.answered() for server in servers]
    wait_until(lambda: all(server.answered() >= before + more
                           for server, before in zip(servers, begin, strict=True)),
               timeout_s, "calls on every server")


def get(url, timeout_s=5):
    """(status, text) of a GET; status 0 where nobody answers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=timeout_s) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


class Process:
    """A child process with its output in a file. The with-block ends it, kindly first."""

    def __init__(self, command, log):
        self.log = pathlib.Path(log)
        with open(self.log, "ab") as output:
            self.process = subprocess.Popen([*map(str, command)], stdin=subprocess.DEVNULL, stdout=output,
                                            stderr=output, env=clean_environment())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def running(self):
        return self.process.poll() is None

    def send(self, which):
        self.process.send_signal(which)

    def end(self, timeout_s=20):
        if self.running():
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout_s)
        if self.running():
            self.process.kill()
        return self.process.wait()

    def wait_until_listening(self, port):
        def listening():
            assert self.running(), self.output()
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                return True
        wait_until(listening, 60, f"{self.log} to listen")

    def output(self):
        return self.log.read_text(errors="replace")


class Server:
    """histogram-server on fixed addresses, so that it can be started again in the same place."""

    def __init__(self, binary, folder, name, listen, metrics, namespace=None, flags=()):
        self.binary, self.folder, self.name = binary, pathlib.Path(folder), name
        self.listen, self.metrics_address = listen, metrics
        self.namespace, self.flags = namespace, flags
        self.process = None

    @property
    def http_address(self):
        return self.flags[self.flags.index("--http-listen") + 1]

    def start(self):
        tune = [] if "--tune" in self.flags else ["--no-tune"]
        self.process = harness.server.Server(
            self.binary, self.folder / self.name, ["--backend", "cpu", *tune, *self.flags], listen=(self.listen,),
            metrics=self.metrics_address, wrapper=("ip", "netns", "exec", self.namespace) if self.namespace else ())
        return self

    def send(self, which):
        self.process.process.send_signal(which)

    def stop(self):
        """SIGTERM, and a drain that must end well."""
        self.process.stop()

    def kill(self):
        self.process.kill()

    def end(self):
        if self.process:
            self.process.kill()

    def metric(self, name, **labels):
        """The sum of the samples of that name with these labels; None where it does not answer."""
        status, text = get(f"http://{self.metrics_address}/metrics")
        return Metrics(text).value(name, **labels) if status == 200 else None

    def answered(self):
        return self.metric("histsvc_requests_total", code="OK") or 0


def check_http_through(address, authority, file):
    """curl, Connect's JSON and the page get to a server through a proxy that ends TLS."""
    size = file.stat().st_size
    base = ["curl", "--silent", "--noproxy", "*", "--cacert", authority]
    connect = f"https://{address}/histogram.v1.HistogramService/Compute"
    message = json.dumps({"payload": base64.b64encode(b"abc").decode()})
    origin = ["-H", "Origin: https://example.org"]
    for arguments, samples in (
            ([f"https://{address}/v1/histogram?bins=16&range=0:256", "--data-binary", f"@{file}"], size),
            ([f"https://{address}/v1/histogram", "--data-binary", f"@{file}", *origin], size),
            ([connect, "-d", message, "-H", "Content-Type: application/json"], 3)):
        done = subprocess.run([*base, *arguments], capture_output=True, text=True, check=True)
        answer = json.loads(done.stdout)
        histogram = answer["histograms"][0] if "histograms" in answer else answer["histogram"]
        assert int(histogram["samples"]) == samples, (arguments, done.stdout[:300])
    page = subprocess.run([*base, "-i", f"https://{address}/"], capture_output=True, text=True, check=True).stdout
    assert "default-src 'self'" in page and page.endswith("</html>\n")
    for url, arguments, status in ((connect, ["-X", "OPTIONS", *origin], "204"),
                                   (connect, ["-X", "OPTIONS", "-H", "Origin: https://evil.example"], "403"),
                                   (f"https://{address}/v1/histogram", ["-d", "a", "-H", "Host: evil.example"], "403")):
        done = subprocess.run([*base, "-o", "/dev/null", "-w", "%{http_code}", *arguments, url],
                              capture_output=True, text=True, check=True)
        assert done.stdout == status, (url, arguments, done.stdout)


@contextlib.contextmanager
def two_servers(server_bin, folder, drain_delay):
    """Two servers that are ready, for a proxy in front of them; both are ended at the end.

    Over HTTP they go by the name localhost, and answer pages of https://example.org.
    """
    made = [Server(server_bin, folder, f"server{i}", f"127.0.0.1:{free_port()}",
                   f"127.0.0.1:{free_port()}", flags=(
                       "--drain-delay", drain_delay, "--http-listen", f"127.0.0.1:{free_port()}",
                       "--http-allow-origin", "https://example.org")) for i in range(2)]
    try:
        yield [server.start() for server in made]
    finally:
        for server in made:
            server.end()


class Load:
    """histogram_steady_load in the background; `finish` returns what it counted."""

    def __init__(self, binary, log, address, payload_bytes, threads, attempts=4):
        self.log = pathlib.Path(log)
        self.errors = open(self.log, "wb")
        self.process = subprocess.Popen(
            [str(binary), address, str(payload_bytes), str(threads), str(attempts)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env=clean_environment())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()

    def finish(self, timeout_s=60):
        out, _ = self.process.communicate(timeout=timeout_s)
        counted = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", out)}
        assert counted, f"the load ended with {self.process.returncode}:\n{self.log.read_text()}"
        return counted

    def finish_without_loss(self, calls_min=50):
        counted = self.finish()
        assert counted["failed"] == 0 and counted["wrong"] == 0, (counted, self.log.read_text())
        assert counted["calls"] >= calls_min, counted
        return counted
