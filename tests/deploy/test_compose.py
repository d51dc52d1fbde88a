"""deploy/compose: what it mounts is there, what it starts is pinned, and nothing is open to others."""

import re

import pytest
import yaml

FILES = ("compose.yaml", "compose.gpu.yaml")
@pytest.fixture(scope="module")
def folder(root):
    return root / "deploy/compose"


@pytest.fixture(scope="module")
def services(folder):
    return yaml.safe_load((folder / "compose.yaml").read_text())["services"]


@pytest.mark.parametrize("name", FILES)
def test_images_are_pinned(folder, name, version):
    for service in yaml.safe_load((folder / name).read_text())["services"].values():
        image = re.sub(r"^\$\{HISTOGRAM_IMAGE:-(.*)\}$", r"\1", service["image"])
        tag = image.rpartition(":")[2]
        assert re.match(r"v?\d+\.\d+\.\d+", tag), image
        if image.startswith("histogram:"):
            assert tag.split("-")[0] == version


def test_up_builds_the_image_by_itself(folder, services, root, version):
    """From this repository's Dockerfile, with arguments that it knows; with a GPU by the toolkit of the tag."""
    known = set(re.findall(r"^ARG (\w+)", (root / "Dockerfile").read_text(), re.M))
    build = services["histogram"]["build"]
    assert (folder / build["context"]).resolve() == root and build["args"]["VERSION"] == version
    gpu = yaml.safe_load((folder / "compose.gpu.yaml").read_text())["services"]["histogram"]
    assert set(build["args"]) | set(gpu["build"]["args"]) <= known
    major = gpu["build"]["args"]["CUDA_VERSION"].split(".")[0]
    assert gpu["image"].endswith(f"-cuda{major}}}")


def test_what_is_mounted_exists(folder, services):
    volumes = yaml.safe_load((folder / "compose.yaml").read_text())["volumes"]
    for service in services.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (folder / source).exists(), source
            else:
                assert source in volumes


def test_nothing_is_published_beyond_this_machine(services):
    for service in services.values():
        for port in service["ports"]:
            assert port.startswith("127.0.0.1:"), port


def test_the_server_is_hardened(services):
    server = services["histogram"]
    assert server["read_only"] and server["cap_drop"] == ["ALL"] and server["mem_limit"]
    assert server["ulimits"]["core"] == 0
    assert "no-new-privileges:true" in server["security_opt"]


def test_prometheus_finds_the_server_and_its_rules(folder, services, root):
    config = yaml.safe_load((root / "deploy/prometheus/prometheus.yml").read_text())
    mounted = {volume.split(":")[1] for volume in services["prometheus"]["volumes"]}
    for rules in config["rule_files"]:
        assert f"/etc/prometheus/{rules}" in mounted
    targets = yaml.safe_load((folder / "targets/histogram.yaml").read_text())
    [target] = targets[0]["targets"]
    host, port = target.split(":")
    assert host in services
    assert any(published.endswith(f":{port}") for published in services[host]["ports"])


def test_grafana_asks_that_prometheus(services, root):
    path = root / "deploy/grafana/provisioning/datasources/prometheus.yaml"
    [source] = yaml.safe_load(path.read_text())["datasources"]
    host, port = re.fullmatch(r"http://(\w+):(\d+)", source["url"]).groups()
    assert services[host]["ports"][0].endswith(f":{port}")
    dashboards = yaml.safe_load((path.parents[1] / "dashboards/histogram.yaml").read_text())["providers"][0]["options"]
    assert dashboards["path"] in {volume.split(":")[1] for volume in services["grafana"]["volumes"]}
