"""Watches how much emptyDir volumes hold, and ends the pod that exceeds a limit.

A thread of its own, started by `main` only where a volume on disk has a sizeLimit: a limit in
memory is the tmpfs's own. As the kubelet's eviction manager: it measures now and then, so a pod may
be over its limit for a moment; the longer a look takes, the rarer it is taken.
"""

from __future__ import annotations

import os
import time

from .happenings import Terminate
from .lean import start_thread
from .volumes import Volumes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

INTERVAL = 2.0  # seconds between two looks
REST = 20.0  # and as many times what a look took


class Watch:
    def __init__(
        self, volumes: list[dict[str, Any]], places: Volumes, post: Callable[[Terminate], None]
    ) -> None:
        self._limited = [one for one in volumes if is_watched(one)]
        self._places, self._post = places, post

    def start(self) -> None:
        if self._limited:
            start_thread(self._run)

    def _run(self) -> None:
        took = 0.0
        while True:
            time.sleep(max(INTERVAL, REST * took))
            began = time.monotonic()
            for volume in self._limited:
                if bytes_in(self._places.path(volume["name"])) > volume["sizeLimit"]:
                    self._post(Terminate("evicted", 0.0, _words(volume)))
                    return
            took = time.monotonic() - began


def is_watched(volume: dict[str, Any]) -> bool:
    on_disk = volume["kind"] == "emptyDir" and volume.get("medium") != "Memory"
    return on_disk and bool(volume.get("sizeLimit"))


def _words(volume: dict[str, Any]) -> str:
    """As pkg/kubelet/eviction: emptyDirMessageFmt."""
    limit = volume.get("limit") or str(volume["sizeLimit"])
    return f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{limit}". '


def bytes_in(path: str) -> int:
    """What a folder takes up on its disk, as du counts it; what we may not see does not count."""
    total = 0
    seen: set[int] = set()
    folders = [path]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    total += _size(entry, seen)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError:
            pass
    return total


def _size(entry: os.DirEntry[str], seen: set[int]) -> int:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return 0
    if found.st_nlink > 1 and not entry.is_dir(follow_symlinks=False):
        if found.st_ino in seen:
            return 0
        seen.add(found.st_ino)
    return found.st_blocks * 512
