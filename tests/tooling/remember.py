#!/usr/bin/env python3
"""Runs a slow test, unless it has passed with exactly the same inputs before.

  remember.py [--input FILE_OR_FOLDER]... -- COMMAND...

The inputs are the named files and folders (of folders: everything but caches), the command itself and the
processor's model. What passed is remembered below $HISTOGRAM_TEST_MEMORY; where that is not set, the command
always runs. scripts/test sets it, but not in continuous integration and not with --again.
"""
import hashlib
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
IGNORED = {"__pycache__", ".pytest_cache", ".hypothesis", ".git", "build", ".venv"}


def files_of(path):
    if path.is_file():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in IGNORED)
        for name in sorted(names):
            yield pathlib.Path(folder) / name


def processor():
    """Which kernels can run depends on it, and so what a test tests."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return "".join(sorted({line for line in lines if line.startswith(("model name", "flags"))}))


def key_of(inputs, command):
    digest = hashlib.sha256()
    digest.update("\0".join(word.replace(str(ROOT), "ROOT") for word in command).encode())
    digest.update(processor().encode() + pathlib.Path(__file__).read_bytes())
    for path in inputs:
        for file in files_of(path):
            digest.update(str(file).replace(str(ROOT), "ROOT").encode() + b"\0")
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def main():
    words = sys.argv[1:]
    at = words.index("--")
    inputs = [pathlib.Path(path) for path in words[1:at:2]]
    command = words[at + 1:]
    if set(words[0:at:2]) - {"--input"} or not command:
        sys.exit(__doc__)
    memory = os.environ.get("HISTOGRAM_TEST_MEMORY")
    if not memory:
        os.execvp(command[0], command)
    mark = pathlib.Path(memory) / key_of(inputs, command)
    if mark.exists():
        print(f"passed on {mark.read_text(encoding='utf-8').strip()} with the same inputs; scripts/test --again runs it")
        return 0
    done = subprocess.run(command, check=False)
    if done.returncode == 0:
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.write_text(time.strftime("%Y-%m-%d %H:%M:%S UTC\n", time.gmtime()), encoding="utf-8")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
