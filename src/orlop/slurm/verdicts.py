"""Whether a job that meets a limit will ever start: asked of Slurm's accounts, and remembered.

Used by `jobs` for what squeue lists and what sbatch refuses. Nothing is asked as long as nobody
meets a limit; an answer is kept for as long as the job waits for the same reason, the limits for
ten minutes. Accounts that cannot be asked say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ..engine import Job, JobId, JobState
from ..errors import EngineError
from . import detect, reasons
from .commands import Commands
from .job import JobSpec
from .limits import Ask, Limits, ask_of_job, ask_of_options, exceeded

KEPT = 600.0  # seconds before the limits are asked for again
AT_ONCE = 10  # jobs looked at for one listing: thousands may meet a limit together
REMEDY = "ask for less, or use another account or QOS"


class Verdicts:
    def __init__(self, commands: Commands, clock: Callable[[], float]) -> None:
        self._commands = commands
        self._clock = clock
        self._limits: tuple[float, Limits] | None = None
        self._known: dict[tuple[str, str], str] = {}  # job and reason -> the limit, in words

    async def judged(self, listed: Mapping[JobId, Job]) -> dict[JobId, Job]:
        """The same jobs; those that are beyond a limit on their own say so."""
        waiting = [job for job in listed.values() if _meets_limit(job)]
        keys = {_key(job): job for job in waiting}
        self._known = {key: words for key, words in self._known.items() if key in keys}
        for key in [key for key in keys if key not in self._known][:AT_ONCE]:
            self._known[key] = await self._words(keys[key].id)
        found = dict(listed)
        for job in waiting:
            if words := self._known.get(_key(job)):
                message = f"job {job.id} cannot start in partition {job.partition}: {words}"
                found[job.id] = replace(job, is_hopeless=True, message=f"{message}; {REMEDY}")
        return found

    async def of_refused(self, spec: JobSpec) -> str:
        """The limit that sbatch may have meant; empty where no single job is beyond one."""
        return await self._compared(ask_of_options(spec.options))

    async def limits(self) -> Limits:
        if self._limits is None or self._clock() - self._limits[0] > KEPT:
            self._limits = (self._clock(), await detect.limits(self._commands))
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
    """Tasks of one array ask for the same."""
    return job.id.partition("_")[0], job.reason


def _meets_limit(job: Job) -> bool:
    return job.state is JobState.PENDING and reasons.is_shared_limit(job.reason)
