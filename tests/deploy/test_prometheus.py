"""deploy/prometheus: the files are valid, every alert is tested and explained."""

import pathlib
import re
import subprocess

import pytest
import yaml

FOLDER = "deploy/prometheus"
RULES = ("recording", "alerting")


@pytest.fixture(scope="module")
def alerts(root):
    groups = yaml.safe_load((root / FOLDER / "alerting.rules.yaml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


@pytest.fixture(scope="module")
def cases(root):
    return yaml.safe_load((root / "tests/deploy/rules.yaml").read_text())


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_are_valid(promtool, root):
    run(promtool, "check", "rules", *(root / FOLDER / f"{name}.rules.yaml" for name in RULES))


def with_defaults(series):
    labels = re.search(r"\{(.*)\}", series)
    given = labels.group(1).split(",") if labels else []
    of = [f'{name}="{value}"' for name, value in (("job", "histogram"), ("instance", "a:9464"))
          if not any(label.startswith(f"{name}=") for label in given)]
    return f"{series.partition('{')[0]}{{{','.join(of + given)}}}"


def filled(text, labels, value):
    """An annotation for an alert with these labels and this value."""
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found.group(1)], text)
    return re.sub(r"\{\{ \$value[^}]* \}\}", lambda _: value, text)


def as_promtool_has_it(case, alerts, every):
    test = {"name": f"{case.get('alert', '')}: {case['of']}", "interval": every,
            "input_series": [{"series": with_defaults(series), "values": values}
                             for series, values in case["series"].items()],
            "promql_expr_test": [{"expr": series, "eval_time": "30m",
                                  "exp_samples": [{"labels": series, "value": value}]}
                                 for series, value in case.get("records", {}).items()]}
    fires = []
    if "fires" in case:
        rule, labels = alerts[case["alert"]], case["labels"]
        fires = [{"exp_labels": rule["labels"] | labels,
                  "exp_annotations": {name: filled(text, labels, case.get("value"))
                                      for name, text in rule["annotations"].items()}}]
    test["alert_rule_test"] = [{"eval_time": time, "alertname": case["alert"], "exp_alerts": expected}
                               for key, expected in (("silent", []), ("fires", fires)) for time in case.get(key, ())]
    return test


@pytest.mark.parametrize("every", ["1m", "5m"])
def test_rules_say_what_they_should(promtool, root, alerts, cases, tmp_path, every):
    files = [str(root / FOLDER / f"{name}.rules.yaml") for name in RULES]
    groups = [group["name"] for file in files for group in yaml.safe_load(pathlib.Path(file).read_text())["groups"]]
    tests = [as_promtool_has_it(case, alerts, every) for case in cases if case.get("every", "1m") == every]
    (tmp_path / "rules_test.yaml").write_text(yaml.safe_dump({
        "rule_files": files, "evaluation_interval": every, "group_eval_order": groups, "tests": tests}))
    run(promtool, "test", "rules", tmp_path / "rules_test.yaml")


def test_every_alert_is_tested_both_ways(alerts, cases):
    assert {case["alert"] for case in cases if "fires" in case} == set(alerts)
    assert {case["alert"] for case in cases if "silent" in case} == set(alerts)


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
