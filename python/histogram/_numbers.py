"""Numbers that callers give: edges, ends of a range, shares. None is rounded in silence."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np

from ._arrays import WHOLE_MAX, Array, as_array, check_bare, is_listed, resolved


def edges_of(name: str, given: Any) -> Array:
    """The edges as an array of its own. Of integers that no type holds all numpy makes objects or
    float64."""
    edges = as_array(name, given)
    if edges.dtype.isbuiltin == 2:  # of ml_dtypes
        return edges.astype(np.float32)
    listed = edges.dtype.kind == "f" and is_listed(given)
    if listed or edges.dtype == object:
        for edge in np.array(given, object).flat:
            if type(edge) is not float:
                _check_double(f"{name}: edge", edge)
    return edges.astype(np.float64) if edges.dtype == object else edges.copy()


def _check_double(what: str, number: Any) -> None:
    """Fails if float64 does not hold the number. NaN passes."""
    exact = getattr(number, "item", lambda: number)()  # numpy compares with a rounded integer
    try:
        if float(exact) == exact or exact != exact:
            return
    except OverflowError:
        pass
    except (TypeError, ValueError):
        raise TypeError(f"{what} {reprlib.repr(number)}; must be a number") from None
    raise inexact(what, number)


def ends_of(range: Any) -> tuple[Any, Any]:
    """The ends of a range, as numbers of Python or numpy."""
    try:
        ends = [resolved(end) for end in range]
    except TypeError:
        ends = []
    if len(ends) != 2 or isinstance(range, str):
        raise ValueError(f"range: {reprlib.repr(range)}; must be two numbers, or 'rows'")
    for i, end in enumerate(ends):
        if hasattr(end, "as_py"):  # of pyarrow
            end = end.as_py()
        elif not isinstance(end, np.generic) and hasattr(end, "__array__"):
            end = as_array("range", end)
            end = end[()] if end.ndim == 0 else end
        if not isinstance(end, (int, float, np.bool_, np.integer, np.floating)):
            raise TypeError(f"range: {reprlib.repr(ends[i])}; must be a number")
        if isinstance(end, (int, np.integer)):
            _check_double("range:", end)
            if type(end) is int and abs(end) > WHOLE_MAX:
                end = float(end)
        ends[i] = end
    return ends[0], ends[1]


def inexact(what: str, number: Any) -> ValueError:
    return ValueError(
        f"{what} {reprlib.repr(number)} is not a float64, as each edge must be; beyond 2**53 not "
        "every integer is one"
    )


def shares_of(q: Any, most: int) -> Array:
    """`q` as an array. Refuses all but numbers from 0 to `most`."""
    q = resolved(q)
    check_bare("q", q)
    shares = as_array("q", q)
    if shares.dtype.kind not in "iufb":
        raise TypeError(f"q: type {shares.dtype}; must be numbers from 0 to {most}")
    outside = ~((shares >= 0) & (shares <= most))
    if outside.any():
        raise ValueError(f"q: {shares[outside].flat[0]}; must be 0 to {most}")
    return shares
