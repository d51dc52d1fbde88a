"""docs/operations and the image's sources: names and numbers agree with the program's.

tests/tooling/docs_test.py looks at links, commands and flags of all documents.
"""

import json
import os
import re
import subprocess

import pytest
from manifests import container_of, render_chart
from processes import Server, clean_environment, free_port, get
from watching import panels_of

PAGES = ("alerts", "container", "kubernetes", "security", "sizing", "upgrade", "scaling")
# Pages by their path within docs/.
DOCUMENTS = ("OPERATIONS.md", "HTTP.md", *(f"operations/{page}.md" for page in PAGES))


def named_in(root, pattern, documents=DOCUMENTS):
    """(document, name) of each name in the documents."""
    return {(document, name) for document in documents
            for name in re.findall(pattern, (root / "docs" / document).read_text())}


def test_files_that_are_named_exist(root):
    named = named_in(root, r"`((?:deploy|scripts|docs|tests)/[\w./-]+)")
    assert len(named) > 25
    assert [one for one in named if not (root / one[1].rstrip("./")).exists()] == []


def known_flags(root):
    text = (root / "server/config/table.cc").read_text()
    flags = set(re.findall(r'\.name = "([a-z][a-z0-9-]+)"', text))
    assert len(flags) > 30
    return flags


def test_settings_that_are_named_exist(root):
    named, known = named_in(root, r"HISTSVC_([A-Z][A-Z_]+)"), known_flags(root)
    assert len(named) > 10
    assert [one for one in named if one[1].lower().replace("_", "-") not in known] == []


def test_metrics_that_are_named_exist(root, metric_names):
    """Whole names, families without their suffix, and the names of recording rules."""
    named, recorded = named_in(root, r"(?<![:\w])histsvc_\w+"), named_in(root, r"\b\w+:histsvc_[\w:]+")
    assert len(named) > 3 and len(recorded) > 3
    rules = re.findall(r"record: *(\S+)", (root / "deploy/prometheus/recording.rules.yaml").read_text())
    families = metric_names | {re.sub("_(bucket|sum|count)$", "", name) for name in metric_names} | {"histsvc_"}
    assert [one for one in named if one[1] not in families] == []
    assert [one for one in recorded if one[1] not in rules] == []


def metrics_of_operations(root):
    """(name, labels) of each metric in the table of OPERATIONS.md, which leaves out `histsvc_`."""
    text = (root / "docs/OPERATIONS.md").read_text()
    table = text[text.index("\n## Metrics"):text.index("\n## Logs")]
    rows = [line for line in table.splitlines() if line.startswith("| ") and "`" in line]
    named = [(name, tuple(labels.split(",")) if labels else ()) for row in rows
             for name, labels in re.findall(r"`([a-z_]+)(?:\{([a-z_,]+)\})?`", row)]
    assert len(named) > 20
    return named


def test_the_table_of_metrics(root, metric_names):
    named = {name for name, _ in metrics_of_operations(root)}
    families = {re.sub("_(bucket|sum|count)$", "", name.removeprefix("histsvc_")) for name in metric_names}
    assert named - {"process_"} == families


@pytest.mark.live
def test_labels_in_the_table_of_metrics(root, server_bin, promtool, tmp_path):
    server = Server(server_bin, tmp_path, "server", f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}",
                    flags=("--drain-delay", "0")).start()
    _, text = get(f"http://{server.metrics_address}/metrics")
    server.end()
    subprocess.run([promtool, "check", "metrics"], input=text, check=True, capture_output=True, text=True)
    checked = 0
    for name, labels in metrics_of_operations(root):
        found = re.findall(rf"^histsvc_{name}(?:_bucket)?\{{(.*)\}} ", text, re.M)
        if not labels or not found:
            continue  # a series that appears when something happens
        have = {label for label in re.findall(r'(\w+)="', found[0]) if label != "le"}
        assert have == set(labels), name
        checked += 1
    assert checked > 10


def printed_settings(server_bin):
    """What --print-config says without any setting."""
    done = subprocess.run([server_bin, "--print-config"], check=True, capture_output=True, text=True,
                          env=clean_environment())
    return dict(re.findall(r'^([a-z0-9-]+) = "?([^"\n]*)"?$', done.stdout, re.M))


UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "us": 1e-6, "ms": 1e-3, "s": 1, "m": 60,
         "min": 60}


def number(text):
    value, unit = re.fullmatch(r"([0-9.,]+) ?([A-Za-z]*)", text).groups()
    return float(value.replace(",", "")) * UNITS[unit]


@pytest.mark.live
def test_defaults_that_are_named(root, server_bin):
    """A default stands behind its flag, in brackets."""
    settings = printed_settings(server_bin)
    named = {document: re.findall(r"`(?:--)?([a-z]+-[a-z-]+)`\s+\((\d[\d,]*(?: ?(?:KiB|MiB|GiB|s|m|min))?)[,)]",
                                  (root / "docs" / document).read_text()) for document in DOCUMENTS}
    assert len(named["OPERATIONS.md"]) >= 7
    for document, defaults in named.items():
        for flag, default in defaults:
            assert number(default) == number(settings[flag]), (document, flag)


@pytest.mark.live
@pytest.mark.parametrize("backend", ("cpu", "cuda"))
def test_pods_may_hold_what_the_server_may_receive(server_bin, backend):
    """docs/operations/sizing.md: beside it half a GiB, and half a GiB for each GPU."""
    memory = container_of(render_chart({"backend": backend}))["resources"]["limits"]["memory"]
    needed = number(printed_settings(server_bin)["receive-bytes-max"]) / UNITS["GiB"] + 0.5 * (1 + (backend == "cuda"))
    assert int(memory.removesuffix("Gi")) >= needed


def test_panels_that_are_named_exist(root):
    titles = {panel["title"] for panel in panels_of(json.loads(
        (root / "deploy/grafana/dashboards/histogram.json").read_text()))}
    text = (root / "docs/operations/alerts.md").read_text()
    named = {name for sentence in re.findall(r"[Pp]anels?((?: (?:and )?\*[^*]+\*,?(?: by \w+,?)?)+)", text)
             for name in re.findall(r"\*([^*]+)\*", sentence)}
    assert len(named) > 5
    assert not named - titles


def test_reasons_of_the_alerts_exist(root):
    """tests/service/test_refusals.py holds the runbook's table to the server's metrics."""
    labels = (root / "server/metrics/server_metrics.cc").read_text()
    rules = (root / "deploy/prometheus/alerting.rules.yaml").read_text()
    reasons = {each for found in re.findall(r'reason=~"([^"]+)"', rules) for each in found.split("|")}
    assert len(reasons) > 5
    assert [reason for reason in reasons if f'"{reason}"' not in labels] == []


def test_settings_of_the_image_exist(root):
    text = (root / "Dockerfile").read_text() + (root / "deploy/compose/compose.yaml").read_text()
    variables = {name.lower().replace("_", "-") for name in re.findall(r"HISTSVC_([A-Z][A-Z_]+)", text)}
    assert variables and not variables - known_flags(root)


@pytest.mark.live
def test_package_list_of_this_build(root, server_bin):
    build = server_bin.parent.parent
    if not (build / "build.ninja").exists() or not os.path.exists("/usr/bin/dpkg-query"):
        pytest.skip("the programs were not built by Ninja here, of Debian's packages")
    made = subprocess.run([root / "deploy/image/make-sbom", build, "1.2.3"], check=True, capture_output=True, text=True,
                          env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
    document = json.loads(made.stdout)
    assert document["creationInfo"]["created"] == "2023-11-14T22:13:20Z"
    packages = {package["name"]: package for package in document["packages"]}
    assert {"histogram", "libgrpc-dev", "libprotobuf-dev", "libabsl-dev", "libcli11-dev", "libc6", "ca-certificates",
            "libssl-dev", "prometheus-cpp-dev"} <= packages.keys()
    assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", each["SPDXID"]) and each["versionInfo"]
               for each in packages.values())
    ids = [package["SPDXID"] for package in document["packages"]]
    assert sorted(ids) == sorted({each["relatedSpdxElement"] for each in document["relationships"]})
