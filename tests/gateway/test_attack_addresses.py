"""Services that would have the control plane connect to itself, by Ingresses and node ports."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
import pytest

from orlop import errors
from orlop.api.kinds import ENDPOINT_SLICE, ENDPOINTS, INGRESS, SERVICE
from orlop.api.objects import Key
from orlop.destinations import Destinations, Refused
from orlop.gateway.backends import Backends
from orlop.network.services import SERVICE_NAME
from tests.gateway.conftest import an_ingress, soon, told

NAMES = ["localhost", "127.0.0.1", "127.1", "0x7f000001", "2130706433", "0.0.0.0", "0"]


async def straight(ip, port, client=None):
    """As the kubelet dials what is no pod: that very address."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, (ip, port))
    return sock


@pytest.fixture
async def secret(backend):
    """What listens at this host's loopback for itself; its port, and what it was asked."""
    asked = []

    async def handle(request):
        asked.append(request.path)
        return await told(request)

    return await backend(handle), asked


def by_name(name, port):
    ports = [{"name": "http", "port": port}]
    return {"type": "ExternalName", "externalName": name, "ports": ports}


@pytest.mark.parametrize("name", NAMES)
async def test_an_ingress_is_no_way_to_loopback_by_a_name(cluster, router, ports, secret, name):
    port, asked = secret
    await cluster.create(SERVICE, {"metadata": {"name": "web"}, "spec": by_name(name, port)})
    ingress = an_ingress(ingressClassName="orlop")
    path = ingress["spec"]["rules"][0]["http"]["paths"][0]
    path["backend"]["service"]["port"] = {"number": port}
    await cluster.create(INGRESS, ingress)

    async def refused():
        url = f"http://127.0.0.1:{ports[0]}/secret"
        get = aiohttp.request("GET", url, headers={"Host": "shop.example"})
        async with get as reply:
            assert reply.status == 502, await reply.text()
            assert "network.allow_destinations" in await reply.text()

    async with cluster.running(lambda informers: router(informers, dial=straight)):
        await soon(refused)
    assert asked == []


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1"])
@pytest.mark.parametrize("group", ["addresses", "notReadyAddresses"])
async def test_endpoints_of_nobodys_address_are_not_let_in(cluster, address, group):
    one = {"metadata": {"name": "web"}, "subsets": [
        {group: [{"ip": address}], "ports": [{"port": 80}]}]}  # fmt: skip
    with pytest.raises(errors.Invalid, match=r"subsets\[0\].*may not be"):
        await cluster.create(ENDPOINTS, one)


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "IPv4"),
        ("::1", "IPv6"),
        ("::ffff:127.0.0.1", "IPv6"),
        ("64:ff9b::7f00:1", "IPv6"),
        ("2002:7f00:1::", "IPv6"),
        ("fe80::1", "IPv6"),
        ("::", "IPv6"),
        ("169.254.169.254", "IPv4"),
    ],
)
async def test_nor_slices_of_such(cluster, address, kind):
    one = a_slice(address, 80) | {"addressType": kind}
    with pytest.raises(errors.Invalid, match="may not be"):
        await cluster.create(ENDPOINT_SLICE, one)


def a_slice(address, port):
    return {
        "metadata": {"name": "web-0", "labels": {SERVICE_NAME: "web"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
    }


@pytest.mark.parametrize("allowed", [[], ["127.0.0.1"]])
async def test_what_was_let_in_earlier_is_looked_at_when_it_is_dialled(cluster, secret, allowed):
    """As the settings have it, for TCP and for UDP."""
    port, _ = secret
    spec = {"ports": [{"name": "http", "port": 80}, {"name": "u", "port": 53, "protocol": "UDP"}]}
    await cluster.create(SERVICE, {"metadata": {"name": "web"}, "spec": spec})
    old = a_slice("127.0.0.1", port)
    old["metadata"] |= {"namespace": "default", "uid": "u"}
    old["ports"].append({"name": "u", "port": port, "protocol": "UDP"})
    await cluster.store.create(ENDPOINT_SLICE.resource, Key("default", "web-0"), old)
    dialled = []

    async def datagrams(ip, port, client):
        dialled.append((ip, port))

    made = []

    def backends(informers):
        destinations = Destinations.of(allowed)
        made.append(Backends(informers, straight, None, datagrams, destinations))
        return Nothing()

    async with cluster.running(backends):
        key = Key("default", "web")

        async def known():
            assert made[0].services.get(key)

        await soon(known)
        if allowed:
            (await made[0].connect(key, 80)).close()
            await made[0].datagrams(key, 53, ("192.0.2.1", 1))
            assert dialled == [("127.0.0.1", port)]
            return
        with pytest.raises(Refused, match="loopback"):
            await made[0].connect(key, 80)
        with pytest.raises(Refused, match="loopback"):
            await made[0].datagrams(key, 53, ("192.0.2.1", 1))
    assert dialled == []


class Nothing:
    name = "nothing"

    async def run(self):
        await asyncio.Event().wait()
