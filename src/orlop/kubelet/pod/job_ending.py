"""Ends the jobs of pods that are to go, and those that outlive their pod.

Used by `termination.py`. A running agent is asked first, with the pod's own grace; the engine is
asked where there is no agent or it does not end in time. What becomes of the pod's object and its
folder is not decided here.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass

from ... import errors
from ...api.objects import Obj, meta
from ...api.times import parse as parse_time
from ...client.clock import Clock
from ...client.workqueue import WorkQueue
from ...engine import Engine
from ...log import logger
from ..node.health import EngineHealth
from .job_poller import JobPoller
from .pods import PodState

KILL_MARGIN = 5.0  # seconds that an agent may take beyond the grace before the job is cancelled
PATIENCE = 10.0  # seconds that a finished agent may take to leave
AFTERLIFE = 60.0  # a job must not live that long after its pod has ended, nobody waiting for it
RETRY = 5.0

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class JobEnding:
    engine: Engine
    queue: WorkQueue[str]
    poller: JobPoller
    health: EngineHealth
    clock: Clock

    async def end(self, pod: Obj, state: PodState) -> None:
        """End the job of a pod that is being deleted."""
        await self._guarded(state, self._ask(pod, state))
        self.poller.ask()

    async def end_outliving(self, state: PodState, patience: float) -> None:
        """End the job of a pod that is over, if it goes on for longer than `patience`."""
        if state.is_requeued or self._outlives(state, patience):
            await self._guarded(state, self._cancel(state))
        self.poller.ask()
        self.queue.add_after(state.uid, patience)  # its agent may hang, and nothing else happen

    async def end_orphaned(self, state: PodState) -> None:
        """End the job of a pod whose object is gone."""
        state.read_journal()
        if self._is_leaving(state, PATIENCE):
            self.queue.add_after(state.uid, PATIENCE)
        else:
            await self._guarded(state, self._cancel(state))
        self.poller.ask()

    async def is_known(self, state: PodState) -> bool:
        """Return whether it is known which job the pod has, if any; else it is looked at again."""
        if state.job_id is not None or not state.folder.was_submitted:
            return True
        if state.folder.is_being_submitted:
            self.queue.add_after(state.uid, 0.5)
            return False
        try:
            listed = await self.engine.jobs()
        except errors.EngineError as error:
            log.warning("cannot tell whether a pod has a job", pod=str(state.key), error=error)
            self.queue.add_after(state.uid, RETRY)
            return False
        for job in listed.values():
            if job.pod_uid == state.uid:
                state.job_id, state.job = job.id, job
        return True

    async def _ask(self, pod: Obj, state: PodState) -> None:
        """Ask the agent to end the pod if it runs, or the engine if it does not or does not end in
        time.
        """
        assert state.job_id is not None, "what has no job has ended"
        now = self.clock.now()
        deadline = parse_time(meta(pod)["deletionTimestamp"]) + KILL_MARGIN
        if self._is_leaving(state, PATIENCE):
            self.queue.add_after(state.uid, PATIENCE)
        elif state.journal.started is None or now >= deadline:
            await self._cancel(state)
        else:
            await self._terminate(state, int(meta(pod).get("deletionGracePeriodSeconds") or 0))
            self.queue.add_after(state.uid, max(deadline - now, 0.1))

    async def _terminate(self, state: PodState, grace: int) -> None:
        """Pass the grace on, and again should it be shortened."""
        if state.asked_to_end == grace or state.job_id is None:
            return
        if state.connection is not None:
            state.connection.terminate(grace)
        else:
            await self.engine.terminate(state.job_id)
        state.asked_to_end = grace

    def _is_leaving(self, state: PodState, patience: float) -> bool:
        """Return whether the agent has said its last word and may still be on its way out.

        Counted from when we first saw it: the node's clock may not agree with ours.
        """
        now = self.clock.now()
        if state.journal.finished is None:
            state.finished_seen = 0.0
            return False
        state.finished_seen = state.finished_seen or now
        return now - state.finished_seen < patience

    def _outlives(self, state: PodState, patience: float) -> bool:
        """Return whether the job goes on although its pod is over.

        An engine that has just come back may not have heard yet that the job ended by itself, and
        would record it as cancelled.
        """
        return not self._is_leaving(state, patience) and self.health.has_answered_for(patience)

    async def _cancel(self, state: PodState) -> None:
        """Cancel the job once, and again should that not have helped for long."""
        now = self.clock.now()
        if state.job_id is None or state.cancelled_at + AFTERLIFE > now:
            return
        await self.engine.cancel(state.job_id)
        state.cancelled_at = now
        log.info("cancelled job", pod=str(state.key), job=state.job_id)
        self.queue.add_after(state.uid, AFTERLIFE)

    async def _guarded(self, state: PodState, work: Awaitable[None]) -> None:
        try:
            await work
        except errors.EngineError as error:
            log.warning("job not ended yet", pod=str(state.key), error=error)
            self.queue.add_after(state.uid, RETRY)
