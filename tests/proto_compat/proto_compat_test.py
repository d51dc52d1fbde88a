#!/usr/bin/env python3
"""Each kind of breaking change is caught, each compatible one is let through."""

import os
import pathlib
import tempfile
import unittest

import proto_compat

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

# What the check names, and the edits of BASE that it says it of: (before, after).
BREAKS = (
    ("demo.v1.Question, number 1", ("  uint32 count = 1;\n", "")),
    ("demo.v1.Question, number 1", ("  uint32 count = 1;\n", ""), ("reserved 9;", "reserved 1, 9;")),
    ("is not there", ("count = 1", "count = 7")),
    ("'number'", ("count = 1", "number = 1")),
    ("json_name = n", ("count = 1", 'count = 1 [json_name = "n"]')),
    ("TYPE_UINT64", ("uint32 count", "uint64 count")),
    ("demo.v1.Answer", ("Inner inner = 5", "Answer inner = 5")),
    ("LABEL_REPEATED", ("uint32 count", "repeated uint32 count")),
    ("optional = False", ("optional double lower", "double lower")),
    ("optional = True", ("  uint32 count", "  optional uint32 count")),
    ("packed = False", ("marks = 3", "marks = 3 [packed = false]")),
    ("oneof = source", ("  uint32 count = 1;\n", ""),
     ("bytes payload = 15;", "bytes payload = 15; uint32 count = 1;")),
    ("oneof = None", ("oneof source { bytes payload = 15; }", "bytes payload = 15;")),
    ("oneof = origin", ("oneof source", "oneof origin")),
    ("was reserved, is ('fresh'", ("reserved 9;", "uint32 fresh = 9;")),
    ("name old_name: was reserved", ('reserved "old_name";', "uint32 old_name = 20;")),
    ("number 9: was reserved", ("  reserved 9;\n", "")),
    ("demo.v1.Question.Inner: was message", ("  Inner inner = 5;\n", ""),
     ("  message Inner { string text = 1; }\n", "")),
    ("demo.v1.Colour.COLOUR_RED: was 1, is not there", (" COLOUR_RED = 1;", "")),
    ("was 1, is 2", ("COLOUR_RED = 1", "COLOUR_RED = 2")),
    ("demo.v1.Counter.One", ("  rpc One(Question) returns (Answer);\n", "")),
    ("demo.v1.Counter.One", ("One(Question)", "One(Answer)")),
    ("demo.v1.Counter.One", ("One(Question) returns (Answer)", "One(Question) returns (Question)")),
    ("client streaming = False", ("Many(stream Question)", "Many(Question)")),
    ("server streaming = False", ("returns (stream Answer)", "returns (Answer)")),
    ("demo.v1.Counter.One", (BASE[BASE.index("service"):BASE.index("enum")], "")),
    ("package demo.v2", ("package demo.v1", "package demo.v2")),
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
                self.assertIn(expected, "\n".join(self.problems(*edits)))

    def test_growth_is_compatible(self):
        self.assertEqual(self.problems(), [])
        self.assertEqual(self.problems(
            ("rpc Many", "rpc Extra(Question) returns (Answer);\n  rpc Many"),
            ("COLOUR_RED = 1;", "COLOUR_RED = 1; COLOUR_BLUE = 2;"),
            ("uint64 total = 1;", "uint64 total = 1; string unit = 2; Fresh fresh = 3;"),
            ("bytes payload = 15;", "bytes payload = 15; string uri = 16;"),
            ("message Answer", "message Fresh { bool yes = 1; }\nmessage Answer")), [])


if __name__ == "__main__":
    unittest.main()
