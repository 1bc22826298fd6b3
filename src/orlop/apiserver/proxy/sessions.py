"""HTTP sessions to backends and webhooks, kept open for the next request, but not for ever.

Used by proxies and by calls to webhooks. The session that was used longest ago is closed when there
are too many, but not one that a request is using: that would cut its answer off.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import aiohttp

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class _Kept:
    session: aiohttp.ClientSession
    users: int = 0


class Sessions(Generic[K]):
    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[K, _Kept] = OrderedDict()

    @asynccontextmanager
    async def use(
        self, key: K, make: Callable[[], aiohttp.ClientSession]
    ) -> AsyncIterator[aiohttp.ClientSession]:
        """Lend the session of that key, made if there is none."""
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = _Kept(make())
        self._kept.move_to_end(key)
        kept.users += 1
        try:
            yield kept.session
        finally:
            kept.users -= 1
            await self._close_surplus()

    def get(self, key: K) -> aiohttp.ClientSession | None:
        kept = self._kept.get(key)
        return None if kept is None else kept.session

    async def _close_surplus(self) -> None:
        idle = [key for key, kept in self._kept.items() if not kept.users]
        for key in idle[: max(0, len(self._kept) - self._most)]:
            await self._kept.pop(key).session.close()

    async def close(self) -> None:
        while self._kept:
            _, kept = self._kept.popitem()
            await kept.session.close()
