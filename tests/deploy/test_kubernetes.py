"""The Helm chart, rendered and held against the Kubernetes schemas and our own rules.

What concerns its values alone is in test_chart.py.
"""

import json
import re
import subprocess

import pytest
import yaml
from manifests import KUBERNETES_VERSIONS, container_of, pod_of, render_chart, the, validate, with_defaults

# The installations that docs/operations/kubernetes.md speaks of.
INSTALLATIONS = {
    "cpu": {"autoscaling": {"enabled": True}},
    "gpu": {"backend": "cuda"},
    "plaintext": {"autoscaling": {"enabled": True}, "tls": {"enabled": False}},
    "complete": {"backend": "cuda", "tls": {"certManager": True}, "monitors": {"enabled": True},
                 "dashboard": {"enabled": True}}}
IMAGE_SUFFIX = {"cpu": "cpu", "gpu": "cuda13", "plaintext": "cpu", "complete": "cuda13"}


@pytest.fixture(scope="module", params=INSTALLATIONS)
def installation(request):
    """(name, objects)."""
    return request.param, render_chart(INSTALLATIONS[request.param])


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", text).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit]


# --------------------------------------------------------------------------------------- schemas
@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_every_object_fits_the_schema(installation, version):
    for document in installation[1]:
        validate(document, version)


def test_the_manifests_for_kubectl_are_the_charts_with_its_defaults(root):
    """tests/deploy/manifests.py prints them."""
    assert (root / "deploy/kubernetes/histogram.yaml").read_text() == with_defaults()


# ------------------------------------------------------------------------------------- our rules
def test_images_are_of_this_version(installation, version):
    name, objects = installation
    image = container_of(objects)["image"]
    assert image.split("@")[0].endswith(f":{version}-{IMAGE_SUFFIX[name]}"), image
    for each in objects:
        if each["kind"] in ("Deployment", "Service", "ServiceAccount", "PodDisruptionBudget", "NetworkPolicy"):
            assert each["metadata"]["labels"]["app.kubernetes.io/version"] == version


def test_pods_are_hardened(installation):
    """What the Pod Security Standard `restricted` asks for, and a bit more."""
    pod, container = pod_of(installation[1]), container_of(installation[1])
    assert pod["automountServiceAccountToken"] is False and pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    volumes = pod.get("volumes", [])
    assert all(set(volume) - {"name"} <= {"secret", "projected"} for volume in volumes)
    # Of secrets that also hold a CA's key only what is needed is mounted; no token of the API server.
    assert all(set(source) == {"secret"} and source["secret"]["items"] for volume in volumes
               for source in volume.get("projected", {}).get("sources", []))
    context = container["securityContext"]
    assert context["allowPrivilegeEscalation"] is False and not context["privileged"]
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}


def test_requests_are_limits(installation):
    resources = container_of(installation[1])["resources"]
    assert resources["requests"] == resources["limits"]
    assert {"cpu", "memory"} <= set(resources["limits"])


def test_pods_have_time_to_drain(installation):
    pod, container = pod_of(installation[1]), container_of(installation[1])
    settings = the(installation[1], "ConfigMap", "histogram")["data"]
    assert "lifecycle" not in container  # SIGTERM drains
    assert pod["terminationGracePeriodSeconds"] >= seconds(settings["HISTSVC_DRAIN_MAX"]) + 5
    longest = seconds(settings["HISTSVC_DRAIN_MAX"]) - seconds(settings["HISTSVC_DRAIN_DELAY"])
    assert longest >= 30
    # Readiness turns within the drain delay, so that proxies stop sending before calls are refused.
    assert container["readinessProbe"]["periodSeconds"] <= seconds(
        settings["HISTSVC_DRAIN_DELAY"])


def test_probes(installation):
    name, objects = installation
    container = container_of(objects)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    settings = the(objects, "ConfigMap", "histogram")["data"]
    assert settings["HISTSVC_LISTEN"].endswith(f":{ports['grpc']}")
    assert settings["HISTSVC_METRICS_LISTEN"].endswith(f":{ports['metrics']}")
    probes = [container[f"{probe}Probe"] for probe in ("startup", "readiness", "liveness")]
    if name == "plaintext":
        assert [probe["grpc"] for probe in probes] == [
            {"port": ports["grpc"], "service": service}
            for service in ("liveness", "histogram.v1.HistogramService", "liveness")]
    else:  # the kubelet carries no certificate
        assert [probe["httpGet"] for probe in probes] == [
            {"path": path, "port": "metrics"} for path in ("/healthz", "/readyz", "/healthz")]


def test_tls_is_there_unless_declined(installation):
    name, objects = installation
    pod, container = pod_of(objects), container_of(objects)
    secrets = [volume for volume in pod.get("volumes", []) if "projected" in volume]
    settings = {each["name"]: each["value"] for each in container.get("env", [])}
    configured = the(objects, "ConfigMap", "histogram")["data"]
    if name == "plaintext":
        assert not secrets and not settings
        assert configured["HISTSVC_ALLOW_PLAINTEXT"] == "true"
        return
    [mount] = [mount for mount in container["volumeMounts"] if mount["name"] == secrets[0]["name"]]
    assert mount["readOnly"] is True
    sources = {each["secret"]["name"]: each["secret"]["items"] for each in secrets[0]["projected"]["sources"]}
    # The CA that admits callers is not the one that the servers' certificate comes from.
    assert set(sources) == {"histogram-tls", "histogram-client-ca"}
    mounted = {f"{mount['mountPath']}/{item['path']}" for items in sources.values() for item in items}
    assert set(settings.values()) == mounted and len(settings) == 3
    assert "HISTSVC_ALLOW_PLAINTEXT" not in configured


def test_certificates():
    objects = render_chart(INSTALLATIONS["complete"])
    certificates = {each["spec"]["secretName"]: each["spec"] for each in objects
                    if each["kind"] == "Certificate"}
    issuers = {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "Issuer"}
    for secret in ("histogram-tls", "histogram-caller"):
        # Each comes from an issuer whose CA is a certificate of the issuer that signs itself.
        authority = issuers[certificates[secret]["issuerRef"]["name"]]["ca"]["secretName"]
        assert certificates[authority]["isCA"]
        assert "selfSigned" in issuers[certificates[authority]["issuerRef"]["name"]]
        assert certificates[authority]["privateKey"]["rotationPolicy"] == "Never"
    assert "server auth" in certificates["histogram-tls"]["usages"]
    assert "client auth" in certificates["histogram-caller"]["usages"]
    # What admits callers is the CA of the callers' issuer, and issues nothing for servers.
    admitting = issuers[certificates["histogram-caller"]["issuerRef"]["name"]]["ca"]["secretName"]
    assert admitting == "histogram-client-ca"
    assert certificates["histogram-tls"]["issuerRef"] != certificates["histogram-caller"]["issuerRef"]


def test_selectors_find_the_pods(installation):
    labels = the(installation[1], "Deployment")["spec"]["template"]["metadata"]["labels"]
    for document in installation[1]:
        spec = document.get("spec", {})
        selectors = {"Service": spec.get("selector"),
                     "NetworkPolicy": spec.get("podSelector", {}).get("matchLabels")}
        for kind in ("Deployment", "PodDisruptionBudget", "PodMonitor"):
            selectors[kind] = (spec.get("selector") or {}).get("matchLabels")
        if document["kind"] in selectors:
            selector = selectors[document["kind"]]
            assert selector and selector.items() <= labels.items(), document["kind"]


def test_gpus_place_the_pods(installation):
    """The resource alone: a label would be one more thing that a cluster may not have."""
    name, objects = installation
    pod, resources = pod_of(objects), container_of(objects)["resources"]["limits"]
    assert "nodeSelector" not in pod and "affinity" not in pod
    if name not in ("gpu", "complete"):
        assert not any("gpu" in resource for resource in resources)
        return
    deployment = the(objects, "Deployment")["spec"]
    assert resources["nvidia.com/gpu"] == "1"
    assert deployment["replicas"] == 1  # one GPU is enough for the first pod to run
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert pod["tolerations"][0]["key"] == "nvidia.com/gpu"
    assert the(objects, "ConfigMap", "histogram")["data"]["HISTSVC_REQUIRE_BACKEND"] == "cuda"
    assert not [each for each in objects if each["kind"] == "HorizontalPodAutoscaler"]


def test_the_rest_needs_nothing_but_kubernetes():
    for name in ("cpu", "gpu", "plaintext"):
        for document in render_chart(INSTALLATIONS[name]):
            group = document["apiVersion"].rpartition("/")[0]
            assert group in ("", "apps", "policy", "autoscaling", "networking.k8s.io"), document["kind"]


def test_what_kube_prometheus_stack_looks_for(root):
    """Its Prometheus takes objects with its release's label only, its Grafana ConfigMaps with this one."""
    objects = render_chart(INSTALLATIONS["complete"])
    for kind in ("PodMonitor", "PrometheusRule"):
        assert the(objects, kind)["metadata"]["labels"]["release"] == "kube-prometheus-stack"
    dashboard = the(objects, "ConfigMap", "histogram-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(dashboard["data"]["histogram.json"]) == json.loads(
        (root / "deploy/grafana/dashboards/histogram.json").read_text())
    # kubectl apply keeps a copy of an object in an annotation, and those may hold 256 KiB.
    assert len(json.dumps(dashboard)) < 200_000


def test_the_autoscaler_reads_a_metric_that_the_adapter_serves(root):
    objects = render_chart(INSTALLATIONS["cpu"])
    scaler = the(objects, "HorizontalPodAutoscaler")["spec"]
    assert scaler["minReplicas"] >= 2 and "replicas" not in the(objects, "Deployment")["spec"]
    rules = yaml.safe_load((root / "deploy/prometheus/adapter-rules.yaml").read_text())["rules"]
    assert [metric["pods"]["metric"]["name"] for metric in scaler["metrics"]] == [
        rule["name"]["as"] for rule in rules]


def test_the_rules_are_those_of_deploy_prometheus(root):
    groups = [group for name in ("recording", "alerting") for group in yaml.safe_load(
        (root / f"deploy/prometheus/{name}.rules.yaml").read_text())["groups"]]
    assert the(render_chart(INSTALLATIONS["complete"]), "PrometheusRule")["spec"]["groups"] == groups


def settings_of(objects):
    settings = dict(the(objects, "ConfigMap", "histogram")["data"])
    settings.update((each["name"], each["value"]) for each in container_of(objects).get("env", []))
    return settings


@pytest.mark.live
def test_the_server_takes_every_setting(installation, server_bin):
    """It warns of a variable that it does not know."""
    done = subprocess.run([server_bin, "--print-config"], capture_output=True, text=True, check=False,
                          env=settings_of(installation[1]))
    assert done.returncode == 0 and "unknown" not in done.stderr, done.stderr
