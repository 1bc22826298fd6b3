"""Endpoints that people write by hand have slices that say the same."""

from __future__ import annotations

import pytest

from orlop.api.kinds import ENDPOINT_SLICE, ENDPOINTS, SERVICE
from orlop.api.objects import Key
from orlop.controllers.networking.endpointslice_mirroring import (
    EndpointSliceMirroring,
    should_mirror,
    slices_of,
)

from ..world import World, eventually

PORTS = [{"name": "sql", "port": 5432, "protocol": "TCP"}]


def endpoints(*ips: str, unready: tuple = (), **metadata) -> dict:
    subset: dict = {"addresses": [{"ip": ip} for ip in ips], "ports": PORTS}
    if unready:
        subset["notReadyAddresses"] = [{"ip": ip} for ip in unready]
    names = {"name": "db", "namespace": "default", "uid": "u"}
    return {"metadata": {**names, **metadata}, "subsets": [subset]}


SERVICE_OF_DB = {"metadata": {"name": "db"}, "spec": {"ports": [{"name": "sql", "port": 5432}]}}


def test_a_slice_for_each_family_with_who_is_ready():
    made = list(slices_of(endpoints("192.0.2.1", "2001:db8::1", unready=("192.0.2.2",))))
    assert [one["addressType"] for one in made] == ["IPv4", "IPv6"]
    assert made[0]["endpoints"] == [
        {"addresses": ["192.0.2.1"], "conditions": {"ready": True}},
        {"addresses": ["192.0.2.2"], "conditions": {"ready": False}},
    ]
    assert made[0]["ports"] == PORTS
    assert made[0]["metadata"]["labels"]["kubernetes.io/service-name"] == "db"


@pytest.mark.parametrize(
    ("service", "metadata", "expected"),
    [
        (SERVICE_OF_DB, {}, True),
        (None, {}, False),
        ({"metadata": {}, "spec": {"selector": {"a": "b"}}}, {}, False),
        (SERVICE_OF_DB, {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}, False),
        (SERVICE_OF_DB, {"annotations": {"control-plane.alpha.kubernetes.io/leader": "x"}}, False),
    ],
    ids=["by hand", "no service", "selected", "not wanted", "a lock of old"],
)
def test_whose_endpoints_are_mirrored(service, metadata, expected):
    assert should_mirror(endpoints("192.0.2.1", **metadata), service) is expected


async def test_slices_follow_the_endpoints_and_go_with_them(cluster: World):
    async with cluster.running(lambda informers: EndpointSliceMirroring(cluster.api, informers)):
        await cluster.create(SERVICE, SERVICE_OF_DB)
        body = endpoints("192.0.2.1")
        body["metadata"].pop("uid")
        await cluster.create(ENDPOINTS, body)

        async def mirrored(*expected):
            slices = await cluster.list(ENDPOINT_SLICE, labels="kubernetes.io/service-name=db")
            found = [a for one in slices for e in one["endpoints"] for a in e["addresses"]]
            assert sorted(found) == sorted(expected)

        await eventually(lambda: mirrored("192.0.2.1"))
        change = {"subsets": [{"addresses": [{"ip": "192.0.2.3"}], "ports": PORTS}]}
        await cluster.patch(ENDPOINTS, "db", change)
        await eventually(lambda: mirrored("192.0.2.3"))
        await cluster.api.delete(ENDPOINTS, Key("default", "db"))
        await eventually(lambda: mirrored())
