"""Errors of arguments, and errors from a server."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

# Arguments of numpy.histogram and numpy.quantile that are missing here, and what to do instead.
_OTHERS = {
    "count": {
        "weights": "samples count as 1 each; numpy.histogram(a, bins, range, weights=weights) "
        "weighs",
    },
    "quantile": {
        "weights": "samples count as 1 each; numpy.quantile(a, q, weights=weights, "
        "method='inverted_cdf') weighs",
        "out": "the result is a new array; numpy.quantile(a, q, out=out) fills one",
        "overwrite_input": "the samples stay as they are",
    },
}


def check_others(function: str, others: Mapping[str, Any]) -> None:
    """Refuses named arguments that a function does not have. Those of numpy's function may be given
    with the values that change nothing."""
    for name, value in others.items():
        advice = _OTHERS[function].get(name)
        if advice is None:
            raise TypeError(f"{function}() has no argument '{name}'")
        if value is None or value is False:
            continue
        raise TypeError(f"{function}() has no argument '{name}': {advice}")


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
    """A server refused a call or did not answer. The message names field, value and limit.

    It is also a ValueError if the request is at fault, a TimeoutError if the deadline passed, a
    ConnectionError if no server answers, and a PermissionError if the token is refused.
    """

    code: str = "UNKNOWN"
    """The name of the gRPC status: "RESOURCE_EXHAUSTED"."""
    reason: str = ""
    """Stable, in capitals: "TOO_MANY_BINS". Empty if no histogram server has answered."""
    field: str = ""
    """The field of the request at fault: "spec.binning.edges"."""
    limit: int = 0
    """The limit that the value breaks; 0 if there is none."""
    retry_after: float | None = None
    """Seconds after which to retry; None if the server names none."""


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
