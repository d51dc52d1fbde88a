"""What a result file says of where it comes from: the processor and the commit."""

import platform
import subprocess
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
