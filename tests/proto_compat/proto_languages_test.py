#!/usr/bin/env python3
"""The contract is usable from other languages than this project's: protoc's generators take it, and name
things as said.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

PROTO_ROOT = pathlib.Path(__file__).resolve().parents[2] / "proto"
PROTO_FILE = "histogram/v1/histogram.proto"
PROTOC = os.environ.get("PROTOC", "protoc")


class Languages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)

    def generate(self, *arguments):
        done = subprocess.run([PROTOC, f"--proto_path={PROTO_ROOT}", *arguments, PROTO_FILE],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")

    def text(self, path):
        self.assertTrue((self.out / path).is_file(), sorted(self.out.rglob("*")))
        return (self.out / path).read_text(encoding="utf-8")

    def plugin(self, name, package):
        path = shutil.which(name)
        if path is None:
            self.skipTest(f"{name} is not there (package {package})")
        return path

    def test_java(self):
        self.generate(f"--java_out={self.out}")
        for name in ("ComputeRequest", "Histogram", "Error"):  # a file a class
            text = self.text(f"histogram/v1/{name}.java")
            self.assertIn("package histogram.v1;", text)
            self.assertIn(f"public final class {name}", " ".join(text.split()))

    def test_csharp(self):
        self.generate(f"--csharp_out={self.out}")
        text = self.text("Histogram.cs")
        self.assertIn("namespace Histogram.V1 {", text)
        self.assertIn("public sealed partial class ComputeRequest", text)

    def test_go(self):
        self.plugin("protoc-gen-go", "protoc-gen-go")
        self.plugin("protoc-gen-go-grpc", "protoc-gen-go-grpc")
        self.generate(f"--go_out={self.out}", f"--go-grpc_out={self.out}")
        text = self.text("histogram/v1/histogram.pb.go")
        self.assertIn("package histogramv1", text)
        self.assertIn("type ComputeRequest struct", text)
        self.assertIn("func NewHistogramServiceClient(", self.text("histogram/v1/histogram_grpc.pb.go"))


if __name__ == "__main__":
    unittest.main()
