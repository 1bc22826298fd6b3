"""Reads what a site offers: partitions, accounts, QOS and reservations, in Slurm's own words.

Used where they are shown as objects. Each parser answers with one mapping of facts by name, with
the keys that objects have. What Slurm leaves out is left out.
"""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from typing import Any

from ...api.times import rfc3339
from ...errors import EngineError
from .. import numbers
from ..commands import Commands

Facts = dict[str, dict[str, Any]]

_SINFO = ("%R", "%P", "%a", "%l", "%L", "%s", "%F", "%C", "%g", "%N")
_ASSOC = (
    "Account", "Partition", "QOS", "DefaultQOS", "Fairshare", "MaxJobs", "MaxSubmit", "MaxWall",
    "MaxTRES", "GrpTRES", "GrpJobs",
)  # fmt: skip
_QOS = (
    "Name", "Priority", "Preempt", "Flags", "MaxWall", "MaxTRES", "MaxTRESPU", "MaxJobsPU",
    "MaxSubmitPU", "GrpTRES", "GrpJobs", "UsageFactor",
)  # fmt: skip
_NOTHING = ("", "(null)", "none", "N/A")
_COUNTS = ("allocated", "idle", "other", "total")


async def partitions(commands: Commands) -> Facts:
    return parse_partitions(await commands.run("sinfo", "-h", "-a", "-o", "|".join(_SINFO)))


async def accounts(commands: Commands) -> Facts:
    """Return the user's associations; none where the site keeps no accounts."""
    user = commands.environ.get("USER") or getpass.getuser()
    default = await _sacctmgr(commands, "user", user, "format=DefaultAccount")
    text = await _sacctmgr(commands, "assoc", f"user={user}", f"format={','.join(_ASSOC)}")
    return parse_accounts(text, default.strip())


async def qos(commands: Commands) -> Facts:
    return parse_qos(await _sacctmgr(commands, "qos", f"format={','.join(_QOS)}"))


async def reservations(commands: Commands) -> Facts:
    return parse_reservations(await commands.run("scontrol", "show", "reservation", "-o"))


async def _sacctmgr(commands: Commands, *arguments: str) -> str:
    try:
        return await commands.run("sacctmgr", "-n", "-P", "show", *arguments)
    except EngineError:
        return ""  # a site without accounts


def parse_partitions(text: str) -> Facts:
    found: Facts = {}
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) != len(_SINFO):
            continue
        name, marked, available, longest, default, size, nodes, cpus, groups, hosts = fields
        found[name] = _known(
            {
                "name": name,
                "default": marked.endswith("*"),
                "availability": available,
                "maxTime": longest,
                "defaultTime": default,
                "jobSize": size,
                "nodes": _counts(nodes),
                "cpus": _counts(cpus),
                "groups": groups,
                "nodeList": hosts,
            }
        )
    return found


def _counts(text: str) -> dict[str, int]:
    """Return the counts of `3/1/0/4`: allocated, idle, other, total."""
    found = [_number(part) or 0 for part in text.split("/")]
    return dict(zip(_COUNTS, found, strict=False))


def parse_accounts(text: str, default: str) -> Facts:
    """Return facts by account, and by account and partition where an association is for one
    partition.
    """
    found: Facts = {}
    for line in text.splitlines():
        row = dict(zip(_ASSOC, line.split("|"), strict=False))
        if not row.get("Account"):
            continue
        partition = row.get("Partition", "")
        name = f"{row['Account']}-{partition}" if partition else row["Account"]
        found[name] = _known(
            {
                "name": row["Account"],
                "partition": partition,
                "default": row["Account"] == default,
                "qos": [one for one in row.get("QOS", "").split(",") if one],
                "defaultQOS": row.get("DefaultQOS"),
                "fairshare": row.get("Fairshare"),
                "maxJobs": row.get("MaxJobs"),
                "maxSubmitJobs": row.get("MaxSubmit"),
                "maxWall": row.get("MaxWall"),
                "maxTRES": row.get("MaxTRES"),
                "groupTRES": row.get("GrpTRES"),
                "groupJobs": row.get("GrpJobs"),
            }
        )
    return found


def parse_qos(text: str) -> Facts:
    found: Facts = {}
    for line in text.splitlines():
        row = dict(zip(_QOS, line.split("|"), strict=False))
        if not row.get("Name"):
            continue
        found[row["Name"]] = _known(
            {
                "name": row["Name"],
                "priority": _number(row.get("Priority", "")),
                "preempts": [one for one in row.get("Preempt", "").split(",") if one],
                "flags": row.get("Flags"),
                "maxWall": row.get("MaxWall"),
                "maxTRES": row.get("MaxTRES"),
                "maxTRESPerUser": row.get("MaxTRESPU"),
                "maxJobsPerUser": row.get("MaxJobsPU"),
                "maxSubmitJobsPerUser": row.get("MaxSubmitPU"),
                "groupTRES": row.get("GrpTRES"),
                "groupJobs": row.get("GrpJobs"),
                "usageFactor": row.get("UsageFactor"),
            }
        )
    return found


def parse_reservations(text: str) -> Facts:
    found: Facts = {}
    for line in text.splitlines():
        row = numbers.fields(line)
        name = row.get("ReservationName")
        if not name:
            continue
        found[name] = _known(
            {
                "name": name,
                "state": row.get("State"),
                "startTime": _moment(row.get("StartTime", "")),
                "endTime": _moment(row.get("EndTime", "")),
                "duration": row.get("Duration"),
                "nodeList": row.get("Nodes"),
                "nodes": _number(row.get("NodeCnt", "")),
                "partition": row.get("PartitionName"),
                "flags": row.get("Flags"),
                "users": row.get("Users"),
                "accounts": row.get("Accounts"),
                "licenses": row.get("Licenses"),
            }
        )
    return found


def _known(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value for key, value in facts.items() if value is not None and value not in _NOTHING
    }


def _number(text: str) -> int | None:
    return numbers.whole(text)


def _moment(text: str) -> str:
    found = numbers.moment(text)
    return rfc3339(found) if found is not None else text
