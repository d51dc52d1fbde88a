"""The axes of a histogram, for plotting libraries (PlottableAxis of the package uhi)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Traits:
    """Properties of an axis."""

    circular: bool
    discrete: bool


class Bins:
    """The intervals in which samples are counted."""

    traits = Traits(circular=False, discrete=False)

    def __init__(self, edges: npt.NDArray[Any]):
        self._edges = edges

    def __len__(self) -> int:
        return len(self._edges) - 1

    def __getitem__(self, index: int) -> tuple[float, float]:
        if not 0 <= index < len(self):
            raise IndexError(f"bin {index}; must be 0 to {len(self) - 1}")
        return float(self._edges[index]), float(self._edges[index + 1])

    def __iter__(self) -> Iterator[tuple[float, float]]:
        return (self[index] for index in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bins) and np.array_equal(self._edges, other._edges)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Bins({len(self)} over [{self._edges[0]:g}, {self._edges[-1]:g}])"


@dataclass(frozen=True)
class Rows:
    """An axis of the array with a histogram for each index."""

    size: int
    traits: ClassVar = Traits(circular=False, discrete=True)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> int:
        if not 0 <= index < self.size:
            raise IndexError(f"row {index}; must be 0 to {self.size - 1}")
        return index

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.size))
