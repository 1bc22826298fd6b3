"""Answers of servers that are not ours: webhooks, extension servers, issuers of tokens.

Read piece by piece, up to a bound, whatever length they state or however well they are compressed;
what is JSON is decoded within the bounds of `api.reading`. A server that answers more than it
should is a ValueError, as one that answers nonsense.
"""

from __future__ import annotations

from typing import Any

import aiohttp

from ...api.reading import decode_json

MAX_ANSWER = 64 << 20  # bytes: a conversion of many objects, a long list
_MAX_VALUES = 2_000_000


async def whole(reply: aiohttp.ClientResponse, most: int = MAX_ANSWER) -> bytes:
    """Read all of an answer, in however many pieces it comes."""
    data = bytearray()
    async for piece in reply.content.iter_any():
        data += piece
        if len(data) > most:
            reply.close()
            raise ValueError(f"the answer has more than {most} bytes")
    return bytes(data)


def decoded(data: bytes) -> Any:
    """Decode an answer of one or many objects.

    Each of them is checked against bounds of its own once it is used.
    """
    return decode_json(data, values=_MAX_VALUES)
