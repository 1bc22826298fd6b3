"""Slurm as an engine: each pod a batch job of the user's.

Called by the kubelet only, through the engine's interface. It asks Slurm with one squeue for all
pods, submits with `submission`'s protocol, and batches cancellations; it never decides what an
answer means for a pod.
"""

from __future__ import annotations

import asyncio
import grp
import os
import platform
import pwd
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

from .. import wellknown
from ..api.objects import key_of, uid_of
from ..engine import Job, JobId, JobState, Machine, Submission
from ..errors import EngineError, EngineUnavailable
from ..log import logger
from ..settings import Paths, Settings
from . import detect, failures, partitions, queue
from .batch import Batch
from .commands import CommandFailed, Commands
from .job import JobSpec, Site, job_spec
from .script import script, signal_lead
from .submission import Answer, Folder, job_id

log = logger(__name__)

SUBMITTERS = 8  # sbatch calls at once: more gain nothing (446 jobs/s with 8, 426 with 4)
# Pods between their lock and their job's number: each holds files open, and login nodes allow few.
SUBMISSIONS = 4 * SUBMITTERS
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le"}
# How long the accounting may call a job alive that slurmctld has forgotten.
_ACCOUNTING_LAG = 300.0
_LOCK_POLL = 0.02
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
        self._submissions = asyncio.Semaphore(SUBMISSIONS)
        self._threads = ThreadPoolExecutor(SUBMITTERS, thread_name_prefix="sbatch")
        self._facts: tuple[float, detect.Slurm] | None = None
        self._limits: dict[str, tuple[float | None, float | None]] = {}
        self._missing_since: dict[JobId, float] = {}
        self._leads: dict[str, float] = {}
        self._listing = queue.Listing(cluster_uid, self._lead)

    # What Slurm is and has

    async def version(self) -> str:
        self._facts = None
        facts = await self._site_facts()
        return f"Slurm {facts.version}"

    async def machines(self) -> list[Machine]:
        rows = partitions.parse(await self._commands.run("sinfo", *partitions.ARGUMENTS))
        architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
        return partitions.machines(
            rows,
            default=self._settings.slurm.partition,
            groups=_group_names(),
            architecture=architecture,
        )

    async def _site_facts(self) -> detect.Slurm:
        if self._facts is None or self._clock() - self._facts[0] > _FACTS_KEPT:
            facts = await detect.slurm(self._commands)
            self._limits = await detect.partition_limits(self._commands)
            self._facts = (self._clock(), facts)
        return self._facts[1]

    # Submission

    async def submit(self, submission: Submission) -> JobId:
        """One job for the pod's folder.

        1. Take the folder's lock, waiting for an sbatch that an earlier control plane left.
        2. If the job is known, answer it; if one may exist, ask Slurm for it.
        3. Else write job.sh, run sbatch, and read its answer.
        """
        async with self._submissions:
            folder = Folder(submission.folder)
            try:
                await self._lock(folder)
                known = folder.job() or await self._left_behind(folder, submission)
                return known or await self._sbatch(folder, submission)
            except OSError as error:
                message = f"{submission.folder}: {error.strerror or error}"
                remedy = "check space, quota and permissions of the home folder"
                raise EngineUnavailable(f"{message}; {remedy}") from error
            finally:
                folder.release()

    async def _lock(self, folder: Folder) -> None:
        try:
            async with asyncio.timeout(self._commands.timeout):
                while not folder.try_lock():  # noqa: ASYNC110  another process has it
                    await asyncio.sleep(_LOCK_POLL)
        except TimeoutError:
            message = f"an earlier sbatch for {folder.folder} still runs"
            raise EngineUnavailable(f"{message}; slurmctld may be busy or unreachable") from None

    async def _left_behind(self, folder: Folder, submission: Submission) -> JobId | None:
        """The job of an sbatch that nobody heard the end of."""
        if not folder.was_begun:
            return None
        found = folder.claimed() or await self._find(submission)
        if found is not None:
            folder.record(found)
            log.info("found job again", pod=str(key_of(submission.pod)), job=found)
        return found

    async def _find(self, submission: Submission) -> JobId | None:
        uid = uid_of(submission.pod)
        listed = [job.id for job in (await self.jobs()).values() if job.pod_uid == uid]
        if listed:
            return max(listed, key=int)
        if not (await self._site_facts()).has_accounting:
            return None
        since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(_birth(submission.folder) - 60))
        # sacct leaves out what became eligible in the second that ends its window.
        window = ("-S", since, "-E", "now+1hour")
        text = await self._sacct(*window, "--name", str(key_of(submission.pod)))
        return queue.job_in_folder(text, str(submission.folder))

    async def _sbatch(self, folder: Folder, submission: Submission) -> JobId:
        spec = await self._spec(submission)
        path = submission.folder / wellknown.SCRIPT_FILE
        _write(path, script(spec))
        for warning in spec.warnings:
            log.warning("option ignored", pod=str(key_of(submission.pod)), why=warning)
        answer = await self._run_sbatch(folder, str(path))
        job = job_id(answer.output)
        if answer.status == 0:
            return job or _unheard(folder)
        raise await self._refusal(folder, answer.errors)

    async def _run_sbatch(self, folder: Folder, path: str) -> Answer:
        """In a thread; should this coroutine be cancelled, sbatch goes on and keeps the lock."""
        argv = self._commands.argv("sbatch", "--parsable", path)
        lock = folder.lend()
        environment, timeout = self._commands.environment(), self._commands.timeout
        future = self._threads.submit(folder.sbatch, argv, environment, timeout, lock)
        future.add_done_callback(lambda _: os.close(lock))
        return await asyncio.wrap_future(future)

    async def _refusal(self, folder: Folder, errors: str) -> EngineError:
        error, help_with = failures.submit_error(errors)
        if not isinstance(error, EngineUnavailable):
            folder.forget()
        if not help_with:
            return error
        return type(error)(f"{error}{await self._choices(help_with)}")

    async def _choices(self, of: str) -> str:
        """What the user may choose from, as a sentence; a help, so never an error of its own."""
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

    async def _spec(self, submission: Submission) -> JobSpec:
        facts = await self._site_facts()
        default_time, max_time = self._limits.get(submission.machine, (None, None))
        site = Site(
            settings=self._settings.slurm,
            cluster_uid=self._cluster_uid,
            path=self._settings.agent.path or self._commands.environ.get("PATH", ""),
            environment=_login_environment(self._commands.environ),
            defaults=self._commands.sbatch_defaults(),
            kill_wait=facts.kill_wait,
            default_time=default_time,
            max_time=max_time,
        )
        folder = str(submission.folder)
        return job_spec(submission.pod, submission.machine, folder, submission.command, site)

    # What became of jobs

    async def jobs(self) -> Mapping[JobId, Job]:
        return await self._queries.ask(None)

    async def _squeue(self, _: list[None]) -> dict[JobId, Job]:
        text = await self._commands.run("squeue", *queue.SQUEUE)
        return self._listing.read(text)

    async def ended(self, ids: Collection[JobId]) -> Mapping[JobId, Job]:
        """From the accounting where there is one; what slurmctld still knows, from slurmctld."""
        if not ids:
            return {}
        listed = await self.jobs()
        found = {job: listed[job] for job in ids if job in listed}
        rest = [job for job in ids if job not in found]
        if rest and (await self._site_facts()).has_accounting:
            text = await self._sacct("-j", ",".join(rest))
            found |= self._trusted(queue.parse_sacct(text, self._lead))
        return found

    def _trusted(self, found: dict[JobId, Job]) -> dict[JobId, Job]:
        """Without jobs that the accounting calls alive long after slurmctld forgot them."""
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
        return await self._commands.run("sacct", *queue.SACCT, *arguments)

    def _lead(self, folder: str) -> float:
        """From the job's own script, which outlives whoever wrote it."""
        if folder not in self._leads:
            try:
                self._leads[folder] = signal_lead(Path(folder, wellknown.SCRIPT_FILE).read_text())
            except OSError:
                return 0.0
        return self._leads[folder]

    # Ending

    async def terminate(self, job: JobId) -> None:
        await self._terminations.ask(job)

    async def cancel(self, job: JobId) -> None:
        await self._cancels.ask(job)

    async def _terminate(self, ids: list[JobId]) -> None:
        """TERM to the agents of jobs that run, and to nothing else; the others have no agent.

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
        if running:
            await self._signal("--batch", "--signal=TERM", "--state=RUNNING", *running)
        if stuck:
            await self._scancel(stuck)

    async def _scancel(self, ids: list[JobId]) -> None:
        await self._signal(*dict.fromkeys(ids))

    async def _signal(self, *arguments: str) -> None:
        """A job that has ended meanwhile is what we wanted."""
        try:
            await self._commands.run("scancel", *arguments)
        except CommandFailed as error:
            if not _only_gone(error.text):
                raise


_GONE = ("invalid job id", "already completing or completed", "not pending nor running")


def _only_gone(text: str) -> bool:
    lines = [line for line in text.lower().splitlines() if "error" in line]
    return all(any(word in line for word in _GONE) for line in lines)


def _unheard(folder: Folder) -> NoReturn:
    """Slurm took the job, and its number was lost: the empty file has it looked for next time."""
    message = f"sbatch succeeded, but its answer is not in {folder.submit_file}"
    raise EngineUnavailable(f"{message}; check space and quota of the home folder")


def _write(path: Path, text: str) -> None:
    """Not durably: sbatch copies it at once, and what is submitted is Slurm's to keep."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o700)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


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
    """What a login would set; with --export=NIL a job has none of it."""
    user = pwd.getpwuid(os.getuid())
    return {
        "HOME": environ.get("HOME") or user.pw_dir,
        "USER": user.pw_name,
        "LOGNAME": user.pw_name,
        "LANG": environ.get("LANG") or "C.UTF-8",
    }
