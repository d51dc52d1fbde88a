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
PROTOC = os.environ.get("PROTOC", "protoc")
JAVA = "histogram/v1/"  # a file a class
# Of each generator: file, and what stands in it.
NAMES = {
    "java": ((JAVA + "ComputeRequest.java", "package histogram.v1;"), (JAVA + "ComputeRequest.java", "class ComputeRequest "),
             (JAVA + "Error.java", "class Error ")),
    "csharp": (("Histogram.cs", "namespace Histogram.V1 {"), ("Histogram.cs", "partial class ComputeRequest ")),
    "go": (("histogram/v1/histogram.pb.go", "package histogramv1"),),
    "go-grpc": (("histogram/v1/histogram_grpc.pb.go", "func NewHistogramServiceClient("),)}


class Languages(unittest.TestCase):
    def test_generated_names(self):
        for generator, names in NAMES.items():
            with self.subTest(generator), tempfile.TemporaryDirectory() as folder:
                if generator.startswith("go") and shutil.which(f"protoc-gen-{generator}") is None:
                    self.skipTest(f"protoc-gen-{generator} is not there")
                done = subprocess.run(
                    [PROTOC, f"--proto_path={PROTO_ROOT}", f"--{generator}_out={folder}", "histogram/v1/histogram.proto"],
                    capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                for file, text in names:
                    self.assertIn(text, " ".join((pathlib.Path(folder) / file).read_text(encoding="utf-8").split()))


if __name__ == "__main__":
    unittest.main()
