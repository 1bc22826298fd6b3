"""NodePort and LoadBalancer services are open at this host, or it is said why not."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from orlop.api.kinds import ENDPOINT_SLICE, EVENT, SERVICE
from orlop.api.objects import Key
from orlop.gateway.backends import Backends
from orlop.gateway.service_ports import ServicePorts

from .conftest import a_service, dial, free_port, soon


def offering(cluster, *, is_offered=True, listen="127.0.0.1", made=None):
    def make(informers):
        ports = ServicePorts(
            cluster.api,
            informers,
            Backends(informers, dial, dial_datagrams=dial_datagrams),
            is_offered=is_offered,
            listen=listen,
            address="192.0.2.7",
        )
        if made is not None:
            made.append(ports)
        return ports

    return make


async def events(cluster):
    return {one["reason"]: one["message"] for one in await cluster.list(EVENT)}


@pytest.fixture
async def echo():
    """Servers that say which one they are, then what they heard."""
    servers = []

    async def start(word):
        async def serve(reader, writer):
            try:
                writer.write(word)
                writer.write(await reader.read())
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        servers.append(server)
        return server.sockets[0].getsockname()[1]

    yield start
    for server in servers:
        server.close()


async def say(port, words, host="127.0.0.1"):
    """What comes back from a connection that sends and then ends its side."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(words)
        writer.write_eof()
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()


async def node_port(cluster):
    service = await cluster.get(SERVICE, "web")
    return service["spec"]["ports"][0]["nodePort"]


async def test_connections_go_to_all_endpoints_and_end_as_they_should(cluster, echo):
    await a_service(cluster, await echo(b"one "), await echo(b"two "), type="NodePort")
    port = await node_port(cluster)
    async with cluster.running(offering(cluster)):

        async def is_open():
            assert await say(port, b"hello")

        await soon(is_open)
        heard = {await say(port, b"hello") for _ in range(30)}
    assert heard == {b"one hello", b"two hello"}
    assert (await events(cluster))["PortOpened"] == f"Reachable at 192.0.2.7:{port}"


class Way:
    """As the kubelet's: here endpoints are at 127.0.0.1."""

    def __init__(self, port):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.connect(("127.0.0.1", port))

    def send(self, data):
        self.socket.send(data)

    async def receive(self, most):
        return await asyncio.get_running_loop().sock_recv(self.socket, most)

    def close(self):
        self.socket.close()


async def dial_datagrams(ip, port, client):
    return Way(port)


class Shouting(asyncio.DatagramProtocol):
    def __init__(self, word):
        self.word = word

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        self.transport.sendto(self.word + data, address)


def shout(sock, port, words, host="127.0.0.1"):
    """What comes back from a datagram; OSError when nothing does."""
    sock.sendto(words, (host, port))
    return sock.recv(100)


@contextlib.asynccontextmanager
async def shouting(cluster, *words):
    """A service of UDP, whose endpoints say which one they are; its port of this host."""
    loop = asyncio.get_running_loop()
    ends = [
        await loop.create_datagram_endpoint(lambda w=w: Shouting(w), ("127.0.0.1", 0))
        for w in words
    ]
    numbers = [transport.get_extra_info("sockname")[1] for transport, _ in ends]
    ports = [{"name": "http", "port": 80, "protocol": "UDP"}]
    await a_service(cluster, *numbers, type="NodePort", ports=ports)
    for one in await cluster.list(ENDPOINT_SLICE):
        one["ports"][0]["protocol"] = "UDP"
        await cluster.api.update(ENDPOINT_SLICE, one)
    yield await node_port(cluster)
    for transport, _ in ends:
        transport.close()


async def test_datagrams_go_both_ways_and_a_client_stays_with_its_endpoint(cluster):
    async with (
        shouting(cluster, b"one ", b"two ") as port,
        cluster.running(offering(cluster)),
    ):
        for _ in range(4):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.settimeout(0.5)

                async def heard(words, sock=sock):
                    return await asyncio.to_thread(shout, sock, port, words)

                first = await soon(lambda heard=heard: heard(b"hello"))
                assert first in (b"one hello", b"two hello")
                sock.settimeout(20)
                assert await heard(b"again") == first[:4] + b"again"


BOTH_FAMILIES = pytest.mark.parametrize("host", ["127.0.0.1", "::1"])


@BOTH_FAMILIES
async def test_at_all_addresses_of_both_families_connections_are_taken(cluster, echo, host):
    await a_service(cluster, await echo(b"one "), type="NodePort")
    port = await node_port(cluster)
    async with cluster.running(offering(cluster, listen="::")):

        async def is_open():
            assert await say(port, b"hello", host) == b"one hello"

        await soon(is_open)


@BOTH_FAMILIES
async def test_at_all_addresses_of_both_families_datagrams_are_answered(cluster, host):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    async with (
        shouting(cluster, b"one ") as port,
        cluster.running(offering(cluster, listen="::")),
    ):
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.settimeout(0.5)

            async def heard():
                return await asyncio.to_thread(shout, sock, port, b"hello", host)

            assert await soon(heard) == b"one hello"


async def test_an_endpoint_that_refuses_is_passed_over(cluster, echo):
    await a_service(cluster, free_port(), await echo(b"two "), type="NodePort")
    port = await node_port(cluster)
    async with cluster.running(offering(cluster)):

        async def is_open():
            assert await say(port, b"hello") == b"two hello"

        await soon(is_open)
        for _ in range(10):
            await is_open()


async def test_a_service_that_is_gone_has_no_port_any_more(cluster, echo):
    await a_service(cluster, await echo(b"one "), type="NodePort")
    port = await node_port(cluster)
    async with cluster.running(offering(cluster)):

        async def is_open():
            assert await say(port, b"x")

        await soon(is_open)
        await cluster.api.delete(SERVICE, Key("default", "web"))

        async def is_closed():
            with pytest.raises(ConnectionRefusedError):
                await say(port, b"x")

        await soon(is_closed)


async def test_of_a_service_that_is_gone_nothing_is_kept_and_its_successor_is_told(cluster):
    made = []
    async with cluster.running(offering(cluster, made=made)):
        for count in (1, 2):
            await a_service(cluster, type="NodePort")

            async def is_told(count=count):
                said = [one for one in await cluster.list(EVENT) if one["reason"] == "PortOpened"]
                assert len({one["involvedObject"]["uid"] for one in said}) == count

            await soon(is_told)
            await cluster.api.delete(SERVICE, Key("default", "web"))

            async def is_forgotten():
                assert made[0]._told == {}

            await soon(is_forgotten)


async def test_a_load_balancer_has_this_hosts_address_once_its_port_is_open(cluster, echo):
    port = free_port()
    await a_service(
        cluster, await echo(b"one "), type="LoadBalancer", ports=[{"name": "http", "port": port}]
    )
    async with cluster.running(offering(cluster)):

        async def has_address():
            found = await cluster.get(SERVICE, "web")
            assert found["status"]["loadBalancer"]["ingress"][0]["ip"] == "192.0.2.7"
            assert await say(port, b"x") == b"one x"

        await soon(has_address)


async def test_a_port_that_cannot_be_had_is_told_with_one_that_can(cluster, echo):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ports = [{"name": "http", "port": port}]
        await a_service(cluster, await echo(b"one "), type="LoadBalancer", ports=ports)
        async with cluster.running(offering(cluster)):

            async def is_told():
                words = (await events(cluster))["PortNotOpened"]
                assert f"cannot listen at 127.0.0.1:{port}: Address already in use" in words
                assert f"Reachable at 192.0.2.7:{await node_port(cluster)}" in words

            await soon(is_told)
    assert not (await cluster.get(SERVICE, "web"))["status"]["loadBalancer"].get("ingress")


async def test_where_it_is_not_allowed_the_service_says_so(cluster):
    await a_service(cluster, type="LoadBalancer")
    async with cluster.running(offering(cluster, is_offered=False)):

        async def is_told():
            words = (await events(cluster))["NotOffered"]
            assert "set `network.node_ports: true`" in words
            assert "kubectl port-forward service/web" in words

        await soon(is_told)


async def test_a_service_without_endpoints_takes_nobody(cluster, echo):
    await a_service(cluster, await echo(b"one "), type="NodePort")
    port = await node_port(cluster)
    async with cluster.running(offering(cluster)):

        async def is_open():
            assert await say(port, b"x")

        await soon(is_open)
        unready = {"endpoints": [{"addresses": ["10.244.0.1"], "conditions": {"ready": False}}]}
        await cluster.patch(ENDPOINT_SLICE, "web-0", unready)

        async def is_empty():
            assert await say(port, b"") == b""

        await soon(is_empty)
