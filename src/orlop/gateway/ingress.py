"""Routes HTTP for Ingresses of the class `orlop`.

Follows Ingresses, their classes and the Secrets they name; each request is passed on by `proxy` to
an endpoint of the service that the rules name. It is always reached by a service of the cluster
(`ingress_pod`), and at ports of this host where the settings open some; an Event on each Ingress
says where. Certificates are chosen by the name that the client asks for.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import socket
import ssl
import tempfile
from pathlib import Path
from typing import NamedTuple

import aiohttp
from aiohttp import web

from .. import errors
from ..api.kinds import INGRESS, INGRESS_CLASS, SECRET, SERVICE
from ..api.objects import Key, Obj, is_deleting, key_of, uid_of
from ..client.api import Api
from ..client.informer import Informers
from ..client.recorder import EventType
from ..controllers.framework.controller import Controller, Result
from ..destinations import Refused
from ..listener import open_port
from .backends import Backends, NoEndpoints, place_of
from .ingress_listeners import OPTIONS, IngressEndpoint, IngressListeners, PodConnection
from .proxy import pass_on
from .routing import SERVICE_KEY, Routes, certificates, is_ours

FORWARDED = (
    f"kubectl port-forward -n {SERVICE_KEY.namespace} service/{SERVICE_KEY.name} 8080:80 8443:443"
)


class HostPorts(NamedTuple):
    """Where the router listens at this host."""

    listen: str
    ports: tuple[int, int]  # for HTTP and HTTPS, 0 for none
    address: str  # this host for others


class IngressRouter(Controller):
    """The router; `tls`: with a certificate for unknown names; `key`: that of the pods' network."""

    name = "ingress"
    kind = INGRESS
    workers = 1

    def __init__(
        self,
        api: Api,
        informers: Informers,
        backends: Backends,
        *,
        at: HostPorts,
        tls: ssl.SSLContext,
        key: str,
    ) -> None:
        super().__init__(api, informers)
        self._backends, self._tls, self._key = backends, tls, key
        self._listen, self._ports, self._address = at
        self._classes = informers.informer(INGRESS_CLASS)
        self._secrets = informers.informer(SECRET)
        self._services = informers.informer(SERVICE)
        self._routes = Routes([])
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._loaded: dict[Key, tuple[str, ssl.SSLContext]] = {}
        self._told: dict[tuple[str, str], str] = {}  # by the Ingress's uid and the reason
        self._problems: list[str] = []
        self._listeners: IngressListeners | None = None
        self._endpoint, self._is_open = IngressEndpoint(), asyncio.Event()
        self.watch(self._classes, lambda event, _: [key_of(one) for one in self.objects.list()])
        self.watch(
            self._services,
            lambda event, _: (
                [key_of(one) for one in self.objects.list()]
                if key_of(event.object) == SERVICE_KEY
                else []
            ),
        )
        self.watch(self._secrets, lambda event, _: self._using(key_of(event.object)))

    async def run(self) -> None:
        runner = web.ServerRunner(
            web.Server(self._handle, handler_cancellation=True, **OPTIONS),
            shutdown_timeout=1.0,
        )
        await runner.setup()
        try:
            await self._serve(runner)
            async with asyncio.TaskGroup() as group:
                assert runner.server is not None, "it was set up above"
                self._listeners = IngressListeners(runner.server, self._tls, self._key, group)
                self._endpoint = self._open_for_pods(self._listeners)
                self._is_open.set()
                await super().run()
        finally:
            self._listeners = None
            await runner.cleanup()

    def _open_for_pods(self, listeners: IngressListeners) -> IngressEndpoint:
        try:
            return listeners.open(self._listen)
        except OSError as error:
            self.log.error("pods do not reach ingress", listen=self._listen, error=error)
            return IngressEndpoint()

    async def opened(self) -> IngressEndpoint:
        """Return where pods find us, as soon as they do."""
        await self._is_open.wait()
        return self._endpoint

    async def connect(self, port: int) -> socket.socket:
        """Connect from within this process; raise OSError."""
        if self._listeners is None:
            raise ConnectionRefusedError("the router is not up")
        return await self._listeners.connect(port)

    async def _serve(self, runner: web.ServerRunner) -> None:
        """Open the ports that are configured and can be had; others are told of on Ingresses."""
        opened = []
        self._tls.sni_callback = self._choose
        for port, tls in zip(self._ports, (None, self._tls), strict=True):
            try:
                if port:
                    await web.SockSite(
                        runner, open_port(self._listen, port), ssl_context=tls
                    ).start()
                opened.append(port)
            except OSError as error:
                why = os.strerror(error.errno or 0)
                words = f"cannot listen at {self._listen}:{port} for ingress: {why}"
                self._problems.append(words)
                self.log.error("no port for ingress", port=port, error=why)
                opened.append(0)
        self._ports = (opened[0], opened[1])

    # What is asked for

    async def reconcile(self, key: Key) -> Result:
        ours = [one for one in self.objects.list() if is_ours(one, self._classes.list())]
        self._routes = Routes(ours)
        problems = self._load(ours)
        ingress = self.objects.get(key)
        if ingress is None:
            uids = {uid_of(one) for one in self.objects.list()}
            self._told = {said: words for said, words in self._told.items() if said[0] in uids}
        if ingress is None or is_deleting(ingress) or ingress not in ours:
            return Result.done()
        if self._problems:
            await self._tell(ingress, "Warning", "PortNotOpened", "; ".join(self._problems))
        if key in problems:
            await self._tell(ingress, "Warning", "BadCertificate", "; ".join(problems[key]))
        await self._write_address(ingress)
        return Result.done()

    async def _write_address(self, ingress: Obj) -> None:
        """Write our address where a port is open to others; else the service's.

        Other routers do the same.
        """
        service = self._services.get(SERVICE_KEY) or {}
        inside = (service.get("spec") or {}).get("clusterIP")
        address = self._address if any(self._ports) else inside
        wanted = {"loadBalancer": {"ingress": [{"ip": address}] if address else []}}
        try:
            await self.write_status(ingress, wanted)
        except errors.NotFound:
            return
        places = [f"at {word}://{self._address}:{port}" for word, port in
                  zip(("http", "https"), self._ports, strict=True) if port]  # fmt: skip
        await self._tell(
            ingress, "Normal", "Served", "Reachable " + ", ".join([*places, f"by {FORWARDED}"])
        )

    async def _tell(self, ingress: Obj, kind: EventType, reason: str, words: str) -> None:
        """Tell it once, until there is something else to say."""
        said = (ingress["metadata"]["uid"], reason)
        if self._told.get(said) != words:
            self._told[said] = words
            named = {"apiVersion": INGRESS.api_version, "kind": INGRESS.kind, **ingress}
            await self.recorder.event(named, kind, reason, words)

    # Requests

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        backend = self._routes.find(request.host or "", request.path)
        if backend is None:
            return _plain(404, "no Ingress has a rule for this host and path")
        client = self._client(request)
        try:
            return await pass_on(
                request,
                lambda: self._backends.connect(backend.service, backend.port, client),
                client[0] if client is not None else request.remote or "127.0.0.1",
            )
        except NoEndpoints as error:
            return _plain(503, str(error))
        except (OSError, aiohttp.ClientError) as error:
            self.log.debug("no answer of a backend", service=str(backend.service), error=error)
            why = error if isinstance(error, Refused) else error.__cause__  # aiohttp wraps it
            if isinstance(why, Refused):
                return _plain(502, f"service {backend.service} may not be reached: {why}")
            return _plain(502, f"service {backend.service} does not answer")

    def _client(self, request: web.BaseRequest) -> tuple[str, int] | None:
        """Return the client's address as pods are told it; None where they are told ours.

        That is so for clients within this process, and for IPv6, of which a notice cannot speak.
        """
        if isinstance(request.protocol, PodConnection):
            return request.protocol.pod
        peer = request.transport.get_extra_info("peername") if request.transport else None
        place = place_of(peer) if peer else None
        return place if place is not None and ":" not in place[0] else None

    # Certificates

    def _using(self, secret: Key) -> list[Key]:
        return [
            key_of(one) for one in self.objects.list() if secret in certificates([one]).values()
        ]

    def _load(self, ingresses: list[Obj]) -> dict[Key, list[str]]:
        """Have the certificates of all; what is wrong with some, by Ingress."""
        contexts: dict[str, ssl.SSLContext] = {}
        problems: dict[Key, list[str]] = {}
        for ingress in ingresses:
            for host, key in certificates([ingress]).items():
                try:
                    contexts.setdefault(host, self._context(key))
                except (ValueError, OSError) as error:
                    words = f"Secret {key.name} has no certificate that can be used: {error}"
                    problems.setdefault(key_of(ingress), []).append(words)
        self._contexts = contexts
        return problems

    def _context(self, key: Key) -> ssl.SSLContext:
        secret = self._secrets.get(key)
        if secret is None:
            raise ValueError("there is no such Secret")
        revision = str(secret["metadata"].get("resourceVersion"))
        known = self._loaded.get(key)
        if known is not None and known[0] == revision:
            return known[1]
        context = load_context(secret)
        self._loaded[key] = (revision, context)
        return context

    def _choose(self, connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        name = (name or "").lower()
        for candidate in (name, "*." + name.partition(".")[2], ""):
            found = self._contexts.get(candidate)
            if found is not None:
                connection.context = found
                return


def load_context(secret: Obj) -> ssl.SSLContext:
    """Make a server's context from a Secret of type kubernetes.io/tls; raise ValueError."""
    data = secret.get("data") or {}
    try:
        parts = [base64.b64decode(data[name]) for name in ("tls.crt", "tls.key")]
    except (KeyError, binascii.Error) as error:
        raise ValueError("expected tls.crt and tls.key") from error
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    with tempfile.TemporaryDirectory(prefix="orlop-") as folder:  # for its owner alone
        for name, part in zip(("crt", "key"), parts, strict=True):
            (Path(folder) / name).write_bytes(part)
        try:
            context.load_cert_chain(Path(folder) / "crt", Path(folder) / "key")
        except ssl.SSLError as error:
            raise ValueError(error.reason or str(error)) from error
    return context


def _plain(status: int, words: str) -> web.Response:
    return web.Response(status=status, text=words + "\n")
