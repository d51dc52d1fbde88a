#!/usr/bin/env python3
"""Tests of cmake/HistogramAllSuites.cmake: ctest over two build folders that hold the same names."""

import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ODD = "a;b [c] \\d ${e}"  # what a careless macro would split or expand

# What CMake writes into a build folder, in short.
TESTFILE = """
add_test([=[where]=] "sh" "-c" "test \\"$WHERE\\" = {suite}")
set_tests_properties([=[where]=] PROPERTIES ENVIRONMENT "WHERE={suite}")
add_test([=[odd]=] "test" [==[{odd}]==] "=" [==[{odd}]==])
add_test([=[empty]=] "test" "" "=" "")
add_test([=[outcome]=] "{outcome}")
"""


class AllSuites(unittest.TestCase):
    def run_ctest(self, outcomes):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            for suite, outcome in outcomes.items():
                (build / suite).mkdir()
                (build / suite / "CTestTestfile.cmake").write_text(
                    TESTFILE.format(suite=suite, odd=ODD, outcome=outcome))
            (build / "test").mkdir()
            (build / "test" / "CTestTestfile.cmake").write_text(
                f"set(HISTOGRAM_SUITES {' '.join(outcomes)})\n"
                f"set(HISTOGRAM_BUILD_ROOT [=[{build}]=])\n"
                f"include([=[{ROOT}/cmake/HistogramAllSuites.cmake]=])\n")
            done = subprocess.run(["ctest"], cwd=build / "test", capture_output=True, text=True,
                                  check=False)
            return done.returncode, done.stdout + done.stderr

    def test_each_folder_keeps_its_own_properties(self):
        status, output = self.run_ctest({"one": "true", "two": "true"})
        self.assertEqual(status, 0, output)
        self.assertIn("100% tests passed, 0 tests failed out of 8", output)
        for name in ("one/where", "two/where", "one/odd", "two/empty"):
            self.assertIn(name, output)

    def test_a_failure_in_any_folder_fails_and_is_named(self):
        status, output = self.run_ctest({"one": "true", "two": "false"})
        self.assertNotEqual(status, 0)
        self.assertIn("two/outcome (Failed)", output)
        self.assertNotIn("one/outcome (Failed)", output)


if __name__ == "__main__":
    unittest.main()
