"""Faults of real servers fire their alerts in a real Prometheus.

`for` is shortened to nothing; the expressions are those that are deployed. Alerts whose faults take hours
or a GPU are left to promtool (rules.yaml has all of them, firing and silent).
"""

import signal

import pytest
from harness.certificates import self_signed
from processes import Load, Server, free_port, wait_until
from watching import query, start_prometheus

pytestmark = [pytest.mark.live]

NAMES = ("killed", "slow", "full", "draining", "expiring", "hanging")


class OnCall:
    """Prometheus that watches servers, of which none runs at first."""

    def __init__(self, root, server_bin, folder):
        self.folder = folder
        self.servers = {name: Server(server_bin, folder, name, f"127.0.0.1:{free_port()}",
                                     f"127.0.0.1:{free_port()}") for name in NAMES}
        self.process, self.prometheus = start_prometheus(
            root, folder / "prometheus", [server.metrics_address for server in self.servers.values()],
            shorten_alerts=True)

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

    def told(self, name, server=None):
        """The labels of the alert of that name (of that server), once it fires."""
        of = f',instance="{self.servers[server].metrics_address}"' if server else ""
        [alert, *_] = wait_until(lambda: query(self.prometheus, f'ALERTS{{alertname="{name}",alertstate="firing"{of}}}'),
                                 90, f"{name} firing", interval_s=0.2)
        return alert["metric"]

    def close(self):
        for server in self.servers.values():
            server.end()
        self.process.end()


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
    assert down["severity"] == "page"


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
        on_call.told("HistogramRejectingLoad")
    with Load(load_bin, on_call.folder / "load.log", full.listen, 2_000_000, 4, attempts=1):
        refusing = on_call.told("HistogramRefusingCallers")
    assert refusing["reason"] == "payload_too_large"


def test_a_drain_that_does_not_end(on_call):
    server = on_call.start("draining", "--drain-delay", "25s")
    server.send(signal.SIGTERM)
    on_call.told("HistogramDrainStuck", "draining")
    server.stop()  # the second signal cuts the delay short


def test_a_certificate_that_is_about_to_expire(on_call):
    certificate, key = self_signed(on_call.folder, days="1")
    on_call.start("expiring", "--tls-cert", certificate, "--tls-key", key)
    for alert in ("HistogramCertificateExpiresSoon", "HistogramCertificateExpiresNow"):
        assert on_call.told(alert, "expiring")["file"].endswith("tls.crt")


def test_a_backend_that_the_watchdog_gives_up(on_call, load_bin):
    """A batch that takes longer than it may: the backend is lost, and its callers get errors.

    The slowest kernel counts each payload whole: far over a millisecond on any machine."""
    server = on_call.start("hanging", "--batch-max", "1ms", "--cpu-lanes", "1", "--batch-bytes-max", "64MiB",
                           "--split-bytes-min", "1TiB", "--inline-bytes-max", "0", "--force-kernel", "scalar")
    with Load(load_bin, on_call.folder / "load.log", server.listen, 60_000_000, 1, attempts=1):
        down = on_call.told("HistogramBackendDown", "hanging")
    assert down["backend"] == "cpu" and down["severity"] == "page"
