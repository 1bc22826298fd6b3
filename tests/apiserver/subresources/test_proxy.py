"""Requests passed on to pods, services and nodes: every method, any size, upgrades, redirects."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType, web
from aiohttp.test_utils import make_mocked_request

from orlop.api import kinds
from orlop.api.objects import Key
from orlop.apiserver.proxy.cluster_dialer import Reached
from orlop.apiserver.proxy.http_proxy import Backend as ProxyBackend
from orlop.apiserver.proxy.http_proxy import pass_on, pass_upgrade, rewritten
from orlop.apiserver.request.requestinfo import parse
from orlop.apiserver.subresources.proxy import Named, split_name
from orlop.errors import BadRequest, Invalid, Unavailable
from tests.apiserver.admission.webhooks.conftest import Kubelet, configure, hook, kubelet, serve_by
from tests.apiserver.conftest import Http, Site

__all__ = ["hook", "kubelet"]
SERVICES = "/api/v1/namespaces/default/services"
PODS = "/api/v1/namespaces/default/pods"


@dataclass
class Backend:
    """Tells what it was asked; echoes WebSocket messages; redirects; knows a large page."""

    port: int = 0
    secure_port: int = 0
    seen: list[Any] = field(default_factory=list)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/socket":
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            async for message in socket:
                await socket.send_str(f"echo {message.data}")
            return socket
        if request.path == "/away":
            return web.Response(status=302, headers={"Location": request.query["to"]})
        if request.path == "/unknown-length":
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"all of it")
            return response
        if request.path == "/large":
            return web.Response(body=b"x" * 5_000_000)
        body = await request.read()
        told = {
            "method": request.method,
            "path": request.raw_path,
            "headers": dict(request.headers),
            "size": len(body),
            "digest": hashlib.sha256(body).hexdigest(),
        }
        self.seen.append(told)
        return web.json_response(told, headers={"X-Mine": "yes"})


@pytest.fixture
async def backend(site: Site) -> AsyncIterator[Backend]:
    made = Backend()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        request._client_max_size = 1 << 30
        return await made.handle(request)

    server = web.Server(handle)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    tls = site.authority.server_context(site.authority.apiserver)
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    made.port, made.secure_port = (address[1] for address in runner.addresses)
    yield made
    await runner.cleanup()


@pytest.fixture
async def web_service(site: Site, kubelet: Kubelet, backend: Backend) -> Backend:
    await serve_by(site, "web", 80, target=backend.port)
    await serve_by(site, "safe", 443, target=backend.secure_port)
    return backend


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("name", ["web", "web:80", "web:main", "http:web:80", "https:safe:443"])
async def test_a_service_is_reached_by_every_name_and_method(
    http: Http, web_service: Backend, name: str, method: str
) -> None:
    body = None if method in ("GET", "OPTIONS") else "hello"
    path = f"{SERVICES}/{name}/proxy/a%20b/c/?x=1&dryRun=never"
    reply = await http(method, path, body, X_Custom="kept")
    assert reply.code == 200, reply.text
    assert reply.json["method"] == method
    assert reply.json["path"] == "/a%20b/c/?x=1&dryRun=never"
    assert reply.json["size"] == (5 if body else 0)
    assert reply.json["headers"]["X-Custom"] == "kept"
    assert reply.headers["X-Mine"] == "yes"


async def test_credentials_stay_here_and_the_way_is_told(http: Http, web_service: Backend) -> None:
    reply = await http(
        "GET", f"{SERVICES}/web/proxy/x", Authorization="Bearer secret", X_Remote_User="me"
    )
    headers = reply.json["headers"]
    assert "Authorization" not in headers
    assert "X-Remote-User" not in headers
    assert headers["X-Forwarded-For"] == "127.0.0.1"
    assert headers["X-Forwarded-Uri"] == f"{SERVICES}/web/proxy/x"


async def test_a_pod_is_reached_by_its_port(
    http: Http, web_service: Backend, kubelet: Kubelet
) -> None:
    reply = await http("GET", f"{PODS}/web-pod:{web_service.port}/proxy/p")
    assert (reply.code, reply.json["path"]) == (200, "/p")
    assert kubelet.asked[-1] == f"/portForward/default/web-pod?ports={web_service.port}"
    secure = f"{PODS}/https:safe-pod:{web_service.secure_port}/proxy/p"
    assert (await http("GET", secure)).code == 200


async def test_large_bodies_go_both_ways(http: Http, web_service: Backend) -> None:
    data = b"0123456789abcdef" * 500_000  # more than an object of the API may weigh
    reply = await http("POST", f"{SERVICES}/web/proxy/in", io.BytesIO(data))
    assert reply.json["size"] == len(data)
    assert reply.json["digest"] == hashlib.sha256(data).hexdigest()
    assert len((await http("GET", f"{SERVICES}/web/proxy/large")).text) == 5_000_000


async def test_websockets_go_through(site: Site, http: Http, web_service: Backend) -> None:
    url = f"{site.url}{SERVICES}/web/proxy/socket"
    async with http.session.ws_connect(url) as socket:
        await socket.send_str("one")
        message = await socket.receive(timeout=10)
        assert (message.type, message.data) == (WSMsgType.TEXT, "echo one")
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await http.session.ws_connect(f"{site.url}{SERVICES}/web/proxy/none")


async def test_clients_of_http_1_0_get_the_whole_answer(site: Site, web_service: Backend) -> None:
    """A backend that says no length makes the end of the connection that of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port, ssl=site.tls())
    writer.write(f"GET {SERVICES}/web/proxy/unknown-length HTTP/1.0\r\nHost: x\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    assert (head.split()[1], body) == (b"200", b"all of it")
    assert b"chunked" not in head.lower()


@pytest.mark.parametrize("headers", [{}, {"Upgrade": "websocket", "Connection": "Upgrade"}])
async def test_a_header_that_would_become_two_is_not_passed_on(headers: dict[str, str]) -> None:
    async def dial() -> Any:
        raise AssertionError("nobody is to be dialled")

    request = make_mocked_request("GET", "/", headers=headers)
    backend = ProxyBackend("far", dial)
    named = {"X-Remote-User": "me\r\nX-Remote-Group: system:masters"}
    async with backend.session() as session:
        if headers:
            passing = pass_upgrade(request, backend, "/", named)
        else:
            passing = pass_on(request, backend, session, "/", headers=named)
        with pytest.raises(BadRequest, match="line break"):
            await passing


async def test_redirects_stay_within_the_proxy(site: Site, http: Http, web_service) -> None:
    async def redirected(path: str) -> str:
        url = f"{site.url}{SERVICES}/web/proxy{path}"
        async with http.session.get(url, allow_redirects=False) as reply:
            return f"{reply.status} {reply.headers['Location']}"

    base = f"{SERVICES}/web/proxy"
    assert await redirected("") == f"301 {base}/"
    assert await redirected("?a=b") == f"301 {base}/?a=b"
    assert await redirected("/away?to=/other%3Fx=1") == f"302 {base}/other?x=1"
    assert await redirected("/away?to=https://example.com/x") == "302 https://example.com/x"


@pytest.mark.parametrize(
    ("location", "seen"),
    [
        ("/a?b#c", "/p/a?b#c"),
        ("http://h:1/a", "/p/a"),
        ("http://h:1", "/p/"),
        ("http://other/a", "http://other/a"),
        ("relative", "relative"),
        ("http://[bad", "http://[bad"),
    ],
)
def test_where_a_redirect_leads(location: str, seen: str) -> None:
    assert rewritten(location, "h:1", "/p") == seen


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a", Named("http", "a", "")),
        ("a:80", Named("http", "a", "80")),
        ("https:a:x", Named("https", "a", "x")),
        ("https:a:", Named("https", "a", "")),
        (":a:1", Named("http", "a", "1")),
        ("ftp:a:1", None),
        ("a:b:c:d", None),
        (":80", None),
    ],
)
def test_names_have_schemes_and_ports(text: str, named: Named | None) -> None:
    assert split_name(text) == named


@pytest.mark.parametrize(
    ("path", "base", "rest"),
    [
        ("/api/v1/namespaces/proxy/pods/proxy/proxy/proxy",
         "/api/v1/namespaces/proxy/pods/proxy/proxy", "/proxy"),
        ("/api/v1/nodes/n/proxy", "/api/v1/nodes/n/proxy", ""),
        ("/api/v1//nodes/n/proxy//x/", "/api/v1//nodes/n/proxy", "//x/"),
        ("/api/v1/nodes%2Fn/proxy%2fa%2Fb/../c", "/api/v1/nodes%2Fn/proxy", "/a%2Fb/../c"),
        ("/api/v1/nodes/n/%70roxy/x", "/api/v1/nodes/n/%70roxy", "/x"),
    ],
)  # fmt: skip
def test_what_follows_the_proxy(path: str, base: str, rest: str) -> None:
    info = parse("GET", path, {})
    assert (info.subresource, info.prefix, info.beyond) == ("proxy", base, rest)


@pytest.mark.parametrize(
    ("path", "code", "why"),
    [
        (f"{SERVICES}/none/proxy/", 404, 'services "none" not found'),
        (f"{SERVICES}/web:99/proxy/", 503, 'no service port 99 found for service "web"'),
        (f"{SERVICES}/a:b:c/proxy/", 400, 'invalid service request "a:b:c"'),
        (f"{PODS}/none:80/proxy/", 404, 'pods "none" not found'),
        (f"{PODS}/web-pod:1/proxy/", 503, "error trying to reach service: error forwarding port 1"),
        (f"{PODS}/web-pod:x/proxy/", 400, "invalid pod request"),
        (f"{SERVICES}/dead/proxy/", 503, 'no endpoints available for service "dead"'),
    ],
)
async def test_what_cannot_be_reached_is_told(
    site: Site, http: Http, web_service: Backend, path: str, code: int, why: str
) -> None:
    await serve_by(site, "dead", 80, target=1, ready=False)
    reply = await http("GET", path)
    assert (reply.code, why in reply.json["message"]) == (code, True), reply.text


@pytest.mark.parametrize("port", ["", ":80", ":main"])
@pytest.mark.parametrize("by", ["a name", "an address"])
async def test_a_service_leads_to_pods_and_nowhere_else(
    site: Site, http: Http, backend: Backend, by: str, port: str
) -> None:
    """Who may edit services shall not reach what listens on this host."""
    admin = site.server.client("system:test", ["system:masters"])
    named = {"name": "trap", "namespace": "default"}
    spec: dict[str, Any] = {"ports": [{"name": "main", "port": 80, "targetPort": backend.port}]}
    if by == "a name":
        spec |= {"type": "ExternalName", "externalName": "localhost"}
    else:
        labels = {"kubernetes.io/service-name": "trap"}
        one = {
            "metadata": {**named, "labels": labels},
            "addressType": "IPv4",
            "ports": [{"name": "main", "port": backend.port}],
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}],
        }
        with pytest.raises(Invalid, match="may not be in the loopback range"):
            await admin.create(kinds.ENDPOINT_SLICE, {**one, "metadata": {**one["metadata"]}})
        # As it may have been let in by an earlier Orlop.
        await site.store.create(kinds.ENDPOINT_SLICE.resource, Key("default", "trap"), one)
    await admin.create(kinds.SERVICE, {"metadata": named, "spec": spec})
    reply = await http("GET", f"{SERVICES}/trap{port}/proxy/x")
    assert (reply.code, backend.seen) == (503, []), reply.text


async def test_a_node_is_its_kubelet(http: Http, kubelet: Kubelet) -> None:
    """Asked for a WebSocket by plain HTTP it refuses, in its own words."""
    reply = await http("GET", "/api/v1/nodes/n1/proxy/healthz")
    assert kubelet.asked == ["/healthz"]
    assert reply.code == 400
    other = await http("GET", f"/api/v1/nodes/n1:{kubelet.port}/proxy/healthz")
    assert other.code == 400
    assert (await http("GET", "/api/v1/nodes/none/proxy/")).code == 404


async def test_a_node_on_this_host_is_no_way_to_what_else_listens_here(
    http: Http, kubelet: Kubelet, backend: Backend
) -> None:
    for name in (f"n1:{backend.port}", f"http:n1:{backend.port}", f"https:n1:{backend.port}"):
        reply = await http("GET", f"/api/v1/nodes/{name}/proxy/secret")
        assert (reply.code, "network.allow_destinations" in reply.text) == (503, True)
    assert backend.seen == []


async def test_it_needs_the_right_to_it(site: Site, http: Http, web_service: Backend) -> None:
    async with site.http("someone") as stranger:
        refused = await stranger("GET", f"{SERVICES}/web:80/proxy/")
        assert refused.code == 403
        assert 'cannot get resource "services/proxy"' in refused.json["message"]
        role = {
            "metadata": {"name": "r", "namespace": "default"},
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["services/proxy"],
                    "verbs": ["get"],
                    "resourceNames": ["web:80"],
                }
            ],
        }
        binding = {
            "metadata": {"name": "r", "namespace": "default"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            "subjects": [
                {"kind": "User", "name": "someone", "apiGroup": "rbac.authorization.k8s.io"}
            ],
        }
        admin = site.server.client("system:test", ["system:masters"])
        await admin.create(kinds.ROLE, role)
        await admin.create(kinds.ROLE_BINDING, binding)
        assert (await stranger("GET", f"{SERVICES}/web:80/proxy/")).code == 200
        assert (await stranger("POST", f"{SERVICES}/web:80/proxy/")).code == 403


async def test_a_connection_can_be_refused_by_a_webhook(
    http: Http, web_service: Backend, hook
) -> None:
    hook.answer = lambda request: {"allowed": False, "status": {"message": "no way"}}
    rules = [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["services/proxy"],
            "operations": ["CONNECT"],
        }
    ]
    await configure(http, "validating", hook.config(rules=rules))
    reply = await http("GET", f"{SERVICES}/web/proxy/secret")
    assert reply.json["message"].endswith("denied the request: no way")
    assert hook.requests[0]["object"]["path"] == "/secret"
    assert hook.requests[0]["kind"]["kind"] == "ServiceProxyOptions"


async def test_many_requests_at_once_share_connections(http: Http, web_service, kubelet) -> None:
    replies = await asyncio.gather(
        *(http("GET", f"{SERVICES}/web/proxy/{number}") for number in range(20))
    )
    assert [json.loads(reply.text)["path"] for reply in replies] == [f"/{n}" for n in range(20)]
    before = len(kubelet.asked)
    for number in range(5):
        await http("GET", f"{SERVICES}/web/proxy/{number}")
    assert len(kubelet.asked) == before


async def test_nobody_gets_at_this_very_host_by_an_external_name(
    site: Site, http: Http, backend: Backend
) -> None:
    """What listens on a login node's loopback is not the cluster's."""
    spec = {"type": "ExternalName", "externalName": "localhost"}
    admin = site.server.client("system:test", ["system:masters"])
    await admin.create(
        kinds.SERVICE, {"metadata": {"name": "trick", "namespace": "default"}, "spec": spec}
    )
    reply = await http("GET", f"{SERVICES}/trick:{backend.port}/proxy/")
    assert reply.code == 503
    assert "no endpoints available" in reply.json["message"]
    assert backend.seen == []


@pytest.mark.parametrize(
    "said",
    [b"HTTP/\r\n\r\n", b"HTTP/1.1 1e9 OK\r\n\r\n", b"x\r\n\r\n", b"HTTP/1.1 99 no\r\n\r\n"],
)
async def test_a_backend_that_answers_an_upgrade_with_nonsense_is_unreachable(said: bytes) -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(said)

    async def dial() -> Reached:
        return Reached(ours)

    backend = ProxyBackend("h", dial)
    request = make_mocked_request("GET", "/", headers={"Upgrade": "x", "Connection": "upgrade"})
    with theirs, pytest.raises(Unavailable, match="error trying to reach service"):
        await pass_upgrade(request, backend, "/", {})
