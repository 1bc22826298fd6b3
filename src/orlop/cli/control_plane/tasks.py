"""Runs named tasks together until a signal, or until one of them ends.

Used by `serve` for the components of the control plane. Each of them is meant to run for ever:
one that returns or raises is named in the log and brings the others down in order.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Mapping

from ... import log
from ...errors import Error

logger = log.logger(__name__)

Tasks = Mapping[str, Coroutine[None, None, None]]


class ComponentEnded(Error):
    """A task that should run as long as the process has ended."""


async def until_stopped(tasks: Tasks) -> None:
    """Wait for TERM or an interrupt; raise when a task ends by itself."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(_guarded(name, task), name=name) for name, task in tasks.items()
            ]
            await stop.wait()
            logger.info("stopping")
            for task in running:
                task.cancel()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def _guarded(name: str, task: Coroutine[None, None, None]) -> None:
    try:
        await task
    except Exception as error:
        logger.error("component failed", component=name, error=error, exc_info=True)
        raise
    message = f"the component {name} ended by itself; please report this with the log"
    logger.error("component ended", component=name)
    raise ComponentEnded(message)
