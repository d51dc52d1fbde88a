"""Renders the kustomizations of deploy/kubernetes without kustomize, for the checks only.

Knows what these files use and refuses everything else: namespace, resources, components, labels (pairs,
includeTemplates), images (newName, newTag, digest), configMapGenerator (literals, files, merge, labels)
and JSON patches (RFC 6902: add, remove, replace, test). Generated ConfigMaps get no hash behind their
names. Where kubectl is installed a test compares the result with `kubectl kustomize`.
"""

import copy
import pathlib
import re

import yaml

KNOWN = {"apiVersion", "kind", "namespace", "resources", "components", "labels", "images", "configMapGenerator", "patches"}


class RenderError(Exception):
    pass


def render(folder):
    """All objects of the kustomization in `folder`, as a list of dicts."""
    objects = []
    _accumulate(pathlib.Path(folder).resolve(), "Kustomization", objects)
    return objects


def _accumulate(folder, kind, objects):
    """Does to `objects` what the kustomization, or component, in `folder` says."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    unknown = set(kustomization) - KNOWN
    if unknown:
        raise RenderError(f"{folder}: this renderer does not know {sorted(unknown)}")
    if kustomization["kind"] != kind:
        raise RenderError(f"{folder} is no {kind}")
    for resource in kustomization.get("resources", []):
        path = folder / resource
        if path.is_dir():
            objects += render(path)
        else:
            objects += [each for each in yaml.safe_load_all(path.read_text()) if each is not None]
    for component in kustomization.get("components", []):
        _accumulate((folder / component).resolve(), "Component", objects)
    for generator in kustomization.get("configMapGenerator", []):
        _generate(objects, generator, folder)
    for patch in kustomization.get("patches", []):
        _patch(objects, patch)
    for label in kustomization.get("labels", []):
        _label(objects, label)
    for image in kustomization.get("images", []):
        _set_image(objects, image)
    for each in objects if "namespace" in kustomization else ():
        each["metadata"]["namespace"] = kustomization["namespace"]


def _generate(objects, generator, folder):
    options = generator.get("options", {})
    unknown = set(generator) - {"name", "behavior", "literals", "files", "options"} | set(options) - {
        "disableNameSuffixHash", "labels"}
    if unknown:
        raise RenderError(f"this renderer does not know {sorted(unknown)}")
    data = dict(literal.split("=", 1) for literal in generator.get("literals", []))
    for file in generator.get("files", []):
        path = (folder / file).resolve()
        if not path.is_relative_to(folder):
            raise RenderError(f"{file} is not in {folder}, and Kustomize reads nothing outside")
        data[path.name] = path.read_text()
    existing = [each for each in objects if each["kind"] == "ConfigMap"
                and each["metadata"]["name"] == generator["name"]]
    if generator.get("behavior", "create") == "merge":
        if len(existing) != 1:
            raise RenderError(f"no one ConfigMap {generator['name']} to merge with")
        existing[0]["data"].update(data)
    elif existing:
        raise RenderError(f"ConfigMap {generator['name']} exists already")
    else:
        metadata = {"name": generator["name"]}
        if "labels" in options:
            metadata["labels"] = dict(options["labels"])
        objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def _patch(objects, patch):
    target = patch["target"]
    if set(target) - {"kind", "name"} or set(patch) - {"target", "patch"}:
        raise RenderError(f"this renderer knows targets by kind and name only: {patch}")
    matched = [each for each in objects if re.fullmatch(target["kind"], each["kind"])
               and re.fullmatch(target["name"], each["metadata"]["name"])]
    if not matched:
        raise RenderError(f"nothing matches {target}")
    operations = yaml.safe_load(patch["patch"])
    for each in matched:
        for operation in operations:
            _apply(each, copy.deepcopy(operation))


def _apply(document, operation):
    *parents, last = [part.replace("~1", "/").replace("~0", "~")
                      for part in operation["path"].split("/")[1:]]
    at = document
    for part in parents:
        at = at[int(part)] if isinstance(at, list) else at[part]
    key = last if isinstance(at, dict) else len(at) if last == "-" else int(last)
    kind = operation["op"]
    if kind in ("remove", "replace", "test") and isinstance(at, dict) and key not in at:
        raise RenderError(f"{operation['path']} is not there")
    if kind == "add" and isinstance(at, list):
        at.insert(key, operation["value"])
    elif kind in ("add", "replace"):
        at[key] = operation["value"]
    elif kind == "remove":
        del at[key]
    elif kind == "test":
        if at[key] != operation["value"]:
            raise RenderError(f"{operation['path']} is {at[key]!r}, not {operation['value']!r}")
    else:
        raise RenderError(f"unknown operation {kind}")


def _label(objects, label):
    if set(label) - {"pairs", "includeTemplates"}:
        raise RenderError(f"this renderer does not know {sorted(label)}")
    for each in objects:
        each["metadata"].setdefault("labels", {}).update(label["pairs"])
        template = each.get("spec", {}).get("template")
        if label.get("includeTemplates") and template:
            template["metadata"].setdefault("labels", {}).update(label["pairs"])


def _set_image(objects, image):
    for each in objects:
        pod = each.get("spec", {}).get("template", {}).get("spec", {})
        for container in pod.get("initContainers", []) + pod.get("containers", []):
            if re.split(r"[:@]", container["image"])[0] == image["name"]:
                container["image"] = image["newName"] + (
                    f":{image['newTag']}" if "newTag" in image else "") + (
                    f"@{image['digest']}" if "digest" in image else "")
