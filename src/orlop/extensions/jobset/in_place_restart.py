"""Restarts a JobSet in place: its pods stay, and what runs in them begins anew together.

Asked by the JobSet controller, for the restart strategy InPlaceRestart. Pure. In each pod an agent
of the JobSet project's writes which attempt it is at into an annotation, and reads from the
JobSet's status when all have come to the same and may go on, or when it has to begin anew itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...api.objects import Obj, annotations_of, phase_of
from .children import pods_of, replicas, replicated, restarts
from .policy import End

ATTEMPT = "jobset.sigs.k8s.io/in-place-restart-attempt"
CURRENT, PREVIOUS = "currentInPlaceRestartAttempt", "previousInPlaceRestartAttempt"
MOST = 2**31 - 1  # of a Job's backoffLimit: what fails is made again, and the set judges


def is_in_place(jobset: Obj) -> bool:
    policy = jobset["spec"].get("failurePolicy") or {}
    return bool(policy.get("restartStrategy") == "InPlaceRestart")


def watched_fields(pod: Obj) -> tuple[object, ...]:
    """Return all of a pod that is looked at here."""
    return annotations_of(pod).get(ATTEMPT), phase_of(pod), _restarts(pod)


def judge_in_place(jobset: Obj, pods: Sequence[Obj]) -> End | Obj:
    """Return the end of a set that has restarted too often; else what changes in its status."""
    status = jobset.get("status") or {}
    attempts = [int(text) for pod in pods if (text := _attempt(pod)) is not None]
    most = int((jobset["spec"].get("failurePolicy") or {}).get("maxRestarts") or 0)
    # Restarts of the whole set that do not count are no attempts of its pods either.
    free = restarts(jobset) - int(status.get("restartsCountTowardsMax") or 0)
    worst = max((_restarts(pod) for pod in pods), default=0)
    if worst > most or max(attempts, default=0) - free > most:
        words = "jobset failed due to reaching max number of restarts"
        return End("Failed", "ReachedMaxRestarts", words)
    if len(attempts) == expected(jobset) and len(set(attempts)) == 1:
        return {CURRENT: attempts[0]}  # all agents are at the same: they may go on
    if max(attempts, default=0) == 0:
        return {}
    former = status.get(PREVIOUS)
    last = max(attempts) - 1
    return {} if former is not None and last <= former else {PREVIOUS: last}


def expected(jobset: Obj) -> int:
    return sum(replicas(one) * pods_of(one) for one in replicated(jobset))


def _attempt(pod: Obj) -> str | None:
    """Return what its agent has written; a pod that failed may have a successor already."""
    text = annotations_of(pod).get(ATTEMPT)
    return text if text is not None and text.isdecimal() and phase_of(pod) != "Failed" else None


def _restarts(pod: Obj) -> int:
    status = pod.get("status") or {}
    kinds = ("containerStatuses", "initContainerStatuses")
    counts = [int(one.get("restartCount") or 0) for kind in kinds for one in status.get(kind) or []]
    return max(counts, default=0)
