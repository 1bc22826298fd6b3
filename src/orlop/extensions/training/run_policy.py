"""What jobs of kubeflow.org have in common: labels, run policies, and what they say of gangs.

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
    """What is asked of Slurm for all pods of a workload: on the workload itself."""
    given = annotations_of(owner).items()
    found = {name: value for name, value in given if name.startswith(SLURM_PREFIX)}
    queue = scheduling_policy(owner).get("queue")
    if queue:
        found.setdefault(SLURM_PREFIX + "partition", str(queue))
    for own in _OWN:
        found.pop(SLURM_PREFIX + own, None)
    return found


def members(job: Obj, every: int) -> int:
    """How many of its pods must be there before one starts."""
    asked = scheduling_policy(job).get("minAvailable")
    return min(max(int(asked), 1), every) if asked is not None else every


def with_priority(job: Obj, spec: Obj) -> None:
    """The pods' class, where they name none themselves."""
    priority = scheduling_policy(job).get("priorityClass")
    if priority:
        spec.setdefault("priorityClassName", priority)


def to_clean(job: Obj, pods: Iterable[Obj]) -> list[Obj]:
    """Which pods go when the job is over; those that still run where nothing else is said."""
    policy = run_policy(job).get("cleanPodPolicy") or "Running"
    if policy == "None":
        return []
    there = [pod for pod in pods if not is_deleting(pod)]
    return there if policy == "All" else unfinished(there)


def unfinished(pods: Iterable[Obj]) -> list[Obj]:
    """Those that have not ended, and are not on their way out."""
    phases = ("Pending", "Running", "")
    return [pod for pod in pods if not is_deleting(pod) and phase_of(pod) in phases]


def is_lost(pod: Obj) -> bool:
    """Whether it failed because Slurm ended its job, and not by anything that it did itself."""
    reason = (pod.get("status") or {}).get("reason")
    return phase_of(pod) == "Failed" and reason in _LOST


def is_waiting(job: Obj, pods: Iterable[Obj], needed: int) -> bool:
    """Whether it may run, and fewer pods than it needs have begun."""
    begun = sum(phase_of(pod) in ("Running", "Succeeded", "Failed") for pod in pods)
    return not is_suspended(job) and begun < needed


def overdue(job: Obj, needed: int, now: float) -> tuple[float, str] | None:
    """In how many seconds pods that wait will have done so for too long, and the words for it.

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
    """After the user's own, without what these set themselves."""
    env: list[Any] = list(container.get("env") or [])
    given = {one["name"] for one in env}
    added = [{"name": n, "value": v} for n, v in variables.items() if n not in given]
    container["env"] = [*env, *added]


def headless(name: str, app: Obj, selector: dict[str, str], ports: Sequence[Obj] = ()) -> Obj:
    """A Service that only gives names; they are needed before anything is ready."""
    spec: Obj = {"clusterIP": "None", "selector": selector, "publishNotReadyAddresses": True}
    if ports:
        spec["ports"] = list(ports)
    return {"metadata": {"name": name, "labels": {"app": meta(app)["name"]}}, "spec": spec}
