"""Watches how much a pod keeps on its node's disk, and ends the pod that exceeds a limit.

A thread of its own, started by `main` where there is such a limit: of an emptyDir on disk (in
memory it is the tmpfs's own), of a container, or of the pod. As the kubelet's eviction manager: it
measures now and then, so a pod may be over its limit for a moment; the longer a look takes, the
rarer it is taken.
"""

from __future__ import annotations

import os

from ..linux.adaptive_poll import now_and_then
from ..plan import Plan
from .lifecycle_events import Terminate
from .volumes import Volumes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

INTERVAL = 2.0  # seconds between two looks
INODE = 256  # bytes; ext4's


class Watch:
    """Measures the pod; `layers` has what runs of containers wrote to their roots, `logs` logs."""

    def __init__(
        self,
        plan: Plan,
        places: Volumes,
        layers: str,
        logs: str,
        post: Callable[[Terminate], None],
    ) -> None:
        self._plan, self._places, self._post = plan, places, post
        self._layers, self._logs = layers, logs
        self._limited = [one for one in plan.volumes if is_watched(one)]

    def start(self) -> None:
        of_containers = any(one.storage.get("limit") for one in self._plan.containers)
        if self._limited or of_containers or self._plan.pod.storage.get("limit"):
            now_and_then(self._look, INTERVAL)

    def _look(self) -> bool:
        words = self.excess()
        if words:
            self._post(Terminate("evicted", 0.0, words))
        return bool(words)

    def excess(self) -> str:
        """Return the first limit exceeded, in upstream's words and order; empty: none is."""
        for volume in self._limited:
            if bytes_in(self._places.path(volume["name"])) > volume["sizeLimit"]:
                return _words(volume)
        containers, pod = list(self._plan.containers), self._plan.pod.storage
        limited = [one for one in containers if one.storage.get("limit")]
        if not limited and not pod.get("limit"):
            return ""
        used = {one.name: self._of_container(one.name) for one in containers}
        if pod.get("limit") and sum(used.values()) + self._of_volumes() > pod["limit"]:
            words = "Pod ephemeral local storage usage exceeds the total limit of containers"
            return f"{words} {pod['words']}. "
        for one in limited:
            if used[one.name] > one.storage["limit"]:
                words = f"Container {one.name} exceeded its local ephemeral storage limit"
                return f'{words} "{one.storage["words"]}". '
        return ""

    def _of_container(self, name: str) -> int:
        """Return the bytes its runs wrote, to its root and to its log."""
        total = bytes_in(os.path.join(self._logs, name))
        for run in _listed(self._layers):
            if run.rpartition("-")[0] == name:
                total += bytes_in(os.path.join(self._layers, run))
        return total

    def _of_volumes(self) -> int:
        on_disk = [one for one in self._plan.volumes if is_on_disk(one)]
        return sum(bytes_in(self._places.path(one["name"])) for one in on_disk)


def is_on_disk(volume: dict[str, Any]) -> bool:
    return volume["kind"] == "emptyDir" and not volume.get("medium")


def is_watched(volume: dict[str, Any]) -> bool:
    return is_on_disk(volume) and bool(volume.get("sizeLimit"))


def _words(volume: dict[str, Any]) -> str:
    """Return upstream's words, as all here: emptyDirMessageFmt of pkg/kubelet/eviction."""
    limit = volume.get("limit") or str(volume["sizeLimit"])
    return f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{limit}". '


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def bytes_in(path: str) -> int:
    """Return what a folder takes up on its disk, as du counts it, without what we may not see.

    A file without contents takes up something, too: as much as an inode.
    """
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
    return found.st_blocks * 512 or INODE
