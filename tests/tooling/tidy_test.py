#!/usr/bin/env python3
"""Tests of scripts/tidy: it finds what is wrong, and looks again only when something has changed."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLEAN = '#include "kernels/one.h"\n\nint Answer() { return kOne; }\n'
DIRTY = '#include "kernels/one.h"\n\nint* Answer() { return 0; }\n'
HEADER = "#ifndef ONE_H_\n#define ONE_H_\ninline constexpr int kOne = 1;\n#endif  // ONE_H_\n"


class Tidy(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name).resolve() / "clone"
        (self.root / "scripts").mkdir(parents=True)
        (self.root / "kernels").mkdir()
        (self.root / "build").mkdir()
        shutil.copy(ROOT / "scripts" / "tidy", self.root / "scripts" / "tidy")
        (self.root / ".clang-tidy").write_text(
            "Checks: '-*,modernize-use-nullptr'\nWarningsAsErrors: '*'\n")
        (self.root / "kernels" / "one.h").write_text(HEADER)
        self.write(CLEAN)
        self.configure("")

    def write(self, text):
        (self.root / "kernels" / "one.cc").write_text(text)

    def configure(self, flags):
        source = self.root / "kernels" / "one.cc"
        (self.root / "build" / "compile_commands.json").write_text(json.dumps([{
            "directory": str(self.root / "build"),
            "command": f"/usr/bin/ccache /usr/bin/c++ -I{self.root} {flags} -o one.o -c {source}",
            "file": str(source)}]))

    def tidy(self, *flags):
        """Returns (exit status, output)."""
        done = subprocess.run(
            [self.root / "scripts" / "tidy", "--build-dir", self.root / "build", *flags],
            capture_output=True, text=True, check=False,
            env={**os.environ, "XDG_CACHE_HOME": str(self.root / "cache")})
        return done.returncode, done.stdout + done.stderr

    def tidy_one(self):
        """Returns (exit status, files that were remembered as clean, output)."""
        status, output = self.tidy()
        last = output.strip().splitlines()[-1]
        remembered = int(last.split(",")[1].split()[0]) if last.startswith("tidy: 1 files") else None
        return status, remembered, output

    def expect(self, status, remembered):
        found_status, found_remembered, output = self.tidy_one()
        self.assertEqual((found_status, found_remembered), (status, remembered), output)
        return output

    def test_remembers_what_was_clean(self):
        self.expect(0, 0)
        self.expect(0, 1)

    def test_finds_and_never_remembers_what_is_wrong(self):
        self.write(DIRTY)
        self.assertIn("use nullptr", self.expect(1, 0))
        self.expect(1, 0)

    def test_looks_again_when_the_source_changes(self):
        self.expect(0, 0)
        self.write(DIRTY)
        self.expect(1, 0)
        self.write(CLEAN)
        self.expect(0, 1)

    def test_looks_again_when_a_header_changes(self):
        self.expect(0, 0)
        (self.root / "kernels" / "one.h").write_text(HEADER.replace("kOne = 1", "*kOne = 0"))
        self.assertIn("one.h", self.expect(1, 0))

    def test_looks_again_when_the_command_or_the_checks_change(self):
        self.expect(0, 0)
        self.configure("-DNDEBUG")
        self.expect(0, 0)
        (self.root / ".clang-tidy").write_text(
            "Checks: '-*,modernize-use-nullptr,modernize-use-override'\nWarningsAsErrors: '*'\n")
        self.expect(0, 0)

    def add_second(self, text):
        """A second source with the same command, so that the two are looked at together."""
        database = self.root / "build" / "compile_commands.json"
        second = self.root / "kernels" / "two.cc"
        second.write_text(text)
        first = json.loads(database.read_text())[0]
        database.write_text(json.dumps([first, {
            **first, "file": str(second), "command": first["command"].replace("one.cc", "two.cc")}]))

    def run_two(self):
        """The same of a run over two files, with one job."""
        return self.tidy("--jobs", "1")

    def test_tells_which_of_several_is_wrong(self):
        self.add_second(DIRTY.replace("Answer", "Other"))
        status, output = self.run_two()
        self.assertEqual(status, 1, output)
        self.assertIn("two.cc:3", output)
        self.assertNotIn("one.cc:", output)
        self.assertIn("2 files, 0 unchanged since they were clean, 1 with findings", output)
        self.assertIn("2 files, 1 unchanged since they were clean, 1 with findings", self.run_two()[1])

    def test_sources_that_do_not_go_together_are_looked_at_alone(self):
        self.add_second(CLEAN)  # defines the same function
        status, output = self.run_two()
        self.assertEqual((status, "2 files" in output), (0, True), output)

    def test_looks_at_each_source_of_a_unity_build(self):
        self.add_second(DIRTY.replace("Answer", "Other"))
        together = self.root / "build" / "one.dir" / "Unity" / "unity_0_cxx.cxx"
        together.parent.mkdir(parents=True)
        together.write_text("".join(
            f'#include "{self.root}/kernels/{name}.cc"\n' for name in ("one", "two")))
        (self.root / "build" / "compile_commands.json").write_text(json.dumps([{
            "directory": str(self.root / "build"), "command": f"c++ -I{self.root} -o x.o -c {together}",
            "file": str(together)}]))
        status, output = self.run_two()
        self.assertEqual(status, 1, output)
        self.assertIn("two.cc:3", output)
        self.assertIn("2 files, 0 unchanged since they were clean, 1 with findings", output)

    def test_another_clone_shares_the_memory(self):
        self.expect(0, 0)
        moved = self.root.parent / "moved"
        self.root.rename(moved)
        self.root = moved
        self.configure("")
        self.expect(0, 1)

    def test_without_a_configured_build_it_says_so(self):
        (self.root / "build" / "compile_commands.json").unlink()
        status, output = self.tidy()
        self.assertEqual(status, 2)
        self.assertIn("configure first", output)


if __name__ == "__main__":
    unittest.main()
