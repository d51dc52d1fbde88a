"""A real Prometheus scrapes real servers under load: metrics, every panel of the dashboard, alerts.

The alerts here are made to fire by their faults: a server that is killed, one that is full, one that is
stopped. `for` is shortened, the expressions are those that are deployed.
"""

import http.server
import json
import re
import shutil
import subprocess
import threading
import urllib.parse

import pytest
import yaml
from processes import Load, Process, Server, free_port, get, wait_until

pytestmark = [pytest.mark.live]

SCRAPE = "1s"


def query(prometheus, expression):
    url = f"http://{prometheus}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    status, text = get(url, 20)
    reply = json.loads(text) if text else {}
    assert status == 200 and reply["status"] == "success", f"{expression}: {text}"
    return reply["data"]["result"]


def start_prometheus(root, folder, targets, shorten_alerts=False, alertmanager=None):
    """A prometheus Process and its address, with the configuration of deploy/prometheus."""
    program = shutil.which("prometheus") or shutil.which("prometheus", path=str(root / ".venv/bin"))
    if not program:
        pytest.skip("prometheus is not installed")
    folder.mkdir()
    config = yaml.safe_load((root / "deploy/prometheus/prometheus.yml").read_text())
    config["global"].update(scrape_interval=SCRAPE, evaluation_interval=SCRAPE)
    config["global"]["external_labels"]["histogram_docs"] = "https://git.example.com/v1/"
    if alertmanager is None:
        del config["alerting"]
    for name in config["rule_files"]:
        rules = yaml.safe_load((root / "deploy/prometheus" / name).read_text())
        for group in rules["groups"] if shorten_alerts else ():
            for rule in group["rules"]:
                if "alert" in rule:
                    rule["for"] = "0s"
        (folder / name).write_text(yaml.safe_dump(rules, width=1000))
    (folder / "targets").mkdir()
    (folder / "targets/histogram.yaml").write_text(yaml.safe_dump([{"targets": targets}]))
    if alertmanager:
        (folder / "targets/alertmanager.yaml").write_text(
            yaml.safe_dump([{"targets": [alertmanager]}]))
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    process = Process([program, f"--config.file={folder / 'prometheus.yml'}",
                       f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}"],
                      folder / "log")
    try:
        wait_until(lambda: get(f"http://{address}/-/ready")[0] == 200, 60, "Prometheus")
    except BaseException:
        process.end()
        raise
    return process, address


def make_server(binary, folder, name, *flags):
    return Server(binary, folder, name, f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}",
                  flags=("--drain-delay-us", "0", *flags))


@pytest.fixture(scope="module")
def watched(root, server_bin, client_bin, load_bin, tmp_path_factory):
    """The address of a Prometheus that has watched a server under every kind of load."""
    folder = tmp_path_factory.mktemp("watched")
    server = make_server(server_bin, folder, "server")
    prometheus = None
    try:
        server.start()
        prometheus, address = start_prometheus(root, folder / "prometheus",
                                               [server.metrics_address])
        with Load(load_bin, folder / "load.log", server.listen, 200_000, 2) as load:
            others = [Process([client_bin, "bench", "--server", server.listen, "--api", api,
                               "--payload-bytes", "64KiB", "--duration", "3600"],
                              folder / f"{api}.log") for api in ("compute-many", "accumulate")]
            try:
                # Rates need a few scrapes; all methods must have been seen by one of them.
                wait_until(lambda: len(query(
                    address, 'rate(histsvc_requests_total{code="OK"}[10s]) > 0')) >= 2, 60,
                    "all kinds of load in Prometheus", interval_s=0.5)
                wait_until(lambda: any(float(each["value"][1]) >= 15 for each in query(
                    address, "count_over_time(up[1m])")), 60, "a few scrapes", interval_s=0.5)
                yield address, server
            finally:
                for other in others:
                    other.end()
            load.finish_without_loss()
    finally:
        server.end()
        if prometheus:
            prometheus.end()


def test_metrics_pass_promtool(promtool, watched):
    _, text = get(f"http://{watched[1].metrics_address}/metrics")
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_panel_shows_something(root, watched):
    dashboard = json.loads((root / "deploy/grafana/dashboards/histogram.json").read_text())
    empty = []
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            if "DCGM_" in target["expr"]:
                continue  # needs a GPU and its exporter
            expression = target["expr"].replace("$__rate_interval", "30s").replace(
                "$job", "histogram").replace("$instance", ".+")
            result = query(watched[0], expression)
            values = [each["value"][1] for each in result]
            if not values or all(value == "NaN" for value in values):
                empty.append(f"{panel['title']}: {expression}")
    assert not empty, "\n".join(empty)


def test_variables_of_the_dashboard_find_the_server(watched):
    found = query(watched[0], "histsvc_build_info")
    assert [(each["metric"]["job"], each["metric"]["instance"]) for each in found] == [
        ("histogram", watched[1].metrics_address)]


def test_every_recording_rule_records(root, watched):
    rules = yaml.safe_load((root / "deploy/prometheus/recording.rules.yaml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            name = rule["record"]
            wait_until(lambda name=name: query(watched[0], name), 30, name)


def test_no_alert_fires_while_all_is_well(watched):
    firing = {each["metric"]["alertname"] for each in query(
        watched[0], 'ALERTS{alertstate="firing"}')}
    assert not firing - {"HistogramLanesSaturated"}  # the load here is as much as it takes


def test_gpu_panels_join_dcgm_over_the_uuid(root, promtool, tmp_path):
    """With made-up series of dcgm-exporter and a server: one line a GPU, named by the server."""
    dashboard = json.loads((root / "deploy/grafana/dashboards/histogram.json").read_text())
    [expression] = [target["expr"] for panel in dashboard["panels"] for target in
                    panel.get("targets", []) if "DCGM_FI_DEV_GPU_UTIL" in target["expr"]]
    expression = expression.replace("$job", "histogram").replace("$instance", ".+")
    tests = {"rule_files": [], "evaluation_interval": "1m", "tests": [{
        "interval": "1m",
        "input_series": [
            {"series": 'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",instance="node:9400",job="dcgm"}',
             "values": "73x5"},
            {"series": 'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-2",instance="node:9400",job="dcgm"}',
             "values": "11x5"},
            {"series": 'histsvc_backend_info{uuid="GPU-1",backend="cuda:0",instance="pod:9464",'
                       'job="histogram",driver="1"}', "values": "1x5"},
            {"series": 'histsvc_backend_info{uuid="",backend="cpu",instance="pod:9464",'
                       'job="histogram"}', "values": "1x5"}],
        "promql_expr_test": [{"expr": expression, "eval_time": "3m", "exp_samples": [
            {"labels": '{UUID="GPU-1",uuid="GPU-1",job="histogram",instance="pod:9464",'
                       'backend="cuda:0"}', "value": 73}]}]}]}
    path = tmp_path / "join.yaml"
    path.write_text(yaml.safe_dump(tests))
    done = subprocess.run([promtool, "test", "rules", path], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# ------------------------------------------------------------------------------ faults and alerts
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


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


@pytest.fixture
def alertmanager(tmp_path, receiver):
    program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if not program:
        pytest.skip("prometheus-alertmanager is not installed")
    config = {"route": {"receiver": "test", "group_by": ["..."], "group_wait": "0s",
                        "group_interval": "1s"},
              "receivers": [{"name": "test", "webhook_configs": [{"url": receiver.url}]}]}
    (tmp_path / "alertmanager.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    with Process([program, f"--config.file={tmp_path / 'alertmanager.yml'}",
                  f"--storage.path={tmp_path / 'alertmanager'}", f"--web.listen-address={address}",
                  "--cluster.listen-address="], tmp_path / "alertmanager.log"):
        wait_until(lambda: get(f"http://{address}/-/ready")[0] == 200, 60, "Alertmanager")
        yield address


def test_faults_reach_whoever_is_on_call(root, server_bin, client_bin, load_bin, alertmanager,
                                         receiver, tmp_path):
    """From the fault over metrics, rules and Alertmanager to a webhook."""
    full = make_server(server_bin, tmp_path, "full", "--queue-bytes-max", "1MiB", "--cpu-lanes", "1",
                       "--payload-bytes-max", "1MiB", "--batch-bytes-max", "1MiB",
                       "--inline-bytes-max", "0", "--batch-delay-us-max", "100ms")
    dying = make_server(server_bin, tmp_path, "dying")
    prometheus = None
    try:
        full.start()
        dying.start()
        prometheus, address = start_prometheus(
            root, tmp_path / "prometheus", [full.metrics_address, dying.metrics_address],
            shorten_alerts=True, alertmanager=alertmanager)
        wait_until(lambda: len(query(address, "histsvc_build_info")) == 2, 30, "both servers")
        dying.kill()
        # Sixteen callers that do not retry, for a queue of a few payloads.
        with Load(load_bin, tmp_path / "load.log", full.listen, 400_000, 16, attempts=1):
            wanted = {"HistogramTargetDown": dying.metrics_address, "HistogramRejectingLoad": None}

            def told():
                seen = {alert["labels"]["alertname"]: alert for alert in list(receiver.alerts)}
                return seen if set(wanted) <= set(seen) else None
            seen = wait_until(told, 90, f"{sorted(wanted)} at the webhook", interval_s=0.5)
        down = seen["HistogramTargetDown"]
        assert down["labels"]["instance"] == dying.metrics_address
        assert down["labels"]["severity"] == "page"
        assert "histogram_docs" not in down["labels"]
        assert down["annotations"]["runbook_url"] == (
            "https://git.example.com/v1/docs/operations/alerts.md#histogramtargetdown")
        share = re.match(r"([0-9.]+)%", seen["HistogramRejectingLoad"]["annotations"]["description"])
        assert float(share.group(1)) > 1
    finally:
        full.end()
        dying.end()
        if prometheus:
            prometheus.end()
