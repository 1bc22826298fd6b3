"""Finds out whether there is a Slurm, which one, and what this user may do there.

Called by `orlop up` and `orlop doctor`, and by `jobs` for the few facts of the site that shape a
job. It asks and reports; the caller decides what to do about an answer.
"""

from __future__ import annotations

import getpass
from dataclasses import dataclass
from functools import cached_property

from ...errors import EngineError, EngineUnavailable
from .. import durations, numbers
from ..commands import Commands
from ..submit.limits import ASSOCIATION_FIELDS, QOS_FIELDS, Limits, Row, qos_of_partitions
from ..submit.limits import parse as parse_limits


@dataclass(frozen=True)
class Slurm:
    """The part of `scontrol show config` that matters here."""

    config: dict[str, str]

    @cached_property
    def version(self) -> str:
        return self.config.get("SLURM_VERSION", "unknown")

    @property
    def cluster(self) -> str:
        return self.config.get("ClusterName", "")

    @property
    def has_accounting(self) -> bool:
        """Return whether sacct has something to say: slurmdbd keeps ended jobs, slurmctld
        forgets.
        """
        return self.config.get("AccountingStorageType", "").endswith("slurmdbd")

    @property
    def enforces_accounts(self) -> bool:
        return "associations" in self.config.get("AccountingStorageEnforce", "")

    @property
    def enforces_limits(self) -> bool:
        words = self.config.get("AccountingStorageEnforce", "").split(",")
        return any(word in words for word in ("limits", "safe", "all"))

    @property
    def min_job_age(self) -> float:
        """Return the seconds for which slurmctld remembers an ended job."""
        return self._seconds("MinJobAge", 300.0)

    @property
    def kill_wait(self) -> float:
        """Return the seconds between TERM and KILL when Slurm ends a job."""
        return self._seconds("KillWait", 30.0)

    @property
    def max_array(self) -> int:
        """Return how many tasks an array may have; 0 where the site wants none."""
        size = numbers.whole(self.config.get("MaxArraySize", ""))
        return size - 1 if size is not None else 0

    def _seconds(self, name: str, default: float) -> float:
        """Return the seconds of a value such as `300 sec`."""
        words = self.config.get(name, "").split()
        return float(words[0]) if words and words[0].isdecimal() else default


@dataclass(frozen=True, slots=True)
class Association:
    """An account, with partition and QOS, that a user may charge jobs to."""

    account: str
    partition: str = ""
    qos: tuple[str, ...] = ()
    is_default: bool = False


async def slurm(commands: Commands) -> Slurm:
    """Return the Slurm of this host; raise EngineUnavailable, with the remedy, if none answers."""
    return Slurm(parse_config(await commands.run("scontrol", "show", "config")))


async def find(commands: Commands) -> Slurm | None:
    """Return the Slurm of this host; None where there is none or it does not answer."""
    try:
        return await slurm(commands)
    except EngineError:
        return None


async def associations(commands: Commands) -> list[Association]:
    """Return the user's accounts; none where the site keeps no accounts."""
    user = commands.environ.get("USER") or getpass.getuser()
    fields = "account,partition,qos,defaultaccount"
    arguments = ("-n", "-P", "show", "user", user, "withassoc", f"format={fields}")
    try:
        text = await commands.run("sacctmgr", *arguments)
    except EngineError:
        return []
    return parse_associations(text)


async def limits(commands: Commands) -> Limits:
    """Return all limits that may hold for the user's jobs; none where the site keeps no
    accounts.
    """
    user = commands.environ.get("USER") or getpass.getuser()
    found = await associations(commands)
    accounts = sorted({one.account for one in found})
    if not accounts:
        return Limits(user, "")
    default = next((one.account for one in found if one.is_default), accounts[0])
    rows = await _sacctmgr(commands, ("assoc", f"account={','.join(accounts)}"), ASSOCIATION_FIELDS)
    of_qos = await _sacctmgr(commands, ("qos",), QOS_FIELDS)
    shown = await commands.run("scontrol", "-a", "-o", "show", "partition")
    return Limits(user, default, rows, of_qos, qos_of_partitions(shown))


async def _sacctmgr(
    commands: Commands, what: tuple[str, ...], fields: tuple[str, ...]
) -> tuple[Row, ...]:
    arguments = ("-n", "-P", "show", *what, f"format={','.join(fields)}")
    return parse_limits(await commands.run("sacctmgr", *arguments), fields)


async def partition_limits(commands: Commands) -> dict[str, tuple[float | None, float | None]]:
    """Return the (default, longest) run time in seconds of each partition."""
    text = await commands.run("sinfo", "-h", "-a", "-o", "%R|%L|%l")
    rows = (line.split("|") for line in text.splitlines() if line.count("|") == 2)
    return {
        name: (durations.seconds(default), durations.seconds(longest))
        for name, default, longest in rows
    }


def parse_config(text: str) -> dict[str, str]:
    """Parse `Key = value` lines; the first section is slurm.conf's."""
    config: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals:
            config.setdefault(key.strip(), value.strip())
    if not config:
        raise EngineUnavailable("scontrol show config printed nothing that can be read")
    return config


def parse_associations(text: str) -> list[Association]:
    found = []
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) == 4 and fields[0]:
            account, partition, qos, default = fields
            names = tuple(name for name in qos.split(",") if name)
            found.append(Association(account, partition, names, account == default))
    return found
