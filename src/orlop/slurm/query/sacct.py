"""Reads what jobs have used from sacct's lines: time, CPU, memory, energy.

Used by `queue` for pods that have ended, and by `kubectl slurm usage`; pure. A line for the job
comes first, then one for each of its steps, and memory is counted for steps. What sacct
leaves empty is not known.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ...engine import JobId, JobUsage
from .. import numbers
from ..numbers import DIGITS

FIELDS = "JobID,State,ElapsedRaw,TotalCPU,MaxRSS,ConsumedEnergyRaw"
ARGUMENTS = ("-n", "-P", "-o", FIELDS)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_CPU = re.compile(rf"(?:({DIGITS})-)?(?:({DIGITS}):)?({DIGITS}):({DIGITS}(?:\.{DIGITS})?)")
_SIZE = re.compile(rf"({DIGITS}(?:\.{DIGITS})?)([KMGT]?)")
# Numbers that Slurm writes where it has none.
_NOTHING = {"", "0", "4294967294", "18446744073709551614"}
_RUNNING = ("PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "COMPLETING")


def parse(text: str) -> dict[JobId, JobUsage]:
    """Return what each job used, of those whose last line is written."""
    found: dict[JobId, JobUsage] = {}
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) != len(FIELDS.split(",")):
            continue
        name, state, elapsed, cpu, memory, energy = fields
        job, _, step = name.partition(".")
        if not step:
            if not state.startswith(_RUNNING):
                found[JobId(job)] = JobUsage(
                    elapsed=numbers.whole(elapsed),
                    cpu=cpu_seconds(cpu),
                    memory=size(memory),
                    energy=joules(energy),
                )
        elif JobId(job) in found:
            found[JobId(job)] = _with_step(found[JobId(job)], memory, energy)
    return found


def _with_step(known: JobUsage, memory: str, energy: str) -> JobUsage:
    most = max(known.memory or 0, size(memory) or 0) or None
    spent = known.energy if known.energy is not None else joules(energy)
    return replace(known, memory=most, energy=spent)


def cpu_seconds(text: str) -> float | None:
    """Return the seconds of `[days-][hours:]minutes:seconds[.milliseconds]`."""
    match = _CPU.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = match.groups()
    return ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes)) * 60 + float(seconds)


def size(text: str) -> int | None:
    """Return the bytes of `1204K`, `3.50M`; a lone number is one of bytes."""
    match = _SIZE.fullmatch(text)
    return None if match is None else int(float(match.group(1)) * _UNITS[match.group(2)])


def joules(text: str) -> int | None:
    """Return the joules of ConsumedEnergyRaw; None where nothing is measured."""
    return numbers.whole(text) if text not in _NOTHING else None
