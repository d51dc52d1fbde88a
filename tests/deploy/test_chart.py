"""deploy/helm/histogram: what its values do. test_kubernetes.py holds what it renders against the schemas
and our own rules.
"""

import json
import pathlib
import re
import subprocess

import pytest
import yaml
from manifests import (CHART, KUBERNETES_VERSIONS, container_of, helm, pod_of, render_chart, render_chart_files,
                       the, validate)
from processes import clean_environment

# Values that are not defaults, all of which have to fit the schemas of Kubernetes.
SETS = {
    "a GPU cluster": {"backend": "cuda", "replicas": 4, "gpu": {"count": 2, "runtimeClassName": "nvidia"},
                      "nodeSelector": {"zone": "a"}, "resources": {"cpu": 16, "memory": "32Gi"},
                      "tolerations": [{"key": "reserved", "operator": "Exists"}],
                      "image": {"repository": "registry.internal/histogram", "tag": "1", "digest": "sha256:" + "0" * 64,
                                "pullSecrets": [{"name": "registry"}]}},
    "tokens, no client certificates": {"tokens": {"secretName": "tokens"}, "tls": {"clientCaSecretName": ""}},
    "all from cert-manager": {"tls": {"certManager": True, "extraNames": ["histogram.example.com"]}},
    "no monitors' labels": {"monitors": {"enabled": True, "labels": {}}, "dashboard": {"enabled": True, "labels": {}}},
    "no network policy": {"networkPolicy": {"enabled": False}},
    "nobody may scrape": {"networkPolicy": {"scrapers": []}},
    "nobody may call": {"networkPolicy": {"callers": [], "scrapers": []}},
    "scaled by KEDA": {"backend": "cuda", "autoscaling": {"enabled": True, "by": "keda", "minReplicas": 1}},
    "IPv6": {"listenHost": "[::]"},
    "plaintext and tokens": {"tls": {"enabled": False}, "tokens": {"secretName": "tokens"}},
    "HTTP": {"tls": {"enabled": False}, "http": {"enabled": True, "port": 8081, "hosts": ["h.example.com"],
                                                 "allowOrigins": ["https://a.example", "https://b.example"]}},
}


def test_lint():
    report = helm().lint(CHART, strict=True)
    found = [message["error"] for message in report["messages"]]
    assert not report["errors"] and found in ([], ["icon is recommended"])


def test_versions_are_those_of_the_project(version):
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == version


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
def test_other_values_render_too(values):
    for document in render_chart(values, "mine", "elsewhere"):
        for version in KUBERNETES_VERSIONS:
            validate(document, version)


@pytest.mark.parametrize(("values", "message"), (
    ({"tsl": {"enabled": False}}, "tsl"),
    ({"tls": {"enable": False}}, "enable"),
    ({"backend": "gpu"}, "backend"),
    ({"image": {"repository": ""}}, "repository"),
    ({"image": {"repository": "r", "digest": "0.1.0"}}, "digest"),
    ({"settings": {"HISTSVC_LOG_LEVEL": "debug"}}, "HISTSVC_LOG_LEVEL"),
    ({"gpu": {"count": 0}}, "count"),
    ({"autoscaling": {"enabled": True, "by": "vpa"}}, "by"),
    ({"listenHost": "::"}, "listenHost"),
    ({"settings": {"listen": "[::]:50051"}}, "listen"),
    ({"settings": {"http-listen": "0.0.0.0:8080"}}, "http-listen"),
    ({"http": {"enabled": True}}, "http.enabled needs tls.enabled: false"),
    ({"http": {"enabled": True}, "tls": {"enabled": False}, "tokens": {"secretName": "t"}}, "no tokens"),
    ({"http": {"enabled": True, "port": 9464}, "tls": {"enabled": False}}, "port"),
    ({"http": {"hosts": ["a,b"]}}, "hosts"),
))
def test_values_that_make_no_sense(values, message):
    with pytest.raises(helm().HelmError, match=message):
        render_chart(values)


def test_two_releases_have_nothing_in_common():
    one, two = (render_chart({"monitors": {"enabled": True}, "dashboard": {"enabled": True},
                              "tls": {"certManager": True}}, name) for name in ("one", "two"))
    named = [{(each["kind"], each["metadata"]["name"]) for each in objects} for objects in (one, two)]
    assert not named[0] & named[1]
    labels = the(two, "Deployment")["spec"]["template"]["metadata"]["labels"]
    for each in one:
        selector = each.get("spec", {}).get("selector") or each.get("spec", {}).get("podSelector") or {}
        selector = selector.get("matchLabels", selector)
        assert not selector or not selector.items() <= labels.items(), each["kind"]


def test_names_of_the_certificate_follow_release_and_namespace():
    objects = render_chart({"tls": {"certManager": True, "extraNames": ["h.example.com"], "clusterDomain": "c.test"}},
                           "mine", "elsewhere")
    assert the(objects, "Certificate", "mine")["spec"]["dnsNames"] == [
        "mine", "mine.elsewhere", "mine.elsewhere.svc", "mine.elsewhere.svc.c.test",
        "mine-headless", "mine-headless.elsewhere", "mine-headless.elsewhere.svc",
        "mine-headless.elsewhere.svc.c.test", "h.example.com"]


def test_settings_become_variables():
    objects = render_chart({"settings": {"queue-bytes-max": 536870912, "core-dumps": True, "lanes": 3,
                                         "log-format": None, "log-level": "debug"}})
    data = the(objects, "ConfigMap")["data"]
    assert data["HISTSVC_QUEUE_BYTES_MAX"] == "536870912" and data["HISTSVC_LANES"] == "3"
    assert data["HISTSVC_CORE_DUMPS"] == "true" and data["HISTSVC_LOG_LEVEL"] == "debug"
    assert "HISTSVC_LOG_FORMAT" not in data and "HISTSVC_DRAIN_DELAY" in data


def test_ipv6():
    data = the(render_chart({"listenHost": "[::]"}), "ConfigMap")["data"]
    assert data["HISTSVC_LISTEN"] == "[::]:50051" and data["HISTSVC_METRICS_LISTEN"] == "[::]:9464"


def test_http(server_bin):
    """Off without its value; else the server takes what the chart says, and Services and policy let it through."""
    assert "http" not in json.dumps([each["spec"] for each in render_chart({}) if each["kind"] in (
        "Service", "NetworkPolicy")]) and "HISTSVC_HTTP_LISTEN" not in the(render_chart({}), "ConfigMap")["data"]
    objects = render_chart(SETS["HTTP"], "mine", "elsewhere")
    data = the(objects, "ConfigMap")["data"]
    done = subprocess.run([server_bin, "--print-config"], check=True, capture_output=True, text=True,
                          env={**clean_environment(), **data})
    names = "mine,mine.elsewhere,mine.elsewhere.svc,mine.elsewhere.svc.cluster.local,mine-headless"
    assert f'http-host = "{names}' in done.stdout and ',h.example.com"' in done.stdout
    assert 'http-listen = "0.0.0.0:8081"' in done.stdout
    assert 'http-allow-origin = "https://a.example,https://b.example"' in done.stdout
    assert {"name": "http", "containerPort": 8081} in container_of(objects)["ports"]
    for service in (each for each in objects if each["kind"] == "Service"):
        assert [port["targetPort"] for port in service["spec"]["ports"]] == ["grpc", "http"]
    callers, scrapers = the(objects, "NetworkPolicy")["spec"]["ingress"]
    assert [port["port"] for port in callers["ports"]] == ["grpc", "http"]
    assert [port["port"] for port in scrapers["ports"]] == ["metrics"]


def test_keda_follows_the_metric_of_the_adapter(root, promtool, tmp_path):
    """Its query is one that Prometheus takes, over the series that prometheus-adapter reads."""
    objects = render_chart(SETS["scaled by KEDA"], "mine", "elsewhere")
    assert not [each for each in objects if each["kind"] == "HorizontalPodAutoscaler"]
    assert "replicas" not in the(objects, "Deployment")["spec"]
    [trigger] = the(objects, "ScaledObject")["spec"]["triggers"]
    query = trigger["metadata"]["query"]
    adapter = yaml.safe_load((root / "deploy/prometheus/adapter-rules.yaml").read_text())["rules"][0]
    assert adapter["seriesQuery"].split("{")[0] in query
    assert query.count('{stage="queue",namespace="elsewhere",pod=~"mine-.*"}') == 2
    rules = {"groups": [{"name": "keda", "rules": [{"record": "a:b", "expr": query}]}]}
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    subprocess.run([promtool, "check", "rules", tmp_path / "rules.yaml"], check=True, capture_output=True)


def test_a_changed_setting_rolls_the_pods():
    def annotations(values):
        return the(render_chart(values), "Deployment")["spec"]["template"]["metadata"]["annotations"]
    assert annotations({}) != annotations({"settings": {"lanes": 2}})
    assert annotations({}) == annotations({"replicas": 5})


def test_gpus():
    objects = render_chart(SETS["a GPU cluster"])
    pod, container = pod_of(objects), container_of(objects)
    assert container["image"] == "registry.internal/histogram:1@sha256:" + "0" * 64
    assert container["resources"]["limits"] == {"cpu": "16", "memory": "32Gi", "ephemeral-storage": "64Mi",
                                                "nvidia.com/gpu": "2"}
    assert pod["runtimeClassName"] == "nvidia" and pod["nodeSelector"] == {"zone": "a"}
    assert [each["key"] for each in pod["tolerations"]] == ["nvidia.com/gpu", "reserved"]
    assert the(objects, "Deployment")["spec"]["replicas"] == 4
    assert the(render_chart({"replicas": 0}), "Deployment")["spec"]["replicas"] == 0
    assert the(render_chart({}), "Deployment")["spec"]["replicas"] == 2


def test_tokens_and_no_client_certificates():
    objects = render_chart(SETS["tokens, no client certificates"])
    container, volumes = container_of(objects), pod_of(objects)["volumes"]
    settings = {each["name"]: each["value"] for each in container["env"]}
    assert set(settings) == {"HISTSVC_TLS_CERT", "HISTSVC_TLS_KEY", "HISTSVC_TOKEN_FILE"}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert settings["HISTSVC_TOKEN_FILE"] == f"{mounts['tokens']}/tokens"
    [tls] = [volume["projected"]["sources"] for volume in volumes if volume["name"] == "tls"]
    assert [source["secret"]["name"] for source in tls] == ["histogram-tls"]
    # With cert-manager there is then no CA of callers either.
    made = render_chart({"tls": {"certManager": True, "clientCaSecretName": ""}})
    assert {each["metadata"]["name"] for each in made if each["kind"] == "Certificate"} == {
        "histogram", "histogram-server-ca"}


def test_nobody_is_let_in_by_an_empty_list():
    for name, ports in (("nobody may scrape", ["grpc"]), ("nobody may call", [])):
        spec = the(render_chart(SETS[name]), "NetworkPolicy")["spec"]
        assert [rule["ports"][0]["port"] for rule in spec["ingress"]] == ports
        assert all(rule["from"] for rule in spec["ingress"])
        assert spec["policyTypes"] == ["Ingress", "Egress"]


def test_the_address_of_the_runbook_is_one_value(docs_address):
    assert helm().Chart.load(CHART).values["docsAddress"] == docs_address
    values = {"monitors": {"enabled": True}, "dashboard": {"enabled": True},
              "docsAddress": "https://wiki.test/histogram"}
    text = "".join(render_chart_files(values).values())
    assert docs_address not in text
    alerts = [rule["annotations"]["runbook_url"] for group in the(render_chart(values), "PrometheusRule")[
        "spec"]["groups"] for rule in group["rules"] if "alert" in rule]
    assert len(alerts) > 10 and all(url.startswith("https://wiki.test/histogram#histogram") for url in alerts)
    assert '"url": "https://wiki.test/histogram"' in text


def test_a_packaged_chart_needs_nothing_beside_it(tmp_path):
    """Its rules and its dashboard are links to the files of deploy/."""
    values = {"monitors": {"enabled": True}, "dashboard": {"enabled": True}}
    archive = pathlib.Path(helm().package(CHART, destination=tmp_path))
    with helm().Chart.load(archive) as chart:
        assert chart.render(values, name="histogram", namespace="histogram") == render_chart_files(values)


NOTES = {
    "plaintext": {"tls": {"enabled": False}},
    "cert-manager": {"tls": {"certManager": True}},
    "cert-manager and tokens": {"tls": {"certManager": True, "clientCaSecretName": ""}, "tokens": {"secretName": "t"}},
    "certificates by hand": {"image": {"repository": "registry.internal/histogram"}},
}


@pytest.mark.parametrize("name", NOTES)
def test_notes_end_with_a_call(name, root):
    values = NOTES[name]
    text = render_chart_files(values, "mine", "elsewhere")["histogram/templates/NOTES.txt"]
    assert "Now call it:" in text
    assert ("There is no such image yet" in text) == ("image" not in values)
    assert ("exist" in text) == (name == "certificates by hand")
    commands = re.sub(r"^ {2}", "", "\n".join(re.findall(r"^ {2}.*$", text, re.M)), flags=re.M)
    subprocess.run(["bash", "-n"], input=commands, text=True, check=True)
    call = re.search(r"^histogram-client .*(?:\\\n.*)*compute FILE$", commands, re.M).group()
    flags = set(re.findall(r"--[a-z-]+", call))
    tls = {"--tls", "--tls-ca", "--tls-server-name"}
    assert flags == {"--server"} | {"plaintext": set(), "cert-manager": tls | {"--tls-cert", "--tls-key"},
                                    "cert-manager and tokens": tls | {"--token-file"},
                                    "certificates by hand": tls | {"--tls-cert", "--tls-key"}}[name]
    client = "".join(path.read_text() for path in (root / "client/cli").rglob("*.cc"))
    assert all(f'"{flag}"' in client for flag in flags)
