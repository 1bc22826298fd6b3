"""Resolves what a SlurmJob waits for: SlurmJobs of its namespace, as sbatch's `--dependency`.

Called by the controller before submission; pure. A job is submitted as soon as all it names have
numbers, and Slurm does the waiting; what has ended already is judged here, because Slurm may have
forgotten it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from ...api.dependencies import holds
from ...api.objects import Key, Obj, meta
from .kinds import ENDED, SUCCEEDED


class Jobs(Protocol):
    def get(self, key: Key) -> Obj | None: ...


@dataclass(frozen=True, slots=True)
class Needed:
    """The option for sbatch; or what is not there yet, or can never come."""

    option: str = ""
    missing: str = ""
    impossible: str = ""
    # Jobs that end before this one starts, and whether all of their tasks do.
    producers: tuple[tuple[Obj, bool], ...] = ()


def named(job: Obj) -> Iterable[str]:
    """Index: the keys of the jobs that this one depends on."""
    namespace = meta(job).get("namespace") or ""
    wanted = (job.get("spec") or {}).get("dependencies") or ()
    return [str(Key(namespace, one["name"])) for one in wanted]


def resolve(job: Obj, jobs: Jobs) -> Needed:
    """Return what to tell sbatch of the jobs that this one depends on."""
    parts: list[str] = []
    producers: list[tuple[Obj, bool]] = []
    for one in job["spec"].get("dependencies") or []:
        name, wanted = one["name"], one.get("condition") or "afterok"
        other = jobs.get(Key(meta(job)["namespace"], name))
        status = (other or {}).get("status") or {}
        if other is None:
            return Needed(missing=f"SlurmJob {name} is not there yet")
        if status.get("phase") in ENDED:
            if not holds(wanted, status["phase"] == SUCCEEDED):
                how = status.get("state") or status.get("reason") or status["phase"]
                return Needed(impossible=f"{wanted} {name} cannot come true: it ended as {how}")
        elif not status.get("jobId"):
            return Needed(missing=f"SlurmJob {name} has not been submitted yet")
        else:
            parts.append(f"{wanted}:{status['jobId']}")
            if wanted != "after":
                producers.append((other, wanted != "aftercorr"))
    return Needed(option=",".join(parts), producers=tuple(producers))
