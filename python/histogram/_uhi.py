"""Histograms in the form that libraries exchange: UHI's, version 1."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _native

if TYPE_CHECKING:
    from ._result import Histogram


def to_uhi(h: Histogram) -> dict[str, Any]:
    """The histogram as a dictionary. NaN counts in the overflow, as boost-histogram counts it; the
    metadata say how many that are, and the type of the edges."""
    counts, edges = h
    if edges.ndim > 1:
        h.axes  # raises: UHI's bins are those of all rows
    above = np.asarray(h.above) + h.nan
    values = [np.asarray(h.below)[..., None], counts, above[..., None]]
    numbers = edges.astype(np.int64) if edges.dtype.kind in "mM" else edges
    metadata: dict[str, Any] = {"edges": edges.dtype.str}
    if np.any(h.nan):
        metadata["nan"] = json.dumps(np.asarray(h.nan).tolist())
    if not (numbers.astype(np.float64) == numbers).all():
        raise ValueError("edges: not all are float64s, as UHI's must be")
    ends = {"underflow": False, "overflow": False, "circular": False}
    rows = [{"type": "regular", "lower": 0, "upper": size, "bins": size} | ends
            for size in counts.shape[:-1]]  # fmt: skip
    bins = {"type": "variable", "edges": numbers.astype(np.float64)}
    return {
        "uhi_schema": 1,
        "writer_info": {"histogram": {"version": _native.VERSION}},
        "axes": [*rows, bins | ends | {"underflow": True, "overflow": True}],
        "storage": {"type": "int", "values": np.concatenate(values, axis=-1)},
        "metadata": metadata,
    }


def from_uhi(data: Any) -> tuple[Any, ...]:
    """Counts, edges, below, above and NaN of a histogram of counts."""
    if hasattr(data, "_to_uhi_"):
        data = data._to_uhi_()
    storage, rows, axis = data["storage"], data["axes"][:-1], data["axes"][-1]
    kinds = storage["type"], axis["type"]
    dense = "values" in storage and "index" not in storage
    flows = [one.get(flow) for one in rows for flow in ("underflow", "overflow", "flow")]
    if not (dense and kinds[0] in ("int", "double") and kinds[1] in ("regular", "variable")):
        raise ValueError(f"storage, last axis: {kinds}; must be int or double, regular or variable")
    if any(flows) or any(one.get("circular") for one in data["axes"]):
        raise ValueError("axes: one is circular, or one before the last has flow bins")
    if axis["type"] == "regular":
        edges = np.linspace(axis["lower"], axis["upper"], axis["bins"] + 1)
    else:
        edges = np.asarray(axis["edges"])
    values = np.asarray(storage["values"])
    zero = np.zeros(values.shape[:-1], np.int64)
    below, values = (values[..., 0], values[..., 1:]) if axis["underflow"] else (zero, values)
    above, values = (values[..., -1], values[..., :-1]) if axis["overflow"] else (zero, values)
    metadata = data.get("metadata", {})
    nan = np.array(json.loads(metadata.get("nan", "0")))
    dtype = np.dtype(metadata.get("edges", edges.dtype))
    if dtype.kind in "mM":
        edges = edges.astype(np.int64)
    return values, edges.astype(dtype), below, above - nan, nan
