#!/usr/bin/env python3
"""Each kind of breaking change is caught, each compatible one is let through."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import proto_compat

HERE = pathlib.Path(__file__).resolve().parent
PROTOC = os.environ.get("PROTOC", "protoc")

BASE = """syntax = "proto3";
package demo.v1;
service Counter {
  rpc One(Question) returns (Answer);
  rpc Many(stream Question) returns (stream Answer);
}
enum Colour { COLOUR_UNSPECIFIED = 0; COLOUR_RED = 1; }
message Question {
  reserved 9;
  reserved "old_name";
  uint32 count = 1;
  optional double lower = 2;
  repeated uint32 marks = 3;
  Colour colour = 4;
  Inner inner = 5;
  oneof source { bytes payload = 15; }
  message Inner { string text = 1; }
}
message Answer { uint64 total = 1; }
"""

# What the check says, and the edits of BASE that it says it of: (before, after).
BREAKS = (
    ("demo.v1.Question.count = 1: removed", ("  uint32 count = 1;\n", "")),
    ("demo.v1.Question.count = 1: removed", ("  uint32 count = 1;\n", ""), ("reserved 9;", "reserved 1, 9;")),
    ("count = 1: renumbered to 7", ("count = 1", "count = 7")),
    ("name changed from count to number", ("count = 1", "number = 1")),
    ("JSON name", ("count = 1", 'count = 1 [json_name = "n"]')),
    ("type changed from uint32 to uint64", ("uint32 count", "uint64 count")),
    ("type changed from demo.v1.Question.Inner to demo.v1.Answer", ("Inner inner = 5", "Answer inner = 5")),
    ("label changed", ("uint32 count", "repeated uint32 count")),
    ("presence", ("optional double lower", "double lower")),
    ("presence", ("  uint32 count", "  optional uint32 count")),
    ("packing", ("marks = 3", "marks = 3 [packed = false]")),
    ("oneof changed from None to source", ("  uint32 count = 1;\n", ""),
     ("bytes payload = 15;", "bytes payload = 15; uint32 count = 1;")),
    ("oneof changed from source to None", ("oneof source { bytes payload = 15; }", "bytes payload = 15;")),
    ("oneof changed from source to origin", ("oneof source", "oneof origin")),
    ("fresh = 9: takes a reserved number", ("reserved 9;", "uint32 fresh = 9;")),
    ("takes a reserved name", ('reserved "old_name";', "uint32 old_name = 20;")),
    ("number 9 is no longer reserved", ("  reserved 9;\n", "")),
    ("message demo.v1.Question.Inner: removed", ("  Inner inner = 5;\n", ""),
     ("  message Inner { string text = 1; }\n", "")),
    ("demo.v1.Colour.COLOUR_RED = 1: removed", (" COLOUR_RED = 1;", "")),
    ("renumbered from 1 to 2", ("COLOUR_RED = 1", "COLOUR_RED = 2")),
    ("method demo.v1.Counter.One: removed", ("  rpc One(Question) returns (Answer);\n", "")),
    ("request type", ("One(Question)", "One(Answer)")),
    ("response type", ("One(Question) returns (Answer)", "One(Question) returns (Question)")),
    ("client streaming", ("Many(stream Question)", "Many(Question)")),
    ("server streaming", ("returns (stream Answer)", "returns (Answer)")),
    ("service demo.v1.Counter: removed", (BASE[BASE.index("service"):BASE.index("enum")], "")),
    ("package changed", ("package demo.v1", "package demo.v2")),
)


class ProtoCompat(unittest.TestCase):
    def descriptor(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "demo.proto"
            path.write_text(text)
            return proto_compat.compile_proto(PROTOC, path)

    def problems(self, *edits):
        """What the check says when each (before, after) of `edits` is applied to BASE."""
        text = BASE
        for before, after in edits:
            self.assertEqual(text.count(before), 1, f"{before!r} must occur once")
            text = text.replace(before, after)
        return proto_compat.compare_sets(self.descriptor(BASE), self.descriptor(text))

    def test_each_break_is_named(self):
        for expected, *edits in BREAKS:
            with self.subTest(expected, edits=edits):
                problems = self.problems(*edits)
                self.assertTrue(any(expected in problem for problem in problems), problems)

    def test_growth_is_compatible(self):
        self.assertEqual(self.problems(), [])
        self.assertEqual(self.problems(
            ("rpc Many", "rpc Extra(Question) returns (Answer);\n  rpc Many"),
            ("COLOUR_RED = 1;", "COLOUR_RED = 1; COLOUR_BLUE = 2;"),
            ("uint64 total = 1;", "uint64 total = 1; string unit = 2; Fresh fresh = 3;"),
            ("bytes payload = 15;", "bytes payload = 15; string uri = 16;"),
            ("message Answer", "message Fresh { bool yes = 1; }\nmessage Answer")), [])

    def test_command_line(self):
        """In a repository of its own: no release, a change within it, a change of what it says."""
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "tests/proto_compat/proto_compat.py"
            proto = pathlib.Path(folder) / "proto/histogram/v1/histogram.proto"
            for path in (script, proto):
                path.parent.mkdir(parents=True)
            shutil.copy(HERE / "proto_compat.py", script)

            def git(*arguments):
                subprocess.run(["git", "-C", folder, "-c", "user.name=t", "-c", "user.email=t@example.com",
                                *arguments], check=True, capture_output=True)

            def run():
                return subprocess.run([sys.executable, script, "--protoc", PROTOC], capture_output=True,
                                      text=True, check=False)

            proto.write_text(BASE)
            git("init", "--quiet")
            git("add", ".")
            git("commit", "--quiet", "-m", "first")
            self.assertEqual(run().returncode, proto_compat.NO_RELEASE)
            git("tag", "v0.1.0")
            self.assertEqual(run().returncode, 0)
            proto.write_text(BASE.replace("uint32 count = 1", "uint32 count = 7"))
            done = run()
            self.assertEqual(done.returncode, 1)
            self.assertIn("renumbered", done.stdout)


if __name__ == "__main__":
    unittest.main()
