"""The workflows that release: they call what there is, and may do no more than they have to."""

import os
import re
import shutil
import subprocess

import yaml

WORKFLOWS = ".github/workflows"
def test_the_workflow_calls_scripts_that_exist_with_options_that_they_know(root):
    text = (root / WORKFLOWS / "release.yml").read_text()
    calls = re.findall(r"(?<![\w/])((?:scripts|deploy)/[\w/-]+)((?: +--[a-z-]+(?: [^-\s]\S*)?)*)", text)
    assert {script for script, _ in calls} == {"scripts/release", "scripts/build-wheels", "deploy/helm/histogram"}
    for script, options in calls:
        assert (root / script).exists(), script
        for option in re.findall(r"--[a-z-]+", options) if script.startswith("scripts/") else ():
            assert option in subprocess.run([root / script, "--help"], capture_output=True, text=True,
                                            check=True).stdout, (script, option)


def test_what_publishes_may_do_no_more_than_it_has_to(root):
    workflow = yaml.safe_load((root / WORKFLOWS / "release.yml").read_text())
    assert workflow["permissions"] == {"contents": "read"}
    granted = {name: job["permissions"] for name, job in workflow["jobs"].items() if "permissions" in job}
    signs = {"contents": "read", "id-token": "write"}
    assert granted == {"platform-images": signs, "images": signs, "chart": signs, "pypi": {"id-token": "write"},
                       "release": {"contents": "write"}}


def test_actionlint_finds_nothing(root):
    program = shutil.which("actionlint", path=f"{root}/.venv/bin:{os.environ['PATH']}")
    assert program, "actionlint is not installed (scripts/install-deps --with-tests)"
    subprocess.run([program, *(root / WORKFLOWS).glob("*.yml")], check=True)
