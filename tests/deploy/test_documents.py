"""docs/operations and the image's sources: links lead somewhere, names and numbers agree."""

import json
import os
import re
import subprocess

import pytest

PAGES = ("alerts", "container", "kubernetes", "sizing", "upgrade", "scaling")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(root, page):
    folder = root / "docs/operations"
    text = (folder / f"{page}.md").read_text()
    for target in re.findall(r"\]\(([^)]+)\)", text):
        file, _, anchor = target.partition("#")
        assert not target.startswith("http"), f"{page}: {target} is outside of the repository"
        path = folder / file if file else folder / f"{page}.md"
        assert path.exists(), f"{page}: {target}"
        if anchor:
            headings = re.findall(r"^#+ +(.*)$", path.read_text(), re.M)
            assert anchor in {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-")
                              for h in headings}, f"{page}: {target}"


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_exist(root, page):
    text = (root / f"docs/operations/{page}.md").read_text()
    for name in re.findall(r"`((?:deploy|scripts|docs|tests)/[\w./-]+)", text):
        assert (root / name.rstrip("./")).exists(), f"{page}: {name}"


@pytest.mark.parametrize("page", PAGES)
def test_operations_leads_to_each_page(root, page):
    assert f"operations/{page}.md" in (root / "docs/OPERATIONS.md").read_text()


def known_flags(root):
    text = (root / "server/config_table.cc").read_text()
    flags = set(re.findall(r'\{\s*"([a-z][a-z0-9-]+)",\s*kGroup', text))
    assert len(flags) > 30
    return flags


@pytest.mark.parametrize("page", PAGES)
def test_settings_that_are_named_exist(root, page):
    text = (root / f"docs/operations/{page}.md").read_text()
    variables = {name.lower().replace("_", "-") for name in re.findall(r"HISTSVC_([A-Z][A-Z_]+)", text)}
    assert not variables - known_flags(root)


def test_settings_of_the_image_exist(root):
    text = (root / "Dockerfile").read_text() + (root / "deploy/compose/compose.yaml").read_text()
    variables = {name.lower().replace("_", "-") for name in re.findall(r"HISTSVC_([A-Z][A-Z_]+)", text)}
    assert variables and not variables - known_flags(root)


def test_dockerfile_has_what_the_image_needs(root):
    text = (root / "Dockerfile").read_text()
    final = text[text.rindex("\nFROM "):]
    assert "FROM scratch" in final
    assert re.search(r"^USER 65532:65532$", final, re.M)
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in final
    assert "NVIDIA_VISIBLE_DEVICES" not in text
    assert "HEALTHCHECK" in final and '"/usr/bin/histogram-client", "health"' in final
    for label in ("title", "description", "version", "revision"):
        assert f"org.opencontainers.image.{label}=" in final
    assert ":latest" not in text


@pytest.mark.live
def test_package_list_of_this_build(root, server_bin):
    build = server_bin.parent.parent
    if not (build / "build.ninja").exists():
        pytest.skip("the programs were not built by Ninja here")
    if not (root / "deploy/image/make-sbom").exists() or not os.path.exists("/usr/bin/dpkg-query"):
        pytest.skip("no Debian packages here")
    made = subprocess.run([root / "deploy/image/make-sbom", build, "1.2.3"], check=True,
                          capture_output=True, text=True, env={**os.environ,
                                                               "SOURCE_DATE_EPOCH": "1700000000"})
    document = json.loads(made.stdout)
    assert document["spdxVersion"] == "SPDX-2.3"
    assert document["creationInfo"]["created"] == "2023-11-14T22:13:20Z"
    names = {package["name"] for package in document["packages"]}
    assert {"histogram", "libgrpc-dev", "libprotobuf-dev", "libabsl-dev", "libcli11-dev", "libc6",
            "ca-certificates", "libssl-dev", "prometheus-cpp-dev"} <= names
    ids = [package["SPDXID"] for package in document["packages"]]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", each) for each in ids)
    assert all(package["versionInfo"] for package in document["packages"])
    related = {each["relatedSpdxElement"] for each in document["relationships"]}
    assert related == set(ids)
