"""Keeps the folder of a pod: what the kubelet writes for its agent, and reads of what became of it.

One per pod object, made before its job is asked for and removed when both the object and the job
are gone. Folders are private (0700, files 0600). The engine's files are not known here, except that
a held submit lock means that a submission is still at work.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import hmac
import json
import os
import shutil
from pathlib import Path
from typing import NamedTuple

from ... import wellknown
from ...api.objects import Key, Obj, key_of, uid_of
from ...settings import Paths
from ..status.container_status import ImageUsed

TOLD_FILE = "told"  # the number of the last record that was told as an Event
LOCK_FILE = wellknown.SUBMIT_FILE + ".lock"
_TAIL = 2048  # bytes of the job's own output that a message may hold


def agent_token(key: bytes, uid: str) -> str:
    """Return the bearer token of a pod's agent; good for that pod alone."""
    return hmac.new(key, uid.encode(), hashlib.sha256).hexdigest()


class PodFolder:
    """The folder at `path`, whether it exists or not."""

    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, paths: Paths, pod: Obj) -> PodFolder:
        key = key_of(pod)
        return cls(paths.pod(key.namespace, key.name, uid_of(pod)))

    @property
    def journal(self) -> Path:
        return self.path / wellknown.JOURNAL_FILE

    def log(self, container: str, run: int) -> Path:
        return self.path / wellknown.LOGS_DIR / container / f"{run}.log"

    def write(self, plan: Obj, token: str) -> None:
        """Make the folder and what the agent reads; again for a pod that was refused before."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.path / wellknown.LOGS_DIR).mkdir(mode=0o700, exist_ok=True)
        self._write(wellknown.TOKEN_FILE, token.encode())
        # Not msgspec: a variable may hold bytes that are no text, as surrogates.
        self._write(wellknown.PLAN_FILE, json.dumps(plan, separators=(",", ":")).encode())

    def plan(self) -> Obj | None:
        """Return the plan as it was last written; None where there is none that can be read."""
        try:
            plan: Obj = json.loads((self.path / wellknown.PLAN_FILE).read_bytes())
        except (OSError, ValueError):
            return None
        return plan

    def replace_plan(self, plan: Obj) -> None:
        """Replace the plan for an agent that is still to start, or will once more; not in a folder
        that is gone.
        """
        self._write(wellknown.PLAN_FILE, json.dumps(plan, separators=(",", ":")).encode())

    def _write(self, name: str, data: bytes) -> None:
        """Write all or nothing, but without waiting for the disk: after a crash all is made
        anew.
        """
        temporary = self.path / f".{name}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(data)
        temporary.replace(self.path / name)

    @property
    def was_submitted(self) -> bool:
        """Return whether a submission was at least begun: the plan is then not made anew."""
        files = (wellknown.PLAN_FILE, wellknown.SUBMIT_FILE)
        return all((self.path / name).exists() for name in files)

    def planned(self) -> Planned:
        """Return what the job was given, as far as the kubelet goes on needing it."""
        try:
            plan = json.loads((self.path / wellknown.PLAN_FILE).read_bytes())
        except (OSError, ValueError):
            return Planned({}, "")
        return planned_of(plan)

    def output(self) -> str:
        """Return the last lines of what the job itself printed."""
        try:
            with (self.path / wellknown.OUTPUT_FILE).open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.strip().splitlines()[-10:])

    @property
    def told(self) -> int:
        try:
            return int((self.path / TOLD_FILE).read_text())
        except (OSError, ValueError):
            return 0

    def remember_told(self, seq: int) -> None:
        try:
            self._write(TOLD_FILE, str(seq).encode())
        except OSError:
            pass  # the pod is gone and nobody will ask, or an event is told twice

    @property
    def is_being_submitted(self) -> bool:
        """Return whether a submission, perhaps of an earlier control plane, is under way now."""
        try:
            descriptor = os.open(self.path / LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno in (errno.EAGAIN, errno.EACCES)
        finally:
            os.close(descriptor)
        return False

    def remove(self) -> bool:
        """Remove all of it; return False where something could not be removed."""
        shutil.rmtree(self.path, ignore_errors=True)
        return not self.path.exists()


class Planned(NamedTuple):
    """The part of a plan that is still needed: its images, by container, and the pod's address;
    empty: its node's.
    """

    images: dict[str, ImageUsed]
    pod_ip: str


def planned_of(plan: Obj) -> Planned:
    containers = [*plan["initContainers"], *plan["containers"]]
    images = {c["name"]: ImageUsed(c["image"], c["imageID"]) for c in containers}
    return Planned(images, (plan.get("network") or {}).get("podIP", ""))


def existing(paths: Paths) -> dict[str, tuple[Key, PodFolder]]:
    """Return all pod folders there are, by the pod's uid."""
    folders = {}
    if paths.pods.is_dir():
        for path in paths.pods.iterdir():
            parts = path.name.split("_")
            if len(parts) == 3:
                folders[parts[2]] = (Key(parts[0], parts[1]), PodFolder(path))
    return folders
