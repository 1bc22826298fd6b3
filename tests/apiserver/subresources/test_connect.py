"""exec, attach and portforward go through to the kubelet: options, bytes, errors, letting go."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from orlop.api import kinds
from orlop.api.objects import Key
from orlop.upgrade import Taken, take_over

EXEC = "/api/v1/namespaces/default/pods/a/exec"
PODS = "/api/v1/namespaces/default/pods"


@dataclass
class Kubelet:
    """Echoes what comes after an upgrade, over real TLS, and remembers what was asked."""

    port: int = 0
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.rel_url}")
        self.headers.append(dict(request.headers))
        if "refuse" in request.query.getall("command", []):
            return web.Response(status=500, text='container not found ("main")')
        reader, writer = take_over(request)
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\n\r\n")
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        self.left.set()
        writer.close()
        return Taken()


@pytest.fixture
async def kubelet(authority) -> AsyncIterator[Kubelet]:
    fake = Kubelet()
    runner = web.ServerRunner(web.Server(fake.handle), shutdown_timeout=0.1)
    await runner.setup()
    tls: ssl.SSLContext = authority.server_context(authority.kubelet)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    fake.port = runner.addresses[0][1]
    yield fake
    await runner.cleanup()


@pytest.fixture
async def bound(local, kubelet, pod) -> None:
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port}},
    }
    await local.create(kinds.NODE, {"metadata": {"name": "n1"}, "status": status})
    for name in ("a", "unbound"):
        await local.create(kinds.POD, pod(name))
    target = {"target": {"name": "n1"}}
    await local.create_subresource(kinds.POD, Key("default", "a"), "binding", target)


async def dial(site, path, method="POST", **headers):
    """An upgrade by the administrator; the answer's head and the connection."""
    tls = site.authority.client_context(site.authority.admin)
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port, ssl=tls)
    sent = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "Content-Length": "0", **headers}
    lines = [f"{method} {path} HTTP/1.1", "Host: k", *(f"{k}: {v}" for k, v in sent.items())]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    return (await reader.readuntil(b"\r\n\r\n")).decode(), reader, writer


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        (
            f"{EXEC}?command=sh&command=-c&command=a%26b%20c&stdin=true&stdout=true&tty=true",
            "/exec/default/a/main?input=1&output=1&tty=1&command=sh&command=-c&command=a%26b+c",
        ),
        (f"{EXEC}?container=main&stderr=1&command=x", "/exec/default/a/main?error=1&command=x"),
        (f"{PODS}/a/attach?stdout=true&stdin=false", "/attach/default/a/main?output=1"),
        (f"{PODS}/a/portforward?ports=80&ports=81", "/portForward/default/a?ports=80&ports=81"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_the_kubelet_is_asked_in_its_own_words(
    site, kubelet, bound, path, asked, method
) -> None:
    head, _, writer = await dial(site, path, method)
    assert head.startswith("HTTP/1.1 101")
    assert kubelet.asked == [f"{method} {asked}"]
    writer.close()


async def test_headers_of_the_upgrade_go_with_it_and_no_others(site, kubelet, bound) -> None:
    sent = {"X-Stream-Protocol-Version": "v4.channel.k8s.io", "Authorization": "Bearer secret"}
    _, _, writer = await dial(site, f"{EXEC}?command=a&stdout=1", **sent)
    assert kubelet.headers[0]["X-Stream-Protocol-Version"] == "v4.channel.k8s.io"
    assert "Authorization" not in kubelet.headers[0]
    writer.close()


async def test_bytes_go_through_both_ways_untouched(site, kubelet, bound) -> None:
    data = bytes(range(256)) * 8192
    _, reader, writer = await dial(site, f"{EXEC}?command=a&stdout=1")
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        writer.write(data)
        tasks.create_task(writer.drain())
        assert await reader.readexactly(len(data)) == data
    writer.close()
    async with asyncio.timeout(5):
        await kubelet.left.wait()


async def test_the_kubelets_refusal_is_the_answer(site, kubelet, bound) -> None:
    head, reader, writer = await dial(site, f"{EXEC}?command=refuse&stdout=1")
    assert head.startswith("HTTP/1.1 500")
    assert await reader.readexactly(28) == b'container not found ("main")'
    writer.close()


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        (f"{PODS}/nobody/exec?command=a", 404, 'pods "nobody" not found'),
        (f"{PODS}/unbound/exec?command=a", 400, "pod unbound does not have a host assigned"),
        (f"{EXEC}?command=a&container=x", 400, "container x is not valid for pod a"),
        (f"{EXEC}?command=a&stdout=1", 400, "Upgrade request required"),
    ],
)
async def test_what_cannot_be_is_said_in_upstreams_words(http, bound, path, code, words) -> None:
    reply = await http("POST", path)
    assert (reply.code, reply.json["message"]) == (code, words)


async def test_a_node_that_is_away_is_an_error(site, local, bound) -> None:
    node = await local.get(kinds.NODE, Key("", "n1"))
    node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] = 1
    await local.update(kinds.NODE, node, subresource="status")
    head, _, writer = await dial(site, f"{EXEC}?command=a&stdout=1")
    assert head.startswith("HTTP/1.1 500")
    writer.close()


async def test_who_may_not_is_told_so_by_the_subresources_name(site, bound) -> None:
    async with site.http("") as nobody:
        assert (await nobody("POST", f"{EXEC}?command=a")).code == 401
    async with site.http("jane") as jane:
        for method, verb in (("GET", "get"), ("POST", "create")):
            reply = await jane(method, f"{EXEC}?command=a")
            assert reply.code == 403
            assert f'cannot {verb} resource "pods/exec"' in reply.json["message"]
