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

    def assert_breaks(self, expected, *edits):
        problems = self.problems(*edits)
        self.assertTrue(any(expected in problem for problem in problems), problems)

    def assert_compatible(self, *edits):
        self.assertEqual(self.problems(*edits), [])

    def test_no_change(self):
        self.assert_compatible()

    def test_field_removed(self):
        self.assert_breaks("demo.v1.Question.count = 1: removed", ("  uint32 count = 1;\n", ""))

    def test_field_removed_though_reserved(self):
        self.assert_breaks("demo.v1.Question.count = 1: removed",
                           ("  uint32 count = 1;\n", ""), ("reserved 9;", "reserved 1, 9;"))

    def test_field_renumbered(self):
        self.assert_breaks("count = 1: renumbered to 7", ("count = 1", "count = 7"))

    def test_field_renamed(self):
        self.assert_breaks("name changed from count to number", ("count = 1", "number = 1"))

    def test_json_name_changed(self):
        self.assert_breaks("JSON name", ("count = 1", 'count = 1 [json_name = "n"]'))

    def test_field_retyped(self):
        self.assert_breaks("type changed from uint32 to uint64", ("uint32 count", "uint64 count"))
        self.assert_breaks("type changed from demo.v1.Question.Inner to demo.v1.Answer",
                           ("Inner inner = 5", "Answer inner = 5"))

    def test_field_made_repeated(self):
        self.assert_breaks("label changed", ("uint32 count", "repeated uint32 count"))

    def test_presence_changed(self):
        self.assert_breaks("presence", ("optional double lower", "double lower"))
        self.assert_breaks("presence", ("  uint32 count", "  optional uint32 count"))

    def test_packing_changed(self):
        self.assert_breaks("packing", ("marks = 3", "marks = 3 [packed = false]"))

    def test_field_moved_into_a_oneof(self):
        self.assert_breaks(
            "oneof changed from None to source",
            ("  uint32 count = 1;\n", ""),
            ("bytes payload = 15;", "bytes payload = 15; uint32 count = 1;"))

    def test_field_moved_out_of_a_oneof(self):
        self.assert_breaks("oneof changed from source to None",
                           ("oneof source { bytes payload = 15; }", "bytes payload = 15;"))

    def test_oneof_renamed(self):
        self.assert_breaks("oneof changed from source to origin", ("oneof source", "oneof origin"))

    def test_reserved_number_taken(self):
        self.assert_breaks("fresh = 9: takes a reserved number",
                           ("reserved 9;", "uint32 fresh = 9;"))

    def test_reserved_name_taken(self):
        self.assert_breaks("takes a reserved name",
                           ('reserved "old_name";', "uint32 old_name = 20;"))

    def test_reservation_dropped(self):
        self.assert_breaks("number 9 is no longer reserved", ("  reserved 9;\n", ""))

    def test_message_removed(self):
        self.assert_breaks("message demo.v1.Question.Inner: removed",
                           ("  Inner inner = 5;\n", ""),
                           ("  message Inner { string text = 1; }\n", ""))

    def test_enum_value_removed(self):
        self.assert_breaks("demo.v1.Colour.COLOUR_RED = 1: removed", (" COLOUR_RED = 1;", ""))

    def test_enum_value_renumbered(self):
        self.assert_breaks("renumbered from 1 to 2", ("COLOUR_RED = 1", "COLOUR_RED = 2"))

    def test_method_removed(self):
        self.assert_breaks("method demo.v1.Counter.One: removed",
                           ("  rpc One(Question) returns (Answer);\n", ""))

    def test_method_types_changed(self):
        self.assert_breaks("request type", ("One(Question)", "One(Answer)"))
        self.assert_breaks("response type", ("One(Question) returns (Answer)",
                                             "One(Question) returns (Question)"))

    def test_streaming_changed(self):
        self.assert_breaks("client streaming", ("Many(stream Question)", "Many(Question)"))
        self.assert_breaks("server streaming", ("returns (stream Answer)", "returns (Answer)"))

    def test_service_removed(self):
        start = BASE.index("service")
        self.assert_breaks("service demo.v1.Counter: removed",
                           (BASE[start:BASE.index("enum")], ""))

    def test_package_changed(self):
        self.assert_breaks("package changed", ("package demo.v1", "package demo.v2"))

    def test_growth_is_compatible(self):
        self.assert_compatible(
            ("rpc Many", "rpc Extra(Question) returns (Answer);\n  rpc Many"),
            ("COLOUR_RED = 1;", "COLOUR_RED = 1; COLOUR_BLUE = 2;"),
            ("uint64 total = 1;", "uint64 total = 1; string unit = 2; Fresh fresh = 3;"),
            ("bytes payload = 15;", "bytes payload = 15; string uri = 16;"),
            ("message Answer", "message Fresh { bool yes = 1; }\nmessage Answer"))

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
