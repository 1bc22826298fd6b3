"""Runs pods as child processes of this host: for a laptop without Slurm, and as a first try.

Used through `Engine` like any other. Each pod's agent is a process in a session of its own that
outlives the control plane; everything about it is in the pod's folder, so that the next control
plane finds it again by process number and start time. Pods queue for the host's CPUs; what a pod
really uses is not limited.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from .. import wellknown
from ..api.gangs import later_of
from ..api.objects import key_of, uid_of
from ..errors import EngineError, SubmitRejected
from ..files import write_private
from ..log import logger
from ..settings import Paths
from . import Gang, Job, JobId, JobState, Machine, Submission, processes
from .demand import milli_cpus
from .gang_barrier import Muster, first_room, waiting_words
from .processes import Process

PROCESS_FILE = "process"
END_FILE = "end"
LOCK_FILE = wellknown.SUBMIT_FILE + ".lock"
MAX_PODS = 110  # as upstream's kubelet
_LOCK_FD = 9
# The agent's number and start time are known to whoever comes later before the agent begins: the
# shell writes its own entry of /proc, lets go of the lock, and becomes the agent.
_START = f"""
read -r boot </proc/sys/kernel/random/boot_id
read -r stat </proc/self/stat
printf '%s\\n%s\\n' "$boot" "$stat" >"$1" || exit 73
shift
cd /
exec "$@" {_LOCK_FD}>&-
"""
_PASSED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "XDG_RUNTIME_DIR")

log = logger(__name__)


class _Submitted(msgspec.Struct, frozen=True):
    """The submit file: what was asked for."""

    id: str
    uid: str
    name: str
    cpus: int  # thousandths
    time: float
    command: tuple[str, ...]
    gang: str = ""  # the gang that it starts with
    together: int = 1  # how many of that gang start at the same moment
    entitled: int = 0  # thousandths of CPUs of a gang, where some of it comes later


class _End(msgspec.Struct, frozen=True):
    """The end file: how it ended."""

    state: str
    time: float
    reason: str = ""


class _LocalJob:
    """One job: what was submitted, the process once there is one, the end once it is over."""

    def __init__(self, folder: Path, submitted: _Submitted) -> None:
        self.folder = folder
        self.submitted = submitted
        self.process: Process | None = None
        self.end: _End | None = None
        self.is_cancelled = False

    @property
    def is_pending(self) -> bool:
        return self.process is None and self.end is None

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.end is None


class LocalEngine:
    """See `Engine`; `cpus` is how many there are to queue for."""

    name = "local"

    def __init__(self, paths: Paths, *, cpus: int | None = None) -> None:
        self._paths = paths
        self._cpus = cpus or len(os.sched_getaffinity(0))
        self._host = socket.gethostname()
        self._boot = processes.boot_id()
        self._jobs: dict[JobId, _LocalJob] | None = None
        self._muster = Muster()

    async def version(self) -> str:
        return f"local ({os.uname().sysname} {os.uname().release}, {self._cpus} CPUs)"

    async def machines(self) -> list[Machine]:
        name = self._host.partition(".")[0].lower()
        memory = processes.memory_mib()
        return [Machine(name, self._cpus, memory, is_default=True, hosts=(self._host,))]

    async def submit(self, submission: Submission) -> JobId:
        path = submission.folder / wellknown.SUBMIT_FILE
        if path.exists():
            return JobId(msgspec.json.decode(path.read_bytes(), type=_Submitted).id)
        cpus = milli_cpus(submission.pod)
        if cpus > self._cpus * 1000:
            asked = f"the pod asks for {cpus / 1000:g} CPUs"
            raise SubmitRejected(f"{asked} and {self._host} has {self._cpus}; lower its requests")
        if submission.gang is None or self._runs_without(submission.gang):
            identity = self._accept(submission, together=1)
        else:
            identity = self._accept_gang(submission, submission.gang)
        self._start_what_fits()
        return identity

    def _accept(self, submission: Submission, together: int, entitled: int = 0) -> JobId:
        jobs = self._known()
        identity = JobId(str(max((int(known) for known in jobs), default=0) + 1))
        pod, gang = submission.pod, submission.gang
        submitted = _Submitted(
            identity,
            uid_of(pod),
            str(key_of(pod)),
            milli_cpus(pod),
            processes.now(),
            submission.command,
            gang.key if gang is not None else "",
            together,
            entitled,
        )
        path = submission.folder / wellknown.SUBMIT_FILE
        write_private(path, msgspec.json.encode(submitted))
        jobs[identity] = _LocalJob(submission.folder, submitted)
        return identity

    # Gangs

    def _runs_without(self, gang: Gang) -> bool:
        """Return whether others of the gang run: who comes then takes an ended one's place."""
        running = (job for job in self._known().values() if job.is_running)
        return any(
            job.submitted.gang == gang.key and job.submitted.uid in gang.peers for job in running
        )

    def _accept_gang(self, submission: Submission, gang: Gang) -> JobId:
        """Accept a member with all others of its gang.

        A control plane that was killed here goes on where it was.
        """
        begun = self._waiting_of(gang.key)
        if begun and len(begun) < begun[0].submitted.together:
            earlier = begun[0].submitted
            return self._accept(submission, earlier.together, earlier.entitled)
        members = self._muster.add(submission)
        asked, entitled = _asked(members)
        if asked > self._cpus * 1000:
            words = f"the {len(members)} members of gang {gang.name} ask for {asked / 1000:g} CPUs"
            raise SubmitRejected(f"{words} and {self._host} has {self._cpus}; lower their requests")
        accepted = {
            uid_of(member.pod): self._accept(member, len(members), entitled)
            for member in members
            if not (member.folder / wellknown.SUBMIT_FILE).exists()
        }
        for member in members:
            self._muster.discard(member)
        return accepted[uid_of(submission.pod)]

    def _waiting_of(self, gang: str) -> list[_LocalJob]:
        jobs = self._known().values()
        return [job for job in jobs if job.is_pending and job.submitted.gang == gang]

    async def jobs(self) -> Mapping[JobId, Job]:
        known = self._known()
        for job in list(known.values()):
            self._look_at(job)
        for identity in [i for i, job in known.items() if not job.folder.exists()]:
            del known[identity]
        self._start_what_fits()
        return {identity: self._told(job) for identity, job in known.items()}

    async def ended(self, ids: Collection[JobId]) -> Mapping[JobId, Job]:
        known = self._known()
        return {i: self._told(known[i]) for i in ids if i in known and known[i].end is not None}

    async def terminate(self, job: JobId) -> None:
        found = self._known().get(job)
        if found is not None and found.process is not None and found.end is None:
            found.process.signal(signal.SIGTERM)

    async def requeue(self, job: JobId) -> None:
        raise EngineError(f"process {job} has no queue to go back to; only Slurm has")

    async def cancel(self, job: JobId) -> None:
        found = self._known().get(job)
        if found is None or found.end is not None:
            return
        found.is_cancelled = True
        if found.process is None:
            self._finish(found, JobState.CANCELLED)
            return
        found.process.kill_all()
        self._look_at(found)

    def close(self) -> None:
        """Let go of every process; they run on."""
        for job in (self._jobs or {}).values():
            if job.process is not None and job.process.descriptor is not None:
                asyncio.get_running_loop().remove_reader(job.process.descriptor)
                job.process.close()
        self._jobs = None

    # What is known

    def _known(self) -> dict[JobId, _LocalJob]:
        """Return all jobs, found again in the pods' folders at the first call."""
        if self._jobs is None:
            self._jobs = {}
            folders = self._paths.pods.glob(f"*/{wellknown.SUBMIT_FILE}")
            found = [self._found(path.parent) for path in folders]
            for job in sorted(found, key=lambda job: int(job.submitted.id)):
                self._jobs[JobId(job.submitted.id)] = job
        return self._jobs

    def _found(self, folder: Path) -> _LocalJob:
        data = (folder / wellknown.SUBMIT_FILE).read_bytes()
        job = _LocalJob(folder, msgspec.json.decode(data, type=_Submitted))
        end = folder / END_FILE
        if end.exists():
            job.end = msgspec.json.decode(end.read_bytes(), type=_End)
            return job
        with _locked(folder):  # an agent that is just being started is waited for
            if (folder / PROCESS_FILE).exists():
                self._adopt(job)
        return job

    def _adopt(self, job: _LocalJob) -> None:
        """Take over the process that an earlier control plane started."""
        started = processes.recorded(job.folder / PROCESS_FILE)
        if started is None or started.boot != self._boot:
            self._finish(job, JobState.NODE_FAIL, f"{self._host} was restarted")
            return
        job.process = Process(started)
        self._watch(job)

    def _told(self, job: _LocalJob) -> Job:
        submitted, end = job.submitted, job.end
        state = JobState.PENDING if job.is_pending else JobState.RUNNING
        told = Job(
            JobId(submitted.id),
            state,
            pod_uid=submitted.uid,
            name=submitted.name,
            partition=self._host,
            submitted=submitted.time,
            started=job.process.started if job.process is not None else None,
        )
        if end is not None:
            return replace(told, state=JobState(end.state), reason=end.reason, ended=end.time)
        if job.is_pending and submitted.together > 1:
            there = len(self._waiting_of(submitted.gang))
            if there < submitted.together:
                words = waiting_words(submitted.gang, there, submitted.together)
                return replace(told, reason="WaitingForGang", message=words)
        if job.is_pending:
            asked = f"it asks for {submitted.cpus / 1000:g} of the {self._cpus} CPUs"
            words = f"{asked} of {self._host}, which others have"
            return replace(told, reason="Resources", message=words)
        return replace(told, nodes=(self._host,))

    # What happens

    def _free(self) -> tuple[int, int]:
        """Return thousandths of CPUs, and places, that no running pod has."""
        running = [job for job in self._known().values() if job.is_running]
        taken = sum(job.submitted.cpus for job in running) + sum(self._held().values())
        return self._cpus * 1000 - taken, MAX_PODS - len(running)

    def _held(self) -> dict[str, int]:
        """Return, by gang, the thousandths of CPUs that are kept for members that come later."""
        running = [job.submitted for job in self._known().values() if job.is_running]
        found = {one.gang: one.entitled for one in running if one.entitled}
        used = Counter[str]()
        for one in running:
            used[one.gang] += one.cpus
        return {gang: max(entitled - used[gang], 0) for gang, entitled in found.items()}

    def _start_what_fits(self) -> None:
        """Start pods, first come, first served; what does not fit lets smaller ones pass."""
        free, places = self._free()
        held = self._held()
        for together in self._pending():
            first = together[0].submitted
            cpus = max(sum(job.submitted.cpus for job in together), first.entitled)
            own = held.get(first.gang, 0)
            if len(together) > places or cpus > free + own:
                continue
            for job in together:
                self._start(job)
            free -= max(cpus - own, 0)
            held[first.gang] = max(own - cpus, 0)
            places -= len(together)

    def _pending(self) -> list[list[_LocalJob]]:
        """Return what waits, each with those that it starts with; a gang once it is whole."""
        found: list[list[_LocalJob]] = []
        gangs: dict[str, list[_LocalJob]] = {}
        for job in [job for job in self._known().values() if job.is_pending]:
            if job.submitted.together == 1:
                found.append([job])
            elif job.submitted.gang in gangs:
                gangs[job.submitted.gang].append(job)
            else:
                gangs[job.submitted.gang] = [job]
                found.append(gangs[job.submitted.gang])
        return [one for one in found if len(one) >= one[0].submitted.together]

    def _start(self, job: _LocalJob) -> None:
        submitted, folder = job.submitted, job.folder
        environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
        environment["ORLOP_JOB_ID"] = submitted.id
        record = folder / PROCESS_FILE
        argv = ["/bin/sh", "-c", _START, "orlop", str(record), *submitted.command]
        output = str(folder / wellknown.OUTPUT_FILE)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        try:
            with _locked(folder) as lock:
                pid = os.posix_spawn(
                    argv[0],
                    argv,
                    environment,
                    file_actions=[
                        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                        (os.POSIX_SPAWN_OPEN, 1, output, flags, 0o600),
                        (os.POSIX_SPAWN_DUP2, 1, 2),
                        (os.POSIX_SPAWN_DUP2, lock, _LOCK_FD),
                    ],
                    setsid=True,
                    setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
                )
        except OSError as error:
            self._finish(job, JobState.FAILED, f"{argv[0]} cannot be started: {error.strerror}")
            return
        job.process = Process(processes.of_child(pid, self._boot))
        self._watch(job)

    def _watch(self, job: _LocalJob) -> None:
        """Have the end told at once where the kernel can; else `jobs` looks."""
        assert job.process is not None, "only a process can be watched"
        descriptor = job.process.descriptor
        if descriptor is not None:
            asyncio.get_running_loop().add_reader(descriptor, self._look_at, job)
        self._look_at(job)

    def _look_at(self, job: _LocalJob) -> None:
        """See whether a running job has ended, and how."""
        process = job.process
        if process is None or job.end is not None or process.is_alive():
            return
        if process.descriptor is not None:
            asyncio.get_running_loop().remove_reader(process.descriptor)
        code = process.exit_code()
        process.close()
        if job.is_cancelled:
            self._finish(job, JobState.CANCELLED)
        elif code:
            self._finish(job, JobState.FAILED, f"ExitCode{code}")
        else:
            self._finish(job, JobState.COMPLETED, "" if code == 0 else "ExitCodeUnknown")
        self._start_what_fits()

    def _finish(self, job: _LocalJob, state: JobState, reason: str = "") -> None:
        job.end = _End(state.value, processes.now(), reason)
        try:
            write_private(job.folder / END_FILE, msgspec.json.encode(job.end))
        except FileNotFoundError:
            pass  # the pod is gone, and its folder with it
        log.debug("local job ended", job=job.submitted.id, state=state.value, reason=reason)


def _asked(members: Sequence[Submission]) -> tuple[int, int]:
    """Return a gang's CPUs in thousandths, those to come included; and the same, or 0 if
    none come.
    """
    room = first_room(members)
    late = [one for one in members if one.gang is not None and one.gang.room != room]
    to_come = sum(one.count * milli_cpus(one.template) for one in later_of(room))
    to_come -= sum(milli_cpus(one.pod) for one in late)
    asked = sum(milli_cpus(one.pod) for one in members) + max(to_come, 0)
    return asked, asked if room else 0


class _locked:
    """The folder's submit lock, waited for; the descriptor can be handed to a child."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK_FILE

    def __enter__(self) -> int:
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
