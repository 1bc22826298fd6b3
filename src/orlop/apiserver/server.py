"""Puts the API server together, starts it and stops it.

Made by the composition with an open store. `start` serves over TLS, `client` gives our own
components the same API without it; `stop` lets every watch end in order and does not hang.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from aiohttp.web_protocol import RequestHandler

from ..api.aggregated_roles import AggregatedRole
from ..api.reading import MAX_BYTES
from ..api.schema import Schema, load
from ..destinations import Destinations
from ..jwt import SigningKey
from ..listener import Listener
from ..log import logger
from ..metrics import PROCESS
from ..network.ranges import Ranges
from ..settings import NetworkSettings, OidcSettings, PodSecuritySettings
from ..store import Store
from .admission import Means, standard
from .admission.policies.status import PolicyStatus
from .admission.rights.pod_security import config_of
from .aggregation import ExtensionServers, FrontProxy
from .aggregation.controller import AggregationController
from .audit import Auditor
from .audit.audited_api import AuditedApi
from .auth.access_reviews import Reviews
from .auth.authentication import user as user_of
from .auth.authorization import Authorizer
from .auth.bearer_tokens import BearerTokens
from .auth.node_authorizer import NodeAuthorizer
from .auth.oidc import OidcAuthenticator
from .auth.rbac import Rbac
from .auth.serviceaccount_tokens import Tokens
from .bootstrap import objects
from .crd.controller import DefinitionController
from .crd.served import ServedKinds
from .inprocess import InProcessApi
from .objects import virtual_kinds
from .proxy.cluster_dialer import ClusterDialer
from .proxy.kubelet_dialer import KubeletClient
from .proxy.webhook_client import WebhookClient
from .registry import Registry
from .request.context import REQUEST_TIMEOUT, HandlerConfig
from .request.dispatch import Dispatcher
from .request.handler import Handler
from .request.health import HealthChecks
from .request.metrics import look_at_store
from .request.nonresource import NonResourcePaths
from .request.priority_and_fairness import FlowControl
from .subresources.proxy import Proxies

log = logger(__name__)

_DRAIN = 2.0  # seconds that requests have to end once the server stops
_RESTART = 5.0  # seconds before a part that broke is begun again
# The HTTP library tells of every malformed request with a traceback: strangers could fill the disk.
_UNHEARD = logging.getLogger("orlop.apiserver.unheard")
_UNHEARD.setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What a server may be given beside its store, its keys and its schema."""

    auditor: Auditor | None = None  # without one no records are kept
    ranges: Ranges | None = None
    pod_security: PodSecuritySettings | None = None
    # Without a front proxy extension servers cannot tell that it is us who ask.
    front_proxy: FrontProxy | None = None
    oidc: OidcSettings | None = None
    destinations: Destinations | None = None
    flow_control: FlowControl | None = None
    unconfined: Sequence[str] = ()  # custom kinds whose programs run outside of containers
    roles: Sequence[AggregatedRole] = ()  # what custom kinds add to the roles of every cluster
    request_timeout: float = REQUEST_TIMEOUT
    keepalive: float = 90.0  # seconds that a connection may be silent


class ApiServer:
    def __init__(
        self,
        store: Store,
        *,
        tls: ssl.SSLContext | None = None,
        kubelet_tls: ssl.SSLContext | None = None,
        schema: Schema | None = None,
        signing_key: SigningKey | None = None,
        options: ServerOptions = ServerOptions(),
    ) -> None:
        """Put the server together.

        `tls` asks for client certificates (CERT_OPTIONAL); with None the server does not listen for
        HTTP. Without a `signing_key` no tokens of service accounts are issued, or taken.
        """
        self._options, oidc = options, options.oidc
        self._ranges = options.ranges or Ranges.of(NetworkSettings())
        tokens = Tokens(store, signing_key) if signing_key is not None else None
        issuer = OidcAuthenticator(oidc) if oidc is not None and oidc.issuer_url else None
        self._bearer = BearerTokens(store, tokens, issuer)
        self._rbac = Rbac(store)
        self._kubelet = KubeletClient(kubelet_tls)
        self.dialer = ClusterDialer(store, self._kubelet, destinations=options.destinations)
        self._webhooks = WebhookClient(self.dialer)
        self.extension_servers = ExtensionServers(store, self.dialer, options.front_proxy)
        kinds = ServedKinds(store, has_tokens=tokens is not None, webhooks=self._webhooks)
        schema = schema or load_schema(store.path)
        self._authorizer = Authorizer(self._rbac, NodeAuthorizer(store))
        means = Means(kinds, schema, self._webhooks, self._authorizer)
        admission = standard(
            store,
            has_tokens=tokens is not None,
            addresses=self._ranges.services,
            means=means,
            pod_security=config_of(
                options.pod_security or PodSecuritySettings(), options.unconfined
            ),
        )
        self.registry = Registry(store, kinds, schema, admission, tokens)
        self.registry.aggregated = self.extension_servers.fetch
        self.registry.is_taken = self.extension_servers.takes
        PROCESS.before("apiserver", lambda: look_at_store(self.registry))
        self.flow_control = options.flow_control or FlowControl()
        self._proxies: Proxies | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._tls = tls
        self._server: web.Server | None = None
        self._listener: Listener | None = None
        self._is_stopping = False

    async def start(self, host: str, port: int) -> int:
        """Serve; return the port. The objects every cluster has are there before anyone asks."""
        if self._tls is None:
            raise AssertionError("ApiServer.start needs a TLS context with client certificates")
        self._tls.set_alpn_protocols(["http/1.1"])
        handler = self._handler()
        self._server = web.Server(
            handler.handle,
            request_factory=_request,
            handler_cancellation=True,
            keepalive_timeout=self._options.keepalive,
            lingering_time=_DRAIN,
            access_log=None,
            auto_decompress=False,  # a proxied body goes on as it is, and we take none
            logger=_UNHEARD,
        )
        self._listener = Listener(self._server, self._tls)
        bound = self._listener.start(host, port)
        await self.prepare(bound)
        log.info("serving", host=host, port=bound)
        return bound

    async def prepare(self, port: int = 443) -> None:
        """Make the objects every cluster has, and serve its custom resources; part of `start`."""
        client = self.client("system:apiserver", ["system:masters"])
        await objects.ensure(
            client, port, self._ranges, self.extension_servers.front_proxy, self._options.roles
        )
        registry = self.registry
        aggregation = AggregationController(registry, client, self.extension_servers)
        await aggregation.keep_own()
        if not self._tasks:
            statuses = PolicyStatus(registry.store, client, registry.kinds, registry.shapes)
            work = {
                "custom resource definitions": DefinitionController(registry, client).run,
                "admission policies": statuses.run,
                "aggregation": aggregation.run,
            }
            self._tasks = [
                asyncio.create_task(keep_running(name, run), name=name)
                for name, run in work.items()
            ]

    def _handler(self) -> Handler:
        authorizer = self._authorizer
        reviews = Reviews(authorizer, self._rbac, self._bearer)
        self._proxies = Proxies(self.registry, self.dialer, self._kubelet)
        dispatcher = Dispatcher(self.registry, authorizer, reviews, self._kubelet, self._proxies)
        store = self.registry.store
        health = HealthChecks(
            {"ping": lambda: True, "store": lambda: store.is_writable},
            {"shutdown": lambda: not self._is_stopping},
        )
        config = HandlerConfig(
            registry=self.registry,
            authorizer=authorizer,
            bearer=self._bearer,
            flow_control=self.flow_control,
            extension_servers=self.extension_servers,
            dispatcher=dispatcher,
            nonresource=NonResourcePaths(self.registry, self.extension_servers),
            health=health,
            auditor=self._options.auditor,
            know=self._know,
            timeout=self._options.request_timeout,
        )
        return Handler(config)

    def _know(self, transport: asyncio.BaseTransport | None) -> None:
        if self._listener is not None:
            self._listener.know(transport)

    def client(self, user: str, groups: Sequence[str] = ()) -> InProcessApi:
        """Make an API for our own components; the user's name is that of its fields' manager."""
        reviews = Reviews(self._authorizer, self._rbac, self._bearer)
        who = user_of(user, groups)
        if self._options.auditor is not None:
            return AuditedApi(self.registry, who, reviews, self._options.auditor)
        return InProcessApi(self.registry, who, reviews)

    def serve_virtual(self, source: virtual_kinds.Source) -> None:
        """Serve the kinds of a source, from the next request on."""
        virtual_kinds.add(self.registry, source)

    async def stop(self) -> None:
        """End watches, give requests a moment, close every connection."""
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
            self._tasks = []
        self.registry.end_watches()
        if self._listener is not None:
            await self._listener.close()
            self._listener = None
        if self._server is not None:
            await asyncio.sleep(0)  # so that every request that has come in is under way
            self._server.pre_shutdown()
            await self._server.shutdown(_DRAIN)
            self._server = None
        if self._proxies is not None:
            await self._proxies.close()
        await self.extension_servers.close()
        await self._webhooks.close()
        await self.dialer.close()
        await self._kubelet.close()


def load_schema(state: Path) -> Schema:
    """Load the schema, kept beside the state so that it is built once, at the first start."""
    kept = state.with_suffix(".schema")
    try:
        cached: bytes | None = kept.read_bytes()
    except OSError:
        cached = None
    schema = load(cached)
    if schema.is_fresh:
        try:
            kept.write_bytes(schema.dumps())
        except OSError as error:
            log.warning("cannot keep the schema; the next start will be slower", error=error)
    return schema


def _request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    """Make a request whose body may be as large as upstream lets it be."""
    loop = asyncio.get_running_loop()
    return _Request(message, payload, protocol, writer, task, loop, client_max_size=MAX_BYTES)


class _Request(web.BaseRequest):
    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        """Remove the Server header: clients need not know which Python and which library answer."""
        response.headers.pop("Server", None)


async def keep_running(
    name: str, run: Callable[[], Awaitable[None]], pause: float = _RESTART
) -> None:
    """Run a task, and begin it again after a while whenever it fails: nothing else would."""
    while True:
        try:
            await run()
        except Exception:
            log.error("part of the API server broke", part=name, exc_info=True)
        await asyncio.sleep(pause)
