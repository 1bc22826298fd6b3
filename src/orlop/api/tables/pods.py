"""The table that `kubectl get pods` prints.

Called by the dispatch. STATUS is a word of its own, drawn from phase, conditions and containers as
pkg/printers/internalversion/printers.go does; NODE is the compute node where one is known, since a
node of the API may stand for a whole partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...wellknown import NODE_LIST
from .. import times
from ..objects import Obj, annotations_of, condition_of, is_deleting, is_terminal
from .cells import AGE, NAME, NONE, Cells, Printer, age, column, name_of, wide


class Summary(NamedTuple):
    """The containers of a pod, summed up."""

    ready: int
    total: int
    reason: str
    restarts: int
    last_restart: float | None


def _row(pod: Obj, now: float) -> Cells:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    summary = summarize(pod)
    restarts = str(summary.restarts)
    if summary.restarts and summary.last_restart is not None:
        ago = times.human_duration(now - summary.last_restart)
        restarts = f"{restarts} ({ago} ago)"
    addresses = status.get("podIPs") or ()
    return [
        name_of(pod),
        f"{summary.ready}/{summary.total}",
        summary.reason,
        restarts,
        age(pod, now),
        (addresses[0].get("ip") if addresses else status.get("podIP")) or NONE,
        annotations_of(pod).get(NODE_LIST) or spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _readiness_gates(pod),
    ]


def summarize(pod: Obj) -> Summary:
    """Return the pod's status in a word, and its containers in numbers."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    sidecars = {
        container.get("name")
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    initial = _initialization(pod, sidecars)
    summary = initial
    if not initial.reason or _is_true(pod, "Initialized"):
        summary = _running(status, initial, sidecars, _phase_reason(pod))
    reason = _deletion_reason(pod) or summary.reason or _phase_reason(pod)
    total = len(spec.get("containers") or ()) + len(sidecars)
    return summary._replace(total=total, reason=reason)


def _phase_reason(pod: Obj) -> str:
    status = pod.get("status") or {}
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled is not None and scheduled.get("reason") == "SchedulingGated":
        return "SchedulingGated"
    return str(status.get("reason") or status.get("phase") or "Unknown")


def _deletion_reason(pod: Obj) -> str:
    if not is_deleting(pod):
        return ""
    if (pod.get("status") or {}).get("reason") == "NodeLost":
        return "Unknown"
    return "" if is_terminal(pod) else "Terminating"


def _initialization(pod: Obj, sidecars: set[str | None]) -> Summary:
    """Summarize a starting pod by its first init container that is not done."""
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or ()
    count = len((pod.get("spec") or {}).get("initContainers") or ())
    restarts, ready, reason = 0, 0, ""
    seen = []
    for index, status in enumerate(statuses):
        restarts += status.get("restartCount", 0)
        seen.append(status)
        state = status.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if status.get("name") in sidecars and status.get("started"):
            ready += bool(status.get("ready"))
            continue
        if ended is not None:
            reason = "Init:" + _ended_reason(ended)
        elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
            reason = f"Init:{waiting['reason']}"
        else:
            reason = f"Init:{index}/{count}"
        break
    return Summary(ready, 0, reason, restarts, _last_restart(seen))


def _running(status: Obj, initial: Summary, sidecars: set[str | None], phase: str) -> Summary:
    """Summarize an initialised pod by its first container with something to say."""
    containers = status.get("containerStatuses") or ()
    beside = [
        one for one in status.get("initContainerStatuses") or () if one.get("name") in sidecars
    ]
    reason, ready, has_running = phase, initial.ready, False
    for one in reversed(containers):
        state = one.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif ended is not None:
            reason = _ended_reason(ended)
        elif one.get("ready") and state.get("running") is not None:
            has_running = True
            ready += 1
    if reason == "Completed" and has_running:
        conditions = status.get("conditions") or ()
        is_ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
        reason = "Running" if is_ready else "NotReady"
    counted = [*containers, *beside]
    restarts = sum(one.get("restartCount", 0) for one in counted)
    return Summary(ready, 0, reason, restarts, _last_restart(counted))


def _ended_reason(ended: Obj) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _last_restart(statuses: Iterable[Obj]) -> float | None:
    moments = [
        times.parse(finished)
        for status in statuses
        if (finished := ((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt"))
    ]
    return max(moments, default=None)


def _is_true(pod: Obj, condition: str) -> bool:
    found = condition_of(pod, condition)
    return found is not None and found.get("status") == "True"


def _readiness_gates(pod: Obj) -> str:
    gates = (pod.get("spec") or {}).get("readinessGates") or ()
    if not gates:
        return NONE
    met = sum(_is_true(pod, gate.get("conditionType", "")) for gate in gates)
    return f"{met}/{len(gates)}"


POD = Printer(
    (
        NAME,
        column("Ready", about="How many of the pod's containers are ready."),
        column("Status", about="What the pod is doing, in a word."),
        column("Restarts", about="How often its containers were restarted, and when last."),
        AGE,
        wide("IP", about="The pod's address."),
        wide("Node", about="Where the pod runs."),
        wide("Nominated Node", about="Where the pod may run once others have made room."),
        wide("Readiness Gates", about="How many of its readiness gates are passed."),
    ),
    _row,
)
