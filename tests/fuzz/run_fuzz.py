#!/usr/bin/env python3
"""Fuzzes for a while: run_fuzz.py --seconds N [--build build/fuzz] [TARGET ...]

Runs each libFuzzer target of the build for its share of N seconds, from the committed corpus; inputs
that reach new code are kept in the build folder, for the next run. Ends with 1 when a target fails;
the input that did it lies in BUILD/fuzz-artifacts then. Make the build with
  cmake --preset fuzz && cmake --build --preset fuzz
"""

import argparse
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGET_LIMITS = ("-max_len=4096", "-timeout=10", "-rss_limit_mb=2048")


def is_fuzzer(binary):
    """Whether it was linked with libFuzzer (other builds run the corpus only)."""
    done = subprocess.run([binary, "-help=1"], capture_output=True, text=True, check=False)
    return "libFuzzer" in done.stdout + done.stderr


def fuzz(binary, seconds, build):
    name = binary.name
    artifacts, found = build / "fuzz-artifacts", build / "fuzz-corpus" / name
    artifacts.mkdir(parents=True, exist_ok=True)
    found.mkdir(parents=True, exist_ok=True)
    print(f"{name}: {seconds} s", flush=True)
    done = subprocess.run(
        [binary, *TARGET_LIMITS, f"-max_total_time={seconds}", "-print_final_stats=1",
         f"-artifact_prefix={artifacts}/{name}-", found, HERE / "corpus" / name],
        capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    if done.returncode == 0:
        print("\n".join(f"  {line}" for line in lines if line.startswith("stat::number")))
        return True
    began = next((index for index, line in enumerate(lines)
                  if "failed: " in line or "ERROR: " in line), max(0, len(lines) - 40))
    print("\n".join(lines[began:began + 60]))
    print(f"{name} failed; the input is in {artifacts}")
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="in all (default: 60)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "fuzz")
    parser.add_argument("targets", nargs="*", help="default: every target of the build")
    arguments = parser.parse_args()
    names = arguments.targets or sorted(path.name for path in (HERE / "corpus").iterdir())
    binaries = [arguments.build.resolve() / "bin" / name for name in names]
    for binary in binaries:
        if not binary.exists() or not is_fuzzer(binary):
            sys.exit(f"{binary} is no libFuzzer program: build it with the preset 'fuzz'")
    seconds = max(1, arguments.seconds // len(binaries))
    results = [fuzz(binary, seconds, arguments.build.resolve()) for binary in binaries]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
