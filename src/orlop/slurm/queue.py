"""Tells what became of jobs: what squeue lists, and what the accounts remember.

Asked by the engine, and by whoever submits, to find again what was submitted before. One squeue is
for all who ask at the same time; the members of gangs and the tasks of arrays are jobs of their own
here. What an answer means for a pod is decided by the kubelet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from .. import wellknown
from ..api.objects import uid_of
from ..engine import Job, JobId, JobState, JobUsage, Submission
from .batch import Batch
from .gang.gang_folders import GangFolders, gangs_base
from .query import sacct, squeue
from .site import SlurmSite
from .submit import job_arrays
from .submit.limit_checks import Verdicts
from .submit.sbatch import TASK_FILE
from .translate.script import signal_lead

# How long the accounting may call a job alive that slurmctld has forgotten.
_ACCOUNTING_LAG = 300.0


class SlurmQueue:
    """`arrays` is the folder of job arrays."""

    def __init__(
        self,
        site: SlurmSite,
        gangs: GangFolders,
        verdicts: Verdicts,
        arrays: Path,
        clock: Callable[[], float],
    ) -> None:
        self._site = site
        self._commands = site.commands
        self._gangs = gangs
        self._verdicts = verdicts
        self._arrays = arrays
        self._clock = clock
        self._queries: Batch[None, dict[JobId, Job]] = Batch(self._squeue)
        self._listing = squeue.Listing(site.cluster_uid, self._lead, self._member)
        self._missing_since: dict[JobId, float] = {}
        self._leads: dict[str, float] = {}
        self._waiting_tasks: dict[JobId, Job] = {}  # of arrays, when they were last seen
        self._of_gangs: dict[str, Job] = {}  # the jobs of gangs, by their ids
        self._listeners: list[Callable[[str], None]] = []
        self.text = ""  # squeue's last answer: all jobs of the user, whoever submitted them

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Have `listener` told every answer of squeue's, whoever asked for it."""
        self._listeners.append(listener)

    async def jobs(self) -> Mapping[JobId, Job]:
        """Return all jobs of this cluster that squeue lists."""
        return await self._queries.ask(None)

    async def _squeue(self, _: list[None]) -> dict[JobId, Job]:
        text = await self._commands.run("squeue", *squeue.SQUEUE)
        self.text = text
        for listener in self._listeners:
            listener(text)
        listed = self._with_members(await self._verdicts.judged(self._listing.read(text)))
        for job in listed.values():
            if "_" not in job.id:
                continue
            if job.state is JobState.PENDING:
                self._waiting_tasks[job.id] = job
            else:
                self._waiting_tasks.pop(job.id, None)
        return listed

    def _with_members(self, listed: dict[JobId, Job]) -> dict[JobId, Job]:
        """Return the listed jobs with the members of gangs in the place of the jobs that carry
        them.
        """
        self._of_gangs = {
            gang: job for job in listed.values() if (gang := self._gangs.gang_of(job))
        }
        for job in self._of_gangs.values():
            del listed[job.id]
            listed |= self._gangs.expand(job)
        return listed

    async def gang_jobs(self) -> Mapping[str, Job]:
        """Return the jobs that Slurm lists of gangs, by the gang's id."""
        await self.jobs()
        return self._of_gangs

    async def ended(self, ids: Collection[JobId]) -> Mapping[JobId, Job]:
        """Return ended jobs: from the accounting where there is one, else from slurmctld while it
        knows them.
        """
        if not ids:
            return {}
        listed = await self.jobs()
        ended = {job: listed[job] for job in ids if job in listed}
        rest = [job for job in ids if job not in ended]
        if rest and (await self._site.facts()).has_accounting:
            bases = dict.fromkeys(gangs_base(job) for job in rest)
            text = await self._sacct("-j", ",".join(bases))
            accounted = self._trusted(squeue.parse_sacct(text, self._lead))
            ended |= self._members_accounted(accounted, text, rest)
        rest = [job for job in rest if job not in ended]
        ended |= self._gangs.ends(rest)
        return ended | self._cancelled_tasks(job for job in rest if job not in ended)

    def _members_accounted(
        self, accounted: dict[JobId, Job], text: str, ids: Collection[JobId]
    ) -> dict[JobId, Job]:
        """Return those asked for; members of gangs are found by the jobs that carried them."""
        ended = {job: accounted[job] for job in ids if job in accounted}
        folders = squeue.folders_of(text)
        for base in {JobId(gangs_base(job)) for job in ids if job not in ended}:
            if base in accounted:
                members = self._gangs.expand_ended(accounted[base], folders.get(base, ""))
                ended |= {job: members[job] for job in ids if job in members}
        return ended

    def _cancelled_tasks(self, ids: Iterable[JobId]) -> dict[JobId, Job]:
        """Return tasks cancelled while they waited: these leave no trace in Slurm but their
        absence.
        """
        gone = [job for job in ids if job in self._waiting_tasks]
        return {
            job: replace(
                self._waiting_tasks.pop(job),
                state=JobState.CANCELLED,
                reason="CANCELLED",
                message=f"job {job} was cancelled while it waited",
                ended=time.time(),
            )
            for job in gone
        }

    def _trusted(self, accounted: dict[JobId, Job]) -> dict[JobId, Job]:
        """Leave out jobs that the accounting calls alive long after slurmctld forgot them."""
        now = self._clock()
        trusted = {}
        for job in accounted.values():
            if job.state is not JobState.UNKNOWN:
                self._missing_since.pop(job.id, None)
            elif now - self._missing_since.setdefault(job.id, now) > _ACCOUNTING_LAG:
                continue
            trusted[job.id] = job
        return trusted

    async def _sacct(self, *arguments: str) -> str:
        return await self._commands.run("sacct", *squeue.SACCT, *arguments)

    def _lead(self, folder: str) -> float:
        """Read the lead from the job's own script, which outlives whoever wrote it."""
        if folder not in self._leads:
            try:
                self._leads[folder] = signal_lead(Path(folder, wellknown.SCRIPT_FILE).read_text())
            except OSError:
                return 0.0
        return self._leads[folder]

    def _member(self, comment: str, task: str) -> job_arrays.Member | None:
        return job_arrays.member(self._arrays, comment, task)

    async def find(self, submission: Submission, workdir: Path) -> JobId | None:
        """Find the pod's job, or its array's task, that is in Slurm although its number was never
        heard.
        """
        uid = uid_of(submission.pod)
        listed = [job for job in (await self.jobs()).values() if job.pod_uid == uid]
        if listed:
            return max(listed, key=lambda job: job.submitted or 0.0).id
        if not (await self._site.facts()).has_accounting:
            return None
        since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(_birth(submission.folder) - 60))
        # sacct leaves out what became eligible in the second that ends its window.
        rows = await self._sacct("-S", since, "-E", "now+1hour")
        task = submission.folder / TASK_FILE
        number = task.read_text() if workdir != submission.folder else ""
        return squeue.job_in_folder(rows, str(workdir), number)

    async def usage(self, ids: Collection[JobId]) -> Mapping[JobId, JobUsage]:
        """Return what ended jobs have used, where the site keeps accounts."""
        if not ids or not (await self._site.facts()).has_accounting:
            return {}
        wanted = ("-j", ",".join(ids))
        accounted = sacct.parse(await self._commands.run("sacct", *sacct.ARGUMENTS, *wanted))
        return {job: used for job, used in accounted.items() if job in ids}


def _birth(folder: Path) -> float:
    return (folder / wellknown.SUBMIT_FILE).stat().st_mtime
