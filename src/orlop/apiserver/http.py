"""Bytes in and out of one HTTP request, in the shapes that Kubernetes' clients expect.

Used by the dispatcher alone, so that nothing else has to know the HTTP library. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from aiohttp import web

from ..errors import ApiError
from .body import check_size, decode_object, too_large

_AT_ONCE = 256 << 10
MAX_BODY = 3 << 20  # as upstream: what a single object may weigh on the wire


async def read(request: web.BaseRequest) -> bytes:
    """The whole body, or 413."""
    check_size(request.content_length, MAX_BODY)
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise too_large(MAX_BODY) from error


async def read_object(request: web.BaseRequest) -> Any:
    return decode_object(request.headers.get("Content-Type", ""), await read(request))


def answer(
    body: bytes,
    media_type: str = "application/json",
    *,
    code: int = 200,
    warnings: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    response = web.Response(body=body, status=code, headers=headers)
    response.headers["Content-Type"] = media_type
    _warn(response, warnings)
    return response


def _warn(response: web.StreamResponse, warnings: Sequence[str]) -> None:
    for warning in warnings:
        response.headers.add("Warning", f'299 - "{_quotable(warning)}"')


async def answer_pieces(
    request: web.BaseRequest,
    pieces: Sequence[bytes],
    media_type: str,
    *,
    warnings: Sequence[str] = (),
) -> web.StreamResponse:
    """A large answer is sent piece by piece, no faster than the client takes it."""
    size = sum(len(piece) for piece in pieces)
    if size <= _AT_ONCE:
        return answer(b"".join(pieces), media_type, warnings=warnings)
    response = web.StreamResponse(headers={"Content-Type": media_type})
    _warn(response, warnings)
    response.content_length = size
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
    await response.write_eof()
    return response


def _quotable(text: str) -> str:
    """A header's quoted string: one line, quotes and backslashes escaped."""
    flat = " ".join(text.split())
    return flat.replace("\\", "\\\\").replace('"', '\\"')


def failure(error: ApiError) -> web.Response:
    """The metav1.Status of an error."""
    status = error.status()
    token = getattr(error, "continue_token", "")
    if token:
        status["metadata"] = {"continue": token}
    headers = {}
    seconds = (error.details or {}).get("retryAfterSeconds")
    if seconds or error.status_code == 429:
        headers["Retry-After"] = str(seconds or 1)
    return answer(msgspec.json.encode(status) + b"\n", code=error.status_code, headers=headers)
