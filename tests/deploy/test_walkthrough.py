"""docs/operations/kubernetes.md, done as it says: its values render, its certificates are what the servers
need, and its last step is answered.
"""

import re
import shutil
import subprocess

import pytest
import yaml
from manifests import KUBERNETES_VERSIONS, container_of, pod_of, render_chart, the, validate
from processes import Server, clean_environment, free_port


@pytest.fixture(scope="module")
def page(root):
    return (root / "docs/operations/kubernetes.md").read_text()


def blocks(page, kind, section):
    """The code blocks of that kind below a heading."""
    [text] = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.M | re.S)


def installed(page, section):
    """The objects that the chart makes of the values below that heading."""
    [values] = blocks(page, "yaml", section)
    objects = render_chart(yaml.safe_load(values))
    for document in objects:
        for version in KUBERNETES_VERSIONS:
            validate(document, version)
    return objects


def test_values_of_your_own(page, version):
    objects = installed(page, "2. Choose what to install")
    assert container_of(objects)["image"] == f"registry.internal/histogram:{version}-cuda13"
    assert {"PodMonitor", "PrometheusRule", "Certificate", "Issuer"} <= {each["kind"] for each in objects}
    assert the(objects, "ConfigMap", "histogram-dashboard")


def test_another_release_of_kube_prometheus_stack(page):
    objects = installed(page, "Monitoring")
    for kind in ("PodMonitor", "PrometheusRule"):
        assert the(objects, kind)["metadata"]["labels"]["release"] == "monitoring"


def test_without_client_certificates(page):
    objects = installed(page, "TLS without client certificates")
    assert {each["name"] for each in container_of(objects)["env"]} == {"HISTSVC_TLS_CERT", "HISTSVC_TLS_KEY"}
    [tls] = [volume["projected"] for volume in pod_of(objects)["volumes"] if volume["name"] == "tls"]
    assert [source["secret"]["name"] for source in tls["sources"]] == ["histogram-tls"]


@pytest.fixture(scope="module")
def certificates(page, tmp_path_factory):
    """The folder in which the page's openssl lines were run."""
    folder = tmp_path_factory.mktemp("certificates")
    [lines] = blocks(page, "bash", "3. Certificates")
    done = subprocess.run(["bash", "-euo", "pipefail"], input=lines, text=True, cwd=folder, capture_output=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_certificates_by_hand_are_those_of_cert_manager(certificates):
    def said(name, *what):
        return subprocess.run(["openssl", "x509", "-in", certificates / name, "-noout", *what], check=True,
                              capture_output=True, text=True).stdout
    names = set(re.findall(r"DNS:([\w.-]+)", said("tls.crt", "-ext", "subjectAltName")))
    objects = render_chart({"tls": {"certManager": True}})
    assert names == set(the(objects, "Certificate", "histogram")["spec"]["dnsNames"])
    for name, authority in (("tls", "ca"), ("caller", "client-ca")):
        subprocess.run(["openssl", "verify", "-CAfile", certificates / f"{authority}.crt",
                        certificates / f"{name}.crt"], check=True, capture_output=True)
        assert "CA:FALSE" in said(f"{name}.crt", "-ext", "basicConstraints")


@pytest.mark.live
def test_the_last_step_is_answered(certificates, page, root, server_bin, client_bin):
    """The page's call, with its own certificates, for another port; and no call with a certificate of the servers' CA."""
    [lines] = blocks(page, "bash", "5. Call it")
    call = re.search(r"^histogram-client (?:.*\\\n)*.*$", lines, re.M).group().replace("\\\n", " ").split()[1:]
    shutil.copy(root / "LICENSE", certificates)
    server = Server(server_bin, certificates, "server", f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}",
                    flags=("--drain-delay", "0", "--tls-cert", certificates / "tls.crt",
                           "--tls-key", certificates / "tls.key", "--tls-client-ca", certificates / "client-ca.crt"))

    def answered(*arguments):
        done = subprocess.run([client_bin, *arguments, "--format", "json"], cwd=certificates, capture_output=True,
                              text=True, check=False, env=clean_environment())
        return done.returncode == 0, done.stdout + done.stderr
    try:
        server.start()
        call[call.index("--server") + 1] = server.listen
        right, said = answered(*call)
        assert right, said
        wrong, said = answered(*(each.replace("caller.", "tls.") for each in call))
        assert not wrong, said
    finally:
        server.end()
