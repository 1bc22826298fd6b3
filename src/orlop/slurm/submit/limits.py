"""Limits of associations and QOS, and whether a single job is beyond any of them.

Used by `limit_checks` where Slurm refuses a job, or lets one wait, for a limit; pure. Slurm says
which limit, but not whether it will ever pass: a job that asks for more than all that a group may
have at once waits for ever. Also what a ResourceQuota is made of.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from .. import durations, numbers
from ..numbers import DIGITS

SEPARATOR = "|"
ASSOCIATION_FIELDS = (
    "Account", "User", "Partition", "DefaultQOS", "GrpTRES", "GrpSubmit", "MaxTRES",
    "MaxTRESPerNode", "MaxSubmit", "MaxWall",
)  # fmt: skip
QOS_FIELDS = (
    "Name", "GrpTRES", "GrpSubmit", "MaxTRES", "MaxTRESPerNode", "MaxTRESPerUser",
    "MaxTRESPerAccount", "MaxSubmitJobsPerUser", "MaxWall", "Flags",
)  # fmt: skip
_OF_JOB = ("MaxTRES", "GrpTRES", "MaxTRESPerUser", "MaxTRESPerAccount")
_OF_NODE = "MaxTRESPerNode"
_BEFORE_PARTITION = "overpartqos"  # a QOS whose limits come before those of the partition's own
_SUBMITTED = ("GrpSubmit", "MaxSubmit", "MaxSubmitJobsPerUser")
_AMOUNT = re.compile(rf"({DIGITS}(?:\.{DIGITS})?)([KMGTP]?)[nc]?")
_MEMORY = re.compile(rf"({DIGITS})([KMGT]?)B?", re.IGNORECASE)
_MIB = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_COUNTS = {"": 1.0, "K": 1024.0, "M": 1024.0**2, "G": 1024.0**3}

Row = dict[str, str]
Tres = dict[str, float]


@dataclass(frozen=True, slots=True)
class Ask:
    """The request of one job: what it asks for in all, and how long."""

    account: str = ""  # empty: the user's default
    qos: str = ""
    partition: str = ""
    tres: Mapping[str, float] = field(default_factory=dict)  # cpu, mem in MiB, node, gres/gpu, …
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """All rows that may hold for a user's jobs."""

    user: str
    default_account: str
    associations: tuple[Row, ...] = ()
    qos: tuple[Row, ...] = ()
    of_partitions: Mapping[str, str] = field(default_factory=dict)  # partition -> its own QOS

    def rows(self, ask: Ask) -> list[tuple[str, Row]]:
        """Return (whose, limits) of the partition's QOS, the job's, the association, and its
        account.

        In Slurm's order: of a limit that several of them set, the first one's holds.
        """
        account = ask.account or self.default_account
        found: list[tuple[str, Row]] = []
        qos = ask.qos
        for row in self.associations:
            is_mine = row["User"] in ("", self.user) and row["Account"] == account
            if is_mine and row["Partition"] in ("", ask.partition):
                whose = "you in account" if row["User"] else "account"
                found.append((f"{whose} {account}", row))
                qos = qos or (row["DefaultQOS"] if row["User"] else "")
        name = qos or "normal"
        found.sort(key=lambda one: not one[1]["User"])
        own = self._of_qos(name)
        of_partition = self._of_qos(self.of_partitions.get(ask.partition, ""))
        is_before = any(_BEFORE_PARTITION in row["Flags"].lower() for _, row in own)
        return [*own, *of_partition, *found] if is_before else [*of_partition, *own, *found]

    def _of_qos(self, name: str) -> list[tuple[str, Row]]:
        return [(f"QOS {name}", row) for row in self.qos if row["Name"] == name]


def parse(text: str, fields: tuple[str, ...]) -> tuple[Row, ...]:
    """Return the rows of `sacctmgr -n -P`."""
    rows = (line.split(SEPARATOR) for line in text.splitlines())
    return tuple(dict(zip(fields, row, strict=True)) for row in rows if len(row) == len(fields))


def qos_of_partitions(text: str) -> dict[str, str]:
    """Return the QOS of partitions that have one, from `scontrol -o show partition`; the default
    partition's also as "".
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        fields = numbers.fields(line)
        qos = fields.get("QoS", "N/A")
        if qos not in ("", "N/A", "(null)"):
            names = [fields.get("PartitionName", ""), *([""] * (fields.get("Default") == "YES"))]
            found |= dict.fromkeys(names, qos)
    return found


def tres_of(text: str) -> Tres:
    """Parse `cpu=4,mem=100G,gres/gpu=2`; memory is in MiB."""
    found: Tres = {}
    for part in filter(None, text.split(",")):
        name, _, amount = part.partition("=")
        match = _AMOUNT.fullmatch(amount)
        if match:
            units = _MIB if name == "mem" else _COUNTS
            found[name] = float(match.group(1)) * units.get(match.group(2), 1.0)
    return found


def exceeded(ask: Ask, limits: Limits) -> str:
    """Return the limit that this job alone is beyond, in words; empty where there is none.

    Of several partitions that it may start in, one without is enough.
    """
    found = []
    for partition in ask.partition.split(","):
        rows = limits.rows(replace(ask, partition=partition))
        found.append(_too_much(ask, rows) or _too_long(ask, rows))
    return found[0] if all(found) else ""


def _too_much(ask: Ask, rows: list[tuple[str, Row]]) -> str:
    nodes = max(ask.tres.get("node", 1.0), 1.0)
    each = {kind: amount / nodes for kind, amount in ask.tres.items() if kind != "node"}
    seen: set[tuple[str, str]] = set()
    for whose, row in rows:
        for name in (*_OF_JOB, _OF_NODE):
            bounds = tres_of(row.get(name, ""))
            holding = {kind: n for kind, n in bounds.items() if (name, kind) not in seen}
            seen |= {(name, kind) for kind in bounds}
            over = _over(each if name == _OF_NODE else ask.tres, holding)
            if over:
                return _words(over, whose, name)
    return ""


def _too_long(ask: Ask, rows: list[tuple[str, Row]]) -> str:
    longest = ((whose, _wall(row.get("MaxWall", ""))) for whose, row in rows)
    whose, most = next(((whose, most) for whose, most in longest if most is not None), ("", None))
    if most is None or ask.seconds is None or ask.seconds <= most:
        return ""
    asked, allowed = durations.in_words(ask.seconds), durations.in_words(most)
    return f"it asks for {asked}, and {whose} may have {allowed} (MaxWall)"


def quota(ask: Ask, limits: Limits) -> dict[str, str]:
    """Return what a ResourceQuota may say of limits on all jobs together; the tightest of each."""
    tightest: Tres = {}
    submitted = math.inf
    for _, row in limits.rows(ask):
        for name in ("GrpTRES", "MaxTRESPerUser", "MaxTRESPerAccount"):
            for kind, amount in tres_of(row.get(name, "")).items():
                tightest[kind] = min(amount, tightest.get(kind, math.inf))
        for name in _SUBMITTED:
            most = numbers.whole(row.get(name, ""))
            submitted = submitted if most is None else min(submitted, most)
    hard = {resource: f"{int(tightest[kind])}{unit}" for kind, (resource, unit) in _QUOTAS.items()
            if kind in tightest}  # fmt: skip
    return hard | ({"pods": str(int(submitted))} if submitted < math.inf else {})


_QUOTAS = {
    "cpu": ("requests.cpu", ""),
    "mem": ("requests.memory", "Mi"),
    "gres/gpu": ("requests.nvidia.com/gpu", ""),
}
_PLAIN = {"cpu": "CPUs", "mem": "MiB of memory", "node": "nodes", "gres/gpu": "GPUs"}


def _over(asked: Mapping[str, float], most: Tres) -> tuple[str, float, float] | None:
    for kind, limit in most.items():
        if asked.get(kind, 0.0) > limit:
            return kind, asked[kind], limit
    return None


def _words(over: tuple[str, float, float], whose: str, name: str) -> str:
    kind, asked, limit = over
    thing = _PLAIN.get(kind, kind)
    return f"it asks for {asked:g} {thing}, and {whose} may have {limit:g} at once ({name})"


def _wall(text: str) -> float | None:
    try:
        found = durations.seconds(text) if text else None
    except ValueError:
        return None
    return None if found == durations.UNLIMITED else found


def ask_of_job(text: str) -> Ask:
    """Return the request of a job that Slurm has, from `scontrol -o show job`."""
    fields = numbers.fields(text)
    tres = fields.get("ReqTRES") or fields.get("TRES", "")
    return Ask(
        fields.get("Account", "").replace("(null)", ""),
        fields.get("QOS", "").replace("(null)", ""),
        fields.get("Partition", ""),
        tres_of(tres),
        _wall(fields.get("TimeLimit", "")),
    )


def ask_of_options(options: Iterable[tuple[str, str | None]]) -> Ask:
    """Return the request of a job from its sbatch options; what they leave open is not counted."""
    given = {name: value or "" for name, value in options}
    nodes = _number(given.get("nodes")) or 1.0
    each_node = _number(given.get("ntasks-per-node")) or 1.0
    tasks = _number(given.get("ntasks")) or nodes * each_node
    tres: Tres = {"node": nodes, "cpu": tasks * (_number(given.get("cpus-per-task")) or 1.0)}
    memory = _MEMORY.fullmatch(given.get("mem", ""))
    if memory:
        tres["mem"] = float(memory.group(1)) * _MIB[memory.group(2).upper()] * nodes
    for part in filter(None, given.get("gres", "").split(",")):
        name, *rest = part.removeprefix("gres/").split(":")
        count = _number(rest[-1]) if rest else 1.0
        tres[f"gres/{name}"] = tres.get(f"gres/{name}", 0.0) + (count or 1.0) * nodes
    for option, times in (("gpus", 1.0), ("gpus-per-node", nodes), ("gpus-per-task", tasks)):
        for part in filter(None, given.get(option, "").split(",")):
            count = _number(part.rpartition(":")[2]) or 1.0
            tres["gres/gpu"] = tres.get("gres/gpu", 0.0) + count * times
    return Ask(
        given.get("account", ""),
        given.get("qos", ""),
        given.get("partition", ""),
        tres,
        _wall(given.get("time", "")),
    )


def _number(text: str | None) -> float:
    return float(numbers.leading(text or ""))
