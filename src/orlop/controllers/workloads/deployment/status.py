"""Computes a Deployment's status, which `kubectl rollout status` relies on.

Called by the Deployment controller at the end of each reconcile. Pure: counts from the ReplicaSets,
conditions from those and the moment. As pkg/controller/deployment/progress.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....api import times
from ....api.objects import Obj, meta
from ...framework.status import condition, with_condition, without_condition
from .rollout import limits, replicas_of, total

PROGRESSING, AVAILABLE, FAILURE = "Progressing", "Available", "ReplicaFailure"
CREATED, FOUND = "NewReplicaSetCreated", "FoundNewReplicaSet"
UPDATED, COMPLETE = "ReplicaSetUpdated", "NewReplicaSetAvailable"
TIMED_OUT, PAUSED, RESUMED = "ProgressDeadlineExceeded", "DeploymentPaused", "DeploymentResumed"
CREATE_ERROR = "ReplicaSetCreateError"
_NO_DEADLINE = 2**31 - 1  # the API's way to say that there is none


@dataclass(frozen=True, slots=True)
class Observed:
    """All that the status is computed from."""

    deployment: Obj
    new: Obj | None
    old: Sequence[Obj]
    now: float
    created: bool = False  # the new ReplicaSet was made in this very reconcile
    is_rollout: bool = True  # False while only the size changes

    @property
    def subject(self) -> str:
        if self.new is not None:
            return f'ReplicaSet "{meta(self.new)["name"]}"'
        return f'Deployment "{meta(self.deployment)["name"]}"'

    @property
    def sets(self) -> list[Obj]:
        return [*self.old, *([self.new] if self.new is not None else [])]


def deadline_of(deployment: Obj) -> int | None:
    seconds = deployment["spec"].get("progressDeadlineSeconds")
    return None if seconds is None or seconds == _NO_DEADLINE else int(seconds)


def status_of(observed: Observed) -> Obj:
    """Return the whole status, as it should be now."""
    deployment = observed.deployment
    former = deployment.get("status") or {}
    counts = _counts(observed)
    status: Obj = {
        "observedGeneration": meta(deployment).get("generation", 0),
        **{name: count for name, count in counts.items() if count},
    }
    if former.get("collisionCount"):
        status["collisionCount"] = former["collisionCount"]
    conditions = list(former.get("conditions") or [])
    conditions = with_condition(conditions, _availability(observed, counts))
    conditions = _progress(observed, counts, conditions)
    status["conditions"] = _failures(observed, conditions)
    return status


def _counts(observed: Observed) -> dict[str, int]:
    def sum_of(field: str) -> int:
        return sum((one.get("status") or {}).get(field, 0) for one in observed.sets)

    new_status = (observed.new or {}).get("status") or {}
    available = sum_of("availableReplicas")
    return {
        "replicas": sum_of("replicas"),
        "updatedReplicas": new_status.get("replicas", 0),
        "readyReplicas": sum_of("readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(total(observed.sets) - available, 0),
    }


def is_complete(deployment: Obj, status: Obj) -> bool:
    """Return whether all pods are of the new template, there, and available."""
    wanted = replicas_of(deployment)
    return all(
        status.get(name, 0) == wanted
        for name in ("updatedReplicas", "replicas", "availableReplicas")
    ) and status.get("observedGeneration", 0) >= meta(deployment).get("generation", 0)


def _condition(kind: str, status: str, reason: str, message: str, now: float) -> Obj:
    return {
        **condition(kind, status, reason, message, now),
        "lastUpdateTime": times.rfc3339(now),
    }


def _availability(observed: Observed, counts: dict[str, int]) -> Obj:
    least = replicas_of(observed.deployment) - limits(observed.deployment)[1]
    if counts["availableReplicas"] >= least:
        reason, message = "MinimumReplicasAvailable", "Deployment has minimum availability."
        return _condition(AVAILABLE, "True", reason, message, observed.now)
    reason, message = "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
    return _condition(AVAILABLE, "False", reason, message, observed.now)


def _progress(observed: Observed, counts: dict[str, int], conditions: list[Obj]) -> list[Obj]:
    """Return the Progressing condition, which `kubectl rollout status` and the deadline use."""
    deployment = observed.deployment
    if deadline_of(deployment) is None:
        return without_condition(conditions, PROGRESSING)
    conditions = _beginning(observed, conditions)
    current = _find(conditions, PROGRESSING)
    was_complete = current is not None and current["reason"] == COMPLETE
    if (
        not observed.is_rollout
        or deployment["spec"].get("paused")
        or (was_complete and counts["replicas"] == counts["updatedReplicas"])
    ):
        return conditions
    status = {**counts, "observedGeneration": meta(deployment).get("generation", 0)}
    if is_complete(deployment, status):
        message = f"{observed.subject} has successfully progressed."
        done = _condition(PROGRESSING, "True", COMPLETE, message, observed.now)
        return with_condition(conditions, done)
    if _has_moved(deployment.get("status") or {}, counts):
        message = f"{observed.subject} is progressing."
        moved = _condition(PROGRESSING, "True", UPDATED, message, observed.now)
        if current is not None and current["status"] == "True":
            moved["lastTransitionTime"] = current["lastTransitionTime"]
        return [*without_condition(conditions, PROGRESSING), moved]
    if _is_overdue(deployment, current, observed.now):
        message = f"{observed.subject} has timed out progressing."
        late = _condition(PROGRESSING, "False", TIMED_OUT, message, observed.now)
        return with_condition(conditions, late)
    return conditions


def _beginning(observed: Observed, conditions: list[Obj]) -> list[Obj]:
    """Return what comes before any progress is judged: made, found, paused, resumed."""
    current = _find(conditions, PROGRESSING)
    paused = bool(observed.deployment["spec"].get("paused"))
    reason = current["reason"] if current is not None else ""
    name = meta(observed.new)["name"] if observed.new is not None else ""
    begun: tuple[str, str, str] | None = None
    if observed.created:
        begun = ("True", CREATED, f'Created new replica set "{name}"')
    elif paused and reason not in (PAUSED, TIMED_OUT):
        begun = ("Unknown", PAUSED, "Deployment is paused")
    elif not paused and reason == PAUSED:
        begun = ("Unknown", RESUMED, "Deployment is resumed")
    elif current is None and observed.new is not None:
        begun = ("True", FOUND, f'Found new replica set "{name}"')
    if begun is None:
        return conditions
    return with_condition(conditions, _condition(PROGRESSING, *begun, observed.now))


def _has_moved(former: Obj, counts: dict[str, int]) -> bool:
    old_before = former.get("replicas", 0) - former.get("updatedReplicas", 0)
    return bool(
        counts["updatedReplicas"] > former.get("updatedReplicas", 0)
        or counts["replicas"] - counts["updatedReplicas"] < old_before
        or counts["readyReplicas"] > former.get("readyReplicas", 0)
        or counts["availableReplicas"] > former.get("availableReplicas", 0)
    )


def _is_overdue(deployment: Obj, current: Obj | None, now: float) -> bool:
    if current is None or current["reason"] == COMPLETE:
        return False
    return current["reason"] == TIMED_OUT or seconds_left(deployment, current, now) <= 0


def seconds_left(deployment: Obj, progressing: Obj, now: float) -> float:
    """Return the seconds until a rollout that does not move is called timed out."""
    since = times.parse(progressing.get("lastUpdateTime") or progressing["lastTransitionTime"])
    return since + (deadline_of(deployment) or 0) - now


def next_check(deployment: Obj, status: Obj, now: float) -> float | None:
    """Return when a rollout must be looked at again although nothing changed."""
    progressing = _find(status.get("conditions") or [], PROGRESSING)
    if (
        progressing is None
        or deadline_of(deployment) is None
        or deployment["spec"].get("paused")
        or progressing["reason"] in (TIMED_OUT, COMPLETE)
        or is_complete(deployment, status)
    ):
        return None
    # A second more, because times on the wire are cut to the second.
    return max(seconds_left(deployment, progressing, now), 0.0) + 1.0


def _failures(observed: Observed, conditions: list[Obj]) -> list[Obj]:
    """Report a ReplicaSet that cannot make its pods; the new one first."""
    ordered = [*([observed.new] if observed.new is not None else []), *observed.old]
    for one in ordered:
        failed = _find((one.get("status") or {}).get("conditions") or [], FAILURE)
        if failed is not None:
            told = {**failed, "lastUpdateTime": failed["lastTransitionTime"]}
            return with_condition(conditions, told)
    return without_condition(conditions, FAILURE)


def creation_failed(observed: Observed, name: str, message: str) -> Obj:
    """Return the status when the new ReplicaSet could not even be made."""
    status = status_of(observed)
    text = f'Failed to create new replica set "{name}": {message}'
    failed = _condition(PROGRESSING, "False", CREATE_ERROR, text, observed.now)
    return {**status, "conditions": with_condition(status["conditions"], failed)}


def _find(conditions: Sequence[Obj], kind: str) -> Obj | None:
    return next((one for one in conditions if one["type"] == kind), None)
