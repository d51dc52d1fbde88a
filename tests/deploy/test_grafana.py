"""deploy/grafana: the dashboard is what its source says, and is put together as Grafana wants it.

Grafana's own schema is not packaged; what goes wrong in practice is checked here instead: ids, places,
units, data sources, queries that are no PromQL, metrics that do not exist. test_live_monitoring.py runs
every query.
"""

import json
import re
import subprocess

import pytest
import yaml
from watching import panels_of

UNITS = {"short", "reqps", "ops", "Bps", "bytes", "mbytes", "percent", "percentunit", "s",
         "celsius", "watt"}
@pytest.fixture(scope="module")
def dashboard(root):
    return json.loads((root / "deploy/grafana/dashboards/histogram.json").read_text())


@pytest.fixture(scope="module")
def panels(dashboard):
    return panels_of(dashboard)


def expressions(panels):
    return [(panel["title"], target["expr"]) for panel in panels for target in panel["targets"]]


def test_it_is_what_its_source_says(root):
    made = subprocess.run([root / "deploy/grafana/make-dashboard", "--print"], check=True,
                          capture_output=True, text=True).stdout
    assert made == (root / "deploy/grafana/dashboards/histogram.json").read_text()


def test_panels_are_complete(dashboard, panels):
    rows = [panel for panel in dashboard["panels"] if panel["type"] == "row"]
    ids = [panel["id"] for panel in rows + panels]
    assert len(set(ids)) == len(ids)
    titles = [panel["title"] for panel in panels]
    assert len(set(titles)) == len(titles)
    for panel in panels:
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        references = [target["refId"] for target in panel["targets"]]
        assert references and len(set(references)) == len(references)
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"]
            assert target["instant"] != target["range"]


def test_what_needs_dcgm_exporter_is_collapsed(dashboard):
    """A collapsed row holds its panels itself."""
    for panel in dashboard["panels"]:
        assert "DCGM_" not in json.dumps(panel.get("targets")), panel["title"]
        assert all("DCGM_" in each["targets"][0]["expr"] for each in panel.get("panels", [])), panel["title"]


def test_queries_follow_the_variables(dashboard, panels):
    names = {each["name"] for each in dashboard["templating"]["list"]}
    assert names == {"datasource", "job", "instance"}
    for title, expression in expressions(panels):
        used = set(re.findall(r"\$\{?(\w+)", re.sub(r'"\$1"', "", expression)))
        assert used <= names | {"__rate_interval"}, title
        for selector in re.findall(r"(?:histsvc|process)_\w+(\{[^}]*\})?", expression):
            assert selector.startswith('{job=~"$job",instance=~"$instance"'), f"{title}: {expression}"


def test_queries_only_read_metrics_that_exist(panels, metric_names):
    for title, expression in expressions(panels):
        used = set(re.findall(r"\bhistsvc_\w+", expression))
        assert not used - metric_names, title
        assert used or re.search(r"\bprocess_\w+", expression), title


def test_queries_are_promql(panels, promtool, tmp_path):
    rules = [{"record": f"panel:{number}:check",
              "expr": expression.replace("$__rate_interval", "1m")}
             for number, (_, expression) in enumerate(expressions(panels))]
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", path], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def test_it_leads_to_the_runbook(dashboard, docs_address):
    assert [link["url"] for link in dashboard["links"]] == [docs_address]
