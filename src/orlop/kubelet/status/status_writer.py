"""Writes a pod's status where it differs from what the API has.

Called by the pod's worker after whatever it did. One patch carries the status and the annotations
that name the job and its compute nodes; a conflict is tried again from the newest object, so that
what others wrote meanwhile (readiness gates, disruption) is kept.
"""

from __future__ import annotations

from ... import errors
from ...api.kinds import POD
from ...api.objects import Obj, annotations_of, is_terminal, meta, uid_of
from ...api.times import rfc3339
from ...client.api import Api
from ...client.clock import Clock
from ...client.recorder import EventType
from ...engine import JobState
from ...log import logger
from ...wellknown import END_TIME, ENGINE_REACHABLE, JOB_ID, NODE_LIST
from ..node.health import EngineHealth
from ..pod.events import Events
from ..pod.pods import PodState
from .conditions import condition, merged_conditions
from .job_usage import ANNOTATIONS as USED
from .job_usage import from_agent
from .pod_status import pod_status, status_patch

_TRIES = 5

log = logger(__name__)


class StatusWriter:
    def __init__(self, api: Api, events: Events, health: EngineHealth, clock: Clock) -> None:
        self._api = api
        self._events = events
        self._health = health
        self._clock = clock

    def status_of(self, pod: Obj, state: PodState) -> Obj:
        """Return what the status should be now."""
        if state.job is not None and state.job.state.has_ended:
            # The engine may have said so since the journal was last looked at, and while a
            # write was tried again; without its end the pod would be taken for a failure.
            state.read_journal()
        return pod_status(pod, state.observed(self._health.error), self._clock.now())

    async def write(self, pod: Obj, state: PodState) -> Obj | None:
        """Write the status; return the pod as it is afterwards, None where it is gone or could not
        be written.
        """
        current: Obj | None = pod
        for _ in range(_TRIES):
            if current is None or is_terminal(current):
                return current
            patch = self._patch(current, state)
            if not patch:
                return current
            try:
                state.written = await self._api.patch(POD, state.key, patch, subresource="status")
            except errors.Conflict:
                current = await self._newest(state)
                continue
            except errors.NotFound:
                return None
            self._tell_queued(current, state)
            return state.written
        log.warning("status not written", pod=str(state.key), tries=_TRIES)
        return None

    async def say_waiting(self, pod: Obj, state: PodState) -> None:
        """Say once on a pod that is to go, over or not, that it stays while the engine is silent.

        Nobody knows then whether its job has ended.
        """
        error = self._health.error
        if not error or state.waits_for == error:
            state.waits_for = error
            return
        state.waits_for = error
        words = f"the pod goes when the engine answers again: {error}"
        self._events.tell(pod, "Warning", "FailedKillPod", f"error killing pod: {words}")
        current = await self._newest(state)
        if current is None:
            return
        unreachable = condition(ENGINE_REACHABLE, False, "EngineUnavailable", words)
        kept = [ENGINE_REACHABLE]
        conditions = merged_conditions(current, [unreachable], kept, self._clock.now())
        metadata = {key: meta(current)[key] for key in ("uid", "resourceVersion")}
        patch = {"metadata": metadata, "status": {"conditions": conditions}}
        try:
            await self._api.patch(POD, state.key, patch, subresource="status")
        except (errors.Conflict, errors.NotFound):
            state.waits_for = ""  # changed meanwhile: it is looked at again

    def _patch(self, pod: Obj, state: PodState) -> Obj:
        """Return the patch; empty where there is nothing to write."""
        status = status_patch(pod, self.status_of(pod, state))
        annotations = _annotations(pod, state)
        if not status and not annotations:
            return {}
        metadata = {key: meta(pod)[key] for key in ("uid", "resourceVersion")}
        if annotations:
            metadata["annotations"] = annotations
        return {"metadata": metadata, "status": status} if status else {"metadata": metadata}

    async def _newest(self, state: PodState) -> Obj | None:
        try:
            found = await self._api.get(POD, state.key)
        except errors.NotFound:
            return None
        return found if uid_of(found) == state.uid else None

    def _tell_queued(self, pod: Obj, state: PodState) -> None:
        """Tell an Event whenever the engine's reason for letting the pod wait changes."""
        job = state.job
        if job is None or job.state is not JobState.PENDING:
            return
        if state.journal.started is not None and not state.is_requeued:
            return  # its agent was quicker than the engine's answer
        told = f"{job.reason} {job.is_hopeless}"
        if job.message and told != state.queued_told:
            state.queued_told = told
            kind: EventType = "Warning" if job.is_hopeless else "Normal"
            self._events.tell(
                pod, kind, "CannotStart" if job.is_hopeless else "Queued", job.message
            )


def _annotations(pod: Obj, state: PodState) -> dict[str, str | None]:
    """Return the pod's job, its compute nodes and its end, where the object does not have them yet.

    Those of another pod, from which the manifest was copied, are removed.
    """
    job = state.job
    nodes = job.nodes if job is not None else ()
    started = state.journal.started
    if not nodes and started is not None and started.node:
        nodes = (started.node,)
    ends = rfc3339(job.ends) if job is not None and job.ends is not None else ""
    wanted = {JOB_ID: state.job_id or "", NODE_LIST: ",".join(nodes), END_TIME: ends}
    wanted |= dict.fromkeys(USED, "")
    finished = state.journal.finished
    if finished is not None and finished.usage is not None:
        wanted |= from_agent(finished.usage)
    present = annotations_of(pod)
    if present.get(JOB_ID, "") == wanted[JOB_ID]:
        # Of a job that runs the engine knows the end; one without has no limit any more.
        known = {END_TIME} if job is not None and job.state is JobState.RUNNING else set()
        wanted = {key: text for key, text in wanted.items() if text or key in known}
    return {key: text or None for key, text in wanted.items() if present.get(key, "") != text}
