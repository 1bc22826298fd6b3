"""The service `kubernetes` leads to where the API server really is."""

from __future__ import annotations

import pytest

from orlop.api.kinds import ENDPOINT_SLICE, ENDPOINTS
from orlop.api.objects import Key
from orlop.controllers.networking.kubernetes_service import KubernetesService, wanted

from ..world import World, eventually


async def where(cluster: World) -> tuple:
    """Host and port in both objects."""
    endpoints = await cluster.get(ENDPOINTS, "kubernetes")
    one = await cluster.get(ENDPOINT_SLICE, "kubernetes")
    (subset,) = endpoints["subsets"]
    assert one["ports"], "put right in a moment"
    return (
        subset["addresses"][0]["ip"],
        subset["ports"][0]["port"],
        one["endpoints"][0]["addresses"][0],
        one["ports"][0]["port"],
    )


def at(address: str, port: int):
    return lambda informers: KubernetesService(informers._api, informers, address, port)


async def test_its_endpoints_follow_a_control_plane_that_moves(cluster):
    for place in (("192.0.2.7", 6443), ("192.0.2.8", 7443)):
        async with cluster.running(at(*place)):

            async def is_there(place=place):
                assert await where(cluster) == (*place, *place)

            await eventually(is_there)


async def test_what_somebody_changes_or_deletes_is_put_right(cluster):
    async with cluster.running(at("192.0.2.7", 6443)):

        async def is_there():
            assert await where(cluster) == ("192.0.2.7", 6443) * 2

        await eventually(is_there)
        await cluster.api.delete(ENDPOINTS, Key("default", "kubernetes"))
        await cluster.patch(ENDPOINT_SLICE, "kubernetes", {"ports": []})
        await eventually(is_there)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "0.0.0.0", "login.site"])
def test_an_address_that_means_another_host_elsewhere_is_not_published(address):
    assert wanted(address, 6443) == []


def test_an_ipv6_address_is_published_as_one():
    (_, _), (_, one) = wanted("2001:db8::7", 6443)
    assert one["addressType"] == "IPv6"
