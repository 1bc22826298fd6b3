"""Real webhooks over HTTPS, configurations that name them, and a kubelet that forwards ports."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import WSMsgType, web

from orlop import pki
from orlop.api import kinds
from orlop.api.objects import Key
from tests.apiserver.conftest import Http, Site

Obj = dict[str, Any]
GROUP = "/apis/admissionregistration.k8s.io/v1"
PODS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


def patch(*operations: Obj) -> Obj:
    """An answer that changes the object."""
    data = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": data}


def add(path: str, value: Any) -> Obj:
    return {"op": "add", "path": path, "value": value}


@dataclass
class Hook:
    """Answers every review with what `answer` makes of its request; remembers them all."""

    authority: pki.Pki
    port: int = 0
    answer: Callable[[Obj], Obj] = lambda request: {"allowed": True}
    requests: list[Obj] = field(default_factory=list)
    reviews: list[Obj] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    reply: Callable[[Obj], web.Response] | None = None
    delay: float = 0.0

    @property
    def bundle(self) -> str:
        return base64.b64encode(self.authority.ca.read_bytes()).decode()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        review = await request.json()
        self.reviews.append(review)
        self.requests.append(review["request"])
        self.paths.append(str(request.rel_url))
        if self.delay:
            await asyncio.sleep(self.delay)
        if self.reply is not None:
            return self.reply(review)
        response = {"uid": review["request"]["uid"], **self.answer(review["request"])}
        return web.json_response({**review, "request": None, "response": response})

    def config(self, name: str = "hook.example.com", path: str = "/", **more: Any) -> Obj:
        client = {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": self.bundle}
        return {
            "name": name,
            "clientConfig": client,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "rules": [{**PODS, "operations": ["*"]}],
            **more,
        }


@pytest.fixture
async def hook(authority: pki.Pki) -> AsyncIterator[Hook]:
    made = Hook(authority)
    runner = web.ServerRunner(web.Server(made.handle), shutdown_timeout=0.1)
    await runner.setup()
    tls = authority.server_context(authority.apiserver)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    made.port = runner.addresses[0][1]
    yield made
    await runner.cleanup()


async def configure(http: Http, kind: str, *webhooks: Obj, name: str = "hooks") -> None:
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind.capitalize()}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": list(webhooks),
    }
    reply = await http("POST", f"{GROUP}/{kind}webhookconfigurations", body)
    assert reply.code == 201, reply.text


@dataclass
class Kubelet:
    """Forwards ports of every pod to ports of this machine, as a kubelet's WebSocket does."""

    port: int = 0
    asked: list[str] = field(default_factory=list)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(str(request.rel_url))
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        port = int(request.query["ports"])
        for channel in (0, 1):
            await socket.send_bytes(bytes([channel]) + struct.pack("<H", port))
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError as error:
            await socket.send_bytes(b"\x01" + f"error forwarding port {port}: {error}".encode())
            await socket.close()
            return socket
        try:
            await self._join(socket, reader, writer)
        finally:
            writer.close()
        return socket

    async def _join(
        self,
        socket: web.WebSocketResponse,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        async def down() -> None:
            while data := await reader.read(1 << 16):
                await socket.send_bytes(b"\x00" + data)
            await socket.close()

        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(down())
            async for message in socket:
                if message.type is WSMsgType.BINARY:
                    writer.write(message.data[1:])
            task.cancel()


@pytest.fixture
async def kubelet(site: Site) -> AsyncIterator[Kubelet]:
    """The kubelet of node n1, which runs the pods that `serve_by` makes."""
    fake = Kubelet()
    runner = web.ServerRunner(web.Server(fake.handle), shutdown_timeout=0.1)
    await runner.setup()
    tls = site.authority.server_context(site.authority.kubelet)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    fake.port = runner.addresses[0][1]
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": fake.port}},
    }
    admin = site.server.client("system:test", ["system:masters"])
    await admin.create(kinds.NODE, {"metadata": {"name": "n1"}, "status": status})
    yield fake
    await runner.cleanup()


async def serve_by(site: Site, name: str, port: int, *, target: int, ready: bool = True) -> None:
    """A service of the name whose one endpoint is a pod on n1 that listens on `target`."""
    admin = site.server.client("system:test", ["system:masters"])
    container = {"name": "main", "image": "i"}
    pod = {
        "metadata": {"name": f"{name}-pod", "namespace": "default", "labels": {"app": name}},
        "spec": {"containers": [container]},
    }
    await admin.create(kinds.POD, pod)
    key = Key("default", f"{name}-pod")
    await admin.create_subresource(kinds.POD, key, "binding", {"target": {"name": "n1"}})
    ports = [{"name": "main", "port": port, "targetPort": target}]
    await admin.create(
        kinds.SERVICE,
        {"metadata": {"name": name, "namespace": "default"}, "spec": {"ports": ports}},
    )
    slice_ = {
        "metadata": {
            "name": f"{name}-1",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": name},
        },
        "addressType": "IPv4",
        "ports": [{"name": "main", "port": target, "protocol": "TCP"}],
        "endpoints": [
            {
                "addresses": ["10.1.2.3"],
                "conditions": {"ready": ready},
                "targetRef": {"kind": "Pod", "name": f"{name}-pod", "namespace": "default"},
            }
        ],
    }
    await admin.create(kinds.ENDPOINT_SLICE, slice_)


@pytest.fixture
def service_authority(tmp_path: Any) -> Callable[[Hook], Any]:
    """Serves a hook once more, with a certificate for `hook.default.svc` of its own authority."""

    @asynccontextmanager
    async def serve(hook: Hook) -> AsyncIterator[tuple[int, str]]:
        own = pki.ensure(tmp_path / "service-pki", ["hook.default.svc"])
        runner = web.ServerRunner(web.Server(hook.handle), shutdown_timeout=0.1)
        await runner.setup()
        tls = own.server_context(own.apiserver)
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield runner.addresses[0][1], base64.b64encode(own.ca.read_bytes()).decode()
        await runner.cleanup()

    return serve
