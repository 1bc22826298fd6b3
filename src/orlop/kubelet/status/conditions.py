"""Computes the conditions of a pod: upstream's own, and what Orlop says of its job.

Used by `pod_status`; pure. Conditions that others wrote (readiness gates, disruption) are kept as
they are, and a transition time changes only when the status does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from ...api.objects import Obj, condition_of
from ...api.times import rfc3339
from ...wellknown import ALLOCATED, ENGINE_REACHABLE

# What the kubelet owns: absent from the new status, these are dropped from the pod.
OWNED = (
    "PodReadyToStartContainers",
    "Initialized",
    "ContainersReady",
    "Ready",
    ALLOCATED,
    ENGINE_REACHABLE,
)

KEPT = (*OWNED, "PodScheduled", "DisruptionTarget")


def condition(kind: str, is_true: bool, reason: str = "", message: str = "") -> Obj:
    result = {"type": kind, "status": "True" if is_true else "False"}
    if reason:
        result["reason"] = word(reason)
    if message:
        result["message"] = message
    return result


def word(reason: str) -> str:
    """Return a reason as a condition may carry it: the first word, letters and digits."""
    match = re.search(r"[A-Za-z][A-Za-z0-9_]*", reason)
    return match[0] if match is not None else "Unknown"


def merged(pod: Obj, wanted: Iterable[Obj], now: float) -> list[Obj]:
    """Return the pod's conditions with ours as they should be, in a stable order."""
    return merged_conditions(pod, wanted, OWNED, now)


def merged_conditions(
    obj: Obj, wanted: Iterable[Obj], owned: Collection[str], now: float
) -> list[Obj]:
    """Return the object's conditions with the wanted ones, and without owned ones not wanted any
    more.
    """
    new = {item["type"]: item for item in wanted}
    result = []
    for old in (obj.get("status") or {}).get("conditions") or []:
        if old["type"] in new:
            result.append(_stamped(old, new.pop(old["type"]), now))
        elif old["type"] not in owned:
            result.append(old)
    return result + [_stamped(None, item, now) for item in new.values()]


def _stamped(old: Obj | None, new: Obj, now: float) -> Obj:
    if old is None or old.get("status") != new["status"]:
        return {**new, "lastTransitionTime": rfc3339(now)}
    times = ("lastHeartbeatTime", "lastTransitionTime")
    return {**new, "lastTransitionTime": rfc3339(now)} | {k: old[k] for k in times if k in old}


def initialized(pod: Obj, init_statuses: list[Obj], phase: str, *, mains_began: bool) -> Obj:
    """Return Initialized as pkg/kubelet/status/generate.go: GeneratePodInitializedCondition."""
    if phase == "Succeeded":
        return condition("Initialized", True, "PodCompleted")
    done = {s["name"] for s in init_statuses if s["ready"] or s.get("started")}
    ready = {s["name"] for s in init_statuses if s["ready"]}
    inits = pod["spec"].get("initContainers") or []
    # A sidecar need only have started.
    missing = [c["name"] for c in inits if c["name"] not in (done if _stays(c) else ready)]
    if missing and not mains_began:
        words = f"containers with incomplete status: [{' '.join(missing)}]"
        return condition("Initialized", False, "ContainersNotInitialized", words)
    return condition("Initialized", True)


def containers_ready(pod: Obj, statuses: list[Obj], phase: str) -> Obj:
    """Return ContainersReady as GenerateContainersReadyCondition."""
    if phase in ("Succeeded", "Failed"):
        reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
        return condition("ContainersReady", False, reason)
    ready = {status["name"] for status in statuses if status["ready"]}
    sidecars = [c for c in pod["spec"].get("initContainers") or [] if _stays(c)]
    names = [container["name"] for container in [*sidecars, *pod["spec"]["containers"]]]
    unready = [name for name in names if name not in ready]
    if unready:
        words = f"containers with unready status: [{' '.join(unready)}]"
        return condition("ContainersReady", False, "ContainersNotReady", words)
    return condition("ContainersReady", True)


def _stays(container: Obj) -> bool:
    return container.get("restartPolicy") == "Always"


def ready(pod: Obj, of_containers: Obj) -> Obj:
    """Return Ready as GeneratePodReadyCondition: the containers, and the gates that others open."""
    if of_containers["status"] != "True":
        return {**of_containers, "type": "Ready"}
    words = [_gate(pod, gate["conditionType"]) for gate in pod["spec"].get("readinessGates") or []]
    closed = ", ".join(text for text in words if text)
    if closed:
        return condition("Ready", False, "ReadinessGatesNotReady", closed)
    return condition("Ready", True)


def _gate(pod: Obj, kind: str) -> str:
    found = condition_of(pod, kind)
    if found is None:
        return f'corresponding condition of pod readiness gate "{kind}" does not exist.'
    if found.get("status") != "True":
        status = found.get("status")
        return f'the status of pod readiness gate "{kind}" is not "True", but {status}'
    return ""
