#!/usr/bin/env python3
"""remember.py runs a test again as soon as anything that it was given has changed, and whenever it failed."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parent / "remember.py"


class Remember(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.input = self.root / "input"
        self.input.mkdir()
        (self.input / "file").write_text("one", encoding="utf-8")
        self.log = self.root / "log"

    def run_test(self, status=0, memory=True):
        """Whether the command ran, and the exit status."""
        before = self.log.stat().st_size if self.log.exists() else 0
        environment = {name: value for name, value in os.environ.items() if name != "HISTOGRAM_TEST_MEMORY"}
        if memory:
            environment["HISTOGRAM_TEST_MEMORY"] = str(self.root / "memory")
        done = subprocess.run(
            [sys.executable, TOOL, "--input", self.input, "--", "sh", "-c", f"echo ran >>{self.log}; exit {status}"],
            env=environment, stdout=subprocess.DEVNULL, check=False)
        after = self.log.stat().st_size if self.log.exists() else 0
        return after > before, done.returncode

    def test_what_passed_is_not_run_again(self):
        self.assertEqual(self.run_test(), (True, 0))
        self.assertEqual(self.run_test(), (False, 0))

    def test_without_a_memory_everything_runs(self):
        self.assertEqual(self.run_test(memory=False), (True, 0))
        self.assertEqual(self.run_test(memory=False), (True, 0))

    def test_a_changed_or_new_file_makes_it_run(self):
        self.run_test()
        (self.input / "file").write_text("two", encoding="utf-8")
        self.assertEqual(self.run_test(), (True, 0))
        (self.input / "another").write_text("", encoding="utf-8")
        self.assertEqual(self.run_test(), (True, 0))
        self.assertEqual(self.run_test(), (False, 0))

    def test_a_failure_is_not_remembered(self):
        self.assertEqual(self.run_test(status=3), (True, 3))
        self.assertEqual(self.run_test(status=3), (True, 3))


if __name__ == "__main__":
    unittest.main()
