"""Small pods, jobs and journals for the kubelet's tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orlop.api.quantity import parse
from orlop.engine import Job, JobId, JobState
from orlop.kubelet.agents.journal import Journal, Record
from orlop.kubelet.planning.downward_api import Allocatable
from orlop.kubelet.planning.field_support import SPEC, Nested

Obj = dict[str, Any]
UID = "0b5e1d4e-7b6f-4c0e-9a53-6f2b8f1a0001"
NOW = 1_800_000_000.0
NODE = Allocatable(parse("64"), parse("256Gi"))


def a_pod(*containers: Obj, **spec: Any) -> Obj:
    """A bound pod as the API server hands it out; metadata by keyword."""
    metadata = spec.pop("metadata", {})
    status = spec.pop("status", {"phase": "Pending"})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "uid": UID, **metadata},
        "spec": {
            "nodeName": "main",
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "containers": list(containers) or [a_container()],
            **spec,
        },
        "status": status,
    }


def a_container(name: str = "main", image: str = "busybox", **fields: Any) -> Obj:
    return {"name": name, "image": image, **fields}


@dataclass(frozen=True)
class FakeImage:
    """An image as the image store hands it out."""

    reference: str = "docker.io/library/busybox:latest"
    digest: str = "sha256:" + "a" * 64
    rootfs: Path | None = Path("/images/busybox/rootfs")
    entrypoint: list[str] = field(default_factory=list)
    cmd: list[str] = field(default_factory=lambda: ["sh"])
    env: dict[str, str] = field(default_factory=dict)
    user: str = ""
    working_dir: str = ""
    stop_signal: str = ""


def a_job(state: JobState = JobState.PENDING, **fields: Any) -> Job:
    return Job(JobId("17"), state, pod_uid=UID, **fields)


def a_journal(*records: Obj) -> Journal:
    """A journal of these records, numbered as they stand."""
    journal = Journal()
    for number, fields in enumerate(records, start=1):
        journal.apply(Record(**{"seq": number, "time": NOW + number, **fields}))
    return journal


def started(restart: int = 0, **fields: Any) -> Obj:
    return {
        "type": "started",
        "job": "17",
        "restart": restart,
        "node": "n1",
        "addresses": ("10.77.0.1",),
        "runtime": "crun 1.8.1",
        **fields,
    }


def running(name: str = "main", restart: int = 0, **fields: Any) -> Obj:
    state = {"state": "running", "startedAt": NOW}
    return {"type": "container", "name": name, "restart": restart, **state, **fields}


def exited(code: int, name: str = "main", restart: int = 0, **fields: Any) -> Obj:
    return {
        "type": "container",
        "name": name,
        "restart": restart,
        "state": "terminated",
        "exitCode": code,
        "reason": "Completed" if code == 0 else "Error",
        "startedAt": NOW,
        "finishedAt": NOW + 5,
        **fields,
    }


def waiting(reason: str, name: str = "main", restart: int = 0, **fields: Any) -> Obj:
    state = {"state": "waiting", "reason": reason}
    return {"type": "container", "name": name, "restart": restart, **state, **fields}


def terminating(why: str) -> Obj:
    return {"type": "terminating", "why": why, "grace": 30}


def finished(phase: str, reason: str = "", message: str = "") -> Obj:
    return {"type": "finished", "phase": phase, "reason": reason, "message": message}


def treatment(path):
    """What the table of fields says of one, e.g. `containers.livenessProbe`; None if nothing."""
    entry = Nested(SPEC)
    for name in path.split("."):
        entry = entry.table.get(name) if isinstance(entry, Nested) else None
    return entry
