"""Arguments that are refused, and what a server's refusal becomes."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

# What numpy.histogram and numpy.quantile take, and these do not: what to do instead.
_OTHERS = {
    "density": "for a density divide the counts: counts / counts.sum() / numpy.diff(edges)",
    "weights": "samples count as 1 each; numpy.histogram(a, bins, range, weights=weights) weighs",
    "method": "quantiles are interpolated linearly; numpy.quantile has other methods",
    "axis": "the quantiles are those of all samples; for rows call it for each, or numpy.quantile",
}


def not_taken(function: str, others: Mapping[str, Any]) -> TypeError:
    """The exception for named arguments that a function does not have."""
    name = next(iter(others))
    told = f"{function}() has no argument '{name}'"
    return TypeError(f"{told}: {_OTHERS[name]}" if name in _OTHERS else told)


def whole(name: str, value: Any, least: int, most: int) -> int:
    """The value of an argument that is a whole number."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: {value!r}; must be a whole number") from None
    if not least <= number <= most:
        raise ValueError(f"{name}: {number}; must be a whole number >= {least} and <= {most}")
    return number


class ServerError(Exception):
    """A call that a server refused or did not answer. The message names field, value and limit.

    It is a ValueError too where the request is at fault, a TimeoutError where the deadline passed,
    a ConnectionError where no server answers, and a PermissionError where the token is refused.
    """

    code: str = "UNKNOWN"
    """Name of the gRPC status, "RESOURCE_EXHAUSTED"."""
    reason: str = ""
    """Stable, in capitals: "TOO_MANY_BINS". Empty where no histogram server has answered."""
    field: str = ""
    """Which field of the request, "spec.binning.edges"."""
    limit: int = 0
    """The limit that was passed; 0 where there is none."""
    retry_after: float | None = None
    """Seconds after which to try again, where the server tells."""


class BadRequest(ServerError, ValueError):
    """The request is at fault."""


class DeadlineExceeded(ServerError, TimeoutError):
    """The deadline passed."""


class Unavailable(ServerError, ConnectionError):
    """No server answers, or it is shutting down."""


class NotAllowed(ServerError, PermissionError):
    """The token is missing or refused."""


_KINDS = {
    "INVALID_ARGUMENT": BadRequest,
    "DEADLINE_EXCEEDED": DeadlineExceeded,
    "UNAVAILABLE": Unavailable,
    "UNAUTHENTICATED": NotAllowed,
    "PERMISSION_DENIED": NotAllowed,
}


def server_error(
    code: str,
    message: str,
    reason: str = "",
    field: str = "",
    limit: int = 0,
    retry_after: float | None = None,
) -> ServerError:
    """The exception for a gRPC status."""
    error = _KINDS.get(code, ServerError)(f"{code}: {message}")
    error.code, error.reason, error.field = code, reason, field
    error.limit, error.retry_after = limit, retry_after
    return error
