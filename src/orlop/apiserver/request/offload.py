"""Does large work beside the event loop, one at a time, users taking turns.

Used for reading large bodies and for writing large YAML. While a thread works the loop hears
everybody else; and before the loop itself goes on with what was read, others have had their turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from aiohttp import web

from .priority_and_fairness import Seat

T = TypeVar("T")

LARGE = 64 << 10  # bytes; what has fewer takes some milliseconds
SEAT = web.RequestKey("seat for large work", Seat)
_ROUNDS = 8  # of the loop: from bytes that came to an answer


async def beside_the_loop(request: web.BaseRequest, size: int, work: Callable[[], T]) -> T:
    """Do `work` on that many bytes, in a thread if they are many.

    It must touch nothing that others use.
    """
    seat = request.get(SEAT)
    if size <= LARGE or seat is None:
        return work()
    async with seat:
        made = await asyncio.to_thread(work)
        for _ in range(_ROUNDS):
            await asyncio.sleep(0)
        return made
