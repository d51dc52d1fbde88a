"""Exact histograms and quantiles of arrays.

    >>> import numpy as np, histogram
    >>> counts, edges = histogram.count(np.array([0.1, 0.2, 0.9], np.float32), 2, (0, 1))
    >>> counts
    array([2, 1])

``count`` returns the counts and edges of ``numpy.histogram``, to the last bit of the edges, usually
in a fraction of its time. ``quantile`` returns what ``numpy.quantile`` does. With
``server="host:50051"`` a server counts.
"""

from importlib import import_module
from pkgutil import extend_path
from typing import TYPE_CHECKING, Any

# Code generated from the contract, histogram/v1/histogram.proto, may lie anywhere on the path. It
# is found as a part of this package.
__path__ = extend_path(__path__, __name__)

from ._count import count
from ._errors import ServerError
from ._native import VERSION as __version__
from ._numpy_quantile import median, percentile
from ._quantile import quantile
from ._result import Histogram

if TYPE_CHECKING:
    from ._gpu_result import DeviceHistogram
    from ._patch import patch_numpy, unpatch_numpy
    from ._remote import Client, connect

__all__ = [
    "Client", "DeviceHistogram", "Histogram", "ServerError", "connect", "count", "median",
    "patch_numpy", "percentile", "quantile", "unpatch_numpy",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Loads the parts for servers, GPUs and numpy's callers at their first use."""
    if name == "DeviceHistogram":
        from . import _gpu_result

        return _gpu_result.DeviceHistogram
    if name in ("patch_numpy", "unpatch_numpy"):
        return getattr(import_module("._patch", __name__), name)
    if name in ("Client", "connect"):
        from . import _remote

        return getattr(_remote, name)
    raise AttributeError(f"module 'histogram' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
