"""scripts/release refuses what is not one thing only: a changed tree, a commit that is not tagged with the
version. What it builds, it checks itself.
"""

import re
import shutil
import subprocess

import pytest

FILES = ("CMakeLists.txt", "scripts/release", "scripts/lib/common.sh", "deploy/image/lib.sh")


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
    return done.returncode, done.stderr


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
