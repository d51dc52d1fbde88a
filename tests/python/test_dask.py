"""The document's example for Dask, on a local cluster of processes."""

import pathlib
import re

import dask.array
import histogram
import numpy as np
import pytest
from distributed import Client, LocalCluster

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "PYTHON.md"


@pytest.mark.filterwarnings("default")  # Dask's own
def test_the_example_of_the_document(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (code,) = (block for block in blocks if "import dask" in block)
    a = np.random.default_rng(0).normal(size=(1000, 300)).astype(np.float32)
    with (LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
                       local_directory=tmp_path) as cluster, Client(cluster)):
        names = {"x": dask.array.from_array(a, chunks=(130, 70))}
        exec(code, names)  # noqa: S102
    assert names["h"] == histogram.count(a, 1000, (-4, 4))
    counts, edges = names["h"]
    expected, expected_edges = np.histogram(a, 1000, (-4, 4))
    assert np.array_equal(counts, expected) and np.array_equal(edges, expected_edges)
