"""Runs the control plane of a home, and tells which modules and tasks it then has.

Run by test_left_out.py as a process of its own: `python -m tests.extensions.control_plane HOME
NAME…`, where the names are those of controllers that are waited for.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path

from orlop.cli.control_plane.readiness import Readiness
from orlop.cli.control_plane.serve import ControlPlane
from orlop.cli.home.home_lock import HomeLock
from orlop.settings import Paths, load


def tasks() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks()}


async def told(plane: ControlPlane, awaited: set[str]) -> dict[str, list[str]]:
    running = asyncio.create_task(plane.run(Readiness(), ""))
    try:
        async with asyncio.timeout(90):
            while not awaited <= tasks():
                if running.done():
                    running.result()
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.3)  # in which one that should not run would have come, too
        modules = [name for name in sys.modules if name.startswith("orlop.extensions.")]
        return {"modules": sorted(modules), "tasks": sorted(tasks())}
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def main(home: str, *awaited: str) -> None:
    paths = Paths(Path(home))
    for folder in (paths.run, paths.log, paths.pods, paths.images, paths.volumes):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with HomeLock(paths) as home_lock:
        plane = ControlPlane(paths, load(paths), "local", home_lock)
        print(json.dumps(asyncio.run(told(plane, set(awaited)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
