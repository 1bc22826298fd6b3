"""Ends pods: those being deleted, those whose object is gone, and jobs that outlive their pod.

Used by the pod's worker. A running agent is asked first, with the pod's own grace; the engine is
asked where there is no agent or it does not end in time. An object goes when nothing of it runs,
a folder when its object and its job are gone. No job is ended because a cache says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from ... import errors
from ...api.kinds import POD
from ...api.objects import Key, Obj, is_deleting, meta, uid_of
from ...api.times import parse as parse_time
from ...client.api import Api
from ...client.clock import Clock
from ...engine import Engine, JobId
from ...log import logger
from ..node.health import EngineHealth
from ..status.status_writer import StatusWriter
from .pods import Pods, PodState

KILL_MARGIN = 5.0  # seconds that an agent may take beyond the grace before the job is cancelled
PATIENCE = 10.0  # seconds that a finished agent may take to leave
AFTERLIFE = 60.0  # a job must not live that long after its pod has ended, nobody waiting for it
RETRY = 5.0

log = logger(__name__)


class Requeuer(Protocol):
    """Calls again later, and has the engine asked."""

    def again(self, uid: str, delay: float) -> None: ...

    def follow(self, uid: str) -> None:
        """Follow a pod whose job is asked for: from now on it is told of what changes."""
        ...

    def ask_engine(self) -> None:
        """Ask the engine soon: a caller waits for the answer."""
        ...

    def expect_engine(self) -> None:
        """Ask the engine in its own time: there will be something to hear."""
        ...


class Termination:
    def __init__(
        self,
        api: Api,
        engine: Engine,
        pods: Pods,
        writer: StatusWriter,
        health: EngineHealth,
        clock: Clock,
        later: Requeuer,
        ended: Callable[[Key, str, JobId | None], None] = lambda key, uid, job: None,
    ) -> None:
        """Take the parts it needs; `ended` is told of each pod whose job is over, and whose object
        stays.
        """
        self._ended = ended
        self._api = api
        self._engine = engine
        self._pods = pods
        self._writer = writer
        self._health = health
        self._clock = clock
        self._later = later

    async def delete(self, pod: Obj, state: PodState) -> None:
        """End a pod that is being deleted, and remove its object when nothing of it runs."""
        if not await self._is_settled(state):
            await self._say_waiting(pod, state)
            return
        if not state.has_ended:
            await self._guarded(state, self._ask(pod, state))
            await self._writer.write(pod, state)
            await self._say_waiting(pod, state)
            self._later.ask_engine()
            return
        if state.job_id is not None:
            await self._writer.write(pod, state)
        await self._remove_object(state)

    async def after_end(self, pod: Obj, state: PodState) -> None:
        """End the job of a pod that is over and needs none; its object may be waiting to go."""
        if not state.has_ended:
            patience = PATIENCE if is_deleting(pod) else AFTERLIFE
            if state.is_requeued or self._outlives(state, patience):
                await self._guarded(state, self._cancel(state))
            if is_deleting(pod):
                await self._say_waiting(pod, state)
            self._later.ask_engine()
            self._later.again(state.uid, patience)  # its agent may hang, and nothing else happen
        elif is_deleting(pod):
            await self._remove_object(state)
        else:
            self._ended(state.key, state.uid, state.job_id)
            self._forget(state)

    async def reap(self, state: PodState) -> None:
        """End the job, if there is one, of a pod whose object is gone, then remove the folder."""
        if not await self._is_gone(state):
            self._later.again(state.uid, RETRY)
            return
        if not await self._is_settled(state):
            return
        if not state.has_ended:
            state.read_journal()
            if self._is_leaving(state, PATIENCE):
                self._later.again(state.uid, PATIENCE)
            else:
                await self._guarded(state, self._cancel(state))
            self._later.ask_engine()
            return
        if not await asyncio.to_thread(state.folder.remove):
            log.warning("pod folder not removed", folder=state.folder.path)
        self._forget(state)

    # Parts

    async def _say_waiting(self, pod: Obj, state: PodState) -> None:
        """Say that the pod cannot go yet, because it is not known whether its job has ended."""
        error = self._health.error
        if error and state.waits_for != error:
            state.waits_for = error
            await self._writer.say_waiting(pod, state, error)
        elif not error:
            state.waits_for = ""

    async def _is_settled(self, state: PodState) -> bool:
        """Return whether it is known which job the pod has, if any; else we come back."""
        if state.job_id is not None or not state.folder.was_submitted:
            return True
        if state.folder.is_being_submitted:
            self._later.again(state.uid, 0.5)
            return False
        try:
            listed = await self._engine.jobs()
        except errors.EngineError as error:
            log.warning("cannot tell whether a pod has a job", pod=str(state.key), error=error)
            self._later.again(state.uid, RETRY)
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
        now = self._clock.now()
        deadline = parse_time(meta(pod)["deletionTimestamp"]) + KILL_MARGIN
        if self._is_leaving(state, PATIENCE):
            self._later.again(state.uid, PATIENCE)
        elif state.journal.started is None or now >= deadline:
            await self._cancel(state)
        else:
            await self._terminate(state, int(meta(pod).get("deletionGracePeriodSeconds") or 0))
            self._later.again(state.uid, max(deadline - now, 0.1))

    async def _terminate(self, state: PodState, grace: int) -> None:
        """Pass the grace on, and again should it be shortened."""
        if state.asked_to_end == grace or state.job_id is None:
            return
        if state.connection is not None:
            state.connection.terminate(grace)
        else:
            await self._engine.terminate(state.job_id)
        state.asked_to_end = grace

    def _is_leaving(self, state: PodState, patience: float) -> bool:
        """Return whether the agent has said its last word and may still be on its way out.

        Counted from when we first saw it: the node's clock may not agree with ours.
        """
        now = self._clock.now()
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
        return not self._is_leaving(state, patience) and self._health.has_answered_for(patience)

    async def _cancel(self, state: PodState) -> None:
        """Cancel the job once, and again should that not have helped for long."""
        now = self._clock.now()
        if state.job_id is None or state.cancelled_at + AFTERLIFE > now:
            return
        await self._engine.cancel(state.job_id)
        state.cancelled_at = now
        log.info("cancelled job", pod=str(state.key), job=state.job_id)
        self._later.again(state.uid, AFTERLIFE)

    async def _guarded(self, state: PodState, work: Awaitable[None]) -> None:
        try:
            await work
        except errors.EngineError as error:
            log.warning("job not ended yet", pod=str(state.key), error=error)
            self._later.again(state.uid, RETRY)

    async def _remove_object(self, state: PodState) -> None:
        try:
            await self._api.delete(POD, state.key, grace=0, uid=state.uid)
        except errors.NotFound:
            return
        except errors.Conflict:  # another of its name, or somebody wrote at every try
            if not await self._is_gone(state):
                self._later.again(state.uid, RETRY)
            return
        log.info("removed pod", pod=str(state.key), job=state.job_id or "")

    async def _is_gone(self, state: PodState) -> bool:
        """Ask the API itself whether the pod is gone: a cache that is wrong must not end a healthy
        job.
        """
        try:
            found = await self._api.get(POD, state.key)
        except errors.NotFound:
            return True
        except errors.ApiError as error:
            log.warning("cannot tell whether a pod is gone", pod=str(state.key), error=error)
            return False
        return uid_of(found) != state.uid

    def _forget(self, state: PodState) -> None:
        if state.connection is not None:
            state.connection.close()
        self._pods.forget(state.uid)
