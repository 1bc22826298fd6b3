"""Computes the containerStatuses of a pod, from its journal and from how it ended.

Used by `pod_status`; pure. A container's states are told in upstream's shapes and words, and a
container that did not start is not given an exit code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ...api.objects import Obj, uid_of
from ...api.times import rfc3339
from ..agents.journal import Container, Journal, Record, lost
from .termination_reason import Ending, was_killed


class ImageUsed(NamedTuple):
    """The image that a container was given: its name in the pod, and which one that was."""

    name: str
    id: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """The reason why containers wait that have not begun; `container` is empty where all do."""

    reason: str
    message: str = ""
    container: str = ""


@dataclass(frozen=True, slots=True)
class StatusInputs:
    """The inputs from which container statuses are computed."""

    pod: Obj
    journal: Journal
    waiting: Waiting
    ending: Ending | None = None
    is_requeued: bool = False
    images: Mapping[str, ImageUsed] = field(default_factory=dict)
    lost_at: float = 0.0  # when what has no last word was last heard of


def init_container_statuses(scene: StatusInputs) -> list[Obj]:
    containers = scene.pod["spec"].get("initContainers") or []
    return [_status(scene, container, is_init=True) for container in containers]


def container_statuses(scene: StatusInputs) -> list[Obj]:
    return [
        _status(scene, container, is_init=False) for container in scene.pod["spec"]["containers"]
    ]


def ephemeral_container_statuses(scene: StatusInputs, troubles: Mapping[str, Waiting]) -> list[Obj]:
    """Return the statuses of those that were added; they neither make a pod ready nor keep it from
    that.
    """
    found = []
    for container in scene.pod["spec"].get("ephemeralContainers") or []:
        waiting = troubles.get(container["name"], Waiting("ContainerCreating"))
        status = _status(replace(scene, waiting=waiting), container, is_init=False)
        found.append({**status, "ready": False})
    return found


MESSAGES = 12 << 10  # bytes


def is_sidecar(container: Obj) -> bool:
    """Return whether an init container stays, and counts as the others do."""
    return container.get("restartPolicy") == "Always"


def container_id(pod: Obj, journal: Journal, name: str, restart: int) -> str:
    """Return `crun://<pod uid>.<container>.<run>`: the runtime, and a name that is not used
    again.
    """
    runtime = (
        journal.started.runtime.split()[0] if journal.started and journal.started.runtime else ""
    )
    return f"{runtime or 'orlop'}://{uid_of(pod)}.{name}.{restart}"


def _status(scene: StatusInputs, spec: Obj, *, is_init: bool) -> Obj:
    name = spec["name"]
    known = scene.journal.containers.get(name) or Container(name)
    current, ended = _records(scene, known)
    has_run = current is not None and current.state in ("running", "terminated")
    is_running = current is not None and current.state == "running"
    succeeded = current is not None and current.state == "terminated" and current.exitCode == 0
    # What its job was given; the pod's spec may name another one since.
    image = scene.images.get(name) or _told_image(scene.pod, spec)
    status: Obj = {
        "name": name,
        "image": image.name,
        "imageID": image.id,
        "ready": succeeded if is_init and not is_sidecar(spec) else is_running and known.is_ready,
        "started": is_running and known.is_started,
        "restartCount": known.restart,
        "state": _state(scene, current, spec, is_init=is_init),
        "lastState": _terminated(scene, ended) if ended is not None else {},
    }
    latest = current if has_run else ended
    if latest is not None:
        status["containerID"] = container_id(scene.pod, scene.journal, name, latest.restart)
    return status


def _told_image(pod: Obj, spec: Obj) -> ImageUsed:
    """Return the image of a container that no plan knows: it was added while another control plane
    ran.
    """
    told = (pod.get("status") or {}).get("ephemeralContainerStatuses") or []
    for status in told:
        if status.get("name") == spec["name"] and status.get("imageID"):
            return ImageUsed(status.get("image", ""), status["imageID"])
    return ImageUsed(spec.get("image", ""), "")


def _records(scene: StatusInputs, known: Container) -> tuple[Record | None, Record | None]:
    """Return the present record and that of the end before it, as they are to be told."""
    current, ended = known.current, known.ended
    if scene.is_requeued and scene.ending is None:
        again = Container(known.name, known.restart, current, ended)
        again.interrupt(scene.lost_at)
        return None, again.ended
    if current is not None and current.state == "terminated":
        ended = ended if ended is not None and ended.restart < current.restart else None
    if scene.ending is not None:
        return _at_the_end(scene.ending, current, ended, scene.lost_at)
    return current, ended


def _at_the_end(
    ending: Ending, current: Record | None, ended: Record | None, lost_at: float
) -> tuple[Record | None, Record | None]:
    """Return the records of a pod where nothing runs or waits any more: what has no last word is
    told to be lost.
    """
    if current is not None and current.state == "running":
        return lost(current, lost_at, ending.lost_reason, ending.message), ended
    if current is not None and current.state == "waiting":
        # Its last run was its last: there is none to come.
        return (ended, None) if ended is not None else (None, None)
    if current is not None and ending.is_oom and was_killed(current):
        return lost(current, current.finishedAt or lost_at, "OOMKilled", ending.message), ended
    return current, ended


def _state(scene: StatusInputs, record: Record | None, spec: Obj, *, is_init: bool) -> Obj:
    if record is None:
        return {"waiting": _why(scene, spec["name"], is_init=is_init)}
    if record.state == "running":
        return {"running": {"startedAt": rfc3339(record.startedAt or record.time)}}
    if record.state == "terminated":
        return _terminated(scene, record)
    words = {"reason": record.reason, "message": record.message}
    return {"waiting": {key: text for key, text in words.items() if text}}


def _why(scene: StatusInputs, name: str, *, is_init: bool) -> Obj:
    if scene.ending is not None:
        return {}
    waiting = scene.waiting
    if waiting.reason and waiting.container in ("", name):
        words = {"reason": waiting.reason, "message": waiting.message}
        return {key: text for key, text in words.items() if text}
    has_init = bool(scene.pod["spec"].get("initContainers"))
    return {"reason": "PodInitializing" if is_init or has_init else "ContainerCreating"}


def _share(pod: Obj, message: str) -> str:
    """Return what is told of a termination message: all of a pod have 12 KiB together.

    As pkg/kubelet/status/status_manager.go: normalizeStatus.
    """
    kinds = ("containers", "initContainers", "ephemeralContainers")
    count = sum(len(pod["spec"].get(kind) or []) for kind in kinds)
    return message.encode()[: MESSAGES // max(count, 1)].decode(errors="ignore")


def _terminated(scene: StatusInputs, record: Record) -> Obj:
    fields: Obj = {"exitCode": 137 if record.exitCode is None else record.exitCode}
    if record.signal:
        fields["signal"] = record.signal
    if record.reason:
        fields["reason"] = record.reason
    if record.message:
        fields["message"] = _share(scene.pod, record.message)
    fields["startedAt"] = rfc3339(record.startedAt or record.time)
    fields["finishedAt"] = rfc3339(record.finishedAt or record.time)
    fields["containerID"] = container_id(scene.pod, scene.journal, record.name, record.restart)
    return {"terminated": fields}
