"""Logs come through from the kubelet: options, errors, following, and letting go."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from orlop.api import kinds
from orlop.api.objects import Key

LOG = "/api/v1/namespaces/default/pods/a/log"


@dataclass
class Kubelet:
    """Speaks the kubelet's side of the protocol over real TLS, and remembers what was asked."""

    port: int = 0
    asked: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(str(request.rel_url))
        assert request.transport is not None
        certificate = request.transport.get_extra_info("peercert")
        self.users += [v for rdn in certificate["subject"] for k, v in rdn if k == "commonName"]
        if "previous" in request.query:
            return web.Response(status=400, text='previous terminated container "main" not found')
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        await response.write(b"first\n")
        try:
            while "follow" in request.query:
                await asyncio.sleep(0.02)
                await response.write(b"more\n")
        except (asyncio.CancelledError, ConnectionError):
            self.left.set()
            raise
        return response


@pytest.fixture
async def kubelet(authority) -> AsyncIterator[Kubelet]:
    fake = Kubelet()
    server = web.Server(fake.handle, handler_cancellation=True)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    tls: ssl.SSLContext = authority.server_context(authority.kubelet)
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    fake.port = runner.addresses[0][1]
    yield fake
    await runner.cleanup()


@pytest.fixture
async def bound(local, kubelet, pod) -> None:
    status = {
        "addresses": [{"type": "Hostname", "address": "n1"},
                      {"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port}},
    }  # fmt: skip
    await local.create(kinds.NODE, {"metadata": {"name": "n1"}, "status": status})
    await local.create(kinds.POD, pod("a"))
    await local.create_subresource(
        kinds.POD, Key("default", "a"), "binding", {"target": {"name": "n1"}}
    )


async def test_the_kubelet_is_asked_with_the_same_options_and_our_certificate(
    http, kubelet, bound
) -> None:
    reply = await http("GET", f"{LOG}?tailLines=5&timestamps=true&container=main")
    assert (reply.code, reply.text) == (200, "first\n")
    assert reply.headers["Content-Type"].startswith("text/plain")
    assert kubelet.asked == ["/containerLogs/default/a/main?tailLines=5&timestamps=true"]
    assert kubelet.users, "it shows who it is"


async def test_what_is_followed_arrives_as_it_is_written_and_ends_with_the_client(
    http, kubelet, bound
) -> None:
    async with http.session.get(f"{http.url}{LOG}?follow=true") as response:
        async with asyncio.timeout(5):
            assert await response.content.readline() == b"first\n"
            assert await response.content.readline() == b"more\n"
    async with asyncio.timeout(5):
        await kubelet.left.wait()


async def test_the_kubelets_refusal_is_passed_on(http, kubelet, bound) -> None:
    reply = await http("GET", f"{LOG}?previous=true")
    assert (reply.code, reply.json["reason"]) == (400, "BadRequest")
    assert reply.json["message"] == 'previous terminated container "main" not found'


async def test_a_kubelet_that_does_not_answer_is_named(http, local, kubelet, bound) -> None:
    dead = {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 1}}}}
    await local.patch(kinds.NODE, Key("", "n1"), dead, subresource="status")
    reply = await http("GET", LOG)
    assert reply.code == 500
    assert "kubelet of node n1 cannot be reached" in reply.json["message"]


async def test_a_pod_without_a_node_has_printed_nothing(http, local, pod) -> None:
    await local.create(kinds.POD, pod("a"))
    reply = await http("GET", LOG)
    assert (reply.code, reply.text) == (200, "")


async def test_the_container_must_be_clear(http, local, pod) -> None:
    two = pod("a")
    two["spec"]["containers"].append({"name": "side", "image": "i"})
    two["spec"]["initContainers"] = [{"name": "setup", "image": "i"}]
    await local.create(kinds.POD, two)
    reply = await http("GET", LOG)
    assert reply.code == 400
    assert reply.json["message"] == (
        "a container name must be specified for pod a, choose one of: [main side] "
        "or one of the init containers: [setup]"
    )
    reply = await http("GET", f"{LOG}?container=none")
    assert reply.json["message"] == "container none is not valid for pod a"
    assert (await http("GET", f"{LOG}?container=setup")).code == 200
