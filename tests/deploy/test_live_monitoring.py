"""A real Prometheus scrapes real servers under load: metrics, and every panel of the dashboard."""

import json
import subprocess

import pytest
import yaml
from harness.certificates import self_signed
from processes import Load, Process, Server, free_port, wait_until
from watching import panels_of, query, start_prometheus

pytestmark = [pytest.mark.live]


def make_server(binary, folder, name, *flags):
    return Server(binary, folder, name, f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}",
                  flags=("--drain-delay", "0", *flags))


def make_guarded_server(binary, folder):
    """One with a certificate and a tenant, and what a client needs to call it."""
    certificate, key = self_signed(folder)
    tokens, token = folder / "tokens", folder / "token"
    token.write_text("0123456789abcdef0123456789abcdef\n")
    tokens.write_text(f"camera {token.read_text()}")
    server = make_server(binary, folder, "guarded", "--tls-cert", certificate, "--tls-key", key, "--token-file", tokens)
    return server, ["--server", server.listen, "--tls", "--tls-ca", certificate,
                    "--token-file", token]


@pytest.fixture(scope="module")
def watched(root, server_bin, client_bin, load_bin, tmp_path_factory):
    """The address of a Prometheus that has watched two servers under every kind of load."""
    folder = tmp_path_factory.mktemp("watched")
    server = make_server(server_bin, folder, "server", "--tune")  # a table to show
    guarded, how_to_call = make_guarded_server(server_bin, folder)
    prometheus = None
    try:
        server.start()
        guarded.start()
        prometheus, address = start_prometheus(root, folder / "prometheus",
                                               [server.metrics_address, guarded.metrics_address])
        with Load(load_bin, folder / "load.log", server.listen, 200_000, 2) as load:
            others = [Process([client_bin, "bench", "--server", server.listen, "--api", api,
                               "--payload-bytes", "64KiB", "--duration", "3600"],
                              folder / f"{api}.log") for api in ("compute-many", "accumulate")]
            others.append(Process([client_bin, *how_to_call, "bench", "--connections", "1", "--duration", "3600"],
                                  folder / "tenant.log"))
            try:
                # Rates need a few scrapes; all methods must have been seen by one of them.
                wait_until(lambda: len(query(
                    address, 'rate(histsvc_requests_total{code="OK"}[10s]) > 0')) >= 2, 60,
                    "all kinds of load in Prometheus", interval_s=0.5)
                wait_until(lambda: query(address, "rate(histsvc_tenant_bytes_total[10s]) > 0"), 60,
                           "a tenant's bytes in Prometheus", interval_s=0.5)
                wait_until(lambda: any(float(each["value"][1]) >= 15 for each in query(
                    address, "count_over_time(up[1m])")), 60, "a few scrapes", interval_s=0.5)
                yield address, server, guarded
            finally:
                for other in others:
                    other.end()
            load.finish_without_loss()
    finally:
        server.end()
        guarded.end()
        if prometheus:
            prometheus.end()


def test_every_panel_shows_something(root, watched):
    dashboard = json.loads((root / "deploy/grafana/dashboards/histogram.json").read_text())
    empty = []
    for panel in panels_of(dashboard):
        for target in panel["targets"]:
            if "DCGM_" in target["expr"]:
                continue  # needs a GPU and its exporter
            expression = target["expr"].replace("$__rate_interval", "30s").replace(
                "$job", "histogram").replace("$instance", ".+")
            result = query(watched[0], expression)
            values = [each["value"][1] for each in result]
            if not values or all(value == "NaN" for value in values):
                empty.append(f"{panel['title']}: {expression}")
    assert not empty, "\n".join(empty)


def test_variables_of_the_dashboard_find_the_servers(watched):
    found = query(watched[0], "histsvc_build_info")
    assert {(each["metric"]["job"], each["metric"]["instance"]) for each in found} == {
        ("histogram", server.metrics_address) for server in watched[1:]}


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
    [expression] = [target["expr"] for panel in panels_of(dashboard) for target in
                    panel["targets"] if "DCGM_FI_DEV_GPU_UTIL" in target["expr"]]
    expression = expression.replace("$job", "histogram").replace("$instance", ".+")
    series = {'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",instance="node:9400",job="dcgm"}': 73,
              'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-2",instance="node:9400",job="dcgm"}': 11,
              'histsvc_backend_info{uuid="GPU-1",backend="cuda:0",instance="pod:9464",job="histogram",driver="1"}': 1,
              'histsvc_backend_info{uuid="",backend="cpu",instance="pod:9464",job="histogram"}': 1}
    one = {"labels": '{UUID="GPU-1",uuid="GPU-1",job="histogram",instance="pod:9464",backend="cuda:0"}', "value": 73}
    tests = {"rule_files": [], "evaluation_interval": "1m", "tests": [{
        "interval": "1m", "input_series": [{"series": name, "values": f"{value}x5"} for name, value in series.items()],
        "promql_expr_test": [{"expr": expression, "eval_time": "3m", "exp_samples": [one]}]}]}
    path = tmp_path / "join.yaml"
    path.write_text(yaml.safe_dump(tests))
    done = subprocess.run([promtool, "test", "rules", path], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
