"""Asks the engine about all pods at once: the safety net behind what agents report.

One task of the kubelet. One `jobs()` a poll for all pods together, at the engine's own pace while
any of them has a job, and none at all while no pod waits for an answer. Jobs that the engine lists
no more are looked up in one further call. An engine that does not answer is told as such, and no
pod's state changes. What a job's state means for its pod is not decided here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from ... import errors
from ...client.clock import Clock
from ...engine import Engine, Job, JobId, JobState
from ...engine.pace import Pace
from ...log import logger
from ..node.health import EngineHealth
from .pods import Pods, PodState

SOON = 0.3  # seconds from somebody's asking to the answer, at the least
SPACING = 0.5  # between two ticks, however many ask
LINGER = 60.0  # seconds of looking on after the last pod: a submission may still be under way
VANISHED_AFTER = 2  # answers in a row in which nobody knows a job
# Pods whose sentence, and nothing else, changes are told a few at a time: each is a write.
MESSAGES, MESSAGES_EVERY = 20, 10.0
BY_FILE = 2.0  # seconds between two looks into the journals of agents that cannot reach us

log = logger(__name__)


class JobEventHandler(Protocol):
    """The receiver of what the engine says of jobs."""

    def on_change(self, uid: str) -> None:
        """Take note that there is news of the pod's job."""
        ...

    def on_listing(self, listed: Mapping[JobId, Job]) -> None:
        """Take a whole answer, after the pods it is about have heard of it."""
        ...


class JobPoller:
    def __init__(
        self,
        engine: Engine,
        pods: Pods,
        health: EngineHealth,
        pace: Pace,
        handler: JobEventHandler,
        clock: Clock,
    ) -> None:
        self._engine = engine
        self._pods = pods
        self._health = health
        self._pace = pace
        self._handler = handler
        self._clock = clock
        self._last = float("-inf")
        self._due = clock.now()
        self._is_moved = asyncio.Event()
        self._last_needed = clock.now()
        self._messages_left = 0
        self._refilled = float("-inf")

    def ask(self) -> None:
        """Have the engine asked soon: a caller waits for its answer."""
        spacing = max(SPACING, self._pace.spacing)
        self._advance(max(self._clock.now() + SOON, self._last + spacing))

    def expect(self) -> None:
        """Have the engine asked in its own time: there will be something to hear."""
        self._pace.watch()
        self._advance(max(self._clock.now(), self._last) + self._pace.interval)

    def missed(self, error: Exception) -> None:
        """Take note that the engine did not answer somebody else, and ask it soon."""
        self._health.silent(error)
        self.ask()

    def heard(self) -> None:
        """Take note that the engine has answered somebody else, and will have more to say."""
        self._health.answered()
        self.expect()

    def _advance(self, due: float) -> None:
        self._due = min(self._due, due)
        self._is_moved.set()

    async def run(self) -> None:
        while True:
            is_needed = self._is_needed()
            left = self._due - self._clock.now()
            if is_needed and left <= 0:
                self._due = float("inf")  # who asks from now on may not be answered by this tick
                await self.tick()
                self._due = min(self._due, self._clock.now() + self._pace.interval)
                continue
            self._is_moved.clear()
            try:
                async with asyncio.timeout(min(left, BY_FILE) if is_needed else None):
                    await self._is_moved.wait()
            except TimeoutError:
                self._read_files()

    def _is_needed(self) -> bool:
        """Return whether any pod has a job that has not ended, or waits for the engine to
        answer.
        """
        now = self._clock.now()
        if self._health.is_down or any(_awaits(state) for state in self._pods):
            self._last_needed = now
        return now - self._last_needed < LINGER

    async def tick(self) -> None:
        """Take one look at everything."""
        began = self._last = self._clock.now()
        try:
            listed = await self._engine.jobs()
            self._pace.took(self._clock.now() - began)
            await self._compare(listed, began)
        except errors.EngineError as error:
            self._health.silent(error)
            self._pace.watch()
            return
        except Exception:
            # An answer that nobody thought of: the next one may be better, and pods run on.
            log.error("the engine's answer was not understood", exc_info=True)
            self._pace.rest()
            return
        self._health.answered()
        if any(_awaits(state) for state in self._pods):
            self._pace.watch()
        else:
            self._pace.relax()

    async def _compare(self, listed: Mapping[JobId, Job], began: float) -> None:
        """Take the engine's answer in."""
        by_uid = {job.pod_uid: job for job in listed.values() if job.pod_uid}
        lost: dict[JobId, PodState] = {}
        sentences: list[tuple[PodState, Job]] = []
        for state in self._pods:
            job = listed.get(state.job_id) if state.job_id is not None else by_uid.get(state.uid)
            if job is not None:
                self._take(state, job, sentences)
            elif _awaits(state) and state.job_id is not None and state.submitted < began:
                lost[state.job_id] = state
        self._read_files()
        if lost:
            await self._look_up(lost)
        self._pass_on(sentences)
        self._handler.on_listing(listed)

    def _read_files(self) -> None:
        """Read the journals of agents that cannot reach us."""
        for state in self._pods:
            if _speaks_by_file(state):
                self._handler.on_change(state.uid)

    def _pass_on(self, sentences: list[tuple[PodState, Job]]) -> None:
        """Pass the messages on, first to the pods that have heard nothing for longest."""
        now = self._clock.now()
        if now - self._refilled >= MESSAGES_EVERY:
            self._messages_left, self._refilled = MESSAGES, now
        sentences.sort(key=lambda pair: pair[0].sentence_at)
        passed = sentences[: self._messages_left]
        self._messages_left -= len(passed)
        for state, job in passed:
            state.job, state.sentence_at = job, now
            self._handler.on_change(state.uid)

    def _take(self, state: PodState, job: Job, sentences: list[tuple[PodState, Job]]) -> None:
        """Keep the answer, and have the pod hear of what it must hear at once."""
        state.missing = 0
        if state.job_id is None:
            state.job_id = job.id
        if state.is_settled and not job.state.has_ended:
            state.is_settled = False  # the pod is over and its job is not
        old = state.job
        # An unchanged line of the listing is the same object: most of ten thousand are.
        if old is job or old == job or (job.state is JobState.UNKNOWN and old is not None):
            return
        if old is not None and _essence(old) == _essence(job):
            sentences.append((state, job))
            return
        state.job = job
        if job.state.has_ended and not state.ended_seen:
            state.ended_seen = self._clock.now()
        elif not job.state.has_ended:
            state.ended_seen = 0.0  # it may have been requeued
        self._handler.on_change(state.uid)

    async def _look_up(self, lost: dict[JobId, PodState]) -> None:
        """Look up the last word on jobs that are not listed; twice unknown means gone."""
        ended = await self._engine.ended(list(lost))
        for job_id, state in lost.items():
            job = ended.get(job_id)
            if job is not None:
                self._take(state, job, [])
                continue
            state.missing += 1
            if state.missing >= VANISHED_AFTER:
                log.warning("nobody knows a job any more", pod=str(state.key), job=job_id)
                state.has_vanished = True
                self._handler.on_change(state.uid)


def _awaits(state: PodState) -> bool:
    """Return whether the engine has something to say about the pod that we do not know."""
    if state.job_id is None:
        return state.trouble is not None and state.trouble.by_engine
    return not state.has_ended


def _speaks_by_file(state: PodState) -> bool:
    """Return whether a running agent cannot reach us: its journal is then read at each poll."""
    runs = state.job is not None and state.job.state is JobState.RUNNING
    return runs and state.connection is None and not state.has_ended


def _essence(job: Job) -> tuple[object, ...]:
    return job.state, job.reason, job.nodes, job.restarts, job.ends
