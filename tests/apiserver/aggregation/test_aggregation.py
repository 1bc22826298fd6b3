"""Extension servers: what is passed on to them, as whom, and what discovery says of them."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from orlop import errors, pki
from orlop.api import kinds
from orlop.api.objects import Key
from orlop.api.schema import Schema
from orlop.apiserver import ApiServer, ServerOptions
from orlop.apiserver.aggregation import FrontProxy
from orlop.store import Store
from tests.apiserver.admission.webhooks.conftest import kubelet, serve_by
from tests.apiserver.conftest import Http, Site

__all__ = ["kubelet"]
Obj = dict[str, Any]
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
BASE = "/apis/ext.example.com/v1"


@dataclass
class Extension:
    """A server of `fruits` that believes only whom the front proxy's authority has signed."""

    port: int = 0
    seen: list[Obj] = field(default_factory=list)
    is_down: bool = False
    says: Obj = field(default_factory=dict)  # instead, by path

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        certificate = request.transport.get_extra_info("peercert") or {}
        names = {name: value for part in certificate.get("subject", ()) for name, value in part}
        headers = {name: request.headers.getall(name) for name in request.headers}
        self.seen.append({"path": request.raw_path, "who": names, "headers": headers,
                          "method": request.method})  # fmt: skip
        if self.is_down:
            return web.Response(status=500)
        if request.path in self.says:
            return web.json_response(self.says[request.path])
        if request.path == BASE:
            resources = [
                {"name": "fruits", "singularName": "fruit", "namespaced": True, "kind": "Fruit",
                 "verbs": ["get", "list"], "shortNames": ["fr"]},
                {"name": "fruits/status", "singularName": "", "namespaced": True, "kind": "Fruit",
                 "verbs": ["get"]},
            ]  # fmt: skip
            kind = {"kind": "APIResourceList", "apiVersion": "v1"}
            return web.json_response(
                {**kind, "groupVersion": "ext.example.com/v1", "resources": resources}
            )
        if request.path == "/openapi/v3":
            where = {"serverRelativeURL": f"/openapi/v3{BASE}?hash=ABC"}
            return web.json_response({"paths": {BASE[1:]: where}})
        if request.path.startswith("/openapi/v3/"):
            return web.json_response({"openapi": "3.0.0", "from": "the extension"})
        if request.path == "/openapi/v2":
            paths = {f"{BASE}/fruits": {"get": {}}, "/apis/apps/v1/deployments": {}}
            return web.json_response({"paths": paths, "definitions": {"com.example.Fruit": {}}})
        return web.json_response({"kind": "FruitList", "items": [], "path": request.raw_path})


@pytest.fixture
async def site(tmp_path: Path, authority: pki.Pki, schema: Schema) -> AsyncIterator[Site]:
    store = await Store.open(tmp_path / "state.db")
    front_proxy = FrontProxy(authority.front_proxy_client, authority.front_proxy_ca, authority.ca)
    server = ApiServer(
        store,
        tls=authority.server_context(authority.apiserver),
        kubelet_tls=authority.client_context(authority.apiserver_kubelet_client),
        schema=schema,
        options=ServerOptions(front_proxy=front_proxy),
    )
    port = await server.start("127.0.0.1", 0)
    yield Site(server, store, port, authority, tmp_path)
    await server.stop()
    await store.close()


@pytest.fixture
async def extension(site: Site, tmp_path: Path, kubelet) -> AsyncIterator[Extension]:
    made = Extension()
    own = pki.ensure(tmp_path / "ext", ["ext.default.svc"])
    tls = ssl.create_default_context(
        ssl.Purpose.CLIENT_AUTH, cafile=str(site.authority.front_proxy_ca)
    )
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_cert_chain(own.apiserver.crt, own.apiserver.key)
    runner = web.ServerRunner(web.Server(made.handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    made.port = runner.addresses[0][1]
    await serve_by(site, "ext", 443, target=made.port)
    await register(site, base64.b64encode(own.ca.read_bytes()).decode())
    yield made
    await runner.cleanup()


def api_service(bundle: str = "", name: str = "ext", **more: Any) -> Obj:
    spec = {
        "group": "ext.example.com",
        "version": "v1",
        "service": {"name": name, "namespace": "default"},
        "groupPriorityMinimum": 1000,
        "versionPriority": 10,
        **({"caBundle": bundle} if bundle else {"insecureSkipTLSVerify": True}),
        **more,
    }
    return {"metadata": {"name": f"{spec['version']}.{spec['group']}"}, "spec": spec}


async def register(site: Site, bundle: str) -> None:
    admin = site.server.client("system:test", ["system:masters"])
    await admin.create(kinds.API_SERVICE, api_service(bundle))


async def available(http: Http, name: str, status: str = "True") -> Obj:
    condition: Obj = {}
    for _ in range(200):
        reply = await http("GET", f"{SERVICES}/{name}")
        status_now = (reply.json.get("status") or {}) if reply.code == 200 else {}
        condition = (status_now.get("conditions") or [{}])[0]
        if condition.get("status") == status:
            return condition
        await asyncio.sleep(0.05)
    raise AssertionError(f"{name} never became {status}: {condition}")


async def test_a_request_goes_to_the_extension_as_its_user(
    http: Http, site: Site, extension: Extension
) -> None:
    condition = await available(http, "v1.ext.example.com")
    assert (condition["reason"], condition["message"]) == ("Passed", "all checks passed")
    reply = await http("GET", f"{BASE}/namespaces/default/fruits?limit=5")
    assert reply.json["path"] == f"{BASE}/namespaces/default/fruits?limit=5"
    seen = extension.seen[-1]
    assert seen["who"]["commonName"] == "front-proxy-client"
    assert seen["headers"]["X-Remote-User"] == ["kubernetes-admin"]
    assert seen["headers"]["X-Remote-Group"] == ["system:masters", "system:authenticated"]
    async with site.http("someone") as stranger:
        refused = await stranger("GET", f"{BASE}/namespaces/default/fruits")
        assert (
            'cannot list resource "fruits" in API group "ext.example.com"'
            in (refused.json["message"])
        )


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_every_method_goes_through(http: Http, extension: Extension, method: str) -> None:
    await available(http, "v1.ext.example.com")
    reply = await http(method, f"{BASE}/namespaces/default/fruits/apple", "{}")
    assert (reply.code, extension.seen[-1]["method"]) == (200, method)


async def test_discovery_and_openapi_show_what_it_has(http: Http, extension: Extension) -> None:
    await available(http, "v1.ext.example.com")
    groups = {one["name"]: one for one in (await http("GET", "/apis")).json["groups"]}
    assert groups["ext.example.com"]["preferredVersion"]["version"] == "v1"
    assert (await http("GET", "/apis/ext.example.com")).json["name"] == "ext.example.com"
    assert (await http("GET", BASE)).json["resources"][0]["name"] == "fruits"
    whole = (await http("GET", "/apis", Accept=AGGREGATED)).json["items"]
    (entry,) = [one for one in whole if one["metadata"]["name"] == "ext.example.com"]
    assert entry["versions"][0]["freshness"] == "Current"
    (fruit,) = entry["versions"][0]["resources"]
    assert (fruit["resource"], fruit["scope"]) == ("fruits", "Namespaced")
    assert fruit["responseKind"] == {"group": "", "version": "", "kind": "Fruit"}
    assert fruit["subresources"][0]["subresource"] == "status"
    index = (await http("GET", "/openapi/v3")).json["paths"]
    url = index[BASE[1:]]["serverRelativeURL"]
    assert (await http("GET", url)).json["from"] == "the extension"
    v2 = (await http("GET", "/openapi/v2")).json
    assert "com.example.Fruit" in v2["definitions"]
    assert f"{BASE}/fruits" in v2["paths"]
    assert v2["paths"]["/apis/apps/v1/deployments"] != {}


async def test_one_that_does_not_answer_breaks_nothing_else(
    http: Http, extension: Extension
) -> None:
    extension.is_down = True
    condition = await available(http, "v1.ext.example.com", "False")
    assert condition["reason"] == "FailedDiscoveryCheck"
    assert (
        "bad status from https://ext.default.svc:443/apis/ext.example.com/v1: 500"
        in (condition["message"])
    )
    assert (await http("GET", BASE)).code == 503
    whole = (await http("GET", "/apis", Accept=AGGREGATED)).json["items"]
    (entry,) = [one for one in whole if one["metadata"]["name"] == "ext.example.com"]
    assert entry["versions"] == [{"version": "v1", "resources": [], "freshness": "Stale"}]
    assert (await http("GET", "/apis/apps/v1")).code == 200
    extension.is_down = False
    await available(http, "v1.ext.example.com")
    assert (await http("GET", BASE)).code == 200


@pytest.mark.parametrize(
    ("change", "reason", "message"),
    [
        ({"service": {"name": "none", "namespace": "default"}}, "ServiceNotFound",
         'service/none in "default" is not present'),
        ({"service": {"name": "dead", "namespace": "default", "port": 99}}, "ServicePortError",
         'service/dead in "default" is not listening on port 99'),
        ({}, "MissingEndpoints", 'endpoints for service/dead in "default" have no addresses'),
    ],
)  # fmt: skip
async def test_why_one_is_not_available(
    http: Http, site: Site, kubelet, change, reason, message
) -> None:
    await serve_by(site, "dead", 443, target=1, ready=False)
    body = api_service(name="dead", **change)
    assert (await http("POST", SERVICES, body)).code == 201
    condition = await available(http, "v1.ext.example.com", "False")
    assert (condition["reason"], condition["message"]) == (reason, message)


@pytest.mark.parametrize("nonsense", [5, [5], [{}]], ids=str)
async def test_nonsense_from_one_is_told_and_later_forgotten(
    http: Http, extension: Extension, nonsense: Any
) -> None:
    extension.says = {BASE: {"resources": nonsense}}
    condition = await available(http, "v1.ext.example.com", "False")
    assert condition["reason"] == "FailedDiscoveryCheck"
    assert (await http("GET", "/apis")).code == 200
    extension.says = {}
    await available(http, "v1.ext.example.com")


@pytest.mark.parametrize(
    "nonsense", [{"paths": [1]}, {"paths": {BASE[1:]: 5}}, {"paths": 1, "definitions": 2}]
)
async def test_an_extension_needs_no_schema_that_can_be_read(
    http: Http, extension: Extension, nonsense: Obj
) -> None:
    extension.says = {"/openapi/v3": nonsense, "/openapi/v2": nonsense}
    await available(http, "v1.ext.example.com")
    assert (await http("GET", "/openapi/v2")).code == 200


async def test_an_extension_is_asked_over_one_context(
    site: Site, http: Http, extension: Extension
) -> None:
    """To make one takes long, and reads the disk."""
    await available(http, "v1.ext.example.com")
    found = site.server.extension_servers.known("ext.example.com", "v1")
    backends = [site.server.extension_servers.backend(found) for _ in range(2)]
    assert backends[0].tls is backends[1].tls


async def test_our_own_groups_have_one_each(http: Http) -> None:
    condition = await available(http, "v1.")
    assert condition["reason"] == "Local"
    assert condition["message"] == "Local APIServices are always available"
    names = {one["metadata"]["name"] for one in (await http("GET", SERVICES)).json["items"]}
    assert {"v1.", "v1.apps", "v1.batch", "v2.autoscaling", "v1.storage.k8s.io"} <= names
    assert not any("apiregistration" in name for name in names)


async def test_one_of_a_user_takes_over_what_we_would_serve(
    http: Http, site: Site, extension: Extension
) -> None:
    """As the metrics server of a user does it with metrics.k8s.io."""
    await available(http, "v1.ext.example.com")
    spec = api_service(group="coordination.k8s.io", version="v1")["spec"]
    await available(http, "v1.coordination.k8s.io")
    patched = await http(
        "PUT",
        f"{SERVICES}/v1.coordination.k8s.io",
        {"metadata": {"name": "v1.coordination.k8s.io"}, "spec": spec},
    )
    assert patched.code == 200, patched.text
    path = "/apis/coordination.k8s.io/v1/leases"
    for _ in range(200):
        reply = await http("GET", path)
        if reply.code == 200 and reply.json["kind"] == "FruitList":
            break
        await asyncio.sleep(0.05)
    assert reply.json["kind"] == "FruitList"
    assert (await http("DELETE", f"{SERVICES}/v1.coordination.k8s.io")).code == 200
    assert (await http("GET", path)).json["kind"] == "LeaseList"


async def test_custom_resources_have_one_while_they_are_served(http: Http) -> None:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    }
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    spec = {"group": "t.example.com", "scope": "Cluster", "names": names, "versions": [version]}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await http("POST", path, {"metadata": {"name": "things.t.example.com"}, "spec": spec})
    await available(http, "v1.t.example.com")
    await http("DELETE", f"{path}/things.t.example.com")
    for _ in range(200):
        if (await http("GET", f"{SERVICES}/v1.t.example.com")).code == 404:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("its APIService stays")


async def test_extension_servers_find_out_whom_to_believe(site: Site) -> None:
    admin = site.server.client("system:test", ["system:masters"])
    key = Key("kube-system", "extension-apiserver-authentication")
    data = (await admin.get(kinds.CONFIG_MAP, key))["data"]
    assert data["requestheader-client-ca-file"] == site.authority.front_proxy_ca.read_text()
    assert data["client-ca-file"] == site.authority.ca.read_text()
    assert data["requestheader-allowed-names"] == '["front-proxy-client"]'
    reader = Key("kube-system", "extension-apiserver-authentication-reader")
    assert (await admin.get(kinds.ROLE, reader))["rules"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"metadata": {"name": "other"}}, "metadata.name"),
        ({"spec": {"groupPriorityMinimum": 0}}, "spec.groupPriorityMinimum"),
        ({"spec": {"versionPriority": 1001}}, "spec.versionPriority"),
        ({"spec": {"service": {"name": "x"}}}, "spec.service.namespace"),
        ({"spec": {"service": None}}, "spec.insecureSkipTLSVerify"),
    ],
)
async def test_what_is_no_api_service_is_refused(http: Http, change, field) -> None:
    body = api_service()
    for part, values in change.items():
        body[part] = {**body[part], **values}
    reply = await http("POST", SERVICES, body)
    assert reply.code == 422, reply.text
    assert field in [cause["field"] for cause in reply.json["details"]["causes"]]


async def test_our_own_components_ask_extensions_as_themselves(
    http: Http, site: Site, extension: Extension
) -> None:
    await available(http, "v1.ext.example.com")
    api = site.server.client("system:autoscaler", ["system:masters"])
    answer = await api.get_raw(f"{BASE}/namespaces/default/fruits", {"labelSelector": "a=b"})
    assert answer["path"] == f"{BASE}/namespaces/default/fruits?labelSelector=a%3Db"
    (seen,) = [one for one in extension.seen if one["path"] == answer["path"]]
    assert seen["headers"]["X-Remote-User"] == ["system:autoscaler"]
    extension.is_down = True
    with pytest.raises(errors.ApiError):
        await api.get_raw(f"{BASE}/namespaces/default/fruits")


class Measured:
    kinds = kinds.COMPUTED

    async def objects(self, kind: kinds.Kind, namespace: str) -> list[Obj]:
        return [{"metadata": {"name": "ours", "namespace": "default"}}]


async def test_an_installed_metrics_server_takes_over_from_us(
    http: Http, site: Site, extension: Extension, tmp_path: Path
) -> None:
    site.server.serve_virtual(Measured())
    api = site.server.client("system:autoscaler", ["system:masters"])
    metrics = "/apis/metrics.k8s.io/v1beta1"
    assert len((await api.list(kinds.POD_METRICS, "default")).items) == 1
    bundle = base64.b64encode((tmp_path / "ext" / "ca.crt").read_bytes()).decode()
    theirs = api_service(bundle, group="metrics.k8s.io", version="v1beta1")
    name = theirs["metadata"]["name"]
    reply = await http("POST", SERVICES, theirs)
    if reply.code == 409:  # ours is listed already, and theirs takes its place as apply has it
        patch = {"spec": theirs["spec"]}
        reply = await http(
            "PATCH", f"{SERVICES}/{name}", patch, Content_Type="application/merge-patch+json"
        )
    assert reply.code in (200, 201)
    await available(http, name)
    for _ in range(200):
        try:
            found = await api.list(kinds.POD_METRICS, "default")
            break
        except errors.Unavailable:  # told, and not yet known everywhere
            await asyncio.sleep(0.05)
    assert found.items == []
    assert f"{metrics}/namespaces/default/pods" in [one["path"] for one in extension.seen]
    answer = await http("GET", f"{metrics}/namespaces/default/pods")
    assert answer.json["kind"] == "FruitList"
