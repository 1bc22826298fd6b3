"""Holds bytes that wait for their reader, inside this process.

Used wherever one task takes bytes off a connection and another one passes them on. `room` lets the
first wait for the second, so that little is held. It is not for several readers.
"""

from __future__ import annotations

import asyncio
from collections import deque

LIMIT = 1 << 20


class Pipe:
    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._is_over = False
        self._is_discarding = False
        self._is_filled = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()

    def feed(self, data: bytes) -> None:
        if not data or self._is_over or self._is_discarding:
            return
        self._chunks.append(data)
        self._size += len(data)
        if self._size > self._limit:
            self._has_room.clear()
        self._is_filled.set()

    def end(self) -> None:
        """Mark the end: no more will come."""
        self._is_over = True
        self._is_filled.set()

    def discard(self) -> None:
        """Forget all that is here and all that will come: the reader has gone."""
        self._is_discarding = True
        self._chunks.clear()
        self._size = 0
        self._has_room.set()
        self.end()

    async def read(self) -> bytes:
        """Return the next bytes; empty at the end."""
        while not self._chunks:
            if self._is_over:
                return b""
            self._is_filled.clear()
            await self._is_filled.wait()
        data = self._chunks.popleft()
        self._size -= len(data)
        if self._size <= self._limit:
            self._has_room.set()
        return data

    async def room(self) -> None:
        """Wait until little enough is here for more to come."""
        await self._has_room.wait()
