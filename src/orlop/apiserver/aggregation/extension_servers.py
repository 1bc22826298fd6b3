"""Finds who serves a group and version: an extension server, where an APIService names a service.

Asked by the handler for every request before our own kinds are: what a user's APIService takes over
is not served by us. The request is passed on with its user in headers, which the extension server
believes because of our certificate. As kube-aggregator's handler_proxy.go.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from ...api import kinds
from ...api.objects import Key, Obj
from ...errors import Unavailable, from_status
from ...pki import Pair
from ...store import Store
from ...upgrade import is_upgrade
from ..auth.authentication import User
from ..proxy.cluster_dialer import ClusterDialer
from ..proxy.foreign_answers import decoded, whole
from ..proxy.http_proxy import Backend, pass_on, pass_upgrade, unreachable
from ..proxy.webhook_client import CallFailed, believing
from ..request.failures import no_such_path
from ..request.requestinfo import RequestInfo, parse, query_of
from .discovered import Discovered

_BUCKET = kinds.API_SERVICE.resource
_FETCH_TIME = 10.0
# What some servers take for the request itself, instead of the one that was authorized.
_OTHERWISE = frozenset(
    ("x-http-method-override", "x-http-method", "x-method-override", "x-original-url",
     "x-rewrite-url")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """The certificate and authorities by which extension servers know us."""

    client: Pair
    authority: Path
    client_authority: Path


@dataclass(slots=True)
class ExtensionServer:
    """An APIService that names a service, and what is known of its server."""

    name: str
    group: str
    version: str
    service: Key
    port: int
    bundle: str
    is_insecure: bool
    group_priority: int
    version_priority: int
    revision: int
    is_available: bool = False
    discovered: Discovered = field(default_factory=Discovered)
    session: aiohttp.ClientSession | None = None
    tls: ssl.SSLContext | None = None  # made once: it reads certificates from the disk

    @property
    def server_name(self) -> str:
        return f"{self.service.name}.{self.service.namespace}.svc"

    @property
    def host(self) -> str:
        return f"{self.server_name}:{self.port}"


class ExtensionServers:
    def __init__(
        self, store: Store, dialer: ClusterDialer, front_proxy: FrontProxy | None = None
    ) -> None:
        self._store = store
        self.dialer = dialer
        self.front_proxy = front_proxy
        self._seen = -1
        self._known: dict[tuple[str, str], ExtensionServer] = {}
        self._left: list[aiohttp.ClientSession] = []  # to be closed
        self.stamp = 0  # another number whenever discovery has to be made anew

    def all(self) -> list[ExtensionServer]:
        self._refresh()
        return list(self._known.values())

    def of(self, info: RequestInfo) -> ExtensionServer | None:
        """Return the extension server of what a request asks for; None where we serve it."""
        if info.is_resource:
            return self.known(info.group, info.version)
        match info.path.strip("/").split("/"):
            case ["apis", group, version] | ["openapi", "v3", "apis", group, version]:
                return self.known(group, version)
        return None

    def known(self, group: str, version: str) -> ExtensionServer | None:
        self._refresh()
        return self._known.get((group, version))

    def takes(self, group: str, version: str) -> bool:
        return self.known(group, version) is not None

    def discovered(self, server: ExtensionServer, found: Discovered, *, is_available: bool) -> None:
        """Note what an extension's server says of itself."""
        if (server.discovered, server.is_available) != (found, is_available):
            server.discovered, server.is_available = found, is_available
            self.stamp += 1

    def _refresh(self) -> None:
        newest = self._store.changed(_BUCKET)
        if newest == self._seen:
            return
        self._seen = newest
        known: dict[tuple[str, str], ExtensionServer] = {}
        for record in self._store.list(_BUCKET).records:
            made = _extension_server(record.decode(), record.revision)
            if made is not None:
                former = self._known.get((made.group, made.version))
                if former is not None:
                    made.discovered = former.discovered
                    if _where(former) == _where(made):
                        made.session, former.session = former.session, None
                        made.tls = former.tls
                        made.is_available = made.is_available or former.is_available
                known[made.group, made.version] = made
        if known.keys() != self._known.keys():
            self.stamp += 1
        self._left += [one.session for one in self._known.values() if one.session is not None]
        self._known = known

    def backend(self, server: ExtensionServer) -> Backend:
        return Backend(
            server.host,
            lambda: self.dialer.service(server.service, server.port),
            self._tls(server),
            server.server_name,
            _OTHERWISE,
        )

    def session(self, server: ExtensionServer) -> aiohttp.ClientSession:
        current = self._known.get((server.group, server.version))
        if current is not None and _where(current) == _where(server):
            server = current  # looked at anew since the caller did: one session for both
        if server.session is None or server.session.closed:
            server.session = self.backend(server).session()
            if server is not current:
                self._left.append(server.session)
        return server.session

    def _tls(self, server: ExtensionServer) -> ssl.SSLContext:
        if server.tls is None:
            server.tls = self._made_tls(server)
        return server.tls

    def _made_tls(self, server: ExtensionServer) -> ssl.SSLContext:
        try:
            context = believing(server.bundle)
        except CallFailed as error:  # whom it means is not known: then it is nobody
            raise Unavailable(f"APIService {server.name}: {error}", details={}) from error
        if server.is_insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.front_proxy is not None:
            context.load_cert_chain(self.front_proxy.client.crt, self.front_proxy.client.key)
        return context

    async def serve(
        self, request: web.BaseRequest, info: RequestInfo, user: User, server: ExtensionServer
    ) -> web.StreamResponse:
        """Pass a request on, on behalf of its user: just what was authorized."""
        if not server.is_available:
            return web.Response(status=503, text="service unavailable\n")
        backend, target = self.backend(server), info.target + query_of(request.query)
        headers = user_headers(user)
        if is_upgrade(request):
            return await pass_upgrade(request, backend, target, headers)
        session = self.session(server)
        return await pass_on(request, backend, session, target, headers=headers)

    async def fetch(self, user: User, path: str, query: Mapping[str, str]) -> Obj:
        """Fetch what an extension's server answers to a GET of one of our own components."""
        server = self.of(parse("GET", path, query))
        if server is None:
            raise no_such_path()
        where = f"{server.group}/{server.version}"
        if not server.is_available:
            raise Unavailable(f"the server of {where} ({server.service}) is not available")
        headers = user_headers(user)
        headers.update({"Accept": "application/json", "Accept-Encoding": "identity"})
        url = f"https://{self.backend(server).host}{path}"
        try:
            async with asyncio.timeout(_FETCH_TIME):
                session = self.session(server)
                async with session.get(url, params=query, headers=headers) as reply:
                    data = await whole(reply)
            answer = decoded(data)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise unreachable(error) from error
        if reply.status >= 400:
            raise from_status(answer if isinstance(answer, dict) else {"code": reply.status})
        return answer if isinstance(answer, dict) else {}

    async def tidy(self) -> None:
        """Close connections to servers that no APIService names any more."""
        left, self._left = self._left, []
        for session in left:
            await session.close()

    async def close(self) -> None:
        self._left += [one.session for one in self._known.values() if one.session is not None]
        await self.tidy()


def _extension_server(obj: Obj, revision: int) -> ExtensionServer | None:
    spec = obj.get("spec") or {}
    service = spec.get("service")
    if service is None or not spec.get("group"):
        return None
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return ExtensionServer(
        obj["metadata"]["name"],
        spec["group"],
        spec.get("version", ""),
        Key(service.get("namespace", ""), service.get("name", "")),
        service.get("port") or 443,
        spec.get("caBundle") or "",
        bool(spec.get("insecureSkipTLSVerify")),
        spec.get("groupPriorityMinimum") or 1000,
        spec.get("versionPriority") or 100,
        revision,
        any(one["type"] == "Available" and one["status"] == "True" for one in conditions),
    )


def _where(server: ExtensionServer) -> tuple[object, ...]:
    return server.service, server.port, server.bundle, server.is_insecure


def user_headers(user: User) -> CIMultiDict[str]:
    """Make the X-Remote-* headers: a line for each group, as extension servers split none."""
    headers = CIMultiDict({"X-Remote-User": user.name})
    if user.uid:
        headers["X-Remote-Uid"] = user.uid
    headers.extend([("X-Remote-Group", group) for group in user.groups])
    for key, values in user.extra.items():
        headers.extend([(f"X-Remote-Extra-{quote(key, safe='')}", value) for value in values])
    return headers
