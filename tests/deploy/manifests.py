"""What the tests of the chart share: how objects are made, found and validated.

As a program it prints deploy/kubernetes/histogram.yaml, with the environment of make-python:

    python tests/deploy/manifests.py >deploy/kubernetes/histogram.yaml
"""

import functools
import json
import pathlib

import jsonschema
import kubernetes_validate
import pytest
import yaml
from operator_schemas import SCHEMAS

KUBERNETES_VERSIONS = ("1.29", "1.31", "1.33")
CHART = pathlib.Path(__file__).resolve().parents[2] / "deploy/helm/histogram"


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


def helm():
    """Helm itself, as a library."""
    return pytest.importorskip("helm_python", reason="helm-python-sdk is not installed (x86-64 has a wheel of it)")


@functools.lru_cache(maxsize=None)
def _render_chart(values, name, namespace):
    with helm().Chart.load(CHART) as chart:
        return chart.render(json.loads(values), name=name, namespace=namespace)


def render_chart_files(values, name="histogram", namespace="histogram"):
    """{path of a template: its text} with these values."""
    return _render_chart(json.dumps(values), name, namespace)


def render_chart(values, name="histogram", namespace="histogram"):
    """All objects of the chart, as a list of dicts."""
    return [each for path, text in render_chart_files(values, name, namespace).items()
            if not path.endswith("NOTES.txt")
            for each in yaml.safe_load_all(text) if each is not None]


def with_defaults():
    """The chart with its default values, in a form that kubectl takes."""
    head = "# The Helm chart of deploy/helm/histogram with its default values. Made by tests/deploy/manifests.py.\n"
    return head + yaml.safe_dump_all(render_chart({}), sort_keys=False, width=100, explicit_start=True)


if __name__ == "__main__":
    print(with_defaults(), end="")
