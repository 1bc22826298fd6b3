"""Jobs and their pods as plain objects, for the pure tests."""

from __future__ import annotations

from typing import Any

from orlop.api.times import rfc3339
from orlop.controllers.workloads.job.indexes import FAILURES, INDEX
from orlop.controllers.workloads.job.view import FINALIZER, JobView

NOW = 1_800_000_000.0


def a_job(*, status: dict[str, Any] | None = None, restart: str = "Never", **spec: Any) -> dict:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "ns", "uid": "job-uid", "resourceVersion": "1"},
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 6,
            "template": {
                "metadata": {"labels": {"job-name": "j"}},
                "spec": {"restartPolicy": restart, "containers": [{"name": "main", "image": "x"}]},
            },
            **spec,
        },
        "status": status or {},
    }


def a_pod(
    name: str,
    phase: str = "Running",
    *,
    tracked: bool = True,
    deleting: bool = False,
    index: int | None = None,
    failures: int | None = None,
    code: int | None = None,
    ended: float = NOW,
    restarts: int = 0,
    conditions: tuple[tuple[str, str], ...] = (),
) -> dict:
    metadata: dict[str, Any] = {"name": name, "namespace": "ns", "uid": name, "annotations": {}}
    if tracked:
        metadata["finalizers"] = [FINALIZER]
    if deleting:
        metadata["deletionTimestamp"] = rfc3339(NOW)
    if index is not None:
        metadata["annotations"][INDEX] = str(index)
    if failures is not None:
        metadata["annotations"][FAILURES] = str(failures)
    if code is None:
        code = {"Succeeded": 0, "Failed": 1}.get(phase)
    state = {} if code is None else {"terminated": {"exitCode": code, "finishedAt": rfc3339(ended)}}
    status = {
        "phase": phase,
        "conditions": [{"type": kind, "status": said} for kind, said in conditions],
        "containerStatuses": [{"name": "main", "restartCount": restarts, "state": state}],
    }
    return {"metadata": metadata, "spec": {"nodeName": "n1"}, "status": status}


def view(job: dict, *pods: dict, now: float = NOW) -> JobView:
    return JobView(job, pods, now)
