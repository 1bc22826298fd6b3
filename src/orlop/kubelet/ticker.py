"""Asks the engine about all pods at once: the safety net behind what agents report.

One task of the kubelet. One `jobs()` a tick for all pods together, often while things change and
seldom while they do not, and none at all while nobody waits for an answer. Jobs that the engine
lists no more are looked up in one further call. An engine that does not answer is told as such and
changes nothing else. What a job's state means for its pod is not decided here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from .. import errors
from ..client.clock import Clock
from ..engine import Engine, Job, JobId, JobState
from ..log import logger
from .health import EngineHealth
from .pods import Pods, PodState

SOON = 0.3  # seconds from somebody's asking to the answer, at the least
SPACING = 0.5  # between two ticks, however many ask
LINGER = 60.0  # seconds of looking on after the last pod: a submission may still be under way
VANISHED_AFTER = 2  # answers in a row in which nobody knows a job
MESSAGES_PER_TICK = 20  # pods whose sentence, and nothing else, changes are told a few at a time
GROWTH = 1.5
BY_FILE = 2.0  # the longest interval while an agent cannot reach us and we read its journal

log = logger(__name__)


class Ticker:
    def __init__(
        self,
        engine: Engine,
        pods: Pods,
        health: EngineHealth,
        *,
        busy: float,
        idle: float,
        on_change: Callable[[str], None],
        on_listing: Callable[[Mapping[JobId, Job]], None],
        clock: Clock,
    ) -> None:
        self._engine = engine
        self._pods = pods
        self._health = health
        self._busy = busy
        self._idle = max(busy, idle)
        self._on_change = on_change
        self._on_listing = on_listing
        self._clock = clock
        self._interval = busy
        self._last = float("-inf")
        self._due = clock.now()
        self._is_moved = asyncio.Event()
        self._last_needed = clock.now()
        self.ticks = 0

    def ask(self) -> None:
        """Have the engine asked soon: somebody waits for its answer."""
        self._interval = self._busy
        self._advance(max(self._clock.now() + SOON, self._last + SPACING))

    def expect(self) -> None:
        """Have the engine asked at the next busy tick: there will be something to hear."""
        self._interval = self._busy
        self._advance(max(self._clock.now(), self._last) + self._busy)

    def _advance(self, due: float) -> None:
        self._due = min(self._due, due)
        self._is_moved.set()

    async def run(self) -> None:
        while True:
            is_needed = self._is_needed()
            left = self._due - self._clock.now()
            if is_needed and left <= 0:
                await self.tick()
                self._due = self._clock.now() + self._interval
                continue
            self._is_moved.clear()
            try:
                async with asyncio.timeout(left if is_needed else None):
                    await self._is_moved.wait()
            except TimeoutError:
                pass

    def _is_needed(self) -> bool:
        """Whether any pod has a job that has not ended, or waits for the engine to answer."""
        now = self._clock.now()
        if self._health.is_down or any(_awaits(state) for state in self._pods):
            self._last_needed = now
        return now - self._last_needed < LINGER

    async def tick(self) -> None:
        """One look at everything; slower next time if nothing is new."""
        began = self._last = self._clock.now()
        self.ticks += 1
        try:
            listed = await self._engine.jobs()
            is_news = await self._compare(listed, began)
        except errors.EngineError as error:
            self._health.silent(error)
            self._interval = self._busy
            return
        except Exception:
            # An answer that nobody thought of: the next one may be better, and pods run on.
            log.error("the engine's answer was not understood", exc_info=True)
            self._interval = self._idle
            return
        self._health.answered()
        longest = BY_FILE if any(_speaks_by_file(state) for state in self._pods) else self._idle
        calmer = max(self._busy, min(self._interval * GROWTH, longest))
        self._interval = self._busy if is_news else calmer

    async def _compare(self, listed: Mapping[JobId, Job], began: float) -> bool:
        """Take the engine's answer in; whether anything of it was new."""
        by_uid = {job.pod_uid: job for job in listed.values() if job.pod_uid}
        lost: dict[JobId, PodState] = {}
        sentences: list[tuple[PodState, Job]] = []
        is_news = False
        for state in self._pods:
            job = listed.get(state.job_id) if state.job_id is not None else by_uid.get(state.uid)
            if job is not None:
                is_news |= self._take(state, job, sentences)
            elif _awaits(state) and state.job_id is not None and state.submitted < began:
                lost[state.job_id] = state
            if _speaks_by_file(state):
                self._on_change(state.uid)
        if lost:
            is_news |= await self._look_up(lost)
        self._pass_on(sentences)
        self._on_listing(listed)
        return is_news

    def _pass_on(self, sentences: list[tuple[PodState, Job]]) -> None:
        """Those who have heard nothing for longest first."""
        sentences.sort(key=lambda pair: pair[0].sentence_at)
        for state, job in sentences[:MESSAGES_PER_TICK]:
            state.job, state.sentence_at = job, self._clock.now()
            self._on_change(state.uid)

    def _take(self, state: PodState, job: Job, sentences: list[tuple[PodState, Job]]) -> bool:
        """Keep the answer; whether the pod must hear of it at once."""
        state.missing = 0
        if state.job_id is None:
            state.job_id = job.id
        if state.is_settled and not job.state.has_ended:
            state.is_settled = False  # the pod is over and its job is not
        old = state.job
        if old == job:
            return False
        if old is not None and _essence(old) == _essence(job):
            sentences.append((state, job))
            return False
        if job.state is JobState.UNKNOWN and old is not None:
            return False
        state.job = job
        if job.state.has_ended and not state.ended_seen:
            state.ended_seen = self._clock.now()
        elif not job.state.has_ended:
            state.ended_seen = 0.0  # it may have been requeued
        self._on_change(state.uid)
        return True

    async def _look_up(self, lost: dict[JobId, PodState]) -> bool:
        """The last word on jobs that are not listed; twice unknown means gone."""
        found = await self._engine.ended(list(lost))
        is_news = False
        for job_id, state in lost.items():
            job = found.get(job_id)
            if job is not None:
                is_news |= self._take(state, job, [])
                continue
            state.missing += 1
            if state.missing >= VANISHED_AFTER:
                log.warning("nobody knows a job any more", pod=str(state.key), job=job_id)
                state.has_vanished = True
                self._on_change(state.uid)
            is_news = True
        return is_news


def _awaits(state: PodState) -> bool:
    """Whether the engine has something to say about the pod that we do not know."""
    if state.job_id is None:
        return state.trouble is not None and state.trouble.by_engine
    return not state.has_ended


def _speaks_by_file(state: PodState) -> bool:
    """Whether a running agent cannot reach us: its journal is then read at each tick."""
    runs = state.job is not None and state.job.state is JobState.RUNNING
    return runs and state.connection is None and not state.has_ended


def _essence(job: Job) -> tuple[object, ...]:
    return job.state, job.reason, job.nodes, job.restarts, job.ends
