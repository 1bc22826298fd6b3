"""Makes an engine of Slurm: each pod is a batch job of the user's.

Called by the kubelet through the engine's interface. It asks Slurm with one squeue for all pods,
submits with the protocol of `submit/sbatch.py`, and batches cancellations. What an answer means for
a pod is decided by the kubelet.
"""

from __future__ import annotations

import grp
import os
import platform
import pwd
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from .. import wellknown
from ..api.objects import uid_of
from ..engine import Job, JobId, JobState, JobUsage, Machine, Submission
from ..errors import EngineError, SubmitRejected
from ..log import logger
from ..settings import Paths, Settings
from . import failures
from .batch import Batch
from .commands import CommandFailed, Commands
from .gang.gang_jobs import gangs_base
from .query import detect, partitions, sacct, squeue
from .query.user_jobs import UserJobs, uid_of_comment
from .submit import job_arrays, limit_checks, limits
from .submit.limit_checks import Verdicts
from .submit.sbatch import TASK_FILE
from .submit.submitter import Submitter
from .translate import gres
from .translate.job import JobSpec, Site, job_spec
from .translate.placement import Place
from .translate.policy import Policy
from .translate.script import signal_lead

log = logger(__name__)

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le"}
# How long the accounting may call a job alive that slurmctld has forgotten.
_ACCOUNTING_LAG = 300.0
_FACTS_KEPT = 600.0  # seconds before the site's configuration is asked for again


class SlurmJobs:
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
        self._settings = settings
        self._paths = paths
        self._cluster_uid = cluster_uid
        self._commands = commands or Commands.of_process(settings.slurm.command_timeout)
        self._clock = clock
        self._queries: Batch[None, dict[JobId, Job]] = Batch(self._squeue)
        self._cancels: Batch[JobId, None] = Batch(self._scancel, most=500, pause=0.005)
        self._terminations: Batch[JobId, None] = Batch(self._terminate, most=500, pause=0.005)
        self._submitter = Submitter(self, self._commands, cluster_uid, paths)
        self._facts: tuple[float, detect.Slurm] | None = None
        self._limits: dict[str, tuple[float | None, float | None]] = {}
        self._verdicts = Verdicts(self._commands, clock)
        self._places: dict[str, Place] = {}  # by partition, as last seen
        self._missing_since: dict[JobId, float] = {}
        self._leads: dict[str, float] = {}
        self._waiting_tasks: dict[JobId, Job] = {}  # of arrays, when they were last seen
        self._listing = squeue.Listing(cluster_uid, self._lead, self._member)
        self._gangs = self._submitter.gangs
        self._of_gangs: dict[str, Job] = {}  # the jobs of gangs, by their ids
        self._machines: tuple[float, dict[str, Machine]] | None = None
        # Told of every answer of squeue's: all jobs of the user, asked for once for everybody.
        self.on_squeue: Callable[[str], None] = lambda text: None

    # What Slurm is and has

    @property
    def commands(self) -> Commands:
        return self._commands

    async def version(self) -> str:
        self._facts = None
        facts = await self._site_facts()
        return f"Slurm {facts.version}"

    async def machines(self) -> list[Machine]:
        rows = partitions.parse(await self._commands.run("sinfo", *partitions.ARGUMENTS))
        facts = partitions.Facts(
            groups=_group_names(),
            architecture=_ARCHITECTURES.get(platform.machine(), platform.machine()),
            licenses=gres.parse_licenses(await self._shown("licenses")),
            switches=partitions.parse_topology(await self._shown("topology")),
        )
        self._places = partitions.places(rows, facts)
        return partitions.machines(rows, facts, default=self._settings.slurm.partition)

    async def _shown(self, what: str) -> str:
        """Return what scontrol shows of it; nothing where the site has none, or does not show
        it.
        """
        try:
            return await self._commands.run("scontrol", "-o", "show", what)
        except CommandFailed:
            return ""

    async def machine(self, name: str) -> Machine | None:
        """Return a machine as it was a while ago: what it has in all seldom changes."""
        if self._machines is None or self._clock() - self._machines[0] > _FACTS_KEPT:
            found = {machine.name: machine for machine in await self.machines()}
            self._machines = (self._clock(), found)
        return self._machines[1].get(name)

    async def facts(self) -> detect.Slurm:
        """Return what Slurm says of itself; it is asked now and then."""
        return await self._site_facts()

    async def _site_facts(self) -> detect.Slurm:
        if self._facts is None or self._clock() - self._facts[0] > _FACTS_KEPT:
            facts = await detect.slurm(self._commands)
            self._limits = await detect.partition_limits(self._commands)
            self._facts = (self._clock(), facts)
        return self._facts[1]

    async def usage(self, ids: Collection[JobId]) -> Mapping[JobId, JobUsage]:
        """Return what ended jobs have used, where the site keeps accounts; implements
        engine.Accounts.
        """
        if not ids or not (await self._site_facts()).has_accounting:
            return {}
        wanted = ("-j", ",".join(ids))
        found = sacct.parse(await self._commands.run("sacct", *sacct.ARGUMENTS, *wanted))
        return {job: used for job, used in found.items() if job in ids}

    # Submission

    async def submit(self, submission: Submission) -> JobId:
        """Submit one job for the pod's folder, however often it is asked for."""
        return await self._submitter.submit(submission)

    async def find(self, submission: Submission, workdir: Path) -> JobId | None:
        """Find the pod's job, or its array's task, that is in Slurm although its number was never
        heard.
        """
        uid = uid_of(submission.pod)
        listed = [job for job in (await self.jobs()).values() if job.pod_uid == uid]
        if listed:
            return max(listed, key=lambda job: job.submitted or 0.0).id
        if not (await self._site_facts()).has_accounting:
            return None
        since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(_birth(submission.folder) - 60))
        # sacct leaves out what became eligible in the second that ends its window.
        rows = await self._sacct("-S", since, "-E", "now+1hour")
        task = submission.folder / TASK_FILE
        number = task.read_text() if workdir != submission.folder else ""
        return squeue.job_in_folder(rows, str(workdir), number)

    async def refused(self, words: str, spec: JobSpec | None = None) -> EngineError:
        """Return the error for a refusal; where Slurm speaks of a policy, look for the limit: it
        may never pass.
        """
        error, help_with = failures.submit_error(words)
        limit = ""
        if spec is not None and failures.is_policy(words):
            limit = await self._verdicts.of_refused(spec)
        if limit:
            said = failures.last_words(words)
            error = SubmitRejected(f"sbatch: {said}: {limit}; {limit_checks.REMEDY}")
        return type(error)(f"{error}{await self._choices(help_with)}") if help_with else error

    def accepted(self, job: JobId, spec: JobSpec) -> None:
        """Compare what it asks for with the limits, where the site enforces any."""
        if self._facts is not None and self._facts[1].enforces_limits:
            self._verdicts.remember(job, spec)

    async def max_array(self) -> int:
        return (await self._site_facts()).max_array

    async def _choices(self, of: str) -> str:
        """Return what the user may choose from, as a sentence; as a mere help it raises no error of
        its own.
        """
        try:
            if of == "partitions":
                names = ", ".join(_described(machine) for machine in await self.machines())
                return f" (partitions: {names})" if names else ""
            found = await detect.associations(self._commands)
        except EngineError:
            return ""
        accounts = sorted({association.account for association in found})
        qos = sorted({name for association in found for name in association.qos})
        parts = [f"your accounts: {', '.join(accounts)}"] if accounts else []
        parts += [f"your QOS: {', '.join(qos)}"] if qos else []
        return f" ({'; '.join(parts)})" if parts else ""

    @cached_property
    def _login_environment(self) -> Mapping[str, str]:
        return _login_environment(self._commands.environ)

    async def spec(self, submission: Submission) -> JobSpec:
        facts = await self._site_facts()
        default_time, max_time = self._limits.get(submission.machine, (None, None))
        site = Site(
            settings=self._settings.slurm,
            cluster_uid=self._cluster_uid,
            path=self._settings.agent.path or self._commands.environ.get("PATH", ""),
            environment=self._login_environment,
            defaults=self._commands.sbatch_defaults(),
            kill_wait=facts.kill_wait,
            default_time=default_time,
            max_time=max_time,
            place=self._places.get(submission.machine, Place()),
            around=submission.around,
        )
        folder = str(submission.folder)
        return job_spec(submission.pod, submission.machine, folder, submission.command, site)

    async def quota(self, namespace: str, annotations: Mapping[str, str]) -> dict[str, str]:
        """Return what a ResourceQuota of the namespace may say of Slurm's limits on its account."""
        given = Policy(self._settings.slurm, namespace, annotations)
        asked = given.defaults([]) | given.locked({})
        account = asked.get("account") or self._settings.slurm.account
        qos = asked.get("qos") or self._settings.slurm.qos
        ask = limits.Ask(account, qos, given.partition())
        # Seldom asked for, and then because somebody has just said something of them.
        return limits.quota(ask, await self._verdicts.limits(kept=0.0))

    # What became of jobs

    async def jobs(self) -> Mapping[JobId, Job]:
        return await self._queries.ask(None)

    async def _squeue(self, _: list[None]) -> dict[JobId, Job]:
        text = await self._commands.run("squeue", *squeue.SQUEUE)
        self.on_squeue(text)
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
        await self.jobs()
        return self._of_gangs

    async def ended(self, ids: Collection[JobId]) -> Mapping[JobId, Job]:
        """Return ended jobs: from the accounting where there is one, else from slurmctld while it
        knows them.
        """
        if not ids:
            return {}
        listed = await self.jobs()
        found = {job: listed[job] for job in ids if job in listed}
        rest = [job for job in ids if job not in found]
        if rest and (await self._site_facts()).has_accounting:
            bases = dict.fromkeys(gangs_base(job) for job in rest)
            text = await self._sacct("-j", ",".join(bases))
            accounted = self._trusted(squeue.parse_sacct(text, self._lead))
            found |= self._members_accounted(accounted, text, rest)
        rest = [job for job in rest if job not in found]
        found |= self._gangs.ends(rest)
        return found | self._cancelled_tasks(job for job in rest if job not in found)

    def _members_accounted(
        self, accounted: dict[JobId, Job], text: str, ids: Collection[JobId]
    ) -> dict[JobId, Job]:
        """Return those asked for; members of gangs are found by the jobs that carried them."""
        found = {job: accounted[job] for job in ids if job in accounted}
        folders = squeue.folders_of(text)
        for base in {JobId(gangs_base(job)) for job in ids if job not in found}:
            if base in accounted:
                members = self._gangs.expand_ended(accounted[base], folders.get(base, ""))
                found |= {job: members[job] for job in ids if job in members}
        return found

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

    def _trusted(self, found: dict[JobId, Job]) -> dict[JobId, Job]:
        """Leave out jobs that the accounting calls alive long after slurmctld forgot them."""
        now = self._clock()
        result = {}
        for job in found.values():
            if job.state is not JobState.UNKNOWN:
                self._missing_since.pop(job.id, None)
            elif now - self._missing_since.setdefault(job.id, now) > _ACCOUNTING_LAG:
                continue
            result[job.id] = job
        return result

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
        return job_arrays.member(self._paths.arrays, comment, task)

    # Ending

    async def terminate(self, job: JobId) -> None:
        await self._terminations.ask(job)

    async def cancel(self, job: JobId) -> None:
        await self._cancels.ask(job)

    async def requeue(self, job: JobId) -> None:
        if "+" in job:
            return await self._gangs.requeue(job)
        await self._commands.run("scontrol", "requeue", job)

    def of_objects(self, text: str) -> list[JobId]:
        """Return, from an answer of squeue's, the jobs of SlurmJobs of this cluster that have not
        ended.
        """
        return [
            JobId(number)
            for number, tasks in UserJobs().read(text).items()
            if uid_of_comment(tasks[0].comment, self._cluster_uid)
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
            await self._commands.run("scancel", *arguments)
        except CommandFailed as error:
            if not _only_gone(error.text):
                raise


_GONE = ("invalid job id", "already completing or completed", "not pending nor running")


def _only_gone(text: str) -> bool:
    lines = [line for line in text.lower().splitlines() if "error" in line]
    return all(any(word in line for word in _GONE) for line in lines)


def _described(machine: Machine) -> str:
    return machine.name if machine.is_schedulable else f"{machine.name} (closed)"


def _birth(folder: Path) -> float:
    return (folder / wellknown.SUBMIT_FILE).stat().st_mtime


def _group_names() -> list[str]:
    names = []
    for number in {os.getgid(), *os.getgroups()}:
        try:
            names.append(grp.getgrgid(number).gr_name)
        except KeyError:
            continue
    return names


def _login_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a login would set; with --export=NIL a job has none of it."""
    user = pwd.getpwuid(os.getuid())
    return {
        "HOME": environ.get("HOME") or user.pw_dir,
        "USER": user.pw_name,
        "LOGNAME": user.pw_name,
        "LANG": environ.get("LANG") or "C.UTF-8",
    }
