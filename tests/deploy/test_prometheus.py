"""deploy/prometheus: the files are valid, every alert is tested and explained."""

import re
import subprocess

import pytest
import yaml

FOLDER = "deploy/prometheus"
RULES = ("recording", "alerting")
RULE_TESTS = ("rules_test.yaml", "rules_days_test.yaml")


@pytest.fixture(scope="module")
def alerts(root):
    groups = yaml.safe_load((root / FOLDER / "alerting.rules.yaml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


@pytest.fixture(scope="module")
def rule_tests(root):
    return [test for name in RULE_TESTS
            for test in yaml.safe_load((root / "tests/deploy" / name).read_text())["tests"]]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_are_valid(promtool, root):
    run(promtool, "check", "rules", *(root / FOLDER / f"{name}.rules.yaml" for name in RULES))


def test_rules_say_what_they_should(promtool, root):
    run(promtool, "test", "rules", *(root / "tests/deploy" / name for name in RULE_TESTS))


def test_every_alert_is_tested_both_ways(alerts, rule_tests):
    fires, silent = set(), set()
    for test in rule_tests:
        for check in test.get("alert_rule_test", []):
            (fires if check["exp_alerts"] else silent).add(check["alertname"])
    assert fires == silent == set(alerts)


def test_every_alert_has_a_runbook_and_no_runbook_lacks_its_alert(alerts, root, docs_address):
    described = re.findall(r"^## +(Histogram\w+)$", (root / "docs/operations/alerts.md").read_text(), re.M)
    assert sorted(described) == sorted(alerts)
    for name, rule in alerts.items():
        assert rule["labels"]["severity"] in ("page", "ticket"), name
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}, name
        address, anchor = rule["annotations"]["runbook_url"].split("#")
        assert (address, anchor) == (docs_address, name.lower())


def test_configuration_is_valid(promtool, root, tmp_path):
    run(promtool, "check", "config", "--syntax-only", root / FOLDER / "prometheus.yml")
    # Debian builds Prometheus without Kubernetes discovery: the rest of that file is checked.
    config = yaml.safe_load((root / FOLDER / "kubernetes-scrape.yml").read_text())
    [discovery] = config["scrape_configs"][0].pop("kubernetes_sd_configs")
    assert discovery["role"] == "pod"
    phases = [rule for rule in config["scrape_configs"][0]["relabel_configs"]
              if rule["source_labels"] == ["__meta_kubernetes_pod_phase"]]
    assert phases and all(rule["action"] == "drop" and re.fullmatch(rule["regex"], phase)
                          for rule in phases for phase in ("Succeeded", "Failed"))
    (tmp_path / "scrape.yml").write_text(yaml.safe_dump(config))
    run(promtool, "check", "config", "--syntax-only", tmp_path / "scrape.yml")


def test_rules_only_read_metrics_that_exist(root, metric_names):
    """Names of our own metrics in rules are names that the server's sources declare."""
    for name in RULES:
        text = (root / FOLDER / f"{name}.rules.yaml").read_text()
        text = re.sub(r"^ *#.*$", "", text, flags=re.M)
        used = set(re.findall(r"(?<![:\w])histsvc_\w+", text))
        assert used
        assert not used - metric_names
