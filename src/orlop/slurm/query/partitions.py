"""Makes machines, which become Orlop's Kubernetes nodes, from partitions.

Called by `jobs` with what sinfo prints, one line for each kind of node in each partition. Pure:
it knows no command. A partition's capacity is the sum of its hosts', those that are
down included, as Slurm counts; whether a single pod fits is for Slurm to say.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ... import wellknown
from ...engine import Machine
from .. import durations, hostlist, numbers
from ..translate import gres, placement
from ..translate.placement import Place

SEPARATOR = "\x1f"
# One row per partition, state and kind of node; -e keeps unlike nodes apart instead of `8+`.
FIELDS = ("%R", "%P", "%a", "%l", "%c", "%m", "%G", "%f", "%T", "%g", "%E", "%N", "%d")
ARGUMENTS = ("-h", "-e", "-o", SEPARATOR.join(FIELDS))

DEFAULT_LABEL = wellknown.SLURM_PREFIX + "default"
MAX_CPUS_LABEL = wellknown.SLURM_PREFIX + "max-cpus-per-host"
MAX_MEMORY_LABEL = wellknown.SLURM_PREFIX + "max-memory-mib-per-host"

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
    scratch_mib: int = 0

    @property
    def is_alive(self) -> bool:
        """Return whether its hosts can run jobs; a node that sleeps to save power (`~`, `#`) is
        woken by a job.
        """
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
        state, groups, cause, hosts, scratch = rest
        rows.append(
            Row(
                partition=name,
                is_default=marked.endswith("*"),
                availability=available,
                max_time=durations.seconds(longest),
                cpus=numbers.leading(cpus),
                memory_mib=numbers.leading(memory),
                gres=gres,
                features=frozenset(filter(None, _list(features))),
                state=state,
                groups=groups,
                cause=cause,
                hosts=hostlist.expand(hosts),
                scratch_mib=numbers.leading(scratch),
            )
        )
    return rows


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that are true of the whole site, or of the user there."""

    groups: Collection[str] = ()  # the user's
    architecture: str = "amd64"
    licenses: Mapping[str, int] = field(default_factory=dict)
    switches: Mapping[str, frozenset[str]] = field(default_factory=dict)


def machines(rows: Iterable[Row], facts: Facts, *, default: str = "") -> list[Machine]:
    """Return a machine per partition; `default` is the one of the settings."""
    return [
        _machine(name, found, facts, is_default=name == default if default else found[0].is_default)
        for name, found in _by_partition(rows).items()
    ]


def places(rows: Iterable[Row], facts: Facts) -> dict[str, Place]:
    """Return what a submission must know of each partition."""
    return {
        name: Place(
            gres=tuple(dict.fromkeys(one for row in found for one in gres.parse(row.gres))),
            licenses=tuple(facts.licenses),
            features=_features(found),
            scratch_mib=max(row.scratch_mib for row in found),
            hosts=_hosts(found),
            labelled=_labelled(found, facts),
        )
        for name, found in _by_partition(rows).items()
    }


def _by_partition(rows: Iterable[Row]) -> dict[str, list[Row]]:
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(row.partition, []).append(row)
    return by_name


def _machine(name: str, rows: list[Row], facts: Facts, *, is_default: bool) -> Machine:
    is_ready, is_schedulable, message = _condition(rows, facts.groups)
    return Machine(
        name=name,
        cpus=sum(row.cpus * len(row.hosts) for row in rows),
        memory_mib=sum(row.memory_mib * len(row.hosts) for row in rows),
        resources=_resources(rows) | gres.license_resources(facts.licenses),
        labels=_labels(name, rows, facts, is_default),
        is_default=is_default,
        is_ready=is_ready,
        is_schedulable=is_schedulable,
        message=message,
        hosts=_hosts(rows),
        partial=tuple(sorted(_partial(_labelled(rows, facts), _hosts(rows)))),
        architecture=facts.architecture,
        max_time=None if rows[0].max_time in (None, math.inf) else rows[0].max_time,
    )


def _hosts(rows: list[Row]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(host for row in rows for host in row.hosts))


def _resources(rows: list[Row]) -> dict[str, int]:
    """Return the resources beside CPUs and memory: counts, and bytes of what is measured in
    bytes.
    """
    found = Counter[str]()
    for row in rows:
        number = len(row.hosts)
        for resource, count in gres.resources_of(gres.parse(row.gres)).items():
            found[resource] += count * number
        for resource, mib in placement.huge_pages_of(row.features, row.memory_mib).items():
            found[resource] += (mib << 20) * number
        found["ephemeral-storage"] += (row.scratch_mib << 20) * number
    return {name: count for name, count in found.items() if count}


def _condition(rows: list[Row], groups: Collection[str]) -> tuple[bool, bool, str]:
    """Return ready, schedulable, and why not. A closed partition stays ready, as its running jobs
    go on.
    """
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


def _labels(name: str, rows: list[Row], facts: Facts, is_default: bool) -> dict[str, str]:
    labels = {
        MAX_CPUS_LABEL: str(max(row.cpus for row in rows)),
        MAX_MEMORY_LABEL: str(max(row.memory_mib for row in rows)),
    }
    if _LABEL_VALUE.fullmatch(name):
        labels[wellknown.PARTITION_LABEL] = name
    if is_default:
        labels[DEFAULT_LABEL] = "true"
    # Whoever selects one is given such a host: it is enough that there is any.
    labels |= dict.fromkeys(sorted(_labelled(rows, facts)), "true")
    return labels


def _labelled(rows: list[Row], facts: Facts) -> dict[str, frozenset[str]]:
    """Return the hosts that have each label, for labels that not all hosts have."""
    found: dict[str, set[str]] = {}
    for row in rows:
        kinds = {one.kind for one in gres.parse(row.gres) if one.name == "gpu"}
        names = [wellknown.FEATURE_LABEL_PREFIX + feature for feature in row.features]
        names += [wellknown.GPU_TYPE_LABEL_PREFIX + kind for kind in kinds]
        for name in names:
            found.setdefault(name, set()).update(row.hosts)
    for switch, there in facts.switches.items():
        name = wellknown.SWITCH_LABEL_PREFIX + switch
        found.setdefault(name, set()).update(there & set(_hosts(rows)))
    return {
        name: frozenset(hosts)
        for name, hosts in found.items()
        if hosts and _LABEL_VALUE.fullmatch(name.partition("/")[2])
    }


def _partial(labelled: Mapping[str, frozenset[str]], hosts: Collection[str]) -> list[str]:
    return [name for name, there in labelled.items() if len(there) < len(hosts)]


def _features(rows: list[Row]) -> frozenset[str]:
    return frozenset().union(*(row.features for row in rows if row.hosts))


def parse_topology(text: str) -> dict[str, frozenset[str]]:
    """Return the hosts of each leaf switch, from `scontrol -o show topology`."""
    found: dict[str, frozenset[str]] = {}
    for line in text.splitlines():
        fields = numbers.fields(line)
        if fields.get("SwitchName") and fields.get("Level") == "0" and fields.get("Nodes"):
            found[fields["SwitchName"]] = frozenset(hostlist.expand(fields["Nodes"]))
    return found


def _list(text: str) -> list[str]:
    return [] if text in ("(null)", "N/A", "n/a", "") else text.split(",")
