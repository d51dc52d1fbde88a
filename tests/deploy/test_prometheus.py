"""deploy/prometheus: the files are valid, every alert is tested and explained."""

import re
import shutil
import subprocess
import tomllib

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


def heading_anchors(text):
    """The anchors that the usual renderers make of a Markdown file's headings."""
    headings = re.findall(r"^#+ +(.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def address_of_the_runbook(root):
    done = subprocess.run([root / "deploy/set-docs-address", "--print"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_every_alert_has_a_runbook(alerts, root):
    anchors = heading_anchors((root / "docs/operations/alerts.md").read_text())
    for name, rule in alerts.items():
        assert rule["labels"]["severity"] in ("page", "ticket"), name
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}, name
        address, anchor = rule["annotations"]["runbook_url"].split("#")
        assert address == address_of_the_runbook(root)
        assert anchor == name.lower() and anchor in anchors, name


def test_no_runbook_without_an_alert(alerts, root):
    text = (root / "docs/operations/alerts.md").read_text()
    described = set(re.findall(r"^## +(Histogram\w+)$", text, re.M))
    assert described == set(alerts)


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


def test_the_address_of_the_runbook_is_set_in_one_place(root, promtool, tmp_path):
    """In a copy of the sources: all links change, nothing else does, and the generated files are right."""
    for folder in ("deploy", "tests/deploy"):
        shutil.copytree(root / folder, tmp_path / folder, symlinks=True,
                        ignore=shutil.ignore_patterns("__pycache__"))
    projects = [root / "pyproject.toml", root / "python/cuda/pyproject.toml"]
    for project in projects:
        (tmp_path / project.relative_to(root)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(project, tmp_path / project.relative_to(root))
    before, address = address_of_the_runbook(root), "https://wiki.test/a_b/histogram?page=alerts"
    subprocess.run([tmp_path / "deploy/set-docs-address", address], capture_output=True, text=True, check=True)
    assert address_of_the_runbook(tmp_path) == address
    changed = 0
    for path in (path for folder in ("deploy", "tests/deploy") for path in (root / folder).rglob("*")):
        if path.is_file() and path.suffix in (".yaml", ".json"):
            text = path.read_text()
            changed += before in text
            assert (tmp_path / path.relative_to(root)).read_text() == text.replace(before, address), path
    assert changed >= 5  # rules, their object, their tests, the dashboard, the chart
    for project in projects:
        metadata = tomllib.loads((tmp_path / project.relative_to(root)).read_text())["project"]
        assert metadata == tomllib.loads(project.read_text())["project"] | {"urls": {"Documentation": address}}
    [first, *_] = (tests := yaml.safe_load((tmp_path / "tests/deploy" / RULE_TESTS[0]).read_text()))["tests"]
    (tmp_path / "tests/deploy/first.yaml").write_text(yaml.safe_dump(tests | {"tests": [first]}, width=1000))
    run(promtool, "test", "rules", tmp_path / "tests/deploy/first.yaml")
    address = "https://git.test/docs/operations/alerts.md"
    subprocess.run([tmp_path / "deploy/set-docs-address", address], capture_output=True, text=True, check=True)
    assert '"https://git.test/docs/PYTHON.md"' in (tmp_path / "pyproject.toml").read_text()
    for wrong in ("", "wiki", "https://wiki.test/#here", "https://wiki.test/a&b", "ftp://wiki.test"):
        done = subprocess.run([tmp_path / "deploy/set-docs-address", wrong], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and done.stderr, wrong
    assert address_of_the_runbook(tmp_path) == address
