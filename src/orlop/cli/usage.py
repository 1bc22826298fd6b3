"""What jobs have used, as Slurm counted: from sacct where the site keeps accounts, else squeue.

Called by `kubectl slurm usage`. Without accounting Slurm knows only what was asked for and how
long it runs, and forgets a job soon after its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..slurm import detect
from ..slurm.commands import CommandFailed, Commands

SACCT = "JobID,State,Elapsed,AllocCPUS,ReqMem,TotalCPU,MaxRSS"
SQUEUE = "%i|%T|%M|%C|%m"


@dataclass(frozen=True, slots=True)
class Usage:
    """In Slurm's own notation; empty where it does not know."""

    state: str
    elapsed: str
    cpus: str
    requested: str  # memory
    cpu_time: str = ""
    max_rss: str = ""


async def usage_of(jobs: Sequence[str], timeout: float) -> dict[str, Usage]:
    commands = Commands.of_process(timeout)
    found = parse_squeue(await _squeue(commands, jobs))
    if (await detect.slurm(commands)).has_accounting:
        arguments = ("-n", "-P", "-j", ",".join(jobs), "-o", SACCT)
        found |= parse_sacct(await commands.run("sacct", *arguments))
    return found


async def _squeue(commands: Commands, jobs: Sequence[str]) -> str:
    try:
        return await commands.run(
            "squeue", "-h", "-r", "-t", "all", "-j", ",".join(jobs), "-o", SQUEUE
        )
    except CommandFailed:  # one unknown job among many is no error, a single one is
        return ""


def parse_squeue(text: str) -> dict[str, Usage]:
    rows = (line.split("|") for line in text.splitlines() if line.count("|") == 4)
    return {job: Usage(state, elapsed, cpus, memory) for job, state, elapsed, cpus, memory in rows}


def parse_sacct(text: str) -> dict[str, Usage]:
    """A line for the job, then one a step; memory is counted for steps only."""
    found: dict[str, Usage] = {}
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) != len(SACCT.split(",")):
            continue
        job, _, step = fields[0].partition(".")
        if not step:
            state = fields[1].split()[0] if fields[1] else ""  # `CANCELLED by 1000`
            found[job] = Usage(state, *fields[2:])
        elif job in found and _kib(fields[6]) > _kib(found[job].max_rss):
            found[job] = replace(found[job], max_rss=fields[6])
    return found


def _kib(size: str) -> float:
    """`1204K`, `3.5M`, `0`, or nothing."""
    units = {"K": 1.0, "M": 1024.0, "G": 1024.0**2, "T": 1024.0**3}
    number, unit = (size[:-1], size[-1]) if size and size[-1] in units else (size or "0", "K")
    return float(number) * units[unit]
