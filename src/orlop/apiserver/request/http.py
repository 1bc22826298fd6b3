"""Bytes in and out of one HTTP request, in the shapes that Kubernetes' clients expect.

Used by the dispatcher. It decides nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.web import RequestPayloadError

from ...api.reading import MAX_BYTES
from ...errors import ApiError, BadRequest, Timeout
from .body import check_encoding, check_size, decode_object, too_large
from .offload import beside_the_loop
from .render import Pieces

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_DURATION = re.compile(f"(?:{_PART.pattern})+")
_AT_ONCE = 256 << 10
_WARNINGS = 64  # of one answer: some clients take a hundred headers in all
_WARNING_TOTAL = 4096  # characters of all warnings of one answer,
_WARNING_EACH = 256  # and of each where together they are more


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
    """Read a duration such as 1m30s; 0 where it is none, as upstream takes it."""
    if not _DURATION.fullmatch(text):
        return 0.0
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


async def read(request: web.BaseRequest) -> bytes:
    """Read the whole body; raise 413 where it is too large."""
    check_size(request.content_length, MAX_BYTES)
    check_encoding(request.headers.get("Content-Encoding", ""))
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise too_large(MAX_BYTES) from error
    except RequestPayloadError as error:  # not the chunks, or not the gzip, that it says to be
        raise BadRequest(f"the body of the request cannot be read: {error}") from error


async def read_object(request: web.BaseRequest) -> Any:
    content_type, data = request.headers.get("Content-Type", ""), await read(request)
    return await beside_the_loop(request, len(data), lambda: decode_object(content_type, data))


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
    """Add warnings to an answer, long ones cut, and those left out that are too many.

    Clients take a limited number of bytes of headers. As
    apiserver/pkg/endpoints/filters/warning.go.
    """
    left = _WARNING_TOTAL
    for warning in warnings[:_WARNINGS]:
        text = warning if len(warning) <= left else f"{warning[: _WARNING_EACH - 3]}..."
        left -= len(text)
        if left < 0:
            return
        response.headers.add("Warning", f'299 - "{_quotable(text)}"')


async def answer_pieces(
    request: web.BaseRequest,
    pieces: Pieces,
    media_type: str,
    *,
    warnings: Sequence[str] = (),
) -> web.StreamResponse:
    """Send a large answer piece by piece, no faster than the client takes it."""
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
    """Make a header's quoted string: one line of printable text, quotes and backslashes escaped."""
    flat = " ".join(text.split())
    if not flat.isprintable():  # a field may have any name, a header may not end a connection
        flat = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in flat)
    return flat.replace("\\", "\\\\").replace('"', '\\"')


def failure(error: ApiError) -> web.Response:
    """Make the metav1.Status of an error."""
    status = error.status()
    token = getattr(error, "continue_token", "")
    if token:
        status["metadata"] = {"continue": token}
    headers = {}
    seconds = (error.details or {}).get("retryAfterSeconds")
    if type(seconds) is not int:  # a webhook's words may be in its place
        seconds = None
    if seconds or (error.status_code == 429 and seconds is None):
        headers["Retry-After"] = str(seconds or 1)
    return answer(msgspec.json.encode(status) + b"\n", code=error.status_code, headers=headers)
