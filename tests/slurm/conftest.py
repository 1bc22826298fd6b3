"""A real Slurm with the engine on it, as an ordinary user.

`rootless` is a Slurm of that user alone, and the engine runs in this process as that user: where
root runs the tests, the process changes its user meanwhile. On a cluster of namespaces the engine's
commands are started on its head instead.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import pwd
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from orlop.engine import Job, JobId, Submission
from orlop.settings import Paths, Settings, SlurmSettings
from orlop.slurm.commands import Commands
from orlop.slurm.jobs import SlurmEngine
from tests.cluster.cluster import SlurmCluster
from tests.cluster.namespaces import enter_command
from tests.cluster.rootless import RootlessSlurm

SLEEP = ("/bin/sleep", "600")
_numbers = itertools.count(1)


class Site:
    """An engine, and pods to try it with."""

    def __init__(self, home: Path, commands: Commands, user: str, **slurm: Any) -> None:
        self.home = home
        self.user = user
        self.commands = commands
        self.cluster_uid = f"test{next(_numbers)}"
        self.settings = Settings(slurm=SlurmSettings(**slurm))
        self.engine = self.another_engine()

    def another_engine(self, **more: Any) -> SlurmEngine:
        """As after a restart of the control plane."""
        commands = more.pop("commands", self.commands)
        return SlurmEngine(self.settings, Paths(self.home), self.cluster_uid, commands, **more)

    def submission(
        self,
        command: tuple[str, ...] = SLEEP,
        machine: str = "main",
        owner: str = "",
        **options: str,
    ) -> Submission:
        number = next(_numbers)
        folder = self.home / "pods" / f"default_pod-{number}_uid-{number}"
        folder.mkdir(parents=True)
        annotations = {f"slurm.orlop.dev/{k.replace('_', '-')}": v for k, v in options.items()}
        name, uid = f"pod-{number}", f"uid-{number}"
        metadata: dict[str, Any] = {"namespace": "default", "name": name, "uid": uid}
        if owner:
            reference = {"kind": "Job", "name": owner, "uid": f"uid-{owner}", "controller": True}
            metadata["ownerReferences"] = [reference]
        pod = {"metadata": {**metadata, "annotations": annotations}, "spec": {"containers": []}}
        return Submission(pod, folder, command, machine)

    async def submit(self, *command: str, machine: str = "main", **options: str) -> JobId:
        return await self.engine.submit(self.submission(command or SLEEP, machine, **options))

    async def wait_for(
        self, job: JobId, is_so: Callable[[Job], object], timeout: float = 60.0
    ) -> Job:
        last: Job | None = None
        try:
            async with asyncio.timeout(timeout):
                while True:
                    last = (await self.engine.jobs()).get(job)
                    if last is not None and is_so(last):
                        return last
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"waited {timeout:g} s for job {job}, which is {last}") from None

    async def jobs_in_slurm(self) -> list[str]:
        """Every job of this site that Slurm lists, whatever the engine thinks of it."""
        text = await self.commands.run(
            "squeue", "--me", "-r", "-h", "-t", "all", "-O", "JobArrayID,Comment:99"
        )
        rows = [line.split() for line in text.splitlines()]
        return [row[0] for row in rows if row[1:] and f":{self.cluster_uid}:" in row[1]]


@contextmanager
def acting_as(user: str) -> Iterator[None]:
    """This process is that user's, really and effectively; root only comes back at the end."""
    if os.geteuid() != 0:
        yield
        return
    entry = pwd.getpwnam(user)
    groups = os.getgroups()
    os.setgroups([])
    os.setresgid(entry.pw_gid, entry.pw_gid, 0)
    os.setresuid(entry.pw_uid, entry.pw_uid, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups(groups)


@pytest.fixture
def rootless(rootless_slurm: RootlessSlurm) -> Iterator[Site]:
    with acting_as(rootless_slurm.user):
        commands = Commands(rootless_slurm.environment(), timeout=30.0)
        yield Site(rootless_slurm.home / ".orlop", commands, rootless_slurm.user)


@contextmanager
def writing_as(user: str) -> Iterator[None]:
    """Files are that user's meanwhile; commands may still become root, to enter a node."""
    entry = pwd.getpwnam(user)
    os.setegid(entry.pw_gid)
    os.seteuid(entry.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def commands_on_head(cluster: SlurmCluster, timeout: float = 30.0) -> Commands:
    entry = pwd.getpwnam(cluster.user)
    root = ("/usr/bin/setpriv", "--reuid=0", "--regid=0", "--clear-groups", "--")
    enter = enter_command(cluster.nodes["head"].init.pid, str(cluster.home))
    ids = (f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--init-groups")
    through = (*root, *enter, "/usr/bin/setpriv", *ids, "--")
    return Commands(cluster.environment(cluster.user), timeout, through)


@pytest.fixture
def on_cluster() -> Iterator[Callable[..., Site]]:
    """The engine on a cluster of namespaces, its files the cluster's user's."""
    with ExitStack() as stack:

        def on(cluster: SlurmCluster, **slurm: Any) -> Site:
            commands = commands_on_head(cluster)
            stack.enter_context(writing_as(cluster.user))
            return Site(cluster.home / ".orlop", commands, cluster.user, **slurm)

        yield on


@contextmanager
def as_root() -> Iterator[None]:
    """For what a test does to a cluster in between."""
    user, group = os.geteuid(), os.getegid()
    os.seteuid(0)
    os.setegid(0)
    try:
        yield
    finally:
        os.setegid(group)
        os.seteuid(user)
