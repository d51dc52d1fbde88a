"""Exact histograms and quantiles of arrays.

    >>> import numpy as np, histogram
    >>> counts, edges = histogram.count(np.array([0.1, 0.2, 0.9], np.float32), 2, (0, 1))
    >>> counts
    array([2, 1])

``count`` answers as ``numpy.histogram`` does, to the last bit of the edges, and much faster.
``quantile`` answers as ``numpy.quantile`` does. ``server="host:50051"`` has a server do it.
"""

from pkgutil import extend_path
from typing import TYPE_CHECKING, Any

# The service's contract is histogram/v1/histogram.proto: what is generated from it is found beside
# this package, wherever on the path it lies.
__path__ = extend_path(__path__, __name__)

from ._count import count
from ._errors import ServerError
from ._quantile import quantile
from ._result import Histogram

if TYPE_CHECKING:
    from ._gpu import DeviceHistogram
    from ._remote import Client, connect

__all__ = ["Client", "DeviceHistogram", "Histogram", "ServerError", "connect", "count", "quantile"]


def __getattr__(name: str) -> Any:
    """What is of servers and GPUs is loaded by those who ask for it."""
    if name == "DeviceHistogram":
        from . import _gpu

        return _gpu.DeviceHistogram
    if name in ("Client", "connect"):
        from . import _remote

        return getattr(_remote, name)
    raise AttributeError(f"module 'histogram' has no attribute {name!r}")
