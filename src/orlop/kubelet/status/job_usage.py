"""Puts on a pod that is over what it has used: its agent's figures, then those of the engine.

The agent's go out with the last status. The engine's accounts know more, memory of all steps and
energy for instance, but only some seconds after a job has ended: pods that ended are gathered and
asked for together, a few times, and what is found replaces the agent's. A pod does not wait for it;
those that were waiting when a control plane ended are found again by what is written on them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from ... import errors
from ...api.kinds import POD
from ...api.objects import Key, Obj, annotations_of, key_of, uid_of
from ...client.api import Api
from ...client.clock import Clock, sleep
from ...engine import Accounts, Engine, JobId, JobUsage
from ...log import logger
from ...wellknown import JOB_ID, USED_CPU, USED_ELAPSED, USED_ENERGY, USED_MEMORY, USED_SOURCE
from ..agents.journal import Used

GATHER = 3.0  # seconds in which pods that end are gathered
TRIES = 5  # then it is not in the accounts
MOST = 200  # jobs in one question

log = logger(__name__)


_ENGINE = "slurm"  # whose figures are the last word
ANNOTATIONS = (USED_ELAPSED, USED_CPU, USED_MEMORY, USED_ENERGY, USED_SOURCE)


def from_agent(used: Used) -> dict[str, str]:
    """Return the annotations of what a pod's agent counted."""
    return _annotations(JobUsage(used.elapsed, used.cpu, used.memory or None), "agent")


def from_engine(used: JobUsage) -> dict[str, str]:
    return _annotations(used, _ENGINE)


def _annotations(used: JobUsage, source: str) -> dict[str, str]:
    numbers = {
        USED_ELAPSED: used.elapsed,
        USED_CPU: used.cpu,
        USED_MEMORY: used.memory,
        USED_ENERGY: used.energy,
    }
    known = {name: f"{number:.12g}" for name, number in numbers.items() if number is not None}
    return {**known, USED_SOURCE: source}


@dataclass(slots=True)
class _Entry:
    key: Key
    uid: str
    tries: int = 0


class PodAccounts:
    """Fetches what pods have used; `add` is called once for each pod whose job has ended; `run`
    does the rest.
    """

    def __init__(self, api: Api, engine: Engine, clock: Clock) -> None:
        self._api, self._clock = api, clock
        self._accounts = engine if isinstance(engine, Accounts) else None
        self._waiting: dict[JobId, _Entry] = {}
        self._some = asyncio.Event()

    def add(self, key: Key, uid: str, job: JobId | None) -> None:
        if job is not None and self._accounts is not None:
            self._waiting[job] = _Entry(key, uid)
            self._some.set()

    def recall(self, pods: Iterable[Obj]) -> None:
        """Ask for pods that are over, as an earlier kubelet may not have lived to do."""
        for pod in pods:
            found = annotations_of(pod)
            if JOB_ID in found and found.get(USED_SOURCE) != _ENGINE:
                self.add(key_of(pod), uid_of(pod), JobId(found[JOB_ID]))

    async def run(self) -> None:
        while True:
            await self._some.wait()
            await sleep(self._clock, GATHER)
            await self.look()
            if not self._waiting:
                self._some.clear()

    async def look(self) -> None:
        """Ask once for those that wait; those that are not found wait on."""
        assert self._accounts is not None, "none is added otherwise"
        asked = list(self._waiting)[:MOST]
        try:
            found = await self._accounts.usage(asked)
        except errors.EngineError as error:
            log.warning("accounts not read", jobs=len(asked), error=error)
            found = {}
        for job, used in found.items():
            await self._write(self._waiting.pop(job), used)
        self._count(job for job in asked if job not in found)

    def _count(self, missing: Iterable[JobId]) -> None:
        for job in missing:
            entry = self._waiting.pop(job)
            entry.tries += 1
            if entry.tries < TRIES:
                self._waiting[job] = entry  # behind those that were not asked for yet

    async def _write(self, entry: _Entry, used: JobUsage) -> None:
        metadata = {"uid": entry.uid, "annotations": from_engine(used)}
        try:
            await self._api.patch(POD, entry.key, {"metadata": metadata}, subresource="status")
        except errors.ApiError as error:
            # Mostly because it was deleted meanwhile, or is another of its name.
            log.info("accounts not written", pod=str(entry.key), error=error)
