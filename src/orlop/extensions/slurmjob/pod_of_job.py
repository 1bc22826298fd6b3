"""Builds the pod that stands for a SlurmJob, so that `kubectl logs`, `describe`, `get` work on it.

Called by the controller; pure. It is what upstream calls a mirror pod: the kubelet neither starts
nor ends anything for it, and its containers are the job, or the tasks of its array. It asks for
nothing, tolerates everything, and ends with the SlurmJob that owns it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...api.objects import Obj, meta, owner_reference
from ...api.times import rfc3339
from ...controllers.framework.status import condition, with_condition
from ...slurm.query.user_jobs import UserJob
from ...wellknown import DEFAULT_CONTAINER, HOST_IMAGE, JOB_ID, MIRROR, NODE_LIST, SLURM_PREFIX
from .kinds import ENDED, FAILED, RUNNING
from .plan import Plan
from .status import phase_of

SLURM_JOB_LABEL = SLURM_PREFIX + "slurmjob"  # the SlurmJob that a pod shows
MOST = 64  # tasks of an array that are containers of the pod
_LONGEST = 253


def pod_name(job: str) -> str:
    """Return the pod's name for a SlurmJob's, as the pods of wlm-operator are named."""
    return f"{job}-job"[:_LONGEST]


class Shown(NamedTuple):
    """A container of the pod, and what it shows."""

    name: str
    task: str  # of an array; empty for a job that is single
    has_errors: bool = False  # what was printed to standard error, where that is apart


def containers(plan: Plan) -> list[Shown]:
    """Return `job`, or one container for each task of an array; then those of their errors."""
    shown = [Shown(f"task-{task}", str(task)) for task in plan.tasks[:MOST]] or [Shown("job", "")]
    if not plan.has_errors_apart:
        return shown
    errors = [
        Shown(f"errors-{one.task}" if one.task else "errors", one.task, True) for one in shown
    ]
    return shown + errors


def pod_of(job: Obj, plan: Plan, node: str) -> Obj:
    name = meta(job)["name"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(name),
            "namespace": meta(job)["namespace"],
            "labels": {SLURM_JOB_LABEL: name[:63]},
            "annotations": {
                MIRROR: meta(job)["uid"],
                DEFAULT_CONTAINER: containers(plan)[0].name,
                **_annotations(job.get("status") or {}),
            },
            "ownerReferences": [owner_reference(job)],
        },
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,  # there is nothing of its own to end
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {"name": one.name, "image": HOST_IMAGE, "command": ["sbatch", plan.script.name]}
                for one in containers(plan)
            ],
        },
    }


def _annotations(status: Obj) -> dict[str, str]:
    known = {JOB_ID: status.get("jobId"), NODE_LIST: status.get("nodeList")}
    return {name: value for name, value in known.items() if value}


def annotations_due(job: Obj, pod: Obj) -> dict[str, str]:
    """Return what of the job's number and nodes the pod does not say yet."""
    said = meta(pod).get("annotations") or {}
    due = _annotations(job.get("status") or {})
    return {name: value for name, value in due.items() if said.get(name) != value}


def pod_status(job: Obj, pod: Obj, tasks: Sequence[UserJob], plan: Plan, now: float) -> Obj:
    """Return what the pod says of the job."""
    status, former = job.get("status") or {}, pod.get("status") or {}
    phase = str(status.get("phase") or "Pending")
    by_task = {task.task: task for task in tasks}
    number = str(status.get("jobId", ""))
    ready = "True" if phase == RUNNING else "False"
    reason = "PodCompleted" if phase in ENDED else ("" if phase == RUNNING else "SlurmQueue")
    conditions = former.get("conditions") or []
    for kind in ("Ready", "ContainersReady"):
        conditions = with_condition(conditions, condition(kind, ready, reason, "", now))
    done = condition("Initialized", "True", "", "", now)
    new: Obj = {
        **former,
        "phase": phase,
        "conditions": with_condition(conditions, done),
        "containerStatuses": [
            _container(one.name, by_task.get(one.task), number, status) for one in containers(plan)
        ],
    }
    if status.get("startTime"):
        new["startTime"] = status["startTime"]
    if phase == FAILED:
        word = status.get("state") or status.get("reason")
        new |= {"message": _why(status)} | ({"reason": word} if word != "FAILED" else {})
    return new


def _why(status: Obj) -> str:
    return str(status.get("message") or status.get("reason") or "")


def _container(name: str, task: UserJob | None, number: str, status: Obj) -> Obj:
    state: Obj
    phase = phase_of(task.state) if task is not None else str(status.get("phase") or "")
    started = task.started if task is not None else None
    if phase in ENDED:
        code = (task.exit_code or (128 + task.signal if task.signal else 0)) if task else 0
        if not code and phase == FAILED:
            code = 1
        ended: Obj = {
            "exitCode": code,
            "reason": "Completed" if phase != FAILED else _word(task, status),
            "containerID": f"slurm://{number}.0",
        }
        if started:
            ended["startedAt"] = rfc3339(started)
        if task is not None and task.ended:
            ended["finishedAt"] = rfc3339(task.ended)
        state = {"terminated": ended}
    elif phase == RUNNING:
        state = {"running": {"startedAt": rfc3339(started)} if started else {}}
    else:
        why = (task.reason if task is not None else "") or status.get("reason") or "Pending"
        state = {"waiting": {"reason": why, "message": _why(status)}}
    return {
        "name": name,
        "image": HOST_IMAGE,
        "imageID": "",
        "containerID": f"slurm://{number}.0" if phase in (RUNNING, *ENDED) else "",
        "ready": phase == RUNNING,
        "started": phase == RUNNING,
        "restartCount": task.restarts if task is not None else 0,
        "state": state,
        "lastState": {},
    }


def _word(task: UserJob | None, status: Obj) -> str:
    word = (task.word if task is not None else "") or str(status.get("reason") or "")
    return "Error" if word in ("FAILED", "") else word
