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

    def tidy(self):
        """Returns (exit status, files that were remembered as clean, output)."""
        done = subprocess.run(
            [self.root / "scripts" / "tidy", "--build-dir", self.root / "build"],
            capture_output=True, text=True, check=False,
            env={**os.environ, "XDG_CACHE_HOME": str(self.root / "cache")})
        output = done.stdout + done.stderr
        last = output.strip().splitlines()[-1]
        remembered = int(last.split(",")[1].split()[0]) if last.startswith("tidy: 1 files") else None
        return done.returncode, remembered, output

    def expect(self, status, remembered):
        found_status, found_remembered, output = self.tidy()
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

    def test_another_clone_shares_the_memory(self):
        self.expect(0, 0)
        moved = self.root.parent / "moved"
        self.root.rename(moved)
        self.root = moved
        self.configure("")
        self.expect(0, 1)

    def test_without_a_configured_build_it_says_so(self):
        (self.root / "build" / "compile_commands.json").unlink()
        status, _, output = self.tidy()
        self.assertEqual(status, 2)
        self.assertIn("configure first", output)


if __name__ == "__main__":
    unittest.main()
