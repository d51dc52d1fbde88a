"""Exact histograms and quantiles of arrays.

    >>> import numpy as np, histogram
    >>> counts, edges = histogram.count(np.array([0.1, 0.2, 0.9], np.float32), 2, (0, 1))
    >>> counts
    array([2, 1])

``count`` answers as ``numpy.histogram`` does, to the last bit of the edges, and much faster.
``quantile`` answers as ``numpy.quantile`` does.
"""

from ._count import count
from ._quantile import quantile
from ._result import Histogram

__all__ = ["Histogram", "count", "quantile"]
