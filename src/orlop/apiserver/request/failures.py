"""The errors of the API server in upstream's words, which clients show and sometimes parse.

Called by verbs, subresources and admission. As apimachinery/pkg/api/errors/errors.go; nothing here
decides whether something is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...api.kinds import Kind
from ...api.objects import Obj
from ...errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    MethodNotAllowed,
    NotFound,
    Timeout,
    UnsupportedMediaType,
)

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def _details(kind: Kind, name: str) -> Obj:
    details = {"name": name, "group": kind.group, "kind": kind.plural}
    return {key: value for key, value in details.items() if value}


def not_found(kind: Kind, name: str) -> NotFound:
    return NotFound(f'{kind.resource} "{name}" not found', details=_details(kind, name))


def already_exists(kind: Kind, name: str) -> AlreadyExists:
    message = f'{kind.resource} "{name}" already exists'
    return AlreadyExists(message, details=_details(kind, name))


def conflict(kind: Kind, name: str, why: str = MODIFIED) -> Conflict:
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return Conflict(message, details=_details(kind, name))


def forbidden(kind: Kind, name: str, why: str, causes: Sequence[Obj] = ()) -> Forbidden:
    named = f'{kind.resource} "{name}"' if name else kind.resource
    details = _details(kind, name) | ({"causes": list(causes)} if causes else {})
    return Forbidden(f"{named} is forbidden: {why}", details=details)


def method_not_supported(kind: Kind, verb: str) -> MethodNotAllowed:
    message = f"{verb} is not supported on resources of kind {kind.resource!r}".replace("'", '"')
    return MethodNotAllowed(message, details=_details(kind, ""))


def definition_terminating(kind: Kind) -> MethodNotAllowed:
    why = "create not allowed while custom resource definition is terminating"
    return MethodNotAllowed(why, details=_details(kind, ""))


def no_such_path() -> NotFound:
    return NotFound("the server could not find the requested resource", details={})


def expired(message: str) -> Gone:
    return Gone(message)


def continue_expired(token: str) -> Gone:
    """Make the error for a page whose snapshot is gone.

    `token` lets the client go on at the newest state.
    """
    error = Gone(
        "The provided continue parameter is too old to display a consistent list result. You can "
        "start a new list without the continue parameter, or use the continue token in this "
        "response to retrieve the remainder of the results. Continuing with the provided token "
        "results in an inconsistent list - objects that were created, modified, or deleted between "
        "the time the first chunk was returned and now may show up in the list."
    )
    error.continue_token = token  # type: ignore[attr-defined]
    return error


def too_large(asked: int, current: int) -> Timeout:
    """Make the error for a list at a revision of the future."""
    message = f"Too large resource version: {asked}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return Timeout(message, details={"causes": [cause], "retryAfterSeconds": 1})


def unsupported_media_type(accepted: Sequence[str]) -> UnsupportedMediaType:
    return UnsupportedMediaType(
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )


def bad_request(message: str) -> BadRequest:
    return BadRequest(message)


def from_backend(code: int, text: str, kind: Kind, name: str) -> ApiError:
    """Turn what a kubelet answered into what kubectl expects to hear."""
    if code == 400:
        return BadRequest(text)
    if code == 404:
        message = "the server could not find the requested resource"
        return NotFound(f"{message} ({text})" if text else message, details=_details(kind, name))
    return ApiError(f"the kubelet answered {code}: {text}", reason="InternalError", code=500)
