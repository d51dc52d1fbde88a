"""A real Prometheus with the configuration and the rules of deploy/prometheus, and questions to it."""

import json
import shutil
import urllib.parse

import pytest
import yaml
from processes import Process, free_port, get, wait_until

SCRAPE = "1s"


def query(prometheus, expression):
    url = f"http://{prometheus}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    status, text = get(url, 20)
    reply = json.loads(text) if text else {}
    assert status == 200 and reply["status"] == "success", f"{expression}: {text}"
    return reply["data"]["result"]


def start_prometheus(root, folder, targets, shorten_alerts=False):
    """A prometheus Process and its address, with the configuration of deploy/prometheus."""
    program = shutil.which("prometheus") or shutil.which("prometheus", path=str(root / ".venv/bin"))
    if not program:
        pytest.skip("prometheus is not installed")
    folder.mkdir()
    config = yaml.safe_load((root / "deploy/prometheus/prometheus.yml").read_text())
    config["global"].update(scrape_interval=SCRAPE, evaluation_interval=SCRAPE)
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


def panels_of(dashboard):
    """All panels but the rows, those within a collapsed row too."""
    panels = [panel for each in dashboard["panels"] for panel in (each, *each.get("panels", []))]
    return [panel for panel in panels if panel["type"] != "row"]
