"""Runs the control plane as a Slurm job of its own, where login nodes kill what stays.

Called by `up --in-job` and `down`. The job runs `serve` on a compute node, in the same home; it may
be requeued, and then goes on where it was. Its log is the control plane's log. A home has one such
job at a time, known by its comment while it waits in the queue and has no record yet.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from pathlib import Path

import click

from ...errors import ConfigError, EngineError
from ...files import write_private
from ...printable import one_line
from ...settings import Paths, Settings
from ...slurm.commands import CommandFailed, Commands
from ...slurm.translate.job import JobSpec
from ...slurm.translate.sbatch_options import Option
from ...slurm.translate.script import script
from ..home.home_lock import resident
from ..home.record import Record
from .engines import SLURM, ensure_cluster_uid
from .launch import StartFailed, this_program

# What an idle control plane needs, with room for a few thousand pods.
CPUS, MEMORY = 1, "1G"


def start(
    paths: Paths, settings: Settings, engine: str, arguments: list[str], flags: str
) -> Record:
    """Submit the job, unless one waits already, and return when its control plane answers; an
    interrupt leaves it queued.
    """
    if engine != SLURM:
        raise ConfigError("--in-job needs Slurm, which was not found here; see `orlop doctor`")
    commands = Commands.of_process(settings.slurm.command_timeout)
    paths.log.mkdir(mode=0o700, exist_ok=True)
    waiting = asyncio.run(_living(paths, commands))
    job = waiting[0] if waiting else ""
    how = f"{job} of an earlier `orlop up --in-job` waits already"
    if not job:
        job = asyncio.run(_submit(paths, settings, commands, arguments, flags))
        how = f"{job} submitted"
    click.echo(f"  {'job':<11} {how}; Ctrl-C leaves it in the queue")
    return asyncio.run(_until_up(paths, commands, job))


async def _submit(
    paths: Paths, settings: Settings, commands: Commands, arguments: list[str], flags: str
) -> str:
    path = _script_file(paths)
    write_private(path, script(_job(paths, settings, arguments)), mode=0o700)
    more = [*settings.slurm.flags, *shlex.split(flags)]
    answer = await commands.run("sbatch", "--parsable", *more, str(path))
    return answer.strip().splitlines()[-1].partition(";")[0]


def _job(paths: Paths, settings: Settings, arguments: list[str]) -> JobSpec:
    given = {
        "partition": settings.slurm.partition,
        "account": settings.slurm.account,
        "qos": settings.slurm.qos,
    }
    options: list[Option] = [
        ("job-name", settings.name),
        # Not the comment of a pod's job, by which the kubelet knows its own.
        ("comment", _comment(ensure_cluster_uid(paths))),
        ("cpus-per-task", str(CPUS)),
        ("mem", MEMORY),
        ("output", str(paths.log_file).replace("%", "%%")),  # sbatch replaces %j and the like
        ("open-mode", "append"),
        ("requeue", None),
        # A minute before its time is over it stops in order; pods run on without it.
        ("signal", "B:TERM@60"),
        *((name, value) for name, value in given.items() if value),
    ]
    serve = ["serve", "--in-job", *arguments]
    return JobSpec(
        options=tuple(options),
        command=(*this_program(), *serve),
        path="",
        environment=(("ORLOP_HOME", str(paths.home)),),
        prologue=settings.slurm.prologue,
        title="the control plane",
    )


def _script_file(paths: Paths) -> Path:
    return paths.run / "control-plane.sh"


def _comment(uid: str) -> str:
    return f"orlop-control-plane:{uid}"


async def _living(paths: Paths, commands: Commands) -> list[str]:
    """Return jobs of this home's control plane that run or wait, the oldest first."""
    text = await commands.run("squeue", "--me", "--local", "--all", "-h", "-S", "i", "-o", "%A|%k")
    comment = _comment(ensure_cluster_uid(paths))
    rows = (line.strip().partition("|") for line in text.splitlines())
    return [job for job, _, words in rows if words == comment]


def cancel_all(paths: Paths, settings: Settings) -> list[str]:
    """Cancel every such job, so that none starts after `down`; return which they were."""
    if not _script_file(paths).exists():  # none was ever submitted, and there may be no Slurm
        return []
    commands = Commands.of_process(settings.slurm.command_timeout)
    jobs = asyncio.run(_living(paths, commands))
    if jobs:
        asyncio.run(commands.run("scancel", *jobs))
    _script_file(paths).unlink()
    return jobs


async def _until_up(paths: Paths, commands: Commands, job: str) -> Record:
    """Wait until it is up, by the shared files, ever more rarely; say why the job waits."""
    pause, said = 0.1, ""
    began = time.monotonic()
    while True:
        record = resident(paths)
        if record is not None and record.job == job:
            return record
        state, reason = await _state(commands, job)
        if state in ("", "FAILED", "CANCELLED", "TIMEOUT", "COMPLETED", "OUT_OF_MEMORY"):
            raise StartFailed(f"job {job} ended before it was up; see the end of {paths.log_file}")
        if state == "PENDING" and reason not in (said, "None") and time.monotonic() - began > 3:
            click.echo(f"  {'waiting':<11} {one_line(reason)}")
            said = reason
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 5.0)


async def _state(commands: Commands, job: str) -> tuple[str, str]:
    """Return Slurm's words on the job; none if it is forgotten, `UNKNOWN` if Slurm is silent."""
    try:
        answer = await commands.run("squeue", "-h", "-a", "-t", "all", "-j", job, "-o", "%T|%r")
    except CommandFailed:
        return "", ""
    except EngineError:
        return "UNKNOWN", ""
    state, _, reason = answer.strip().partition("|")
    return state, reason


def stop(record: Record, settings: Settings, paths: Paths, timeout: float) -> bool:
    """Cancel the job, which the control plane hears as TERM; return whether it ended in time."""
    commands = Commands.of_process(settings.slurm.command_timeout)
    return asyncio.run(_stop(record, commands, paths, timeout))


async def _stop(record: Record, commands: Commands, paths: Paths, timeout: float) -> bool:
    await commands.run("scancel", record.job)
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        state, _ = await _state(commands, record.job)
        if resident(paths) is None or state not in ("RUNNING", "COMPLETING", "PENDING", "UNKNOWN"):
            return True
        await asyncio.sleep(0.2)
    return False
