"""A real API server on loopback, and clients of several users over real TLS."""

from __future__ import annotations

import io
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from orlop import pki
from orlop.api.schema import Schema, load
from orlop.apiserver import ApiServer, ServerOptions
from orlop.client.api import Api
from orlop.client.https import HttpsApi
from orlop.extensions.registry import Extensions, unconfined
from orlop.jwt import SigningKey
from orlop.store import Limits, Store


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> pki.Pki:
    return pki.ensure(tmp_path_factory.mktemp("pki"), ["localhost", "127.0.0.1"])


@pytest.fixture(scope="session")
def schema() -> Schema:
    return load(None)


@dataclass
class Reply:
    """One answer, read whole."""

    code: int
    headers: Any
    text: str
    json: Any = None


@dataclass
class Http:
    """Requests of one user, written as a person would with curl."""

    session: aiohttp.ClientSession
    url: str
    accept: dict[str, str] = field(default_factory=dict)

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        content = {"data": body} if isinstance(body, bytes | str | io.BytesIO) else {"json": body}
        arguments = content if body is not None else {}
        async with self.session.request(
            method, self.url + path, headers=named, **arguments
        ) as response:
            text = await response.text()
            is_json = response.headers.get("Content-Type", "").startswith("application/json")
            parsed = await response.json(content_type=None) if is_json and text else None
            return Reply(response.status, response.headers, text, parsed)


@dataclass
class Site:
    """A running server."""

    server: ApiServer
    store: Store
    port: int
    authority: pki.Pki
    folder: Path

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def tls(self, user: str | None = None, groups: tuple[str, ...] = ()) -> ssl.SSLContext:
        """Of an administrator, or of a user with a certificate of their own."""
        if user is None:
            return self.authority.client_context(self.authority.admin)
        context = self.authority.client_context()
        if user:
            certificate, key = self.authority.issue(user, groups)
            pem = self.folder / f"{user.replace(':', '_')}.pem"
            pem.write_bytes(certificate + key)
            context.load_cert_chain(pem)
        return context

    @asynccontextmanager
    async def http(
        self, user: str | None = None, groups: tuple[str, ...] = ()
    ) -> AsyncIterator[Http]:
        """`user=""` shows no certificate at all."""
        connector = aiohttp.TCPConnector(ssl=self.tls(user, groups))
        async with aiohttp.ClientSession(connector=connector) as session:
            yield Http(session, self.url)


@pytest.fixture
def limits() -> Limits:
    return Limits()


@pytest.fixture
async def site(
    tmp_path: Path, authority: pki.Pki, schema: Schema, limits: Limits
) -> AsyncIterator[Site]:
    store = await Store.open(tmp_path / "state.db", limits=limits)
    server = ApiServer(
        store,
        tls=authority.server_context(authority.apiserver),
        kubelet_tls=authority.client_context(authority.apiserver_kubelet_client),
        schema=schema,
        options=ServerOptions(unconfined=unconfined(), roles=Extensions().roles),
    )
    port = await server.start("127.0.0.1", 0)
    yield Site(server, store, port, authority, tmp_path)
    await server.stop()
    await store.close()


@pytest.fixture
async def http(site: Site) -> AsyncIterator[Http]:
    """An administrator."""
    async with site.http() as client:
        yield client


@pytest.fixture
async def local(site: Site) -> Api:
    """The in-process client."""
    return site.server.client("system:test", ["system:masters"])


@pytest.fixture(params=["in process", "https"])
async def api(site: Site, request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    """The same interface by both transports: what is tested with it holds for both."""
    if request.param == "in process":
        yield site.server.client("system:test", ["system:masters"])
        return
    async with HttpsApi(site.url, tls=site.tls()) as client:
        yield client


@pytest.fixture
def pod() -> Callable[..., dict[str, Any]]:
    def make(name: str = "a", **metadata: Any) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", **metadata},
            "spec": {"containers": [{"name": "main", "image": "busybox"}]},
        }

    return make


@pytest.fixture
def config_map() -> Callable[..., dict[str, Any]]:
    def make(
        name: str = "a", data: dict[str, str] | None = None, **metadata: Any
    ) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default", **metadata},
            "data": data or {"k": "v"},
        }

    return make


@dataclass
class TokenSite(Site):
    """A running server that issues tokens, and its administrator in process."""

    signing_key: SigningKey | None = None

    @property
    def admin(self) -> Api:
        return self.server.client("system:test", ["system:masters"])


@pytest.fixture(scope="session")
def other_key(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    """Of another cluster."""
    other = pki.ensure(tmp_path_factory.mktemp("other"), ["localhost"])
    return SigningKey.from_pem(other.service_account_key)


@pytest.fixture
async def token_site(
    tmp_path: Path, authority: pki.Pki, schema: Schema, limits: Limits
) -> AsyncIterator[TokenSite]:
    store = await Store.open(tmp_path / "tokens.db", limits=limits)
    key = SigningKey.from_pem(authority.service_account_key)
    tls = authority.server_context(authority.apiserver)
    server = ApiServer(store, tls=tls, schema=schema, signing_key=key)
    port = await server.start("127.0.0.1", 0)
    yield TokenSite(server, store, port, authority, tmp_path, key)
    await server.stop()
    await store.close()
