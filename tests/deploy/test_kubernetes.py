"""deploy/kubernetes and the Helm chart, rendered and held against the Kubernetes schemas and our own rules.

What concerns the chart alone is in test_chart.py.
"""

import copy
import json
import re
import shutil
import subprocess

import jsonschema
import kubernetes_validate
import pytest
import yaml
from kustomize import render
from manifests import KUBERNETES_VERSIONS, container_of, pod_of, render_chart, the, validate

OVERLAYS = ("cpu", "gpu", "plaintext", "complete")
IMAGE_SUFFIX = {"cpu": "cpu", "gpu": "cuda13", "plaintext": "cpu", "complete": "cuda13"}
# What makes the chart install the same.
CHART_VALUES = {
    "cpu": {"autoscaling": {"enabled": True}},
    "gpu": {"backend": "cuda"},
    "plaintext": {"autoscaling": {"enabled": True}, "tls": {"enabled": False}},
    "complete": {"backend": "cuda", "tls": {"certManager": True}, "monitors": {"enabled": True},
                 "dashboard": {"enabled": True}}}


def folder_of(root, overlay):
    """`complete` is the gpu overlay with every component."""
    if overlay == "complete":
        return root / "tests/deploy/kustomizations/complete"
    return root / "deploy/kubernetes/overlays" / overlay


@pytest.fixture(scope="module", params=OVERLAYS)
def kustomization(request, root):
    return request.param, render(folder_of(root, request.param))


@pytest.fixture(scope="module", params=[(way, name) for way in ("kustomize", "helm") for name in OVERLAYS],
                ids="-".join)
def overlay(request, root):
    """(name, objects), once made by Kustomize and once by Helm."""
    way, name = request.param
    return name, render(folder_of(root, name)) if way == "kustomize" else render_chart(CHART_VALUES[name])


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", text).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit]


# --------------------------------------------------------------------------------------- schemas
@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_every_object_fits_the_schema(overlay, version):
    for document in overlay[1]:
        validate(document, version)


def test_unknown_fields_are_errors(root):
    """The check above can fail: a misspelt field anywhere in an object is found."""
    objects = render(folder_of(root, "cpu")) + render(folder_of(root, "complete"))
    for kind in sorted({each["kind"] for each in objects}):
        original = next(each for each in objects if each["kind"] == kind)
        changed = copy.deepcopy(original)
        place = changed if "spec" not in changed else changed["spec"]
        place["notAField"] = 1
        with pytest.raises((kubernetes_validate.ValidationError, jsonschema.ValidationError)):
            validate(changed, "1.31")
    deployment = copy.deepcopy(the(render(folder_of(root, "cpu")), "Deployment"))
    deployment["spec"]["template"]["spec"]["containers"][0]["readinessProb"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readinessProb"):
        validate(deployment, "1.31")


def by_name(objects):
    """{(kind, name): object}, without the hashes that Kustomize puts behind the names of ConfigMaps."""
    text = re.sub(r"\bhistogram-[0-9a-z]{10}\b(?=\n)", "histogram", yaml.safe_dump_all(objects))
    named = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text)}
    assert len(named) == len(objects)
    return named


def test_our_renderer_agrees_with_kustomize(kustomization, root):
    kubectl = shutil.which("kubectl")
    command = [kubectl, "kustomize"] if kubectl else [shutil.which("kustomize"), "build"]
    if not command[0]:
        pytest.skip("neither kubectl nor kustomize is installed")
    name, objects = kustomization
    done = subprocess.run([*command, folder_of(root, name)], check=True, capture_output=True, text=True)
    assert by_name(objects) == by_name(list(yaml.safe_load_all(done.stdout)))


def without_origin(value):
    """Without labels and annotations that say who made an object, for which release."""
    if isinstance(value, list):
        return [without_origin(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {key: without_origin(each) for key, each in value.items()
            if key not in ("helm.sh/chart", "histogram/settings")
            and (not key.startswith("app.kubernetes.io/") or key == "app.kubernetes.io/name")}
    if "name" in kept and "labels" in kept:  # an object's: generated ConfigMaps bear no label for the name
        kept["labels"].pop("app.kubernetes.io/name", None)
    return {key: each for key, each in kept.items() if each or key not in ("labels", "annotations")}


def test_the_chart_installs_what_kustomize_does(kustomization):
    name, objects = kustomization
    of_the_chart = by_name(render_chart(CHART_VALUES[name]))
    assert set(of_the_chart) == set(by_name(objects))
    for which, document in by_name(objects).items():
        assert without_origin(of_the_chart[which]) == without_origin(document), which


# ------------------------------------------------------------------------------------- our rules
def test_images_are_of_this_version(overlay, root):
    name, objects = overlay
    version = re.search(r"^project\(histogram VERSION ([0-9.]+)",
                        (root / "CMakeLists.txt").read_text(), re.M).group(1)
    image = container_of(objects)["image"]
    assert image.split("@")[0].endswith(f":{version}-{IMAGE_SUFFIX[name]}"), image
    for each in objects:
        if each["kind"] in ("Deployment", "Service", "ServiceAccount", "PodDisruptionBudget", "NetworkPolicy"):
            assert each["metadata"]["labels"]["app.kubernetes.io/version"] == version


def test_pods_are_hardened(overlay):
    """What the Pod Security Standard `restricted` asks for, and a bit more."""
    pod, container = pod_of(overlay[1]), container_of(overlay[1])
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


def test_requests_are_limits(overlay):
    resources = container_of(overlay[1])["resources"]
    assert resources["requests"] == resources["limits"]
    assert {"cpu", "memory"} <= set(resources["limits"])


def test_pods_have_time_to_drain(overlay):
    pod, container = pod_of(overlay[1]), container_of(overlay[1])
    settings = the(overlay[1], "ConfigMap", "histogram")["data"]
    assert "lifecycle" not in container  # SIGTERM drains
    assert pod["terminationGracePeriodSeconds"] >= seconds(settings["HISTSVC_DRAIN_MAX"]) + 5
    longest = seconds(settings["HISTSVC_DRAIN_MAX"]) - seconds(settings["HISTSVC_DRAIN_DELAY"])
    assert longest >= 30
    # Readiness turns within the drain delay, so that proxies stop sending before calls are refused.
    assert container["readinessProbe"]["periodSeconds"] <= seconds(
        settings["HISTSVC_DRAIN_DELAY"])


def test_probes(overlay):
    name, objects = overlay
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


def test_tls_is_there_unless_declined(overlay):
    name, objects = overlay
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


def names_of_the_services(objects, namespace="histogram"):
    services = [each["metadata"]["name"] for each in objects if each["kind"] == "Service"]
    assert len(services) == 2
    return {name + suffix for name in services
            for suffix in ("", f".{namespace}", f".{namespace}.svc", f".{namespace}.svc.cluster.local")}


@pytest.mark.parametrize("way", ("kustomize", "helm"))
def test_certificates(way, root):
    objects = (render(folder_of(root, "complete")) if way == "kustomize"
               else render_chart(CHART_VALUES["complete"]))
    certificates = {each["spec"]["secretName"]: each["spec"] for each in objects
                    if each["kind"] == "Certificate"}
    issuers = {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "Issuer"}
    for secret in ("histogram-tls", "histogram-caller"):
        # Each comes from an issuer whose CA is a certificate of the issuer that signs itself.
        authority = issuers[certificates[secret]["issuerRef"]["name"]]["ca"]["secretName"]
        assert certificates[authority]["isCA"]
        assert "selfSigned" in issuers[certificates[authority]["issuerRef"]["name"]]
        assert certificates[authority]["privateKey"]["rotationPolicy"] == "Never"
    assert set(certificates["histogram-tls"]["dnsNames"]) == names_of_the_services(objects)
    assert "server auth" in certificates["histogram-tls"]["usages"]
    assert "client auth" in certificates["histogram-caller"]["usages"]
    # What admits callers is the CA of the callers' issuer, and issues nothing for servers.
    admitting = issuers[certificates["histogram-caller"]["issuerRef"]["name"]]["ca"]["secretName"]
    assert admitting == "histogram-client-ca"
    assert certificates["histogram-tls"]["issuerRef"] != certificates["histogram-caller"]["issuerRef"]


def test_selectors_find_the_pods(overlay):
    labels = the(overlay[1], "Deployment")["spec"]["template"]["metadata"]["labels"]
    for document in overlay[1]:
        spec = document.get("spec", {})
        selectors = {"Service": spec.get("selector"),
                     "NetworkPolicy": spec.get("podSelector", {}).get("matchLabels")}
        for kind in ("Deployment", "PodDisruptionBudget", "PodMonitor"):
            selectors[kind] = (spec.get("selector") or {}).get("matchLabels")
        if document["kind"] in selectors:
            selector = selectors[document["kind"]]
            assert selector and selector.items() <= labels.items(), document["kind"]


def test_gpus_place_the_pods(overlay):
    """The resource alone: a label would be one more thing that a cluster may not have."""
    name, objects = overlay
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


def test_the_base_needs_nothing_but_kubernetes(root):
    for name in ("cpu", "gpu", "plaintext"):
        for document in render(folder_of(root, name)):
            group = document["apiVersion"].rpartition("/")[0]
            assert group in ("", "apps", "policy", "autoscaling", "networking.k8s.io"), document["kind"]


@pytest.mark.parametrize("way", ("kustomize", "helm"))
def test_what_kube_prometheus_stack_looks_for(way, root):
    """Its Prometheus takes objects with its release's label only, its Grafana ConfigMaps with this one."""
    objects = (render(folder_of(root, "complete")) if way == "kustomize"
               else render_chart(CHART_VALUES["complete"]))
    for kind in ("PodMonitor", "PrometheusRule"):
        assert the(objects, kind)["metadata"]["labels"]["release"] == "kube-prometheus-stack"
    dashboard = the(objects, "ConfigMap", "histogram-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(dashboard["data"]["histogram.json"]) == json.loads(
        (root / "deploy/grafana/dashboards/histogram.json").read_text())
    # kubectl apply keeps a copy of an object in an annotation, and those may hold 256 KiB.
    assert len(json.dumps(dashboard)) < 200_000


def test_cpu_overlay_scales_on_a_metric_that_the_adapter_serves(root):
    objects = render(root / "deploy/kubernetes/overlays/cpu")
    scaler = the(objects, "HorizontalPodAutoscaler")["spec"]
    assert scaler["minReplicas"] >= 2 and "replicas" not in the(objects, "Deployment")["spec"]
    rules = yaml.safe_load((root / "deploy/prometheus/adapter-rules.yaml").read_text())["rules"]
    assert [metric["pods"]["metric"]["name"] for metric in scaler["metrics"]] == [
        rule["name"]["as"] for rule in rules]


def test_the_rules_are_those_of_deploy_prometheus(root):
    made = subprocess.run([root / "deploy/kubernetes/make-prometheusrule", "--print"], check=True,
                          capture_output=True, text=True).stdout
    assert made == (
        root / "deploy/kubernetes/components/kube-prometheus-stack/prometheusrule.yaml").read_text()
    groups = []
    for name in ("recording", "alerting"):
        path = root / f"deploy/prometheus/{name}.rules.yaml"
        groups += yaml.safe_load(path.read_text())["groups"]
    assert yaml.safe_load(made)["spec"]["groups"] == groups


def settings_of(objects):
    settings = dict(the(objects, "ConfigMap", "histogram")["data"])
    settings.update((each["name"], each["value"]) for each in container_of(objects).get("env", []))
    return settings


@pytest.mark.live
def test_the_server_takes_every_setting(overlay, server_bin):
    """A misspelt environment variable would only be a warning in the log."""
    text = subprocess.run([server_bin, "--help-all"], check=True, capture_output=True, text=True).stdout
    flags = set(re.findall(r"--(?:\[no-\])?([a-z][a-z0-9-]+)", text))
    known = {"HISTSVC_" + flag.upper().replace("-", "_") for flag in flags}
    settings = settings_of(overlay[1])
    unknown = set(settings) - known
    security = {name for name in unknown if name.startswith(("HISTSVC_TLS_", "HISTSVC_ALLOW_"))}
    assert unknown == security
    done = subprocess.run([server_bin, "--print-config"], capture_output=True, text=True,
                          env=settings)
    assert done.returncode == 0, done.stderr
    for name in sorted(set(settings) - security):
        flag = name.removeprefix("HISTSVC_").lower().replace("_", "-")
        assert re.search(rf"^{flag} = ", done.stdout, re.M), f"{flag} is not in the configuration"
    if security:
        pytest.xfail(f"this build of the server has no TLS: {sorted(security)}")
