"""Makes an engine of Slurm: each pod is a batch job of the user's.

Called by the kubelet through the engine's interface. What Slurm is, `site.py` knows; what became of
jobs, `queue.py`; pods are submitted by `submit/submitter.py`; here jobs are ended. None of those
calls back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from ..engine import Job, JobId, JobState, JobUsage, Machine, Submission
from ..errors import EngineError
from ..settings import Paths, Settings
from .batch import Batch
from .commands import CommandFailed, Commands
from .gang.gang_folders import GangFolders
from .gang.gang_jobs import GangJobs
from .gang.gang_submission import GangSubmitter
from .query.user_jobs import UserJobs, uid_of_comment
from .queue import SlurmQueue
from .site import SlurmSite
from .submit import limits
from .submit.array_submission import ArraySubmitter
from .submit.begun import BegunSubmissions
from .submit.limit_checks import Verdicts
from .submit.refusals import Refusals
from .submit.sbatch_runner import SbatchRunner
from .submit.submitter import Submitter
from .translate.policy import Policy


class SlurmEngine:
    """Implements engine.Engine with sbatch, squeue, sacct, scancel, sinfo and scontrol."""

    name = "slurm"

    def __init__(
        self,
        settings: Settings,
        paths: Paths,
        cluster_uid: str,
        commands: Commands | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        commands = commands or Commands.of_process(settings.slurm.command_timeout)
        self._settings = settings
        self.commands = commands
        self.site = SlurmSite(settings, cluster_uid, commands, clock)
        self._verdicts = Verdicts(commands, clock)
        folders = GangFolders(paths.gangs)
        self._queue = SlurmQueue(self.site, folders, self._verdicts, paths.arrays, clock)
        self._gangs = GangJobs(self._queue, folders, commands)
        self._refusals = Refusals(self.site, self._verdicts)
        sbatch = SbatchRunner(self.site, self._verdicts, self._refusals)
        begun = BegunSubmissions(self._queue, commands.timeout)
        self._submitter = Submitter(
            self.site,
            begun,
            sbatch,
            ArraySubmitter(self.site, sbatch, paths.arrays),
            GangSubmitter(self.site, self._queue, folders, begun, sbatch),
        )
        self._cancels: Batch[JobId, None] = Batch(self._scancel, most=500, pause=0.005)
        self._terminations: Batch[JobId, None] = Batch(self._terminate, most=500, pause=0.005)

    async def version(self) -> str:
        return f"Slurm {await self.site.version()}"

    async def machines(self) -> list[Machine]:
        return await self.site.machines()

    async def submit(self, submission: Submission) -> JobId:
        """Submit one job for the pod's folder, however often it is asked for."""
        return await self._submitter.submit(submission)

    async def jobs(self) -> Mapping[JobId, Job]:
        return await self._queue.jobs()

    async def ended(self, ids: Collection[JobId]) -> Mapping[JobId, Job]:
        return await self._queue.ended(ids)

    async def usage(self, ids: Collection[JobId]) -> Mapping[JobId, JobUsage]:
        """Return what ended jobs have used; implements engine.Accounts."""
        return await self._queue.usage(ids)

    # Beyond the engine's interface

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Have `listener` told every answer of squeue's, whoever asked for it."""
        self._queue.subscribe(listener)

    async def refused(self, said: str) -> EngineError:
        """Return the error for a refusal of sbatch's, with the remedy."""
        return await self._refusals.error_of(said)

    async def quota(self, namespace: str, annotations: Mapping[str, str]) -> dict[str, str]:
        """Return what a ResourceQuota of the namespace may say of Slurm's limits on its account."""
        given = Policy(self._settings.slurm, namespace, annotations)
        asked = given.defaults([]) | given.locked({})
        account = asked.get("account") or self._settings.slurm.account
        qos = asked.get("qos") or self._settings.slurm.qos
        ask = limits.Ask(account, qos, given.partition())
        # Seldom asked for, and then because somebody has just said something of them.
        return limits.quota(ask, await self._verdicts.limits(kept=0.0))

    # Ending

    async def terminate(self, job: JobId) -> None:
        await self._terminations.ask(job)

    async def cancel(self, job: JobId) -> None:
        await self._cancels.ask(job)

    async def requeue(self, job: JobId) -> None:
        if "+" in job:
            return await self._gangs.requeue(job)
        await self.commands.run("scontrol", "requeue", job)

    def of_objects(self) -> list[JobId]:
        """Return, from squeue's last answer, the jobs of SlurmJobs of this cluster that have not
        ended.
        """
        return [
            JobId(number)
            for number, tasks in UserJobs().read(self._queue.text).items()
            if uid_of_comment(tasks[0].comment, self.site.cluster_uid)
            and not all(task.state.has_ended for task in tasks)
        ]

    async def cancel_any(self, number: str) -> None:
        """Do as `cancel`, for a job or a whole array that need not be a pod's."""
        await self._cancels.ask(JobId(number))

    async def _terminate(self, ids: list[JobId]) -> None:
        """Send TERM to the agents of jobs that run; the other jobs have no agent.

        scancel tries for over a minute to signal a job that waits, hence the look before.
        """
        listed = await self.jobs()
        states = {job: listed[job].state for job in ids if job in listed}
        running = [job for job, state in states.items() if state is JobState.RUNNING]
        stuck = [
            job
            for job, state in states.items()
            if state in (JobState.PENDING, JobState.SUSPENDED, JobState.UNKNOWN)
        ]
        steps, idle = await self._gangs.steps([job for job in running if "+" in job])
        jobs = [job for job in running if "+" not in job]
        if jobs:
            await self._signal("--batch", "--signal=TERM", "--state=RUNNING", *jobs)
        if steps:
            await self._signal("--signal=TERM", *steps)
        if stuck or idle:
            await self._scancel([*stuck, *idle])

    async def _scancel(self, ids: list[JobId]) -> None:
        jobs: list[str] = [job for job in ids if "+" not in job]
        jobs += await self._gangs.cancel([job for job in ids if "+" in job])
        if jobs:
            await self._signal(*dict.fromkeys(jobs))

    async def _signal(self, *arguments: str) -> None:
        """Send a signal; if the job has ended meanwhile, that is what we wanted."""
        try:
            await self.commands.run("scancel", *arguments)
        except CommandFailed as error:
            if not _only_gone(error.text):
                raise


_GONE = ("invalid job id", "already completing or completed", "not pending nor running")


def _only_gone(text: str) -> bool:
    lines = [line for line in text.lower().splitlines() if "error" in line]
    return all(any(word in line for word in _GONE) for line in lines)
