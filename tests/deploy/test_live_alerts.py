"""Faults of real servers reach whoever is on call: over metrics, rules and Alertmanager to a webhook.

`for` is shortened to nothing; the expressions are those that are deployed. Alerts whose faults take hours
or a GPU are left to promtool (rules_test.yaml has all of them, firing and silent).
"""

import http.server
import json
import re
import shutil
import signal
import subprocess
import threading

import pytest
import yaml
from processes import Load, Process, Server, free_port, get, wait_until
from watching import query, start_prometheus

pytestmark = [pytest.mark.live]

NAMES = ("killed", "slow", "full", "draining", "expiring", "hanging")


class Receiver:
    """A webhook for Alertmanager that keeps what it is told."""

    def __init__(self):
        self.alerts = alerts = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                alerts.extend(json.loads(body)["alerts"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return "http://127.0.0.1:{}/".format(self.server.server_address[1])

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def start_alertmanager(folder, receiver):
    program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if not program:
        pytest.skip("prometheus-alertmanager is not installed")
    config = {"route": {"receiver": "test", "group_by": ["..."], "group_wait": "0s",
                        "group_interval": "1s"},
              "receivers": [{"name": "test", "webhook_configs": [{"url": receiver.url}]}]}
    (folder / "alertmanager.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    process = Process([program, f"--config.file={folder / 'alertmanager.yml'}",
                       f"--storage.path={folder / 'alertmanager'}", f"--web.listen-address={address}",
                       "--cluster.listen-address="], folder / "alertmanager.log")
    return process, address


class OnCall:
    """Prometheus and Alertmanager that watch servers, of which none runs at first."""

    def __init__(self, root, server_bin, folder):
        self.folder, self.started = folder, []
        self.servers = {name: Server(server_bin, folder, name, f"127.0.0.1:{free_port()}",
                                     f"127.0.0.1:{free_port()}") for name in NAMES}
        self.receiver = Receiver()
        try:
            process, address = start_alertmanager(folder, self.receiver)
            self.started.append(process)
            wait_until(lambda: get(f"http://{address}/-/ready")[0] == 200, 60, "Alertmanager")
            process, self.prometheus = start_prometheus(
                root, folder / "prometheus", [server.metrics_address for server in self.servers.values()],
                shorten_alerts=True, alertmanager=address)
            self.started.append(process)
        except BaseException:
            self.close()
            raise

    def start(self, name, *flags):
        server = self.servers[name]
        server.flags = flags if "--drain-delay" in flags else ("--drain-delay", "0", *flags)
        server.start()
        self.wait_until_seen(server)
        return server

    def wait_until_seen(self, server):
        """Until Prometheus has scraped the process that runs there now."""
        started = server.metric("process_start_time_seconds")
        wait_until(lambda: any(float(each["value"][1]) == started for each in query(
            self.prometheus, f'process_start_time_seconds{{instance="{server.metrics_address}"}}')),
            30, f"a scrape of {server.name}", interval_s=0.2)

    def told(self, name, server=None, timeout_s=90):
        """The alert of that name (of that server) that reached the webhook."""
        def found():
            return next((alert for alert in list(self.receiver.alerts)
                         if alert["labels"]["alertname"] == name and alert["status"] == "firing"
                         and (server is None or
                              alert["labels"]["instance"] == self.servers[server].metrics_address)), None)
        return wait_until(found, timeout_s, f"{name} at the webhook", interval_s=0.2)

    def close(self):
        for server in self.servers.values():
            server.end()
        for process in reversed(self.started):
            process.end()
        self.receiver.close()


@pytest.fixture(scope="module")
def on_call(root, server_bin, tmp_path_factory):
    on_call = OnCall(root, server_bin, tmp_path_factory.mktemp("on_call"))
    yield on_call
    on_call.close()


def test_no_server_at_all(on_call):
    on_call.told("HistogramAbsent")


def test_a_server_that_restarts_again_and_again_and_then_dies(on_call):
    server = on_call.start("killed")
    for _ in range(3):
        server.kill()
        server.start()
        on_call.wait_until_seen(server)
    on_call.told("HistogramRestarting")
    server.kill()
    down = on_call.told("HistogramTargetDown", "killed")
    assert down["labels"]["severity"] == "page"
    assert down["annotations"]["runbook_url"] == (
        "https://git.example.com/histogram/docs/operations/alerts.md#histogramtargetdown")


def test_answers_that_are_slow(on_call, load_bin):
    slow = on_call.start("slow", "--cpu-lanes", "1", "--inline-bytes-max", "0", "--batch-delay-max", "100ms")
    with Load(load_bin, on_call.folder / "load.log", slow.listen, 10_000, 64) as load:
        on_call.told("HistogramLatencyBudgetBurnsFast")
        on_call.told("HistogramLatencyBudgetBurnsSlowly")
        load.finish_without_loss()


def test_more_load_than_room_and_callers_that_send_too_much(on_call, load_bin):
    full = on_call.start("full", "--queue-bytes-max", "1MiB", "--cpu-lanes", "1", "--payload-bytes-max", "1000KiB",
                         "--batch-bytes-max", "1MiB", "--inline-bytes-max", "0", "--batch-delay-max", "100ms")
    # Sixteen callers that do not retry, for a queue of a few payloads that wait 100 ms each.
    with Load(load_bin, on_call.folder / "load.log", full.listen, 400_000, 16, attempts=1):
        rejecting = on_call.told("HistogramRejectingLoad")
    share = re.match(r"([0-9.]+)%", rejecting["annotations"]["description"])
    assert float(share.group(1)) > 1
    with Load(load_bin, on_call.folder / "load.log", full.listen, 2_000_000, 4, attempts=1):
        refusing = on_call.told("HistogramRefusingCallers")
    assert refusing["labels"]["reason"] == "payload_too_large"


def test_a_drain_that_does_not_end(on_call):
    server = on_call.start("draining", "--drain-delay", "25s")
    server.process.send(signal.SIGTERM)
    on_call.told("HistogramDrainStuck", "draining")
    server.stop()  # the second signal cuts the delay short


def test_a_certificate_that_is_about_to_expire(on_call):
    folder = on_call.folder
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
                    "-keyout", folder / "tls.key", "-out", folder / "tls.crt"], check=True, capture_output=True)
    on_call.start("expiring", "--tls-cert", folder / "tls.crt", "--tls-key", folder / "tls.key")
    for alert in ("HistogramCertificateExpiresSoon", "HistogramCertificateExpiresNow"):
        assert on_call.told(alert, "expiring")["labels"]["file"].endswith("tls.crt")


def test_a_backend_that_the_watchdog_gives_up(on_call, load_bin):
    """A batch that takes longer than it may: the backend is lost, and its callers get errors.

    The slowest kernel counts each payload whole: far over a millisecond on any machine."""
    server = on_call.start("hanging", "--batch-max", "1ms", "--cpu-lanes", "1", "--batch-bytes-max", "64MiB",
                           "--split-bytes-min", "1TiB", "--inline-bytes-max", "0", "--force-kernel", "scalar")
    with Load(load_bin, on_call.folder / "load.log", server.listen, 60_000_000, 1, attempts=1):
        down = on_call.told("HistogramBackendDown", "hanging")
    assert down["labels"]["backend"] == "cpu" and down["labels"]["severity"] == "page"
