"""The document's example for Ray, on a local cluster of processes.

Ray is not among the tests' packages (some 280 MB): this runs where requirements-long.txt is installed too.
"""

import os
import pathlib
import re

import histogram
import numpy as np
import pytest

os.environ["RAY_AUTH_MODE"] = "disabled"  # it would write a token into the home folder
ray = pytest.importorskip("ray", reason="no ray: pip install -r tests/python/requirements-long.txt")

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "PYTHON.md"


@pytest.mark.filterwarnings("default")  # Ray's own
def test_the_example_of_the_document():
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (code,) = (block for block in blocks if "import ray" in block)
    a = np.random.default_rng(0).normal(size=300_000).astype(np.float32)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20)
    try:
        names = {"parts": [ray.put(part) for part in np.array_split(a, 7)]}
        exec(code, names)  # noqa: S102
    finally:
        ray.shutdown()
    assert names["h"] == histogram.count(a, 1000, (-4, 4))
