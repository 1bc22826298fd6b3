"""What is used is counted, and given back when it goes."""

from __future__ import annotations

import asyncio

from orlop import errors
from orlop.api.kinds import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    POD,
    RESOURCE_QUOTA,
    SERVICE,
    Kind,
)
from orlop.api.objects import Key
from orlop.controllers.namespaces.resourcequota import ResourceQuotas
from tests.controllers.world import NAMESPACE, World, eventually, pod

WIDGET = Kind("example.com", "v1", "Widget", "widgets", True)


def quotas(cluster: World):
    return lambda informers: ResourceQuotas(cluster.api, informers)


async def quota(cluster: World, hard: dict, name: str = "q", **spec) -> None:
    metadata = {"name": name, "namespace": NAMESPACE}
    await cluster.create(RESOURCE_QUOTA, {"metadata": metadata, "spec": {"hard": hard, **spec}})


async def is_used(cluster: World, expected: dict, name: str = "q") -> bool:
    return (await cluster.get(RESOURCE_QUOTA, name))["status"]["used"] == expected


async def test_what_was_there_before_the_quota_counts(cluster):
    await cluster.create(POD, pod("a"))
    await cluster.create(CONFIG_MAP, {"metadata": {"name": "c", "namespace": NAMESPACE}})
    hard = {"pods": "5", "configmaps": "10", "services": "1", "secrets": "4"}
    async with cluster.running(quotas(cluster)):
        await quota(cluster, hard)
        expected = {"pods": "1", "configmaps": "1", "services": "1", "secrets": "0"}
        await eventually(lambda: is_used(cluster, expected))  # the service is kubernetes itself
        assert (await cluster.get(RESOURCE_QUOTA, "q"))["status"]["hard"] == hard


async def test_what_goes_or_ends_is_given_back(cluster):
    async with cluster.running(quotas(cluster)):
        await quota(cluster, {"pods": "2", "count/pods": "9"})
        await eventually(lambda: is_used(cluster, {"pods": "0", "count/pods": "0"}))
        for name in ("a", "b"):
            await cluster.create(POD, pod(name))
        assert await is_used(cluster, {"pods": "2", "count/pods": "2"})
        await cluster.patch(POD, "a", {"status": {"phase": "Succeeded"}}, subresource="status")
        await eventually(lambda: is_used(cluster, {"pods": "1", "count/pods": "2"}))
        await cluster.api.delete(POD, Key(NAMESPACE, "b"))
        await eventually(lambda: is_used(cluster, {"pods": "0", "count/pods": "1"}))


async def test_a_charge_for_what_was_never_made_is_taken_back(cluster):
    async with cluster.running(quotas(cluster)):
        await quota(cluster, {"pods": "5"})
        await eventually(lambda: is_used(cluster, {"pods": "0"}))
        await cluster.create(POD, pod("a"))
        for _ in range(2):
            try:
                await cluster.create(POD, pod("a"))
            except errors.AlreadyExists:
                continue
        await eventually(lambda: is_used(cluster, {"pods": "1"}))


async def test_under_constant_change_never_more_than_allowed_is_there(cluster):
    """Makers and deleters at once: what was acknowledged and not deleted stays within bounds."""
    async with cluster.running(quotas(cluster)):
        await quota(cluster, {"pods": "3"})
        await eventually(lambda: is_used(cluster, {"pods": "0"}))
        most = 0

        async def churn(worker: int) -> None:
            nonlocal most
            for number in range(10):
                name = f"p{worker}-{number}"
                try:
                    await cluster.create(POD, pod(name))
                except errors.Forbidden:
                    await asyncio.sleep(0.05)
                    continue
                most = max(most, len(await cluster.list(POD)))
                await cluster.api.delete(POD, Key(NAMESPACE, name))

        await asyncio.gather(*(churn(worker) for worker in range(6)))
        assert 0 < most <= 3
        await eventually(lambda: is_used(cluster, {"pods": "0"}))


async def test_a_quota_may_be_raised_and_lowered(cluster):
    async with cluster.running(quotas(cluster)):
        await quota(cluster, {"services": "5"})
        await eventually(lambda: is_used(cluster, {"services": "1"}))
        change = {"spec": {"hard": {"services": None, "services.nodeports": "1"}}}
        await cluster.patch(RESOURCE_QUOTA, "q", change)
        await eventually(lambda: is_used(cluster, {"services.nodeports": "0"}))
        service = {"metadata": {"name": "s", "namespace": NAMESPACE},
                   "spec": {"type": "NodePort", "ports": [{"port": 80}]}}  # fmt: skip
        await cluster.create(SERVICE, service)
        await cluster.patch(SERVICE, "s", {"spec": {"type": "ClusterIP"}})
        await eventually(lambda: is_used(cluster, {"services.nodeports": "0"}))


async def test_custom_kinds_are_counted(cluster):
    names = {"kind": "Widget", "plural": "widgets", "singular": "widget"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    await cluster.create(
        CUSTOM_RESOURCE_DEFINITION,
        {
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": names,
                "versions": [version],
            },
        },
    )
    widget = {"metadata": {"name": "w", "namespace": NAMESPACE}}
    await eventually(lambda: cluster.create(WIDGET, dict(widget)))
    async with cluster.running(quotas(cluster)):
        await quota(cluster, {"count/widgets.example.com": "1"})
        await eventually(lambda: is_used(cluster, {"count/widgets.example.com": "1"}))
        await cluster.api.delete(WIDGET, Key(NAMESPACE, "w"))
        await eventually(lambda: is_used(cluster, {"count/widgets.example.com": "0"}))
        await cluster.create(WIDGET, dict(widget))
        assert await is_used(cluster, {"count/widgets.example.com": "1"})
