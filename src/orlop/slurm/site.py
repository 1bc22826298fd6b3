"""Knows what Slurm is and has here: its facts, its partitions, and their limits of time.

Used by everything that submits and asks. From what it knows, and the settings, follows what sbatch
is told of a pod. It submits nothing.
"""

from __future__ import annotations

import grp
import os
import platform
import pwd
from collections.abc import Callable, Mapping
from functools import cached_property

from ..engine import Machine, Submission
from ..settings import Settings
from .commands import CommandFailed, Commands
from .query import detect, partitions
from .translate import gres
from .translate.job import JobSpec, Site, job_spec
from .translate.placement import Place

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le"}
_FACTS_KEPT = 600.0  # seconds before the site's configuration is asked for again


class SlurmSite:
    def __init__(
        self,
        settings: Settings,
        cluster_uid: str,
        commands: Commands,
        clock: Callable[[], float],
    ) -> None:
        self.cluster_uid = cluster_uid
        self.commands = commands
        self.settings = settings
        self._clock = clock
        self._facts: tuple[float, detect.Slurm] | None = None
        self._limits: dict[str, tuple[float | None, float | None]] = {}
        self._places: dict[str, Place] = {}  # by partition, as last seen
        self._machines: tuple[float, dict[str, Machine]] | None = None

    async def version(self) -> str:
        """Return Slurm's version; it is asked each time."""
        self._facts = None
        return (await self.facts()).version

    async def facts(self) -> detect.Slurm:
        """Return what Slurm says of itself; it is asked now and then."""
        if self._facts is None or self._clock() - self._facts[0] > _FACTS_KEPT:
            facts = await detect.slurm(self.commands)
            self._limits = await detect.partition_limits(self.commands)
            self._facts = (self._clock(), facts)
        return self._facts[1]

    @property
    def enforces_limits(self) -> bool:
        """Return whether the accounts' limits hold, as far as that has been asked."""
        return self._facts is not None and self._facts[1].enforces_limits

    async def machines(self) -> list[Machine]:
        rows = partitions.parse(await self.commands.run("sinfo", *partitions.ARGUMENTS))
        facts = partitions.Facts(
            groups=_group_names(),
            architecture=_ARCHITECTURES.get(platform.machine(), platform.machine()),
            licenses=gres.parse_licenses(await self._shown("licenses")),
            switches=partitions.parse_topology(await self._shown("topology")),
        )
        self._places = partitions.places(rows, facts)
        return partitions.machines(rows, facts, default=self.settings.slurm.partition)

    async def _shown(self, what: str) -> str:
        """Return what scontrol shows of it; nothing where the site has none, or does not show
        it.
        """
        try:
            return await self.commands.run("scontrol", "-o", "show", what)
        except CommandFailed:
            return ""

    async def machine(self, name: str) -> Machine | None:
        """Return a machine as it was a while ago: what it has in all seldom changes."""
        if self._machines is None or self._clock() - self._machines[0] > _FACTS_KEPT:
            machines = {machine.name: machine for machine in await self.machines()}
            self._machines = (self._clock(), machines)
        return self._machines[1].get(name)

    @cached_property
    def _login_environment(self) -> Mapping[str, str]:
        return _login_environment(self.commands.environ)

    async def spec(self, submission: Submission) -> JobSpec:
        facts = await self.facts()
        default_time, max_time = self._limits.get(submission.machine, (None, None))
        site = Site(
            settings=self.settings.slurm,
            cluster_uid=self.cluster_uid,
            path=self.settings.agent.path or self.commands.environ.get("PATH", ""),
            environment=self._login_environment,
            defaults=self.commands.sbatch_defaults(),
            kill_wait=facts.kill_wait,
            default_time=default_time,
            max_time=max_time,
            place=self._places.get(submission.machine, Place()),
            around=submission.around,
        )
        folder = str(submission.folder)
        return job_spec(submission.pod, submission.machine, folder, submission.command, site)


def _group_names() -> list[str]:
    names = []
    for number in {os.getgid(), *os.getgroups()}:
        try:
            names.append(grp.getgrgid(number).gr_name)
        except KeyError:
            continue
    return names


def _login_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a login would set; with --export=NIL a job has none of it."""
    user = pwd.getpwuid(os.getuid())
    return {
        "HOME": environ.get("HOME") or user.pw_dir,
        "USER": user.pw_name,
        "LOGNAME": user.pw_name,
        "LANG": environ.get("LANG") or "C.UTF-8",
    }
