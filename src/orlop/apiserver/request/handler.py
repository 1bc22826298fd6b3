"""One HTTP request, from its first byte to its answer: who, what, may they, then do it.

Called by the HTTP server for every request. Every failure leaves as a metav1.Status; what is not an
ApiError is our own mistake, is logged with its story and shown to nobody.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from aiohttp import web
from multidict import MultiMapping

from ...api.kinds import Kind
from ...errors import ApiError, BadRequest, InternalError, Timeout, Unauthorized
from ...log import logger
from ...metrics import MEDIA_TYPE, PROCESS
from ...wellknown import STATE_PATH
from ..aggregation import ExtensionServers
from ..aggregation.extension_servers import ExtensionServer
from ..audit import Auditor, Trail
from ..auth.authentication import User, from_certificate
from ..auth.authorization import Authorizer
from ..auth.bearer_tokens import BearerTokens, token_of
from ..auth.impersonation import effective_user
from ..auth.serviceaccount_tokens import Tokens
from ..backup import send_state
from ..discovery.documents import Discovery
from ..discovery.openapi import OpenApi
from ..discovery.version import version_info
from ..registry import Registry
from . import metrics, requestinfo
from .dispatch import Dispatcher
from .failures import no_such_path
from .health import ENDPOINTS, Checks
from .http import InTime, answer, failure, read
from .offload import SEAT
from .priority_and_fairness import FlowControl
from .render import encode
from .requestinfo import RequestInfo

log = logger(__name__)

UPLOAD_TIMEOUT = 20.0  # seconds for a body to come; a megabyte takes ten on a bad line
REQUEST_TIMEOUT = 60.0  # seconds; watches, logs and the like have as long as they want
NOBODY = User("")
_TRAIL = web.RequestKey("audit trail", Trail)
ISSUER_PATHS = (".well-known/openid-configuration", "openid/v1/jwks")


class Handler:
    def __init__(
        self,
        registry: Registry,
        authorizer: Authorizer,
        dispatcher: Dispatcher,
        health: Checks,
        flow_control: FlowControl | None = None,
        auditor: Auditor | None = None,
        extension_servers: ExtensionServers | None = None,
        bearer: BearerTokens | None = None,
    ) -> None:
        self._registry = registry
        self._authorizer = authorizer
        self._dispatcher = dispatcher
        self._health = health
        self._flow_control = flow_control or FlowControl()
        self._auditor = auditor
        self._extension_servers = extension_servers
        self._bearer = bearer or BearerTokens(registry.store, registry.tokens)
        self._discovery = Discovery(registry.kinds, extension_servers)
        self._openapi = OpenApi(registry.kinds, registry.schema, extension_servers)
        self._version = encode(version_info()) + b"\n"
        self.know: Callable[[asyncio.BaseTransport | None], None] = lambda transport: None

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request; count it, and keep a record of it where the audit policy wants one."""
        try:
            info = requestinfo.parse(request.method, request.rel_url.raw_path, request.query)
        except BadRequest as error:
            refused = failure(error)
            refused.force_close()  # nobody has asked who it is
            return refused
        kind = self._registry.kinds.by_resource(info.group, info.version, info.resource)
        counted = metrics.Request(info, kind, time.monotonic())
        response = None
        try:
            response = await self._answer(request, info, kind)
            return response
        finally:
            code = 499 if response is None else response.status  # the client is gone
            counted.end(code, time.monotonic())
            await _end_trail(request, response)

    async def _answer(
        self, request: web.BaseRequest, info: RequestInfo, kind: Kind | None
    ) -> web.StreamResponse:
        try:
            response = await self._serve(request, info, kind)
            log.debug("request", method=request.method, path=request.path, code=response.status)
            return response
        except ApiError as error:
            log.debug("refused", method=request.method, path=request.path, error=error)
            refused = failure(error)
            if error.status_code == 401:
                refused.force_close()  # strangers may come again, but not stay
            return refused
        except ConnectionResetError:  # who asked is gone, in the middle of our answer
            log.debug("client gone", method=request.method, path=request.path)
            return web.Response(status=499)
        except Exception:
            log.error("a request failed", exc_info=True, method=request.method, path=request.path)
            return failure(InternalError("Internal error occurred: see the control plane's log"))

    async def _serve(
        self, request: web.BaseRequest, info: RequestInfo, kind: Kind | None
    ) -> web.StreamResponse:
        """Serve a request.

        1. Paths open to all. 2. Who. 3. Is it their turn. 4. May they. 5. Do it, in time.
        """
        open_answer = self._open(request, info)  # 1
        if open_answer is not None:
            return open_answer
        caller = await self._caller(request, info)  # 2
        user = effective_user(caller, request.headers, self._authorizer)
        if _TRAIL in request and user is not caller:
            request[_TRAIL].impersonates(user)
        request[SEAT] = self._flow_control.large.seat(user.name)
        seat = self._flow_control.of(request.method).seat(user.name)  # 3
        if metrics.is_long_running(info):
            async with seat:
                self._authorize(request, info, kind, user)
            if _TRAIL in request:
                request[_TRAIL].tell("ResponseStarted")
            return await self._act(request, info, kind, user)
        if request.body_exists and not request.content.is_eof() and not self._is_passed_on(info):
            self._authorize(request, info, kind, user)
            await self._receive(request, user)
        async with seat:
            self._authorize(request, info, kind, user)  # 4
            async with InTime(request, REQUEST_TIMEOUT):  # 5
                return await self._act(request, info, kind, user)

    async def _receive(self, request: web.BaseRequest, user: User) -> None:
        """Read the whole body, which may come slowly, before the request takes its turn."""
        async with self._flow_control.uploads.seat(user.name):
            patience = min(UPLOAD_TIMEOUT, REQUEST_TIMEOUT)
            try:
                async with asyncio.timeout(patience):
                    await read(request)
            except TimeoutError as error:
                words = f"the body of the request did not come within {patience:g} s"
                raise Timeout(words, details={}) from error

    def _is_passed_on(self, info: RequestInfo) -> bool:
        """Return whether an extension server answers, who reads the body itself."""
        return self._extension_server(info) is not None

    def _extension_server(self, info: RequestInfo) -> ExtensionServer | None:
        return self._extension_servers.of(info) if self._extension_servers is not None else None

    async def _caller(self, request: web.BaseRequest, info: RequestInfo) -> User:
        """Return who calls; from here on there is a record, of strangers too."""
        caller = NOBODY
        try:
            caller = await authenticate(request, self._bearer)
            self.know(request.transport)
            return caller
        finally:
            trail = self._auditor.begin(request, info, caller) if self._auditor else None
            if trail is not None:
                request[_TRAIL] = trail

    def _authorize(
        self, request: web.BaseRequest, info: RequestInfo, kind: Kind | None, user: User
    ) -> None:
        is_allowed = False
        try:
            self._authorizer.check(user, info, kind)
            is_allowed = True
        finally:
            if _TRAIL in request:
                request[_TRAIL].authorized(is_allowed)

    async def _act(
        self, request: web.BaseRequest, info: RequestInfo, kind: Kind | None, user: User
    ) -> web.StreamResponse:
        server = self._extension_server(info)
        if server is not None and self._extension_servers is not None:
            return await self._extension_servers.serve(request, info, user, server)
        if not info.is_resource:
            if info.path == "/metrics" and info.verb == "get":
                return answer(PROCESS.text().encode(), MEDIA_TYPE)
            if info.path == STATE_PATH and info.verb == "get":
                return await send_state(request, self._registry.store)
            if info.path.strip("/") == "version" and info.verb == "get":
                return answer(self._version)
            return self._document(request, info)
        if kind is None:
            raise no_such_path()
        return await self._dispatcher.serve(request, info, user, kind)

    def _open(self, request: web.BaseRequest, info: RequestInfo) -> web.Response | None:
        path = info.path.strip("/")
        if path in ISSUER_PATHS and self._registry.tokens is not None:
            return issuer_document(request, path, self._registry.tokens)
        if path.partition("/")[0] not in ENDPOINTS:
            return None
        excluded = tuple(_all(request.query, "exclude"))
        is_verbose = requestinfo.flag(request.query, "verbose")
        health = self._health.report(path, verbose=is_verbose, excluded=excluded)
        if health is None:
            raise no_such_path()
        return answer(health.text.encode(), "text/plain; charset=utf-8", code=health.code)

    def _document(self, request: web.BaseRequest, info: RequestInfo) -> web.Response:
        if info.verb not in ("get", "head"):
            raise no_such_path()
        accept = request.headers.get("Accept", "")
        document = self._discovery.document(info.path, accept)
        if document is None:
            document = self._openapi.document(info.path, accept)
        if document is None:
            raise no_such_path()
        headers = {"ETag": document.etag, "Vary": "Accept"}
        if document.etag in request.headers.get("If-None-Match", ""):
            # With a Content-Type, kubectl's cache would take it for the stored answer's own.
            unchanged = web.Response(status=304, headers=headers)
            unchanged.headers.pop("Content-Type", None)
            return unchanged
        return answer(document.body, document.media_type, headers=headers)


async def _end_trail(request: web.BaseRequest, response: web.StreamResponse | None) -> None:
    if _TRAIL not in request:
        return
    trail: Trail = request[_TRAIL]
    if response is not None and not response.prepared:
        response.headers["Audit-Id"] = trail.id
    await trail.end(response)


async def authenticate(request: web.BaseRequest, bearer: BearerTokens) -> User:
    """Authenticate by the certificate, else by the token.

    Which of both was wrong is told to nobody.
    """
    transport = request.transport
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    token = "" if certificate else token_of(request)
    if not token:
        return from_certificate(certificate)
    try:
        return (await bearer.authenticate(token)).user
    except Unauthorized as error:
        log.debug("token refused", error=error)
        raise Unauthorized("Unauthorized") from error


def issuer_document(request: web.BaseRequest, path: str, tokens: Tokens) -> web.Response:
    """Answer what others need to check our tokens: public keys, and where they are."""
    if request.method not in ("GET", "HEAD"):
        raise no_such_path()
    if path.endswith("/jwks"):
        return answer(encode(tokens.key_set()), "application/jwk-set+json")
    return answer(encode(tokens.configuration(request.host)))


def _all(query: MultiMapping[str], name: str) -> list[str]:
    return query.getall(name, [])
