"""The compiled part of the package histogram. Use the package."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

_Result = TypeVar("_Result")

BINS_MAX: int
"""The most bins of a plan."""
VERSION: str
"""The version of the package."""

class Counters:
    """The counts of each bin, and three numbers more, as a buffer of int64."""

class Plan:
    """Edges, compiled for a sample type."""

    @staticmethod
    def make(edges: npt.NDArray[np.float64], type: str) -> Plan | None: ...
    @staticmethod
    def even(
        first: float, last: float, bins: int, arithmetic: str, edges: str, type: str
    ) -> Plan | None: ...
    def count(
        self, samples: npt.NDArray[Any], threads: int
    ) -> tuple[Counters, int, int, int] | None: ...
    def count_rows(
        self,
        samples: npt.NDArray[Any],
        counts: npt.NDArray[np.int64],
        outside: npt.NDArray[np.int64],
        threads: int,
        window: int = 0,
        step: int = 0,
        channels: int = 1,
    ) -> None: ...
    @property
    def bin_count(self) -> int: ...

class EvenCounter:
    """Counts samples of a type into even bins."""

    def __init__(
        self,
        type: str,
        arithmetic: str,
        edges: str,
        later_edges: Callable[[tuple[float, float, str, str], int], Any],
    ) -> None: ...
    def count(
        self, samples: npt.NDArray[Any], first: Any, last: Any, bins: int, threads: int
    ) -> tuple[Counters, int, int, int, Any] | None: ...

def quantiles(
    samples: npt.NDArray[Any],
    type: str,
    length: int,
    shares: list[float],
    weak: bool,
    out: npt.NDArray[np.float64],
    threads: int,
) -> bool: ...
def median(
    samples: npt.NDArray[Any], type: str, length: int, out: npt.NDArray[np.float64], threads: int
) -> bool: ...
def order_statistics(
    samples: npt.NDArray[Any],
    type: str,
    length: int,
    ranks: npt.NDArray[np.int64],
    out: npt.NDArray[Any],
    threads: int,
) -> None: ...
def even_edges(
    first: float, last: float, bins: int, arithmetic: str, edge_type: str
) -> bytes | None: ...
def count_own_ranges(
    samples: npt.NDArray[Any],
    type: str,
    bins: int,
    counts: npt.NDArray[np.int64],
    outside: npt.NDArray[np.int64],
    edges: npt.NDArray[Any],
    threads: int,
    window: int = 0,
    step: int = 0,
    channels: int = 1,
) -> None: ...
def extent(
    samples: npt.NDArray[Any], type: str
) -> tuple[float, float, bool, bool] | None: ...
def in_float_mode(function: Callable[..., _Result], *arguments: Any) -> _Result:
    """Calls the function in the library's floating-point mode, which keeps subnormal numbers."""

def bfloat_bits(array: Any) -> npt.NDArray[np.uint16]: ...
def device_array(
    array: Any,
) -> tuple[int, str, tuple[int, ...], tuple[int, ...], int, Any]: ...
def count_on_device(
    function: int,
    counter: int,
    lower: float,
    upper: float,
    arithmetic: int,
    samples: int,
    count: int,
    stream: int,
    bins: int,
) -> tuple[bytes, int, int, int] | None: ...
