"""A world with services whose endpoints are servers of the test's own."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
import pytest
from aiohttp import web

from orlop import pki
from orlop.api.kinds import ENDPOINT_SLICE, SERVICE
from orlop.api.schema import load
from orlop.gateway.backends import Backends
from orlop.gateway.ingress import HostPorts, IngressRouter
from tests.controllers.world import eventually, world

KEY = "ab" * 32  # the cluster's own


@pytest.fixture(scope="session")
def schema():
    return load(None)


@pytest.fixture
async def cluster(tmp_path, schema):
    async with world(tmp_path, schema) as made:
        yield made


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


async def dial(ip, port, client=None):
    """As the kubelet dials: an endpoint's address is a host of the test, 127.0.0.1."""
    sock = socket.socket()
    sock.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    except BaseException:
        sock.close()
        raise
    return sock


@pytest.fixture
async def backend():
    """Starts web servers that tell what they were asked; the port."""
    runners = []

    async def start(handler):
        runner = web.ServerRunner(web.Server(handler))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        runners.append(runner)
        return runner.addresses[0][1]

    yield start
    for runner in runners:
        await runner.cleanup()


async def a_service(cluster, *ports, name="web", **spec):
    """A service whose endpoints are at these ports of this host."""
    made = await cluster.create(
        SERVICE,
        {
            "metadata": {"name": name},
            "spec": {"ports": [{"name": "http", "port": 80}], **spec},
        },
    )
    for number, port in enumerate(ports):
        one = {
            "metadata": {
                "name": f"{name}-{number}",
                "labels": {"kubernetes.io/service-name": name},
            },
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": port}],
            "endpoints": [{"addresses": [f"10.244.0.{number + 1}"]}],
        }
        await cluster.create(ENDPOINT_SLICE, one)
    return made


async def soon(check):
    """`eventually`, for what cannot even be connected to at first."""

    async def tried():
        try:
            return await check()
        except (OSError, aiohttp.ClientError) as error:
            raise AssertionError(error) from error

    return await eventually(tried)


def an_ingress(host="shop.example", path="/", service="web", **spec):
    backend = {"service": {"name": service, "port": {"name": "http"}}}
    paths = [{"path": path, "pathType": "Prefix", "backend": backend}]
    rules = [{"host": host, "http": {"paths": paths}}]
    return {"metadata": {"name": "shop"}, "spec": {"rules": rules, **spec}}


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return pki.ensure(tmp_path_factory.mktemp("pki"), ["127.0.0.1"])


@pytest.fixture
def ports():
    return free_port(), free_port()


@pytest.fixture
def router(cluster, authority, ports):
    def make(informers, ports=ports, listen="127.0.0.1", dial=dial):
        return IngressRouter(
            cluster.api,
            informers,
            Backends(informers, dial),
            at=HostPorts(listen, ports, "192.0.2.7"),
            tls=authority.server_context(authority.apiserver),
            key=KEY,
        )

    return make


async def told(request):
    """What a backend was asked, as it saw it."""
    body = await request.read()
    return web.json_response(
        {
            "method": request.method,
            "path": request.raw_path,
            "headers": {name.lower(): value for name, value in request.headers.items()},
            "body": body.decode(),
        },
        headers={"X-Backend": "yes"},
    )
