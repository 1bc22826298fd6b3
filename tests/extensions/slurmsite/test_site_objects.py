"""Partitions, accounts, QOS and reservations as objects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from orlop import errors
from orlop.api.objects import Key, Obj, meta
from orlop.extensions.bundled import BundledKinds
from orlop.extensions.registry import definitions
from orlop.extensions.slurmjob.kinds import USER
from orlop.extensions.slurmsite.kinds import PARTITION
from orlop.extensions.slurmsite.site_objects import SiteObjects, object_name
from orlop.slurm.commands import Commands
from orlop.slurm.query.site import Facts
from tests.controllers.world import eventually
from tests.extensions.slurmjob.conftest import Site


class Slurm:
    def __init__(self, **facts: dict[str, object]) -> None:
        self.facts: Facts = dict(facts)

    async def ask(self, commands: Commands) -> Facts:
        return self.facts


@asynccontextmanager
async def shown(site: Site, slurm: Slurm) -> AsyncIterator[None]:
    api = site.cluster.server.client(USER, ["system:masters"])
    async with site.cluster.running(
        lambda informers: BundledKinds(site.cluster.api, informers, definitions()),
        lambda informers: SiteObjects(
            api,
            informers,
            Commands({}),
            every=0.05,
            asked=((PARTITION, slurm.ask, 1),),
        ),
    ):
        yield


async def found(site: Site) -> dict[str, Obj]:
    return {meta(one)["name"]: one for one in await site.cluster.list(PARTITION)}


async def test_objects_come_change_and_go_with_what_slurm_says(site: Site) -> None:
    slurm = Slurm(main={"name": "main", "availability": "up"}, old={"name": "old"})
    async with shown(site, slurm):

        async def both() -> None:
            assert set(await found(site)) == {"main", "old"}

        await eventually(both, within=60)
        slurm.facts = {"main": {"name": "main", "availability": "down"}}

        async def one() -> None:
            now = await found(site)
            assert set(now) == {"main"}
            assert now["main"]["status"]["availability"] == "down"

        await eventually(one, within=60)


async def test_nobody_else_changes_them_and_all_are_told_who_does(site: Site) -> None:
    api, main = site.cluster.api, Key("", "main")
    async with shown(site, Slurm(main={"name": "main"})):

        async def there() -> Obj:
            return (await found(site))["main"]

        await eventually(there, within=60)
        words = r'slurmpartitions.slurm.orlop.dev "main" is forbidden: .* read-only; `scontrol'
        with pytest.raises(errors.Forbidden, match=words):
            await api.delete(PARTITION, main)
        with pytest.raises(errors.Forbidden, match=words):
            await api.patch(PARTITION, main, {"status": {"availability": "down"}})
        with pytest.raises(errors.Forbidden, match="read-only"):
            await api.create(PARTITION, {"metadata": {"name": "mine"}})


async def test_what_does_not_change_is_not_written(site: Site) -> None:
    slurm = Slurm(main={"name": "main"})
    async with shown(site, slurm):

        async def there() -> str:
            return meta((await found(site))["main"])["resourceVersion"]

        first = await eventually(there, within=60)
        slurm.facts = {**slurm.facts, "more": {"name": "more"}}

        async def more() -> None:
            assert "more" in await found(site)

        await eventually(more, within=60)
        assert await there() == first


@pytest.mark.parametrize(
    ("name", "is_kept"), [("main", True), ("gpu_long", False), ("Main", False), ("a.b-c", True)]
)
def test_names_that_objects_can_have_are_kept(name: str, is_kept: bool) -> None:
    assert (object_name(name) == name) is is_kept


def test_names_that_are_alike_stay_apart() -> None:
    assert len({object_name(name) for name in ("gpu-long", "gpu_long", "GPU_long", "_")}) == 4
