"""The common parts of jobs of kubeflow.org: labels, run policies, and what they say of gangs.

Asked by the controllers of MPIJobs and PyTorchJobs. Pure. A run policy says when a job may start,
how long it may take and what is left of it; what a queue or a least number of pods is to Slurm is
said here once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...api import times
from ...api.objects import Obj, annotations_of, is_deleting, meta, phase_of
from ...wellknown import SLURM_PREFIX

_LABEL = "training.kubeflow.org/"
OPERATOR_NAME, JOB_NAME, JOB_ROLE = (_LABEL + n for n in ("operator-name", "job-name", "job-role"))
REPLICA_TYPE, REPLICA_INDEX = _LABEL + "replica-type", _LABEL + "replica-index"
_LOST = ("NodeLost", "PreemptionByScheduler", "Cancelled", "DeadlineExceeded", "JobVanished")
_OWN = ("launcher", "gang", "gang-size", "gang-room", "distributed", "distributed-port")


def run_policy(job: Obj) -> Obj:
    return job["spec"].get("runPolicy") or {}


def scheduling_policy(job: Obj) -> Obj:
    return run_policy(job).get("schedulingPolicy") or {}


def is_suspended(job: Obj) -> bool:
    return bool(run_policy(job).get("suspend"))


def inherited(owner: Obj) -> dict[str, str]:
    """Return what is asked of Slurm for all pods of a workload: on the workload itself."""
    given = annotations_of(owner).items()
    found = {name: value for name, value in given if name.startswith(SLURM_PREFIX)}
    queue = scheduling_policy(owner).get("queue")
    if queue:
        found.setdefault(SLURM_PREFIX + "partition", str(queue))
    for own in _OWN:
        found.pop(SLURM_PREFIX + own, None)
    return found


def members(job: Obj, every: int) -> int:
    """Return how many of its pods must be there before one starts."""
    asked = scheduling_policy(job).get("minAvailable")
    return min(max(int(asked), 1), every) if asked is not None else every


def with_priority(job: Obj, spec: Obj) -> None:
    """Set the pods' priority class, where they name none themselves."""
    priority = scheduling_policy(job).get("priorityClass")
    if priority:
        spec.setdefault("priorityClassName", priority)


def to_clean(job: Obj, pods: Iterable[Obj]) -> list[Obj]:
    """Return which pods go when the job is over; by default those that still run."""
    policy = run_policy(job).get("cleanPodPolicy") or "Running"
    if policy == "None":
        return []
    there = [pod for pod in pods if not is_deleting(pod)]
    return there if policy == "All" else unfinished(there)


def unfinished(pods: Iterable[Obj]) -> list[Obj]:
    """Return those that have not ended, and are not being deleted."""
    phases = ("Pending", "Running", "")
    return [pod for pod in pods if not is_deleting(pod) and phase_of(pod) in phases]


def is_lost(pod: Obj) -> bool:
    """Return whether it failed because Slurm ended its job, not by what it did itself."""
    reason = (pod.get("status") or {}).get("reason")
    return phase_of(pod) == "Failed" and reason in _LOST


def is_waiting(job: Obj, pods: Iterable[Obj], needed: int) -> bool:
    """Return whether it may run, and fewer pods than it needs have begun."""
    begun = sum(phase_of(pod) in ("Running", "Succeeded", "Failed") for pod in pods)
    return not is_suspended(job) and begun < needed


def overdue(job: Obj, needed: int, now: float) -> tuple[float, str] | None:
    """Return in how many seconds waiting pods will have waited too long, and the words for it.

    None where it has no such limit.
    """
    limit = scheduling_policy(job).get("scheduleTimeoutSeconds")
    started = (job.get("status") or {}).get("startTime")
    if not limit or not started:
        return None
    left = times.parse(started) + float(limit) - now
    words = f"fewer than {needed} pods run after {limit} s; they hold nothing while they wait"
    return left, words


def add_env(container: Obj, variables: dict[str, str]) -> None:
    """Add variables after the user's own, but for those that the user sets."""
    env: list[Any] = list(container.get("env") or [])
    given = {one["name"] for one in env}
    added = [{"name": n, "value": v} for n, v in variables.items() if n not in given]
    container["env"] = [*env, *added]


def headless(name: str, app: Obj, selector: dict[str, str], ports: Sequence[Obj] = ()) -> Obj:
    """Return a Service that just gives names, which are needed before anything is ready."""
    spec: Obj = {"clusterIP": "None", "selector": selector, "publishNotReadyAddresses": True}
    if ports:
        spec["ports"] = list(ports)
    return {"metadata": {"name": name, "labels": {"app": meta(app)["name"]}}, "spec": spec}
