"""What a result file says of where it comes from."""

import datetime
import platform
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def processor():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def commit():
    """The checkout's, with -dirty where tracked files differ from it."""
    def git(*arguments):
        return subprocess.run(["git", "-C", ROOT, *arguments], check=True, capture_output=True,
                              text=True).stdout.strip()
    changed = git("status", "--porcelain", "--untracked-files=no")
    return git("rev-parse", "--short", "HEAD") + ("-dirty" if changed else "")


def origin(program, its_commit=None):
    """The fields that every result begins with."""
    return {"command": shlex.join([program, *sys.argv[1:]]), "commit": its_commit or commit(),
            "date": datetime.date.today().isoformat(), "cpu": processor()}
