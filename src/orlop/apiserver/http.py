"""Bytes in and out of one HTTP request, in the shapes that Kubernetes' clients expect.

Used by the dispatcher alone, so that nothing else has to know the HTTP library. It decides nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import msgspec
from aiohttp import web

from ..errors import ApiError, Timeout
from .body import check_size, decode_object, too_large
from .render import Pieces

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_DURATION = re.compile(f"(?:{_PART.pattern})+")
_AT_ONCE = 256 << 10
MAX_BODY = 3 << 20  # as upstream: what a single object may weigh on the wire


class InTime:
    """Timeout where the work within takes too long, or longer than the client's own limit."""

    __slots__ = ("_limit", "_request")

    def __init__(self, request: web.BaseRequest, longest: float) -> None:
        self._request = request
        asked = request.query.get("timeout")
        self._limit = asyncio.timeout(min(longest, seconds(asked) or longest) if asked else longest)

    async def __aenter__(self) -> None:
        await self._limit.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self._limit.__aexit__(kind, error, traceback)
        except TimeoutError as over:
            request = self._request
            if request.writer.output_size and request.transport is not None:
                request.transport.abort()  # too late for another answer
            words = "Timeout: request did not complete within the allotted timeout"
            raise Timeout(words, details={}) from over


def seconds(text: str) -> float:
    """A duration such as 1m30s; 0 where it is none, as upstream takes it."""
    if not _DURATION.fullmatch(text):
        return 0.0
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


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
    pieces: Pieces,
    media_type: str,
    *,
    warnings: Sequence[str] = (),
) -> web.StreamResponse:
    """A large answer is sent piece by piece, no faster than the client takes it."""
    if pieces.size <= _AT_ONCE:
        return answer(b"".join(pieces), media_type, warnings=warnings)
    response = web.StreamResponse(headers={"Content-Type": media_type})
    _warn(response, warnings)
    response.content_length = pieces.size
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
    await response.write_eof()
    return response


def _quotable(text: str) -> str:
    """A header's quoted string: one line of printable text, quotes and backslashes escaped."""
    flat = " ".join(text.split())
    if not flat.isprintable():  # a field may have any name, a header may not end a connection
        flat = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in flat)
    return flat.replace("\\", "\\\\").replace('"', '\\"')


def failure(error: ApiError) -> web.Response:
    """The metav1.Status of an error."""
    status = error.status()
    token = getattr(error, "continue_token", "")
    if token:
        status["metadata"] = {"continue": token}
    headers = {}
    seconds = (error.details or {}).get("retryAfterSeconds")
    if seconds or (error.status_code == 429 and seconds is None):
        headers["Retry-After"] = str(seconds or 1)
    return answer(msgspec.json.encode(status) + b"\n", code=error.status_code, headers=headers)
