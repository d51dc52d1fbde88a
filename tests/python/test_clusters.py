"""The document's examples for Dask and Ray, on local clusters of processes.

Ray is not among the tests' packages (some 280 MB): its example runs where requirements-long.txt is installed too.
"""

import os
import pathlib
import re

import histogram
import numpy as np
import pytest

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "PYTHON.md"
A = np.random.default_rng(0).normal(size=(1000, 300)).astype(np.float32)


def run_example(library, names):
    """What the document's example makes of these names."""
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (code,) = (block for block in blocks if f"import {library}" in block)
    exec(code, names)  # noqa: S102
    assert names["h"] == histogram.count(A, 1000, (-4, 4))


@pytest.mark.filterwarnings("default")  # Dask's own
def test_dask(tmp_path):
    import dask.array
    from distributed import Client, LocalCluster
    with (LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
                       local_directory=tmp_path) as cluster, Client(cluster)):
        run_example("dask", {"x": dask.array.from_array(A, chunks=(130, 70))})


@pytest.mark.filterwarnings("default")  # Ray's own
def test_ray():
    os.environ["RAY_AUTH_MODE"] = "disabled"  # it would write a token into the home folder
    ray = pytest.importorskip("ray", reason="no ray: pip install -r tests/python/requirements-long.txt")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20)
    try:
        run_example("ray", {"parts": [ray.put(part) for part in np.array_split(A.ravel(), 7)]})
    finally:
        ray.shutdown()
