"""Reads what jobs have used, from sacct where the site keeps accounts, else from squeue.

Called by `kubectl slurm usage`. Without accounting Slurm knows what was asked for and how long it
runs, and forgets a job soon after its end; then the pod itself says what it has used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...api.objects import Obj, annotations_of
from ...slurm.commands import CommandFailed, Commands
from ...slurm.query import detect
from ...slurm.query.sacct import joules
from ...wellknown import USED_CPU, USED_ELAPSED, USED_ENERGY, USED_MEMORY

SACCT = "JobID,State,Elapsed,AllocCPUS,ReqMem,TotalCPU,MaxRSS,ConsumedEnergyRaw"
SQUEUE = "%i|%T|%M|%C|%m"


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of a job in Slurm's own notation; empty where Slurm does not know."""

    state: str
    elapsed: str
    cpus: str
    requested: str  # memory
    cpu_time: str = ""
    max_rss: str = ""
    energy: str = ""  # `1200J`


async def usage_of(jobs: Mapping[str, str], timeout: float) -> dict[str, Usage]:
    """Return usage of jobs, and of gangs' members, `17+3`, whose steps have their pods' names."""
    commands = Commands.of_process(timeout)
    members = {job: name for job, name in jobs.items() if "+" in job}
    numbers = list(dict.fromkeys(job.partition("+")[0] for job in jobs))
    found = parse_squeue(await _squeue(commands, numbers))
    found |= {job: found[base] for job in members if (base := job.partition("+")[0]) in found}
    if (await detect.slurm(commands)).has_accounting:
        arguments = ("-n", "-P", "-j", ",".join(numbers), "-o", f"{SACCT},JobName")
        text = await commands.run("sacct", *arguments)
        found |= parse_sacct(text) | parse_steps(text, members)
    arrays = {job: _of_array(job, found) for job in jobs if job not in found}
    return found | {job: used for job, used in arrays.items() if used is not None}


def _of_array(number: str, found: dict[str, Usage]) -> Usage | None:
    """Return an array's usage: its tasks together; the longest of them, and the largest."""
    tasks = [used for job, used in found.items() if job.startswith(f"{number}_")]
    if not tasks:
        return None
    states = [used.state for used in tasks]
    others = [state for state in states if state != "COMPLETED"]
    cpu_time = sum(_seconds(used.cpu_time) for used in tasks)
    return Usage(
        state=next((one for one in ("RUNNING", "PENDING") if one in states), (others + states)[0]),
        elapsed=max((used.elapsed for used in tasks), key=_seconds),
        cpus=str(sum(int(used.cpus) for used in tasks if used.cpus.isdecimal())),
        requested=tasks[0].requested,
        cpu_time=_clock(cpu_time) if any(used.cpu_time for used in tasks) else "",
        max_rss=max((used.max_rss for used in tasks), key=_kib),
        energy=_energy(sum(int(used.energy.rstrip("J") or 0) for used in tasks)),
    )


def _seconds(text: str) -> float:
    """Return the seconds of `1-02:03:04`, `03:04.567`, or nothing."""
    days, dash, rest = text.rpartition("-")
    total = 0.0
    for part in rest.split(":"):
        total = total * 60 + (float(part) if part.replace(".", "", 1).isdecimal() else 0.0)
    return total + (int(days) * 86400 if dash and days.isdecimal() else 0)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours:02d}:{minutes:02d}:{int(rest):02d}" if hours else f"{minutes:02d}:{rest:06.3f}"


async def _squeue(commands: Commands, jobs: Sequence[str]) -> str:
    try:
        return await commands.run(
            "squeue", "-h", "-a", "-r", "-t", "all", "-j", ",".join(jobs), "-o", SQUEUE
        )
    except CommandFailed:  # one unknown job among many is no error, a single one is
        return ""


def noted(pod: Obj) -> Usage:
    """Return what is written on a pod that is over, for what Slurm has forgotten."""
    found = annotations_of(pod)
    names = (USED_ELAPSED, USED_CPU, USED_MEMORY, USED_ENERGY)
    elapsed, cpu, memory, energy = (_number(found.get(name)) for name in names)
    return Usage(
        state="",
        elapsed="" if elapsed is None else _to_the_millisecond(elapsed).partition(".")[0],
        cpus="",
        requested="",
        cpu_time="" if cpu is None else _to_the_millisecond(cpu),
        max_rss="" if memory is None else f"{int(memory) // 1024}K",
        energy=_energy(energy),
    )


def _energy(number: float | None) -> str:
    return f"{number:.0f}J" if number else ""


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:  # anybody may write to it
        return None


def _to_the_millisecond(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    days, hours = divmod(hours, 24)
    return f"{f'{days}-' if days else ''}{hours:02}:{minutes:02}:{rest:06.3f}"


def parse_squeue(text: str) -> dict[str, Usage]:
    rows = (line.split("|") for line in text.splitlines() if line.count("|") == 4)
    return {job: Usage(state, elapsed, cpus, memory) for job, state, elapsed, cpus, memory in rows}


def parse_sacct(text: str) -> dict[str, Usage]:
    """Parse a line for the job, then one a step; memory, and often energy, is in steps."""
    found: dict[str, Usage] = {}
    for line in text.splitlines():
        fields = _fields(line)
        if not fields:
            continue
        job, _, step = fields[0].partition(".")
        if not step:
            found[job] = _usage(fields)
        elif job in found:
            known = found[job]
            most = max(known.max_rss, fields[6], key=_kib)
            found[job] = replace(known, max_rss=most, energy=known.energy or _usage(fields).energy)
    return found


def parse_steps(text: str, members: Mapping[str, str]) -> dict[str, Usage]:
    """Parse usage of gangs' members: the newest step of their job with their pod's name."""
    by_name = {(job.partition("+")[0], name): job for job, name in members.items()}
    found: dict[str, Usage] = {}
    for line in text.splitlines():
        fields, name = _fields(line), line.rpartition("|")[2]
        job = by_name.get((fields[0].partition(".")[0], name)) if fields else None
        if job is not None and "." in fields[0]:
            found[job] = _usage(fields)
    return found


def _fields(line: str) -> list[str]:
    """Return the fields of SACCT, without the name behind; none of a line that is unreadable."""
    fields = line.split("|", len(SACCT.split(",")))
    return fields[:-1] if len(fields) == len(SACCT.split(",")) + 1 else []


def _usage(fields: Sequence[str]) -> Usage:
    state = fields[1].split()[0] if fields[1] else ""  # `CANCELLED by 1000`
    return replace(Usage(state, *fields[2:-1]), energy=_energy(joules(fields[-1])))


def _kib(size: str) -> float:
    """Return the KiB of `1204K`, `3.5M`, `0`, or nothing."""
    units = {"K": 1.0, "M": 1024.0, "G": 1024.0**2, "T": 1024.0**3}
    number, unit = (size[:-1], size[-1]) if size and size[-1] in units else (size or "0", "K")
    return float(number) * units[unit]
