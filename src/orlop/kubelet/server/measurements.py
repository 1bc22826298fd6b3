"""Measures what containers use, through their agents: asked for on demand, kept as windows.

Read by the metrics API and by the kubelet's own endpoints through `current`. Nothing is measured
while no caller asks; who asks again within `resolution` gets what the last one got, and who asks
after a long silence waits a second for two measurements to compare. The engine is not asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from ...api.objects import Obj, uid_of
from ...client.clock import Clock, sleep
from ...client.informer import Informer
from ...log import logger
from ..pod.pods import Pods, PodState

ANSWER_TIME = 2.0  # seconds that agents have: one that hangs must not hold up the others
SHORTEST = 1.0  # seconds between two measurements that may be compared
LONGEST = 90.0  # measurements further apart than that say nothing about now

log = logger(__name__)


class Point(NamedTuple):
    """One measurement of one container: nanoseconds of CPU so far, bytes of memory now."""

    time: float
    cpu: int
    usage: int = 0
    working_set: int = 0
    rss: int = 0


@dataclass(frozen=True, slots=True)
class ContainerUsage:
    """A container over the last window."""

    name: str
    started: float | None
    point: Point
    since: Point

    @property
    def window(self) -> float:
        return self.point.time - self.since.time

    @property
    def nanocores(self) -> int:
        return max(0, round((self.point.cpu - self.since.cpu) / self.window))


@dataclass(frozen=True, slots=True)
class PodUsage:
    """The containers of a pod that run, and its agent, which counts for the pod alone."""

    pod: Obj
    containers: tuple[ContainerUsage, ...]
    agent: ContainerUsage | None = None

    @property
    def node(self) -> str:
        return str(self.pod["spec"].get("nodeName") or "")

    @property
    def whole(self) -> tuple[ContainerUsage, ...]:
        return (*self.containers, *((self.agent,) if self.agent is not None else ()))


class _Measured(msgspec.Struct):
    """The answer of an agent about one process tree."""

    cpu: int
    usage: int = 0
    workingSet: int = 0
    rss: int = 0
    name: str = ""
    restart: int = 0


class _Answer(msgspec.Struct):
    time: float
    containers: list[_Measured]
    agent: _Measured | None = None


_AGENT = ""  # the agent's own name among the containers, which no container can have


@dataclass(slots=True)
class _Series:
    """The last measurements of one run of a container."""

    restart: int
    started: float | None
    heard: float  # by our own clock; points are by the agent's
    points: list[Point]

    def usage(self, name: str) -> ContainerUsage | None:
        if len(self.points) < 2:
            return None
        return ContainerUsage(name, self.started, self.points[-1], self.points[-2])


class Measurements:
    """Keeps the measurements of all pods whose agents are connected; `resolution` is in seconds."""

    def __init__(self, pods: Pods, cached: Informer, clock: Clock, resolution: float) -> None:
        self._pods = pods
        self._cached = cached
        self._clock = clock
        self._resolution = resolution
        self._series: dict[str, dict[str, _Series]] = {}  # by uid of the pod, then by container
        self._taken = float("-inf")
        self._turn = asyncio.Lock()

    async def current(self) -> list[PodUsage]:
        """Return what every pod uses now; measured only if the last time is too long ago."""
        async with self._turn:
            if self._clock.now() - self._taken >= self._resolution:
                await self._take()
        return list(self._usages())

    async def _take(self) -> None:
        """Measure; twice where there is nothing yet to compare with."""
        states = [state for state in self._pods if state.connection is not None]
        alone = await self._ask(states)
        if alone:
            await sleep(self._clock, SHORTEST)
            await self._ask(alone)
        self._taken = self._clock.now()
        present = {state.uid for state in states}
        self._series = {uid: kept for uid, kept in self._series.items() if uid in present}

    async def _ask(self, states: Iterable[PodState]) -> list[PodState]:
        """Ask all at once; return those of which one measurement alone is known now."""
        asked = {
            state.connection.measure(): state for state in states if state.connection is not None
        }
        if not asked:
            return []
        answered, late = await asyncio.wait(asked, timeout=ANSWER_TIME)
        for answer in late:
            answer.cancel()
        alone = []
        for answer in answered:
            state = asked[answer]
            if not answer.cancelled() and self._take_in(state, answer.result()):
                alone.append(state)
        return alone

    def _take_in(self, state: PodState, message: Mapping[str, Any]) -> bool:
        """Keep an answer; return whether it has nothing to be compared with."""
        try:
            answer = msgspec.convert(message, _Answer)
        except msgspec.ValidationError as error:
            log.warning("an agent measured nonsense", pod=str(state.key), error=error)
            return False
        former = self._series.get(state.uid, {})
        kept = {
            measured.name: self._continued(former.get(measured.name), measured, answer, state)
            for measured in answer.containers
        }
        if answer.agent is not None:
            kept[_AGENT] = self._continued(former.get(_AGENT), answer.agent, answer, state)
        self._series[state.uid] = kept
        return any(len(series.points) < 2 for series in kept.values())

    def _continued(
        self, former: _Series | None, measured: _Measured, answer: _Answer, state: PodState
    ) -> _Series:
        point = Point(answer.time, measured.cpu, measured.usage, measured.workingSet, measured.rss)
        started = _start_of(state, measured.name)
        series = _Series(measured.restart, started, self._clock.now(), [])
        oldest = point.time - LONGEST
        if former is not None and former.restart == measured.restart:
            series.points = [one for one in former.points if oldest <= one.time < point.time]
        if not series.points and started is not None and oldest <= started < point.time:
            series.points = [Point(started, 0)]  # it is so young that its whole life is a window
        last = series.points[-1] if series.points else None
        if last is not None and point.time - last.time < SHORTEST / 2:
            series.points.pop()  # too close to say anything; the one before it does
        series.points = [*series.points[-1:], point]
        return series

    def _usages(self) -> Iterable[PodUsage]:
        oldest = self._clock.now() - LONGEST
        for uid, kept in self._series.items():
            state = self._pods.get(uid)
            pod = self._cached.get(state.key) if state is not None else None
            if pod is None or uid_of(pod) != uid:
                continue
            fresh = {
                name: usage
                for name, series in kept.items()
                if series.heard >= oldest and (usage := series.usage(name)) is not None
            }
            agent = fresh.pop(_AGENT, None)
            if fresh:
                yield PodUsage(pod, tuple(fresh.values()), agent)


def _start_of(state: PodState, container: str) -> float | None:
    known = state.journal.containers.get(container)
    current = known.current if known is not None else None
    return current.startedAt if current is not None else None
