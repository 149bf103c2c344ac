"""Exceptions, one per gRPC status code.

A kernel that does not compile, computes a wrong result, crashes or cheats is a result, never an exception.
"""

from __future__ import annotations


class Error(Exception):
    """A call that failed. The message names the field, its value and what is allowed.

    `retry_after` is the delay in seconds that the service asked for. `request_id` names the evaluation, if the error
    is about one: a retry with this id fetches its result.
    """

    code = "UNKNOWN"

    def __init__(self, message: str, *, retry_after: float | None = None, request_id: str = "") -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.request_id = request_id

    def __str__(self) -> str:
        return f"{self.code}: {super().__str__()}"


class InvalidArgument(Error, ValueError):
    """A field of the call or of a problem is malformed."""

    code = "INVALID_ARGUMENT"


class NotFound(Error, LookupError):
    """The problem or the search is unknown, or a path does not exist."""

    code = "NOT_FOUND"


class AlreadyExists(Error):
    """The request id or search id is in use for something else."""

    code = "ALREADY_EXISTS"


class FailedPrecondition(Error):
    """The search has ended, or a program that is needed is not installed."""

    code = "FAILED_PRECONDITION"


class OutOfRange(Error, ValueError):
    """A sequence number is beyond the end of the log."""

    code = "OUT_OF_RANGE"


class ResourceExhausted(Error):
    """The service stayed overloaded, or a message is too large."""

    code = "RESOURCE_EXHAUSTED"


class Unavailable(Error, ConnectionError):
    """The service could not be reached for as long as the client waits."""

    code = "UNAVAILABLE"


class DeadlineExceeded(Error, TimeoutError):
    """There was no result in time. The evaluation continues; a retry with the same id fetches its result."""

    code = "DEADLINE_EXCEEDED"


class Cancelled(Error):
    """The service cancelled the call."""

    code = "CANCELLED"


class Unauthenticated(Error, PermissionError):
    """The service requires a token or a certificate."""

    code = "UNAUTHENTICATED"


class PermissionDenied(Error, PermissionError):
    """The token does not grant this call."""

    code = "PERMISSION_DENIED"


class Unimplemented(Error, NotImplementedError):
    """The service does not offer this call."""

    code = "UNIMPLEMENTED"


class Internal(Error):
    """A fault in the service."""

    code = "INTERNAL"


class DataLoss(Error):
    """Stored data is damaged."""

    code = "DATA_LOSS"


BY_CODE: dict[str, type[Error]] = {error.code: error for error in Error.__subclasses__()}
