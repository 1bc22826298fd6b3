"""Partitions as machines: what becomes Orlop's Kubernetes nodes.

Called by `jobs` with what sinfo prints, one line for each kind of node in each partition. Pure:
it knows no command. A partition's capacity is the sum of its hosts', those that are
down included, as Slurm counts; whether a single pod fits is for Slurm to say.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from .. import wellknown
from ..engine import Machine
from . import durations, hostlist

SEPARATOR = "\x1f"
# One row per partition, state and kind of node; -e keeps unlike nodes apart instead of `8+`.
FIELDS = ("%R", "%P", "%a", "%l", "%c", "%m", "%G", "%f", "%T", "%g", "%E", "%N")
ARGUMENTS = ("-h", "-e", "-o", SEPARATOR.join(FIELDS))

DEFAULT_LABEL = wellknown.SLURM_PREFIX + "default"
MAX_CPUS_LABEL = wellknown.SLURM_PREFIX + "max-cpus-per-host"
MAX_MEMORY_LABEL = wellknown.SLURM_PREFIX + "max-memory-mib-per-host"
GPU_TYPE_LABEL_PREFIX = "gpu.slurm.orlop.dev/"

_GPU_MAKERS = {"mi": "amd.com/gpu", "amd": "amd.com/gpu", "gfx": "amd.com/gpu"}
# Nothing runs on such hosts; on the others of _CLOSED jobs go on, but none starts.
_DEAD = ("down", "fail", "inval", "no_respond", "powered_down", "powering_down", "unk", "future")
_CLOSED = (*_DEAD, "drain", "maint", "reboot")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of sinfo: hosts of a partition that are alike."""

    partition: str
    is_default: bool
    availability: str  # up, down, drain, inact
    max_time: float | None
    cpus: int
    memory_mib: int
    gres: str
    features: frozenset[str]
    state: str
    groups: str
    cause: str
    hosts: tuple[str, ...]

    @property
    def is_alive(self) -> bool:
        """A node that sleeps to save power (`~`, `#`) is woken by a job."""
        asleep = self.state.endswith(("~", "#"))
        return bool(self.hosts) and (asleep or not self._is(_DEAD)) and "*" not in self.state

    @property
    def takes_jobs(self) -> bool:
        return self.is_alive and not self._is(_CLOSED)

    def _is(self, states: tuple[str, ...]) -> bool:
        return self.state.lower().startswith(states)


def parse(text: str) -> list[Row]:
    rows = []
    for line in text.splitlines():
        fields = line.split(SEPARATOR)
        if len(fields) != len(FIELDS):
            continue
        name, marked, available, longest, cpus, memory, gres, features, *rest = fields
        state, groups, cause, hosts = rest
        rows.append(
            Row(
                partition=name,
                is_default=marked.endswith("*"),
                availability=available,
                max_time=durations.seconds(longest),
                cpus=_number(cpus),
                memory_mib=_number(memory),
                gres=gres,
                features=frozenset(filter(None, _list(features))),
                state=state,
                groups=groups,
                cause=cause,
                hosts=hostlist.expand(hosts),
            )
        )
    return rows


def machines(
    rows: Iterable[Row], *, default: str = "", groups: Collection[str], architecture: str
) -> list[Machine]:
    """A machine per partition; `default` is the one of the settings, `groups` are the user's."""
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(row.partition, []).append(row)
    return [
        _machine(name, found, default=default, groups=groups, architecture=architecture)
        for name, found in by_name.items()
    ]


def _machine(
    name: str, rows: list[Row], *, default: str, groups: Collection[str], architecture: str
) -> Machine:
    is_default = name == default if default else rows[0].is_default
    gpus = Counter[str]()
    for row in rows:
        for resource, count in gpus_of(row.gres).items():
            gpus[resource] += count * len(row.hosts)
    is_ready, is_schedulable, message = _condition(rows, groups)
    return Machine(
        name=name,
        cpus=sum(row.cpus * len(row.hosts) for row in rows),
        memory_mib=sum(row.memory_mib * len(row.hosts) for row in rows),
        resources=dict(gpus),
        labels=_labels(name, rows, is_default),
        is_default=is_default,
        is_ready=is_ready,
        is_schedulable=is_schedulable,
        message=message,
        hosts=tuple(dict.fromkeys(host for row in rows for host in row.hosts)),
        architecture=architecture,
        max_time=None if rows[0].max_time in (None, math.inf) else rows[0].max_time,
    )


def _condition(rows: list[Row], groups: Collection[str]) -> tuple[bool, bool, str]:
    """Ready, schedulable, and why not. A closed partition's running jobs go on: it stays ready."""
    first = rows[0]
    name = f"partition {first.partition}"
    is_ready = any(row.is_alive for row in rows)
    if not any(row.takes_jobs for row in rows):
        causes = sorted({row.cause for row in rows} - {"none", ""})
        why = f" ({'; '.join(causes)})" if causes else ""
        states = ", ".join(sorted({row.state for row in rows if row.hosts}) or ["it has none"])
        return is_ready, False, f"no node of {name} takes jobs: {states}{why}"
    if first.availability != "up":
        return is_ready, False, f"{name} is {first.availability}: no job starts there"
    if first.groups != "all" and not set(first.groups.split(",")) & set(groups):
        return is_ready, False, f"{name} is for the groups {first.groups} only"
    return is_ready, True, ""


def _labels(name: str, rows: list[Row], is_default: bool) -> dict[str, str]:
    labels = {
        MAX_CPUS_LABEL: str(max(row.cpus for row in rows)),
        MAX_MEMORY_LABEL: str(max(row.memory_mib for row in rows)),
    }
    if _LABEL_VALUE.fullmatch(name):
        labels[wellknown.PARTITION_LABEL] = name
    if is_default:
        labels[DEFAULT_LABEL] = "true"
    # Whoever selects one is given such a host by --constraint: it is enough that there is any.
    found: frozenset[str] = frozenset().union(*(row.features for row in rows if row.hosts))
    for feature in sorted(found):
        if _LABEL_VALUE.fullmatch(feature):
            labels[wellknown.FEATURE_LABEL_PREFIX + feature] = "true"
    for kind in sorted({kind for row in rows for kind in gpu_types(row.gres)}):
        labels[GPU_TYPE_LABEL_PREFIX + kind] = "true"
    return labels


_GPU = re.compile(r"(?:gres/)?gpu(?::([A-Za-z][\w.-]*))?:(\d+)")


def gpus_of(gres: str) -> dict[str, int]:
    """Kubernetes resource -> count on one host, from `gpu:a100:4(S:0-1),nvme:1`."""
    found = Counter[str]()
    for part in _list(re.sub(r"\([^)]*\)", "", gres)):
        match = _GPU.fullmatch(part)
        if match:
            found[_resource(match.group(1) or "")] += int(match.group(2))
    return dict(found)


def gpu_types(gres: str) -> set[str]:
    found = _GPU.finditer(re.sub(r"\([^)]*\)", "", gres))
    return {match.group(1) for match in found if match.group(1)}


def _resource(kind: str) -> str:
    low = kind.lower()
    makers = (resource for start, resource in _GPU_MAKERS.items() if low.startswith(start))
    return next(makers, "nvidia.com/gpu")


def _list(text: str) -> list[str]:
    return [] if text in ("(null)", "N/A", "n/a", "") else text.split(",")


def _number(text: str) -> int:
    digits = re.match(r"\d+", text)
    return int(digits.group()) if digits else 0
