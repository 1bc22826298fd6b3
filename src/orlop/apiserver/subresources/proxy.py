"""proxy: an HTTP request passed on to a pod, a service or a node.

Called for every method on `pods|services/<[scheme:]name[:port]>/proxy/<path>` and on
`nodes/<name[:port]>/proxy/<path>`, by `kubectl proxy`, `kubectl get --raw` and browsers. As
registry/core/service/storage, pod/strategy.go and node/strategy.go: ResourceLocation.
"""

from __future__ import annotations

import ssl
from functools import cache
from typing import NamedTuple

from aiohttp import web
from yarl import URL

from ... import wellknown
from ...api import kinds
from ...api.names import is_port
from ...api.objects import Key, Obj
from ...errors import Unavailable
from ...upgrade import is_upgrade
from ..proxy.cluster_dialer import ClusterDialer
from ..proxy.http_proxy import Backend, pass_on, pass_upgrade, unreachable
from ..proxy.kubelet_dialer import KubeletClient, urls_of
from ..proxy.sessions import Sessions
from ..registry import Call, Registry
from ..request.failures import bad_request, not_found
from .admitting import admit

_KEPT = 32  # backends whose connections are kept open


class Named(NamedTuple):
    """The name by which a client calls its target."""

    scheme: str
    name: str
    port: str


def split_name(text: str) -> Named | None:
    """Split `https:web:8443`, `web:http` or `web`.

    As apimachinery/pkg/util/net: SplitSchemeNamePort.
    """
    parts = text.split(":")
    match parts:
        case [name]:
            named = Named("http", name, "")
        case [name, port]:
            named = Named("http", name, port)
        case ["http" | "https" | "" as scheme, name, port]:
            named = Named(scheme or "http", name, port)
        case _:
            return None
    return named if named.name else None


class Proxies:
    def __init__(self, registry: Registry, dialer: ClusterDialer, kubelet: KubeletClient) -> None:
        self._registry = registry
        self._dialer = dialer
        self._kubelet = kubelet
        self._sessions: Sessions[tuple[str, str]] = Sessions(_KEPT)

    async def serve(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        base, target = call.prefix, call.beyond
        kind = f"{call.kind.kind}ProxyOptions"
        options: Obj = {"apiVersion": "v1", "kind": kind, "path": target}
        await admit(self._registry, call, options, ("", "v1", kind), "CONNECT")
        backend, key = await self._backend(call)
        forwarded = {
            "X-Forwarded-Uri": f"{base}{target}",
            "X-Forwarded-Host": request.host,
            "X-Forwarded-Proto": "https",
        }
        query = f"?{request.rel_url.raw_query_string}" if request.rel_url.raw_query_string else ""
        if is_upgrade(request):
            return await pass_upgrade(request, backend, (target or "/") + query, forwarded)
        if not target and request.method in ("GET", "HEAD"):
            # Relative links of a page work only below a slash.
            return web.Response(status=301, headers={"Location": f"{base}/{query}"})
        target = (target or "/") + query
        known = (key, f"{backend.scheme}://{backend.host}")
        async with self._sessions.use(known, backend.session) as session:
            return await pass_on(request, backend, session, target, headers=forwarded, prefix=base)

    async def _backend(self, call: Call) -> tuple[Backend, str]:
        if call.kind.plural == "nodes":
            return self._node(call)
        named = split_name(call.name)
        if named is None:
            what = call.kind.kind.lower()
            raise bad_request(f'invalid {what} request "{call.name}"')
        key = Key(call.namespace, named.name)
        if call.kind.plural == "pods":
            return self._pod(key, named, self._port_of(key, named))
        return self._service(key, named)

    def _port_of(self, key: Key, named: Named) -> int:
        """Return the port of a pod: as asked, or the first that its containers name."""
        record = self._registry.store.newest(kinds.POD.resource, key)
        if record is None:
            raise not_found(kinds.POD, key.name)
        if named.port:
            if not is_port(named.port):
                raise bad_request(f'invalid pod request "{key.name}:{named.port}"')
            return int(named.port)
        for container in record.decode()["spec"].get("containers") or ():
            for port in container.get("ports") or ():
                return int(port["containerPort"])
        return 443 if named.scheme == "https" else 80

    def _pod(self, key: Key, named: Named, port: int) -> tuple[Backend, str]:
        host = f"{key.name}.{key.namespace}.pod:{port}"
        backend = Backend(host, lambda: self._dialer.pod(key, port), _tls(named.scheme))
        return backend, f"pod {key} {port}"

    def _service(self, key: Key, named: Named) -> tuple[Backend, str]:
        """Reach one of the service's pods; no address that the service's maker could choose.

        As service/storage: isValidAddress. Else who may edit services could reach whatever this
        host does, and as this host.
        """
        found = self._dialer.endpoints(key, named.port)
        endpoint = next((one for one in found if one.pod), None)
        if endpoint is None:
            raise Unavailable(f'no endpoints available for service "{key.name}"', details={})
        backend, known = self._pod(Key(key.namespace, endpoint.pod), named, endpoint.port)
        host = f"{key.name}.{key.namespace}.svc:{endpoint.port}"
        return Backend(host, backend.dial, backend.tls), known

    def _node(self, call: Call) -> tuple[Backend, str]:
        """Reach the node's kubelet, with our own certificate.

        Whoever may come here may do everything there.
        """
        named = split_name(call.name)
        name = call.name if named is None else named.name
        record = self._registry.store.get(kinds.NODE.resource, Key("", name))
        if record is None:
            raise not_found(kinds.NODE, name)
        urls = urls_of(record.decode())
        if not urls:
            raise unreachable(OSError("the node has no InternalIP or no kubelet port"))
        url = URL(urls[0])
        host, port = url.host or "", url.port or 443
        tls, server_name, is_kubelet = self._kubelet.tls, wellknown.AGENT_SERVER_NAME, True
        if named is not None and named.port and named.port != str(port):
            if not named.port.isdecimal():
                raise bad_request(f'invalid node request "{call.name}"')
            port, tls, server_name = int(named.port), _tls(named.scheme), ""
            is_kubelet = False  # a node may be this very host, and what else listens there is not
        backend = Backend(
            f"{host}:{port}",
            lambda: self._dialer.address(host, port, is_ours=is_kubelet),
            tls,
            server_name,
        )
        return backend, f"node {host}:{port} {tls is self._kubelet.tls}"

    async def close(self) -> None:
        await self._sessions.close()


def _tls(scheme: str) -> ssl.SSLContext | None:
    return _unchecked() if scheme == "https" else None


@cache
def _unchecked() -> ssl.SSLContext:
    """Make a TLS context that does not check certificates.

    Nobody can say who signed a pod's own certificate. Upstream does not check it either.
    """
    context = ssl.SSLContext(
        ssl.PROTOCOL_TLS_CLIENT
    )  # without authorities, which take long to read
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
