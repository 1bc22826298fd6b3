"""Slurm's limits as a ResourceQuota, where a namespace asks for that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from orlop.api.kinds import NAMESPACE, RESOURCE_QUOTA
from orlop.api.objects import Key
from orlop.controllers.namespaces.slurm_quota import NAME, SlurmQuotas
from tests.controllers import world
from tests.controllers.world import World, stays

MIRROR = "slurm.orlop.dev/mirror-quota"


async def eventually(check: Callable[[], Awaitable[Any]]) -> Any:
    """With the patience that a busy machine wants."""
    return await world.eventually(check, within=60.0)


class Limits:
    def __init__(self, **hard: str) -> None:
        self.hard = {name.replace("_", "."): amount for name, amount in hard.items()}
        self.asked: list[tuple[str, dict]] = []

    async def quota(self, namespace, annotations) -> dict[str, str]:
        self.asked.append((namespace, dict(annotations)))
        return dict(self.hard)


def part(cluster: World, limits: Limits, everywhere: bool = False):
    return lambda informers: SlurmQuotas(
        cluster.api, informers, limits.quota, is_everywhere=everywhere
    )


async def annotate(cluster: World, **notes: str | None) -> None:
    change = {"metadata": {"annotations": notes}}
    await cluster.api.patch(NAMESPACE, Key("", "default"), change)


async def hard(cluster: World) -> dict | None:
    found = await cluster.find(RESOURCE_QUOTA, NAME)
    return found and found["spec"]["hard"]


async def test_a_namespace_that_asks_has_the_limits_of_its_account(cluster):
    limits = Limits(requests_cpu="32", pods="50")
    await annotate(cluster, **{MIRROR: "true", "slurm.orlop.dev/account": "chem"})
    async with cluster.running(part(cluster, limits)):

        async def has(wanted) -> bool:
            return await hard(cluster) == wanted

        await eventually(lambda: has({"requests.cpu": "32", "pods": "50"}))
        assert limits.asked[0][1]["slurm.orlop.dev/account"] == "chem"
        limits.hard = {"requests.cpu": "16"}
        await annotate(cluster, touched="yes")
        await eventually(lambda: has({"requests.cpu": "16"}))
        await annotate(cluster, **{MIRROR: None})
        await eventually(lambda: has(None))


async def test_others_have_none_unless_the_configuration_says_all(cluster):
    async def has_none() -> bool:
        return await hard(cluster) is None

    async def has_one() -> bool:
        return not await has_none()

    async with cluster.running(part(cluster, Limits(pods="5"))):
        await stays(has_none)
    async with cluster.running(part(cluster, Limits(pods="5"), everywhere=True)):
        await eventually(has_one)
        assert not await cluster.list(RESOURCE_QUOTA, "kube-system")


async def test_a_quota_of_the_users_own_is_left_alone(cluster):
    own = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": NAME},
        "spec": {"hard": {"pods": "1"}},
    }
    await cluster.create(RESOURCE_QUOTA, own)
    await annotate(cluster, **{MIRROR: "true"})
    async with cluster.running(part(cluster, Limits(pods="5"))):

        async def is_same() -> bool:
            return await hard(cluster) == {"pods": "1"}

        await stays(is_same)
