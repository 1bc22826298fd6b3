"""Computes a pod's status from all that is known of it at one moment.

Called by the pod's worker whenever something changed; the status is written where it differs. Pure:
phase, conditions, containers, addresses and words follow from the journal, the engine's answer and
what kept the pod from being submitted. A phase that is final is not left again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...api.objects import Obj, condition_of, is_deleting
from ...api.qos import qos_class
from ...api.times import rfc3339
from ...engine import Job, JobId, JobState
from ...wellknown import ALLOCATED, ENGINE_REACHABLE, NETWORK, TIME_LIMIT
from ..agents.journal import Journal
from . import conditions
from .conditions import condition
from .container_status import (
    ImageUsed,
    StatusInputs,
    Waiting,
    container_statuses,
    ephemeral_container_statuses,
    init_container_statuses,
)
from .termination_reason import Ending, ending_of, is_requeued

MANAGED = (
    "phase",
    "conditions",
    "reason",
    "message",
    "startTime",
    "qosClass",
    "hostIP",
    "hostIPs",
    "podIP",
    "podIPs",
    "initContainerStatuses",
    "containerStatuses",
    "ephemeralContainerStatuses",
)
NOTHING = Waiting("")


@dataclass(frozen=True, slots=True)
class PendingReason:
    """The reason that keeps a pod from being submitted; `by_engine` where the engine is what says
    so.
    """

    reason: str
    message: str
    container: str = ""
    by_engine: bool = False


@dataclass(frozen=True, slots=True)
class Observed:
    """All that is known of a pod beside its API object."""

    journal: Journal = field(default_factory=Journal)
    job_id: JobId | None = None
    job: Job | None = None  # the engine's last answer
    has_vanished: bool = False
    trouble: PendingReason | None = None
    images: Mapping[str, ImageUsed] = field(default_factory=dict)
    engine_error: str = ""  # why the engine does not answer; empty while it does
    output: str = ""  # the last lines of what the job itself printed
    pod_ip: str = ""  # the address that its plan gives it; empty: its node's
    troubles: Mapping[str, PendingReason] = field(default_factory=dict)  # of ephemeral containers

    @property
    def is_requeued(self) -> bool:
        return is_requeued(self.journal, self.job)

    @property
    def has_begun(self) -> bool:
        """Return whether the agent runs, or has run, the present run of the job."""
        return self.journal.started is not None and not self.is_requeued

    @property
    def lost_at(self) -> float:
        """Return when containers without a last word ended: as the engine says, else when last
        heard of.

        It is not the present moment: the same knowledge must give the same status.
        """
        ended = self.job.ended if self.job is not None else None
        return ended if ended is not None else self.journal.time

    def ending(self, pod: Obj) -> Ending | None:
        return ending_of(
            self.journal,
            self.job,
            has_vanished=self.has_vanished,
            is_deleting=is_deleting(pod),
            output=self.output,
        )


def pod_status(pod: Obj, observed: Observed, now: float) -> Obj:
    """Return the status that the pod should have; only the fields that the kubelet owns."""
    ending = observed.ending(pod)
    scene = StatusInputs(
        pod,
        observed.journal,
        _waiting(observed),
        ending,
        observed.is_requeued,
        observed.images,
        observed.lost_at,
    )
    inits, mains = init_container_statuses(scene), container_statuses(scene)
    phase = _phase(observed, ending, mains)
    status: Obj = {"phase": phase, "qosClass": _qos(pod), "startTime": _start_time(pod, now)}
    status.update(_addresses(observed))
    status["conditions"] = _conditions(pod, observed, ending, phase, inits, mains, now)
    if ending is not None:
        status.update({k: v for k in ("reason", "message") if (v := getattr(ending, k))})
    if not _is_queued(observed, ending):
        status["containerStatuses"] = mains
        if inits:
            status["initContainerStatuses"] = inits
        ephemeral = ephemeral_container_statuses(scene, _troubles(observed))
        if ephemeral:
            status["ephemeralContainerStatuses"] = ephemeral
    return status


def status_patch(pod: Obj, wanted: Obj) -> Obj:
    """Return what a merge patch must say to make the pod's status so; empty where it is so
    already.
    """
    present = pod.get("status") or {}
    return {
        key: wanted.get(key)
        for key in MANAGED
        if wanted.get(key) != present.get(key) and (key in wanted or key in present)
    }


def _is_queued(observed: Observed, ending: Ending | None) -> bool:
    """Return whether the pod is queued for the first time: it then has no containers yet, as an
    unscheduled one.
    """
    if ending is not None:
        return observed.journal.started is None
    if observed.trouble is not None or observed.journal.started is not None:
        return False
    return observed.job_id is not None and (
        observed.job is None or observed.job.state in (JobState.PENDING, JobState.UNKNOWN)
    )


def _waiting(observed: Observed) -> Waiting:
    """Return what is told of containers that have not begun."""
    trouble = observed.trouble
    if trouble is not None:
        return Waiting(trouble.reason, trouble.message, trouble.container)
    if observed.is_requeued and observed.job is not None:
        return Waiting("Requeued", observed.job.message)
    return NOTHING


def _troubles(observed: Observed) -> dict[str, Waiting]:
    return {name: Waiting(t.reason, t.message, name) for name, t in observed.troubles.items()}


def _phase(observed: Observed, ending: Ending | None, mains: list[Obj]) -> str:
    if ending is not None:
        return ending.phase
    # As getPhase of pkg/kubelet/kubelet_pods.go: running once a container has been, while the
    # init containers work the pod is still pending.
    has_run = any("waiting" not in status["state"] or status["lastState"] for status in mains)
    return "Running" if has_run and not observed.is_requeued else "Pending"


def _qos(pod: Obj) -> str:
    return str((pod.get("status") or {}).get("qosClass") or qos_class(pod))


def _start_time(pod: Obj, now: float) -> str:
    return str((pod.get("status") or {}).get("startTime") or rfc3339(now))


def _addresses(observed: Observed) -> Obj:
    started = observed.journal.started
    if started is None or observed.is_requeued or not started.addresses:
        return {}
    each = [{"ip": address} for address in started.addresses]
    first = started.addresses[0]
    found = {"hostIP": first, "hostIPs": each, "podIP": first, "podIPs": each}
    network = observed.journal.conditions.get(NETWORK)
    if observed.pod_ip and not (network is not None and network.status == "False"):
        found |= {"podIP": observed.pod_ip, "podIPs": [{"ip": observed.pod_ip}]}
    return found


def _conditions(
    pod: Obj,
    observed: Observed,
    ending: Ending | None,
    phase: str,
    inits: list[Obj],
    mains: list[Obj],
    now: float,
) -> list[Obj]:
    began = any("waiting" not in status["state"] for status in mains)
    of_containers = conditions.containers_ready(pod, [*inits, *mains], phase)
    wanted = [
        condition("PodReadyToStartContainers", observed.has_begun and ending is None),
        conditions.initialized(pod, inits, phase, mains_began=began),
        of_containers,
        conditions.ready(pod, of_containers),
    ]
    if condition_of(pod, "PodScheduled") is None:
        wanted.insert(0, condition("PodScheduled", True))
    wanted += [
        condition(record.condition, record.status == "True", record.reason, record.message)
        for kind, record in observed.journal.conditions.items()
        if kind not in conditions.KEPT  # whether a pod is ready is not for its agent to say
    ]
    wanted += _of_engine(pod, observed, ending)
    return conditions.merged(pod, wanted, now)


def _of_engine(pod: Obj, observed: Observed, ending: Ending | None) -> list[Obj]:
    """Return conditions with what the engine says of the pod's job, and whether it says
    anything.
    """
    wanted = []
    allocated = _allocated(observed, ending)
    if allocated is None and ending is not None:
        allocated = condition_of(pod, ALLOCATED)
    if allocated is not None:
        wanted.append(allocated)
    if observed.engine_error and ending is None:
        words = observed.engine_error
        if is_deleting(pod):
            words = f"the pod goes when the engine answers again: {words}"
        wanted.append(condition(ENGINE_REACHABLE, False, "EngineUnavailable", words))
    if ending is not None and ending.is_time_limit:
        wanted.append(condition(TIME_LIMIT, True, "Reached", ending.message))
    if ending is not None and ending.disruption:
        wanted.append(condition("DisruptionTarget", True, ending.disruption, ending.message))
    return wanted


def _allocated(observed: Observed, ending: Ending | None) -> Obj | None:
    job, trouble = observed.job, observed.trouble
    if ending is not None:
        words = _running_words(observed, "ran")
        return condition(ALLOCATED, True, "Ended", words) if observed.has_begun else None
    if trouble is not None:
        engine_says = trouble.by_engine
        return condition(ALLOCATED, False, trouble.reason, trouble.message) if engine_says else None
    if observed.job_id is None:
        return None
    if observed.has_begun or (job is not None and _has_machine(job)):
        is_suspended = job is not None and job.state is JobState.SUSPENDED
        reason, verb = ("Suspended", "is suspended") if is_suspended else ("Running", "runs")
        return condition(ALLOCATED, True, reason, _running_words(observed, verb))
    if job is None:
        return condition(ALLOCATED, False, "Submitted", f"job {observed.job_id} is submitted")
    if observed.is_requeued:
        words = f"job {job.id} was requeued" + (f": {job.message}" if job.message else "")
        return condition(ALLOCATED, False, "Requeued", words)
    return condition(ALLOCATED, False, job.reason or "Pending", job.message)


def _has_machine(job: Job) -> bool:
    return job.state in (JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING)


def _running_words(observed: Observed, verb: str) -> str:
    job, started = observed.job, observed.journal.started
    nodes = job.nodes if job is not None else ()
    if not nodes and started is not None and started.node:
        nodes = (started.node,)
    return f"job {observed.job_id} {verb}" + (f" on {', '.join(nodes)}" if nodes else "")
