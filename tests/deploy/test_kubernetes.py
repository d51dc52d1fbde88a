"""deploy/kubernetes, rendered and held against the Kubernetes schemas and our own rules."""

import copy
import re
import shutil
import subprocess

import jsonschema
import kubernetes_validate
import pytest
import yaml
from kustomize import render
from operator_schemas import SCHEMAS

OVERLAYS = ("cpu", "gpu", "plaintext")
KUBERNETES_VERSIONS = ("1.29", "1.31", "1.33")
IMAGE_SUFFIX = {"cpu": "cpu", "gpu": "cuda13", "plaintext": "cpu"}


@pytest.fixture(scope="module", params=OVERLAYS)
def overlay(request, root):
    return request.param, render(root / "deploy/kubernetes/overlays" / request.param)


def the(objects, kind, name=None):
    [found] = [each for each in objects if each["kind"] == kind
               and name in (None, each["metadata"]["name"])]
    return found


def pod_of(objects):
    return the(objects, "Deployment")["spec"]["template"]["spec"]


def container_of(objects):
    [container] = pod_of(objects)["containers"]
    return container


def validate(document, version):
    """Raises for what that version does not know; unknown fields are errors."""
    if document["kind"] in SCHEMAS:
        jsonschema.Draft202012Validator(SCHEMAS[document["kind"]]).validate(document)
    else:
        kubernetes_validate.validate(document, version, strict=True)


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
    objects = render(root / "deploy/kubernetes/overlays/cpu")
    for kind in sorted({each["kind"] for each in objects}):
        original = next(each for each in objects if each["kind"] == kind)
        changed = copy.deepcopy(original)
        place = changed if "spec" not in changed else changed["spec"]
        place["notAField"] = 1
        with pytest.raises((kubernetes_validate.ValidationError, jsonschema.ValidationError)):
            validate(changed, "1.31")
    deployment = copy.deepcopy(the(objects, "Deployment"))
    deployment["spec"]["template"]["spec"]["containers"][0]["readinessProb"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readinessProb"):
        validate(deployment, "1.31")


def canonical(objects):
    """Without the hashes that kustomize puts behind the names of generated ConfigMaps."""
    text = yaml.safe_dump_all(sorted(objects, key=lambda each: (each["kind"],
                                                                each["metadata"]["name"])))
    return re.sub(r"\bhistogram-[0-9a-z]{10}\b(?=\n)", "histogram", text)


def test_our_renderer_agrees_with_kustomize(overlay, root):
    kubectl = shutil.which("kubectl")
    command = [kubectl, "kustomize"] if kubectl else [shutil.which("kustomize"), "build"]
    if not command[0]:
        pytest.skip("neither kubectl nor kustomize is installed")
    name, objects = overlay
    done = subprocess.run([*command, root / "deploy/kubernetes/overlays" / name], check=True,
                          capture_output=True, text=True)
    assert canonical(objects) == canonical(list(yaml.safe_load_all(done.stdout)))


# ------------------------------------------------------------------------------------- our rules
def test_images_are_of_this_version(overlay, root):
    name, objects = overlay
    version = re.search(r"^project\(histogram VERSION ([0-9.]+)",
                        (root / "CMakeLists.txt").read_text(), re.M).group(1)
    image = container_of(objects)["image"]
    assert image.split("@")[0].endswith(f":{version}-{IMAGE_SUFFIX[name]}"), image
    for each in objects:
        if each["kind"] not in ("ConfigMap", "HorizontalPodAutoscaler"):
            assert each["metadata"]["labels"]["app.kubernetes.io/version"] == version


def test_pods_are_hardened(overlay):
    """What the Pod Security Standard `restricted` asks for, and a bit more."""
    pod, container = pod_of(overlay[1]), container_of(overlay[1])
    assert pod["automountServiceAccountToken"] is False and pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert all(set(volume) - {"name"} <= {"emptyDir", "secret", "configMap"}
               for volume in pod["volumes"])
    context = container["securityContext"]
    assert context["allowPrivilegeEscalation"] is False and not context["privileged"]
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert "sizeLimit" in pod["volumes"][0]["emptyDir"]


def test_requests_are_limits(overlay):
    resources = container_of(overlay[1])["resources"]
    assert resources["requests"] == resources["limits"]
    assert {"cpu", "memory"} <= set(resources["limits"])


def test_pods_have_time_to_drain(overlay):
    pod, container = pod_of(overlay[1]), container_of(overlay[1])
    settings = the(overlay[1], "ConfigMap")["data"]
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
    settings = the(objects, "ConfigMap")["data"]
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
    secrets = [volume for volume in pod["volumes"] if "secret" in volume]
    settings = {each["name"]: each["value"] for each in container.get("env", [])}
    if name == "plaintext":
        assert not secrets and not settings
        assert the(objects, "ConfigMap")["data"]["HISTSVC_ALLOW_PLAINTEXT"] == "true"
        return
    [mount] = [mount for mount in container["volumeMounts"] if mount["name"] == secrets[0]["name"]]
    assert mount["readOnly"] is True
    assert len(settings) == 3
    assert all(value.startswith(mount["mountPath"] + "/") for value in settings.values())
    assert "HISTSVC_ALLOW_PLAINTEXT" not in the(objects, "ConfigMap")["data"]


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


def test_gpu_overlay(root):
    objects = render(root / "deploy/kubernetes/overlays/gpu")
    deployment, pod = the(objects, "Deployment")["spec"], pod_of(objects)
    assert container_of(objects)["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert deployment["replicas"] >= 2
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert pod["nodeSelector"] and pod["tolerations"][0]["key"] == "nvidia.com/gpu"
    assert the(objects, "ConfigMap")["data"]["HISTSVC_REQUIRE_BACKEND"] == "cuda"
    assert not [each for each in objects if each["kind"] == "HorizontalPodAutoscaler"]


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
    assert made == (root / "deploy/kubernetes/base/prometheusrule.yaml").read_text()
    groups = []
    for name in ("recording", "alerting"):
        path = root / f"deploy/prometheus/{name}.rules.yaml"
        groups += yaml.safe_load(path.read_text())["groups"]
    assert yaml.safe_load(made)["spec"]["groups"] == groups


def settings_of(objects):
    settings = dict(the(objects, "ConfigMap")["data"])
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
