"""Paths and headers by which a small account would reach more of an extension than it may."""

from __future__ import annotations

import asyncio
import random
from typing import Any
from urllib.parse import unquote

import pytest

from orlop.api import kinds
from tests.apiserver.aggregation.test_aggregation import (
    BASE,
    Extension,
    available,
    extension,
    kubelet,
    site,
)
from tests.apiserver.auth.test_authorization import binding, role, subject
from tests.apiserver.conftest import Http, Site

__all__ = ["extension", "kubelet", "site"]
Obj = dict[str, Any]
GROUP = "ext.example.com"
_PIECES = (
    "/", "/", "/", "%2f", "%2F", "//", "%252f", ".", "..", "%2e%2e", "%2E.", ";x=/..", "%3b",
    "%00", "%0d%0aX:%20y", "%ff", "%EF%BC%8F", "%ef%bc%8e%ef%bc%8e", "%5c", "\\", "?", "#", "@",
    "apis", "api", "APIS", GROUP, "v1", "namespaces", "mine", "yours", "fruits", "apple",
    "status", "proxy", "watch", "*", "a" * 3000,
)  # fmt: skip


@pytest.fixture
async def eve(site: Site, http: Http, extension: Extension) -> None:
    """May read fruits in the namespace `mine`; as everybody, she may see what groups there are."""
    await available(http, f"v1.{GROUP}")
    admin = site.server.client("system:test", ["system:masters"])
    for name in ("mine", "yours"):
        await admin.create(kinds.NAMESPACE, {"metadata": {"name": name}})
    rule = {"verbs": ["get", "list"], "apiGroups": [GROUP], "resources": ["fruits"]}
    await admin.create(kinds.ROLE, role("fruits", rule, namespace="mine"))
    bound = binding("fruits", "Role", "fruits", subject("User", "eve"), namespace="mine")
    await admin.create(kinds.ROLE_BINDING, bound)


async def raw(site: Site, target: str, *headers: str, method: str = "GET") -> int:
    """The code of the answer to a request whose target is sent as it is; 0 for none."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port, ssl=site.tls("eve"))
    lines = [f"{method} {target} HTTP/1.1", "Host: x", "Connection: close", *headers]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
    try:
        async with asyncio.timeout(10):
            line = await reader.readline()
        return int(line.split(b" ")[1]) if line else 0
    except ConnectionResetError:
        return 0
    finally:
        writer.close()


def _strays(seen: list[Obj]) -> list[str]:
    """What the server was asked on behalf of eve that she may not ask."""
    asked = [one["path"] for one in seen if one["headers"]["X-Remote-User"] == ["eve"]]
    return [path for path in asked if not _is_allowed(path)]


def _is_allowed(path: str) -> bool:
    plain = path.partition("?")[0]
    allowed = f"{BASE}/namespaces/mine/fruits"
    is_document = plain.removesuffix("/") in (BASE, f"/openapi/v3{BASE}")
    is_clean = ".." not in unquote(unquote(plain)).split("/")
    return is_document or (plain.startswith(allowed) and plain.count("/") <= 7 and is_clean)


@pytest.mark.parametrize(
    "target",
    [
        f"/apis%2f{GROUP}/v1/namespaces/yours/fruits",
        f"/apis%2F{GROUP}%2Fv1%2Fnamespaces%2Fyours%2Ffruits%2Fapple",
        f"/apis/{GROUP}%2fv1%2fnamespaces%2fyours%2ffruits",
        f"/%61pis/{GROUP}/v1%2fnamespaces/yours/fruits",
        f"//apis//{GROUP}/v1/namespaces/yours/fruits",
        f"{BASE}/namespaces/mine/fruits/../../yours/fruits",
        f"{BASE}/namespaces/mine/fruits/%2e%2e/%2E%2e/yours/fruits",
        f"{BASE}/namespaces/mine/fruits/x%2f..%2f..%2f..%2fyours%2ffruits",
        f"{BASE}/namespaces/mine/fruits/x%2f..%2fy",
        f"{BASE}/namespaces/mine/fruits/%ef%bc%8e%ef%bc%8e%ef%bc%8f",
        f"{BASE}/namespaces/mine/fruits/x%0d%0aX-Remote-User:%20admin",
        f"https://elsewhere.example{BASE}/namespaces/yours/fruits",
        f"https://elsewhere.example/apis%2f{GROUP}/v1/namespaces/yours/fruits",
        f"/version/..{BASE}/namespaces/yours/fruits",
        f"/healthz/..{BASE}/namespaces/yours/fruits",
        f"/openapi/v3{BASE}/../../../../{BASE}/namespaces/yours/fruits",
        f"{BASE}/namespaces/yours/fruits?namespace=mine",
    ],
)
async def test_another_spelling_of_a_path_gives_no_other_rights(
    site: Site, extension: Extension, eve: None, target: str
) -> None:
    assert await raw(site, target) in (400, 403, 404)
    upgrade = ("Connection: Upgrade", "Upgrade: websocket")
    assert await raw(site, target, *upgrade) in (400, 403, 404)
    assert not _strays(extension.seen)


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (f"/apis%2f{GROUP}/v1%2Fnamespaces/mine//fruits/", f"{BASE}/namespaces/mine/fruits"),
        (f"{BASE}/namespaces/mine/fruits/a%3bb", f"{BASE}/namespaces/mine/fruits/a%3Bb"),
        (f"{BASE}/namespaces/mine/fruits/a;b?x=1;y=2",
         f"{BASE}/namespaces/mine/fruits/a%3Bb?x=1%3By%3D2"),
        (f"{BASE}/namespaces/mine/fruits#/../x", f"{BASE}/namespaces/mine/fruits"),
        (f"https://elsewhere.example{BASE}/namespaces/mine/fruits",
         f"{BASE}/namespaces/mine/fruits"),
    ],
)  # fmt: skip
async def test_what_is_passed_on_is_what_was_authorized(
    site: Site, extension: Extension, eve: None, target: str, path: str
) -> None:
    assert await raw(site, target) == 200
    assert extension.seen[-1]["path"] == path


async def test_no_path_whatever_leads_further(site: Site, extension: Extension, eve: None) -> None:
    rng = random.Random(6)
    good = ["/apis/", GROUP, "/v1/", "namespaces/", "mine/", "fruits", "/apple"]
    for _ in range(250):
        pieces = list(good) if rng.random() < 0.6 else []
        for _ in range(rng.randrange(1, 7)):
            pieces.insert(rng.randrange(len(pieces) + 1), rng.choice(_PIECES))
        target = "/" + "".join(pieces).lstrip("/")
        assert await raw(site, target) in (200, 400, 401, 403, 404, 405), target
    assert not _strays(extension.seen)


async def test_a_path_too_long_is_answered(site: Site, extension: Extension, eve: None) -> None:
    assert await raw(site, f"{BASE}/{'a/' * 20_000}") in (400, 403, 414)


async def test_who_asks_cannot_be_forged(site: Site, extension: Extension, eve: None) -> None:
    forged = (
        "X-Remote-User: admin", "X-Remote-Group: system:masters", "X-Remote-Extra-Scopes: all",
        "X_Remote_User: admin", "x-remote_group: system:masters", "X-Remote-Uid: 0",
        "X_Remote_Extra_Scopes: all", "X-HTTP-Method-Override: DELETE", "X-Original-URL: /apis",
    )  # fmt: skip
    target = f"{BASE}/namespaces/mine/fruits"
    for more in ((), ("Connection: Upgrade, X-Remote-User", "Upgrade: websocket")):
        assert await raw(site, target, *forged, *more) == 200
        headers = {name.lower(): texts for name, texts in extension.seen[-1]["headers"].items()}
        assert headers["x-remote-user"] == ["eve"]
        assert headers["x-remote-group"] == ["system:authenticated"]
        odd = [name for name in headers if "_" in name or "extra" in name or "override" in name]
        assert not odd
        assert "x-remote-uid" not in headers
        assert "x-original-url" not in headers


async def test_another_method_by_another_name_is_no_watch(
    site: Site, extension: Extension, eve: None
) -> None:
    admin = site.server.client("system:test", ["system:masters"])
    watches = {"verbs": ["watch"], "apiGroups": [GROUP], "resources": ["fruits"]}
    await admin.create(kinds.ROLE, role("watch", watches, namespace="mine"))
    bound = binding("watch", "Role", "watch", subject("User", "eve"), namespace="mine")
    await admin.create(kinds.ROLE_BINDING, bound)
    for method in ("DELETE", "POST", "PUT", "PATCH", "BIND"):
        target = f"{BASE}/watch/namespaces/mine/fruits/apple"
        assert await raw(site, target, method=method) == 403
    assert not _strays(extension.seen)
