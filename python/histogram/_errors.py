"""What a server's refusal becomes."""

from __future__ import annotations


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
