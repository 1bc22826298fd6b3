"""The controllers of Slurm's own jobs over a real API server and a Slurm in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from orlop.api.kinds import NODE
from orlop.api.objects import Obj
from orlop.api.schema import Schema, load
from orlop.client.clock import SystemClock
from orlop.client.informer import Informers
from orlop.controllers.framework.controller import Runnable
from orlop.extensions.extension import Host, Outputs
from orlop.extensions.registry import ENTRIES, Extensions
from orlop.extensions.slurmjob.kinds import SLURM_JOB
from orlop.settings import NetworkSettings, Paths, Settings, SlurmSettings
from orlop.slurm.submit.user_slurm import UserSlurm
from tests.controllers.world import World, eventually, world
from tests.extensions.slurmjob.slurm import FakeSlurm

TICKS = SlurmSettings(busy_tick=0.02, idle_tick=0.02)


@pytest.fixture(scope="session")
def schema() -> Schema:
    return load(None)


class Together:
    """Controllers as one, side by side as the control plane runs them."""

    def __init__(self, controllers: Iterable[Runnable]) -> None:
        self._controllers = list(controllers)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for controller in self._controllers:
                group.create_task(controller.run(), name=controller.name)


@dataclass
class Site:
    cluster: World
    slurm: FakeSlurm
    paths: Paths
    settings: SlurmSettings = TICKS

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Outputs]:
        """Run what has programs run; what it yields says where a container of a pod prints to."""
        outputs: list[Outputs] = []
        extensions = Extensions(entries=[one for one in ENTRIES if one.is_unconfined])

        def objects(informers: Informers) -> Together:
            return Together(extensions.controllers(self.host(informers, outputs.append)))

        async with self.cluster.running(objects):
            yield lambda pod, container: outputs[-1](pod, container)

    def host(
        self, informers: Informers, show_outputs: Callable[[Outputs], None] = lambda outputs: None
    ) -> Host:
        network = NetworkSettings(allow_destinations=["127.0.0.1"])  # where the S3 server is
        return Host(
            client=lambda user: self.cluster.api,
            informers=informers,
            clock=SystemClock(),
            settings=Settings(slurm=self.settings, network=network),
            paths=self.paths,
            slurm=cast("UserSlurm", self.slurm),
            show_outputs=show_outputs,
        )

    async def create(self, name: str, **spec: Any) -> Obj:
        spec = spec if "script" in spec else {"command": ["true"], **spec}

        async def made() -> Obj:  # the kind may not be served yet
            body = {"metadata": {"name": name}, "spec": spec}
            return await self.cluster.create(SLURM_JOB, body)

        return await eventually(made, within=60)

    async def status(self, name: str) -> Obj:
        return (await self.cluster.get(SLURM_JOB, name)).get("status") or {}

    async def reach(self, name: str, **fields: Any) -> Obj:
        """Wait until the status says so."""

        async def reached() -> Obj:
            status = await self.status(name)
            for field, value in fields.items():
                assert status.get(field) == value, status
            return status

        return await eventually(reached, within=60)


@pytest.fixture
async def site(tmp_path: Path, schema: Schema) -> AsyncIterator[Site]:
    async with world(tmp_path, schema) as cluster:
        labels = {"slurm.orlop.dev/partition": "main"}
        await cluster.create(NODE, {"metadata": {"name": "main", "labels": labels}})
        yield Site(cluster, FakeSlurm(), Paths(tmp_path / "home"))
