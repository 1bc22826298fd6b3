"""The controllers of Slurm's own jobs over a real API server and a Slurm in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orlop.api.kinds import NODE
from orlop.api.objects import Obj
from orlop.api.schema import Schema, load
from orlop.client.informer import Informers
from orlop.extensions.bundled import BundledKinds
from orlop.extensions.slurmjob.assembly import SlurmObjects
from orlop.extensions.slurmjob.kinds import SLURM_JOB
from orlop.settings import NetworkSettings, Paths, Settings, SlurmSettings
from tests.controllers.world import World, eventually, world
from tests.extensions.bridgejob.conftest import s3
from tests.extensions.slurmjob.slurm import FakeSlurm

__all__ = ["s3"]

TICKS = SlurmSettings(busy_tick=0.02, idle_tick=0.02)


@pytest.fixture(scope="session")
def schema() -> Schema:
    return load(None)


class Together:
    """All controllers as one, as the control plane runs them."""

    def __init__(self, objects: SlurmObjects) -> None:
        self.objects = objects

    async def run(self) -> None:
        import asyncio

        async with asyncio.TaskGroup() as group:
            for controller in self.objects.controllers():
                group.create_task(controller.run())


@dataclass
class Site:
    cluster: World
    slurm: FakeSlurm
    paths: Paths
    settings: SlurmSettings = TICKS

    @asynccontextmanager
    async def running(self) -> AsyncIterator[SlurmObjects]:
        made: list[SlurmObjects] = []

        def objects(informers: Informers) -> Together:
            network = NetworkSettings(allow_destinations=["127.0.0.1"])  # where the S3 server is
            settings = Settings(slurm=self.settings, network=network)
            made.append(SlurmObjects(self.cluster.api, informers, self.slurm, settings, self.paths))
            return Together(made[0])

        async with self.cluster.running(
            lambda informers: BundledKinds(self.cluster.api, informers), objects
        ):
            yield made[0]

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
