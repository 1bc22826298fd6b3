"""Asks Slurm's accounts whether a job that meets a limit will ever start, and remembers the answer.

Used by `queue` and `refusals` for what squeue lists and what sbatch refuses. Slurm looks at a job's
limits when it is its turn, which may take days: what was submitted here is compared as soon as it
waits. An answer is kept for as long as the job waits for the same reason, the limits for some
minutes. Accounts that cannot be asked say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ...engine import Job, JobId, JobState
from ...errors import EngineError
from ..commands import Commands
from ..query import detect, pending_reasons
from ..translate.job import JobSpec
from .limits import Ask, Limits, ask_of_job, ask_of_options, exceeded

KEPT = 300.0  # seconds before the limits are asked for again
AT_ONCE = 10  # jobs looked at for one listing: thousands may meet a limit together
REMEDY = "ask for less, or use another account or QOS"


@dataclass(slots=True)
class _Submitted:
    """A job that was submitted here; `is_listed` once squeue has it."""

    ask: Ask
    is_listed: bool = False
    limit: str | None = None  # that it is beyond, in words; None: not compared yet


class Verdicts:
    def __init__(self, commands: Commands, clock: Callable[[], float]) -> None:
        self._commands = commands
        self._clock = clock
        self._limits: tuple[float, Limits] | None = None
        self._known: dict[tuple[str, str], str] = {}  # job and reason -> the limit, in words
        self._submitted: dict[str, _Submitted] = {}
        self._asked_at = float("-inf")

    def remember(self, job: JobId, spec: JobSpec) -> None:
        """Remember a job that sbatch has taken: it is judged as soon as it is seen to wait."""
        self._submitted[_number(job)] = _Submitted(ask_of_options(spec.options))

    async def judged(self, listed: Mapping[JobId, Job]) -> dict[JobId, Job]:
        """Return the same jobs; those that are beyond a limit on their own say so."""
        await self._compare(listed)
        waiting = [job for job in listed.values() if _meets_limit(job)]
        keys = {_key(job): job for job in waiting}
        self._known = {key: words for key, words in self._known.items() if key in keys}
        for key in [key for key in keys if key not in self._known][:AT_ONCE]:
            self._known[key] = await self._words(keys[key].id)
        found = dict(listed)
        for job in listed.values():
            if words := self._limit(job):
                message = f"job {job.id} cannot start in partition {job.partition}: {words}"
                found[job.id] = replace(job, is_hopeless=True, message=f"{message}; {REMEDY}")
        return found

    def _limit(self, job: Job) -> str:
        if job.state is not JobState.PENDING or job.is_hopeless:
            return ""
        submitted = self._submitted.get(_number(job.id))
        return self._known.get(_key(job)) or (submitted.limit if submitted else None) or ""

    async def _compare(self, listed: Mapping[JobId, Job]) -> None:
        """Compare waiting jobs that were submitted here with limits that are asked for now and
        then.
        """
        waits = {_number(job.id) for job in listed.values() if job.state is JobState.PENDING}
        seen = {_number(job) for job in listed}
        for number, submitted in list(self._submitted.items()):
            submitted.is_listed = submitted.is_listed or number in seen
            if submitted.is_listed and number not in waits:
                del self._submitted[number]
        waiting = [one for one in self._submitted.values() if one.is_listed]
        # Those that were told so are told when the limits have changed.
        if any(one.limit is None or one.limit for one in waiting):
            limits = await self._limits_now()
            for one in waiting:
                if one.limit is None:
                    one.limit = exceeded(one.ask, limits) if limits is not None else ""

    async def _limits_now(self) -> Limits | None:
        """Return the limits; None where the accounts do not answer: then they are not asked for a
        while.
        """
        if self._clock() - self._asked_at > KEPT:
            self._asked_at = self._clock()
            try:
                await self.limits()
            except EngineError:
                return None
        return self._limits[1] if self._limits is not None else None

    async def of_refused(self, spec: JobSpec) -> str:
        """Return the limit that sbatch may have meant; empty where no single job is beyond one."""
        return await self._compared(ask_of_options(spec.options))

    async def limits(self, kept: float = KEPT) -> Limits:
        """Return the limits as they were at most so many seconds ago."""
        if self._limits is None or self._clock() - self._limits[0] >= kept:
            self._limits = (self._clock(), await detect.limits(self._commands))
            for submitted in self._submitted.values():
                submitted.limit = None
        return self._limits[1]

    async def _words(self, job: JobId) -> str:
        try:
            shown = await self._commands.run("scontrol", "-o", "show", "job", job)
        except EngineError:
            return ""
        return await self._compared(ask_of_job(shown.partition("\n")[0]))

    async def _compared(self, ask: Ask) -> str:
        try:
            return exceeded(ask, await self.limits())
        except EngineError:
            return ""


def _key(job: Job) -> tuple[str, str]:
    """Return a key that is the same for the tasks of one array, which ask for the same."""
    return _number(job.id), job.reason


def _number(job: JobId) -> str:
    return job.partition("_")[0]


def _meets_limit(job: Job) -> bool:
    return job.state is JobState.PENDING and pending_reasons.is_shared_limit(job.reason)
