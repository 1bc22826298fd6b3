"""Makes one job of a gang from the jobs that its members would be by themselves.

Used by `gang_submission`; pure. Resources become bundles (see `packing`); what concerns the whole
job is the same for all members or said by only some; the longest time limit holds. Slurm wakes the
leader ahead of that limit, once, as early as any member wants to be told; the leader tells each in
time.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ... import wellknown
from ...errors import ConfigError
from .. import durations, numbers
from ..translate import signals
from ..translate.annotations import OF_SRUN
from ..translate.job import JobSpec, comment_of
from ..translate.signals import EarlySignal
from .packing import SHAPE_OPTIONS, Packing

_GANG = "gang-"
_EACH_OWN = frozenset({"job-name", "comment", "chdir", "output", "time", "signal", "licenses"})
# What agents must know of their own pods; all else of a job's environment is the same for all.
_OWN_ENVIRONMENT = frozenset(
    {
        wellknown.KILL_WAIT_ENV,
        wellknown.WARNING_ENV,
        wellknown.TERM_AFTER_ENV,
        wellknown.RESTARTS_ENV,
        *OF_SRUN.values(),
    }
)
_CARRIES = "one Slurm job carries the whole gang, so its members must agree"


def gang_comment(cluster_uid: str, gang: str) -> str:
    """Return the comment of a gang's job, whose steps are pods: it has the name of the gang's
    folder.
    """
    return comment_of(cluster_uid, _GANG + gang)


def gang_in(uid: str) -> str:
    """Return the gang named in a job's comment in the place of a pod's uid; empty if a pod is
    named.
    """
    return uid.removeprefix(_GANG) if uid.startswith(_GANG) else ""


class Named(NamedTuple):
    """The names and paths that belong to the gang itself."""

    name: str
    comment: str
    folder: str


def as_gang(
    specs: Sequence[JobSpec], packing: Packing, limits: Sequence[str], named: Named
) -> JobSpec:
    """Return one job for all; `limits` are the time limits that members ask for in Slurm's words.

    Raise ConfigError where two members ask for what does not go together.
    """
    name, comment, folder = named
    first = specs[0]
    agreed = _agreed(specs)
    lead = lead_of(specs)
    options: dict[str, str | None] = {
        "job-name": name,
        "comment": comment,
        **{key: value for key, value in agreed.items() if key not in _EACH_OWN},
        **_resources(packing),
        **_licenses(specs),
        **_time(specs, limits),
        "chdir": folder,
        "output": f"{folder}/{wellknown.OUTPUT_FILE}".replace("%", "%%"),
        # Never TERM, whatever members want: that is the end of the job, for all of them.
        **({"signal": f"B:{wellknown.ALARM}@{lead}"} if lead else {}),
    }
    environment = {k: v for k, v in first.environment if k not in _OWN_ENVIRONMENT}
    return replace(
        first,
        options=tuple(options.items()),
        command=(*first.command[:-1], "gang", folder),
        environment=tuple(sorted(environment.items())),
        prologue="\n".join(dict.fromkeys(spec.prologue for spec in specs if spec.prologue)),
        title=f"gang {name}, {len(specs)} pods",
    )


def _agreed(specs: Sequence[JobSpec]) -> dict[str, str | None]:
    """Return the options that all ask for, or that some ask for and no other contradicts."""
    found: dict[str, tuple[str | None, str]] = {}
    for spec in specs:
        for name, value in spec.options:
            if name in SHAPE_OPTIONS or name in _EACH_OWN:
                continue
            other, who = found.setdefault(name, (value, spec.title))
            if other != value:
                both = f"{_words(name, other)} ({who}), {_words(name, value)} ({spec.title})"
                raise ConfigError(f"{both}: {_CARRIES}; give all of them the same")
    if "requeue" in found:
        found.pop("no-requeue", None)  # what is said where nobody says anything
    return {name: value for name, (value, _) in found.items()}


def _words(name: str, value: str | None) -> str:
    return f"--{name}" if value is None else f"--{name}={value}"


def _resources(packing: Packing) -> dict[str, str | None]:
    bundle = packing.bundle
    found: dict[str, str | None] = {
        "ntasks": str(packing.count),
        "cpus-per-task": str(bundle.cpus),
    }
    if bundle.memory_mib:
        found["mem-per-cpu"] = f"{math.ceil(bundle.memory_mib / bundle.cpus)}M"
    gpus = {name: n for name, n in bundle.gres.items() if name.partition(":")[0] == "gpu"}
    if bundle.gres and len(gpus) == len(bundle.gres):
        kinds = [f"{name.partition(':')[2]}:{n}".lstrip(":") for name, n in sorted(gpus.items())]
        found["gpus-per-task"] = ",".join(kinds)
    elif bundle.gres:
        # Slurm counts other GRES by the node: then each bundle has a host of its own.
        found |= {"nodes": str(packing.count), "ntasks-per-node": "1"}
        found["gres"] = bundle.gres_words
    return found


def _licenses(specs: Sequence[JobSpec]) -> dict[str, str | None]:
    """Return the licences of all members together: `matlab:1` of each of four is `matlab:4`."""
    found: Counter[str] = Counter()
    for spec in specs:
        for part in filter(None, re.split(r"[,;]", spec.value("licenses") or "")):
            name, _, count = part.partition(":")
            number = numbers.whole(count)
            found[name] += 1 if number is None else number
    words = ",".join(f"{name}:{count}" for name, count in found.items())
    return {"licenses": words} if words else {}


def _time(specs: Sequence[JobSpec], limits: Sequence[str]) -> dict[str, str | None]:
    """Return the longest time; no limit where it is just some pods' own deadline."""
    found = [text for spec in specs if (text := spec.value("time"))]
    if len(found) < len(specs):
        found = [text for text in limits if text]
    return {"time": max(found, key=_seconds)} if found else {}


def _seconds(text: str) -> float:
    return durations.seconds(text) or 0.0


def early_signal(spec: JobSpec) -> EarlySignal | None:
    """Return the signal that a member wants to get ahead of the time limit."""
    asked = spec.value("signal")
    return signals.parse(asked) if asked else None


def lead_of(specs: Sequence[JobSpec]) -> int:
    """Return how many seconds before the time limit the first member wants to be told; 0: none
    does.
    """
    found = (early_signal(spec) for spec in specs)
    return max((early.lead for early in found if early is not None), default=0)


def own_environment(spec: JobSpec) -> dict[str, str]:
    """Return what a member's step is given beside the gang's variables: those of the job it would
    be alone.
    """
    return {name: value for name, value in spec.environment if name in _OWN_ENVIRONMENT}
