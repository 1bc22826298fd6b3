"""Holds the group of tasks of a running kubelet, in which its parts start what lasts.

Opened by the kubelet while it runs. A part gets `spawn`, and so needs to know nothing of the
kubelet; whatever it has started ends with the kubelet.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

Spawn = Callable[[Coroutine[None, None, bool], str], asyncio.Task[bool]]


class Tasks:
    def __init__(self) -> None:
        self._group: asyncio.TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.TaskGroup]:
        """Open the group; its end waits for all tasks."""
        async with asyncio.TaskGroup() as self._group:
            yield self._group

    def spawn(self, work: Coroutine[None, None, bool], name: str) -> asyncio.Task[bool]:
        assert self._group is not None, "the kubelet runs"
        return self._group.create_task(work, name=name)
