#!/usr/bin/env python3
"""The documents are true as far as a program can tell: links lead somewhere, the five lines of the
README run against the real server, and every flag that is named exists.

  docs_test.py SERVER_BINARY        run with the Python of .venv
"""

import json
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "service"))

from harness.server import Server  # noqa: E402  (found only now)

SERVER = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else ROOT / "build/release/bin/histogram-server"
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md",
             *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name != "DESIGN.md")]
# Flags of docker, podman, kubectl, helm, cmake, systemctl and others, where the documents use them.
FOREIGN_FLAGS = {f"--{name}" for name in (
    "build build-arg call-graph cap-drop cert command cpunodebind create-namespace data-binary env from-file gpus "
    "health-cmd ignore-missing image install key labels membind memory namespace no-create-home now preset prefix "
    "previous read-only restart rm security-opt set shell show-labels system time ulimit values").split()}


class Documents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server(SERVER, cls.folder.name, ["--http-listen", "127.0.0.1:0", "--drain-delay", "0"])

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.folder.cleanup()

    def test_the_readmes_commands_count_what_is_in_this_repository(self):
        readme = (ROOT / "README.md").read_text()
        commands = re.search(r"^Count files\..*?```\n(.*?)```", readme, re.M | re.S).group(1)
        self.assertGreaterEqual(len(commands.splitlines()), 6)
        with tempfile.TemporaryDirectory() as folder:
            for name in ("LICENSE", "README.md"):
                shutil.copy(ROOT / name, folder)
            for name in ("docs", "examples"):
                shutil.copytree(ROOT / name, f"{folder}/{name}")
            path = f"{SERVER.resolve().parent}:{os.environ['PATH']}"
            for command in commands.splitlines():
                done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, check=False,
                                      env={**os.environ, "PATH": path}, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), command)

    def test_links_lead_somewhere(self):
        checked = 0
        for document in DOCUMENTS:
            text = document.read_text()
            for link, image in re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", text):
                if re.match(r"[a-z]+:", link or image):
                    continue
                file, _, section = (link or image).partition("#")
                target = document.parent / file if file else document
                checked += 1
                self.assertTrue(target.exists(), f"{document.relative_to(ROOT)}: {link or image} is not there")
                if section:
                    headings = re.findall(r"^#+ +(.*)$", target.read_text(), re.M)
                    names = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
                    self.assertIn(section, names, f"{document.relative_to(ROOT)}: {link}")
        self.assertGreater(checked, 10)

    def test_the_five_lines_of_the_readme_run(self):
        blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
        code = next(block for block in blocks if "import grpc" in block)
        self.assertEqual(code.count("\n"), 5)
        self.assertEqual(code.count("127.0.0.1:50051"), 1)
        code = code.replace("127.0.0.1:50051", self.server.address)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, capture_output=True, text=True,
            timeout=60, check=False, env={**os.environ, "PYTHONPATH": str(ROOT / "proto")})
        self.assertEqual(done.returncode, 0, done.stderr)
        counts = [int(number) for number in re.search(r"\[(.*)\]", done.stdout).group(1).split(",")]
        data = (ROOT / "LICENSE").read_bytes()
        self.assertEqual(counts, [data.count(value) for value in range(256)])

    def test_the_curl_lines_run(self):
        if shutil.which("curl") is None:
            self.skipTest("curl is not installed")
        lines = [line for name in ("README.md", "docs/HTTP.md")
                 for line in re.findall(r"^(?:tar .*\| )?curl (?:.*\\\n)*.*", (ROOT / name).read_text(), re.M)]
        self.assertGreaterEqual(len(lines), 5)
        file = pathlib.Path(self.folder.name) / "samples"
        file.write_bytes(bytes(range(64)) * 100)  # finite as f32, too
        for line in lines:
            command = (line.replace("127.0.0.1:8080", self.server.http_address)
                       .replace("curl ", "curl -sS --noproxy '*' --fail ")
                       .replace("FILE", str(file)))
            done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=ROOT, check=False,
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""), line)
            answer = json.loads(done.stdout)
            self.assertTrue(answer.get("histograms") or answer["histogram"], line)
        data = (ROOT / "LICENSE").read_bytes()
        first = subprocess.run(["curl", "-sS", "--noproxy", "*", "--data-binary", "@LICENSE",
                                f"http://{self.server.http_address}/v1/histogram?alphabet=a:26:6"], cwd=ROOT, check=True,
                               capture_output=True)
        counts = json.loads(first.stdout)["histograms"][0]["counts"]
        self.assertEqual(counts[0], sum(data.count(letter) for letter in b"abcdef"))

    def test_flags_exist(self):
        text = subprocess.run([SERVER, "--help-all"], capture_output=True, text=True, check=True).stdout
        known = set(re.findall(r"--[a-z][a-z0-9-]*", text.replace("--[no-]", "--")))
        client = SERVER.parent / "histogram-client"
        for command in ([], ["compute"], ["image"], ["describe"], ["health"], ["bench"]):
            text = subprocess.run([client, *command, "--help"], capture_output=True, text=True,
                                  check=True).stdout
            known |= set(re.findall(r"--[a-z][a-z0-9-]*", text))
        # Settings for tests only are in no help; benches and scripts say in their source what they take.
        known |= {f"--{name}" for name in re.findall(
            r'\.name = "([a-z][a-z0-9-]+)"', (ROOT / "server/config/table.cc").read_text())}
        for pattern in ("bench/**/*.py", "bench/**/*.cc", "scripts/*", "scripts/lib/*.py", "tests/hostile/*.py"):
            for path in ROOT.glob(pattern):
                if path.is_file():
                    known |= set(re.findall(r"""["' ](--[a-z][a-z0-9-]*)["') ]""", path.read_text()))
        named = 0
        for document in DOCUMENTS:
            if document.parent.name == "adr":
                continue  # decisions name flags of their time
            for flag in set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", document.read_text())):
                named += 1
                if flag not in FOREIGN_FLAGS:
                    self.assertIn(flag, known, f"{document.relative_to(ROOT)} names {flag}")
        self.assertGreater(named, 100)

    def test_a_page_is_not_made_from_a_result_of_old_code(self):
        report = runpy.run_path(str(ROOT / "bench" / "report.py"))
        path = ROOT / "bench" / "results" / "cpu-2core" / "service.json"
        for later in (250, 251):
            with mock.patch.dict(report["load"].__globals__, commits_since=lambda commit, code: later):
                if later == 250:
                    self.assertTrue(report["load"](path)["rows"])
                    continue
                with self.assertRaisesRegex(SystemExit, "cpu-2core/service.json is too old: server, kernels had 251"):
                    report["load"](path)

    def test_the_product_is_no_larger_than_adr_22_says(self):
        done = subprocess.run(["git", "ls-files", "server", "kernels", "client", "tests"], cwd=ROOT,
                              capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest("no checkout of git")
        listed = done.stdout.split("\n")
        data = re.compile(r"\.(json|txt|png|pgm|ppm|svg|yaml)$|corpus")
        product = [name for name in listed if not name.startswith("tests/") and re.search(r"\.(h|cc|cu|cuh)$", name)]
        tests = [name for name in listed if name.startswith("tests/") and not data.search(name)]
        for names, most in ((product, 38_700), (tests, 33_500)):
            lines = sum((ROOT / name).read_bytes().count(b"\n") for name in names if (ROOT / name).exists())
            self.assertLessEqual(lines, most)


if __name__ == "__main__":
    unittest.main()
