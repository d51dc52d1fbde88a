"""scripts/release refuses what is not one thing only: a changed tree, a commit that is not tagged with the
version. What it builds, it checks itself.
"""

import os
import re
import shutil
import subprocess

import pytest
import yaml

WORKFLOWS = ".github/workflows"
FILES = ("CHANGELOG.md", "CMakeLists.txt", "scripts/release", "scripts/lib/common.sh", "deploy/image/lib.sh")


@pytest.fixture
def checkout(root, tmp_path):
    """A repository of one commit with what the scripts read."""
    folder = tmp_path / "checkout"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, folder / name)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "-m", "first")
    return folder


def git(folder, *arguments):
    subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True)


def run(checkout, script, *arguments):
    done = subprocess.run([checkout / "scripts" / script, *arguments], capture_output=True, text=True, check=False,
                          timeout=60)
    return done.returncode, done.stderr or done.stdout


def version(root):
    return re.search(r"^project\(histogram VERSION ([0-9.]+)", (root / "CMakeLists.txt").read_text(), re.M).group(1)


@pytest.mark.parametrize("tag", (None, "v0.0.1", "{}", "v{}-rc1"))
def test_a_commit_without_the_tag_of_its_version(checkout, root, tag):
    if tag:
        git(checkout, "tag", tag.format(version(root)))
    status, error = run(checkout, "release", "--variants", "cpu", "--no-images")
    assert status == 1 and f"this commit is not tagged v{version(root)}" in error
    assert not (checkout / "dist").exists()


@pytest.mark.parametrize("name", ("CMakeLists.txt", "new-file"))
def test_a_tree_with_changes(checkout, root, name):
    git(checkout, "tag", f"v{version(root)}")
    with open(checkout / name, "a", encoding="utf-8") as file:
        file.write("\n")
    status, error = run(checkout, "release", "--variants", "cpu", "--no-images")
    assert status == 1 and "the tree has changes" in error
    assert not (checkout / "dist").exists()


@pytest.mark.parametrize(("arguments", "message"), (
    (("--variants", "rocm"), "unknown variant 'rocm'"),
    (("--no-images", "--push", "registry.example.com/histogram"), "leave out --no-images"),
    (("--fast",), "unknown argument '--fast'"),
))
def test_what_makes_no_sense(checkout, arguments, message):
    status, error = run(checkout, "release", *arguments)
    assert status == 1 and message in error


def test_notes_are_what_the_changelog_says_of_the_version(checkout, root):
    git(checkout, "tag", f"v{version(root)}")
    assert run(checkout, "release", "--notes")[1].endswith(f"CHANGELOG.md has no section [{version(root)}]\n")
    (checkout / "CHANGELOG.md").write_text(
        f"## [Unreleased]\nlater\n\n## [{version(root)}] - 2026-12-01\n\n### Added\n- this\n\n## [0.0.1]\nbefore\n")
    status, notes = run(checkout, "release", "--notes", "--allow-dirty")
    assert status == 0 and notes.strip() == "### Added\n- this"


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
