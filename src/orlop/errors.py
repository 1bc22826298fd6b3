"""Draws the tree of the errors that leave a component.

They are caught at its boundary by their class, not by their text. Each message says what was
expected, what was found and what to try. An error that one module or package handles itself is
defined there.

    Error
    ├── ApiError            an answer of a Kubernetes API server, ours or upstream's
    │   ├── BadRequest 400      ├── Unauthorized 401   ├── Forbidden 403    ├── NotFound 404
    │   ├── MethodNotAllowed 405├── NotAcceptable 406  ├── Conflict 409     ├── AlreadyExists 409
    │   ├── Gone 410            ├── Invalid 422        ├── UnsupportedMediaType 415
    │   ├── TooManyRequests 429 ├── InternalError 500  └── Unavailable 503, Timeout 504
    ├── EngineError         what gives pods their machines
    │   ├── EngineUnavailable   it does not answer: unknown is a state, not an end
    │   ├── SubmitRejected      it refused the pod for good: its words, and the remedy
    │   └── SubmitDeferred      it refused the pod for now, e.g. a limit on queued jobs
    │       ├── WaitingForGang      not before all members of its gang are there
    │       ├── WaitingForDependency        not before what it depends on has a job, or has ended
    │       └── DependencyNeverSatisfied    what it depends on has ended otherwise
    ├── ImageError          ErrImagePull, InvalidImageName
    ├── ConfigError         a setting or a pod that asks for what cannot be
    ├── LeadershipLost      another process leads now, or may
    └── HomeInUse           another control plane runs in this folder
"""

from __future__ import annotations

from typing import Any, ClassVar


class Error(Exception):
    """The root of the tree."""


class ApiError(Error):
    """A failure in Kubernetes' own shape; `status()` is the body a client sees."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(
        self,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        reason: str | None = None,
        code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        self.status_reason = reason if reason is not None else self.reason
        self.status_code = code if code is not None else self.code

    def status(self) -> dict[str, Any]:
        """Return the metav1.Status of this failure."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.status_reason,
            "code": self.status_code,
        }
        if self.details is not None:
            status["details"] = self.details
        return status


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    code, reason = 404, "NotFound"


class MethodNotAllowed(ApiError):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"


class Conflict(ApiError):
    """The object changed since it was read, or a precondition does not hold."""

    code, reason = 409, "Conflict"


class AlreadyExists(ApiError):
    code, reason = 409, "AlreadyExists"


class Gone(ApiError):
    """The revision asked for is no longer kept: list again."""

    code, reason = 410, "Expired"


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    """The object breaks a rule; `details.causes` name the fields."""

    code, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    code, reason = 429, "TooManyRequests"


class InternalError(ApiError):
    code, reason = 500, "InternalError"


class Unavailable(ApiError):
    code, reason = 503, "ServiceUnavailable"


class Timeout(ApiError):
    code, reason = 504, "Timeout"


_BY_REASON: dict[str, type[ApiError]] = {
    cls.reason: cls
    for cls in (
        BadRequest, Unauthorized, Forbidden, NotFound, MethodNotAllowed, NotAcceptable, Conflict,
        AlreadyExists, Gone, UnsupportedMediaType, Invalid, TooManyRequests, InternalError,
        Unavailable, Timeout,
    )
}  # fmt: skip


def from_status(status: dict[str, Any]) -> ApiError:
    """Return the error that a metav1.Status describes, as a client reads it off the wire.

    It may come from anybody: a value that a Status does not have there is left out.
    """
    reason = str(status.get("reason", ""))
    cls = _BY_REASON.get(reason, ApiError)
    code, details = status.get("code"), status.get("details")
    return cls(
        str(status.get("message", reason)),
        details=details if isinstance(details, dict) else None,
        reason=reason,
        code=code if type(code) is int and 400 <= code < 600 else cls.code,
    )


class LeadershipLost(Error):
    """The Lease that says who leads could not be kept; what it allowed has been stopped."""


class EngineError(Error):
    """A failure of what gives pods their machines."""


class EngineUnavailable(EngineError):
    """The engine does not answer; nothing may be concluded about any job."""


class SubmitRejected(EngineError):
    """The engine refused a pod and will refuse it again unless something changes."""


class SubmitDeferred(EngineError):
    """The engine refused a pod for now, for instance at a limit of queued jobs."""


class WaitingForGang(SubmitDeferred):
    """A pod that starts with others or not at all, and some of those are missing."""


class WaitingForDependency(SubmitDeferred):
    """A pod that depends on what is not there yet, or has not come far enough."""


class DependencyNeverSatisfied(SubmitDeferred):
    """A pod that depends on what has ended otherwise; it may be made anew."""


class ImageError(Error):
    """An image that cannot be had; `reason` is the word Kubernetes uses for it on a container."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class ConfigError(Error):
    """A setting, or a request of a pod, that cannot be met; `reason` as on a waiting container."""

    def __init__(self, message: str, reason: str = "CreateContainerConfigError") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class HomeInUse(Error):
    """Another control plane already runs in this home folder."""
