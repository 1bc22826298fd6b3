"""Requests of HTTP before their bodies: heads, paths, queries, selectors, headers; and answers."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, MultiDict
from yarl import URL

from orlop.api import kinds
from orlop.apiserver.admission.webhooks.review import refusal, verdict_of
from orlop.apiserver.aggregation.discovered import (
    Discovered,
    aggregated,
    definitions_of,
    resources_of,
    schema_path_of,
)
from orlop.apiserver.auth.authentication import User
from orlop.apiserver.auth.bearer_tokens import token_of, without_token
from orlop.apiserver.auth.impersonation import effective_user
from orlop.apiserver.crd import webhook as conversion
from orlop.apiserver.objects.selection import select
from orlop.apiserver.proxy.http_proxy import _refused, _status_of, passed_on, rewritten
from orlop.apiserver.proxy.webhook_client import CallFailed, _refusal
from orlop.apiserver.request import http, options, requestinfo
from orlop.apiserver.request.body import decode_json, media_type_of
from orlop.apiserver.request.negotiation import form_of
from orlop.apiserver.server import _request
from orlop.apiserver.subresources.proxy import split_name
from orlop.apiserver.verbs.delete import DeleteOptions, options_from
from orlop.errors import ApiError
from orlop.gateway.proxy import _end_to_end, _forwarded
from orlop.gateway.routing import Routes
from orlop.kubelet.server.exec import SPDY_PROTOCOLS, negotiate, wanted_of
from orlop.kubelet.server.logs import LogOptions
from orlop.kubelet.server.port_forward import ports_of

from ..target import Loop, Registry, Target, encoded

target = Registry()
KINDS = kinds.Kinds()
_HEADS = (
    b"GET /api/v1/namespaces/a/pods?watch=1&labelSelector=a%3Db HTTP/1.1\r\nHost: h\r\n"
    b"Accept: application/json;as=Table;v=v1;g=meta.k8s.io, */*\r\n"
    b"Authorization: Bearer a.b.c\r\n\r\n",
    b"POST /api/v1/namespaces/a/pods?dryRun=All&fieldManager=m HTTP/1.1\r\nHost: h\r\n"
    b'Content-Type: application/json\r\nContent-Length: 16\r\n\r\n{"kind": "a\\u00"}',
    b"PATCH /apis/apps/v1/namespaces/a/deployments/d/scale?force=true HTTP/1.1\r\nHost: h\r\n"
    b"Content-Type: application/apply-patch+yaml\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\na: 1\n\r\n3;x=y\r\nb:\n\r\n0\r\nTrailer: x\r\n\r\n",
    b"GET /api/v1/namespaces/a/pods/p/exec?command=ls&stdin=1&stdout=1 HTTP/1.1\r\nHost: h\r\n"
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    b"Sec-WebSocket-Protocol: v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.YQ\r\n\r\n",
    b"POST /api/v1/namespaces/a/pods/p/portforward?ports=80 HTTP/1.1\r\nHost: h\r\n"
    b"Connection: upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
    b"Impersonate-User: a\r\nImpersonate-Group: b\r\nImpersonate-Extra-c%2Fd: e\r\n\r\n",
    b"DELETE /api/v1/namespaces/a/pods/p?gracePeriodSeconds=0 HTTP/1.0\r\nExpect: 100-continue\r\n"
    b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}GET /healthz?verbose HTTP/1.1\r\n\r\n",
)
_HEAD_WORDS = encoded(
    (
        *(
            "GET ",
            "HEAD ",
            "OPTIONS * ",
            "CONNECT a:1 ",
            "PRI * HTTP/2.0",
            " HTTP/1.1\r\n",
            "\r\n\r\n",
        ),
        *("Host: ", "Content-Length: ", "Content-Length: -1\r\n", "Transfer-Encoding: chunked\r\n"),
        *(
            "Content-Encoding: deflate\r\n",
            "Connection: close\r\n",
            "Connection: keep-alive, x\r\n",
        ),
        *(
            "http://a/",
            "//",
            "/api",
            "/apis/",
            "/proxy/",
            "%2F",
            "%2e%2e/",
            ";",
            "?watch",
            "&limit=",
        ),
        *(
            "ffffffffffffffff\r\n",
            "0\r\n\r\n",
            "Upgrade: h2c\r\n",
            "Authorization: Bearer ",
            "\x0b",
        ),
        *("Authorization: Basic ", "Accept: ", "Impersonate-Uid: ", "Impersonate-Extra-%ff: a\r\n"),
        *("continue=", "resourceVersion=", "timeoutSeconds=", "fieldSelector=", "timeout=1h"),
    )
)


class Allowing:
    def allows(self, user: User, wanted: Any) -> bool:
        return True


class Wire(asyncio.Transport):
    """A connection of a stranger, which takes whatever is answered."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 4711), "sockname": ("192.0.2.2", 443)})
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    abort = close

    def is_reading(self) -> bool:
        return True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


async def _understood(request: web.BaseRequest) -> web.StreamResponse:
    """All that is read of a request before anything is looked up, as the handler and dispatcher
    read it; failures are answers.
    """
    try:
        info = requestinfo.parse(request.method, request.rel_url.raw_path, request.query)
        kind = KINDS.by_resource(info.group, info.version, info.resource) or kinds.POD
        effective_user(User("u"), request.headers, Allowing())  # type: ignore[arg-type]
        token_of(request)
        form_of(request.headers.get("Accept", ""))
        _options(kind, info.verb, request.query)
        passed_on(request, {"X-Forwarded-Uri": "/"})
        async with http.InTime(request, 1.0):
            data = await http.read(request)
            if data and info.verb != "patch":
                await http.read_object(request)
        return http.answer(b"{}", warnings=[request.path])
    except ApiError as error:
        return http.failure(error)


@target(
    "http-connection",
    "a whole connection: aiohttp's parser as we set it up, and the heads of requests",
    "strangers",
)
def http_connection() -> Target:
    loop = Loop()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await _understood(request)
        except (ApiError, ConnectionError, aiohttp.ClientError, web.HTTPException):
            raise
        except Exception as error:  # aiohttp would answer 500
            wrong.append(error)
            raise

    async def serve(data: bytes) -> None:
        server = web.Server(handle, request_factory=_request, access_log=None, logger=_Deaf())  # type: ignore[arg-type]
        protocol, wire = server(), Wire()
        protocol.connection_made(wire)
        half = len(data) // 2
        for part in (data[:half], data[half:]):
            protocol.data_received(part)
            for _ in range(4):
                await asyncio.sleep(0)
        protocol.eof_received()
        protocol.connection_lost(None)
        await asyncio.sleep(0)
        await server.shutdown(0)

    wrong: list[Exception] = []

    def run(data: bytes) -> None:
        wrong.clear()
        loop.run(lambda: serve(data))
        if wrong:
            raise wrong[0]

    return Target(run, _HEADS, _HEAD_WORDS)


class _Deaf:
    """aiohttp tells of what it cannot read in its log."""

    def __getattr__(self, name: str) -> Any:
        return lambda *words, **options: None


_PATHS = encoded(
    (
        "/api/v1/namespaces/a/pods/p/log",
        "/apis/apps/v1/watch/namespaces/a/deployments",
        "/api/v1/namespaces/a/finalize",
        "/apis%2fext.io/v1/namespaces/a/things",
        "/api/v1/namespaces/a/services/https:web:8443/proxy/a/../b%2Fc?d=e",
        "/api/v1/nodes/n:10250/proxy/",
        "/.well-known/openid-configuration",
        "//api//v1///pods/",
    )
)


@target(
    "http-path",
    "apiserver/request/requestinfo.py, and the names and paths of proxies",
    "whoever has any token",
)
def http_path() -> Target:
    words = encoded(
        ("api", "apis", "namespaces", "watch", "proxy", "%2F", "%25", "/", "pods", "v1")
    )

    def run(data: bytes) -> None:
        text = data.decode("utf-8", "surrogateescape")
        rewritten(text, "h", "/p")
        for method in ("GET", "DELETE"):
            info = requestinfo.parse(method, text, {})
            split_name(info.name)
            if info.subresource == "proxy":
                assert text.startswith(info.prefix)
                assert not info.beyond or info.beyond.startswith("/")
            else:
                assert ".." not in info.path.split("/")
            info.target  # noqa: B018 (it raises, too)

    # aiohttp takes no longer lines
    return Target(run, _PATHS, words, (ApiError,), largest=1 << 13)


_QUERIES = encoded(
    (
        "labelSelector=a%3Db%2Cc!%3Dd&fieldSelector=metadata.name%3Dx&limit=500&continue=abc",
        "resourceVersion=12&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=1",
        "timeoutSeconds=30&allowWatchBookmarks=true&timeout=1m30s",
        "dryRun=All&fieldManager=kubectl&fieldValidation=Strict&force=true",
        "gracePeriodSeconds=0&propagationPolicy=Orphan&orphanDependents=false",
        "tailLines=5&sinceSeconds=10&sinceTime=2026-01-02T15:04:05Z&limitBytes=9&follow=1&rank=2",
        "ports=80&ports=443,8443&command=ls&input=1&output=1&tty=true",
    )
)


def _options(kind: kinds.Kind, verb: str, query: MultiDict[str] | Any) -> None:
    options.dry_run(query)
    options.field_validation(query)
    options.field_manager(query, verb)
    if verb == "watch":
        options.watch_options(kind, query, "x")
    elif verb == "list":
        options.list_options(kind, query)
    elif verb in ("delete", "deletecollection"):
        options.delete_options(DeleteOptions(), query)


@target(
    "http-query",
    "apiserver/request/options.py, kubelet/server/logs.py and what exec and port-forward ask",
    "small accounts",
)
def http_query() -> Target:
    def run(data: bytes) -> None:
        url = URL("/x?" + data.decode("utf-8", "replace").replace("#", ""), encoded=True)
        request: Any = SimpleNamespace(query=url.query)
        for read in (
            *(lambda verb=verb: _options(kinds.POD, verb, url.query)
              for verb in ("watch", "list", "delete", "patch")),
            lambda: LogOptions.parse(url.query, 1e9),
            lambda: ports_of(request),
            lambda: wanted_of(request),
        ):  # fmt: skip
            try:
                read()
            except ApiError:
                pass

    names = sorted({pair.split(b"=")[0] for one in _QUERIES for pair in one.split(b"&")})
    return Target(run, _QUERIES, (*names, b"&", b"=", b"%00", b"%C3", b"+"), (ValueError,))


_LABELS = encoded(
    (
        "a=b,c!=d,!e,f",
        "x in (a,b,),y notin (c)",
        "a.b/c == d , e > 5,g<-3",
        "in in (in),notin",
        "a=",
    )
)
_FIELDS = encoded(
    (
        "metadata.name=x,spec.nodeName!=",
        "status.phase==Running",
        r"metadata.name=a\,b\=c\\",
        "=",
        "",
    )
)


@target("selector-labels", "api/selectors.py: parse_labels", "small accounts")
def selector_labels() -> Target:
    def run(data: bytes) -> None:
        select(kinds.POD, data.decode("utf-8", "replace"), "").labels.matches({"a": "b", "e": "7"})

    words = encoded((" in ", " notin ", "(", ")", "!", "==", "!=", ">", "<", ",", "a/b"))
    return Target(run, _LABELS, words, (ApiError,))


@target("selector-fields", "api/selectors.py: split_fields, api/fields.py", "small accounts")
def selector_fields() -> Target:
    def run(data: bytes) -> None:
        select(kinds.POD, "", data.decode("utf-8", "replace")).fields.matches({"metadata": {}})

    words = encoded(("metadata.name", "spec.nodeName", "\\", "\\,", "\\=", "!=", "==", ","))
    return Target(run, _FIELDS, words, (ApiError,))


_HEADERS = encoded(
    (
        "Authorization: Bearer a.b.c\nUpgrade: websocket\nSec-WebSocket-Protocol: a, "
        "base64url.bearer.authorization.k8s.io.YQ",
        "Impersonate-User: system:serviceaccount:a:b\nImpersonate-Group: c\n"
        "Impersonate-Extra-%2f: d",
        "Accept: application/json;as=Table;g=meta.k8s.io;v=v1,application/yaml;q=0.9,*/*",
        "Content-Type: application/json; charset=utf-8\nConnection: upgrade, x\nUpgrade: SPDY/3.1\n"
        "X-Stream-Protocol-Version: v4.channel.k8s.io,v3.channel.k8s.io",
        "X-Forwarded-For: 1.2.3.4\nX-Remote-User: a\nX-Remote-Extra-b: c\nHost: [::1]:80",
    )
)


@target(
    "http-headers",
    "credentials, impersonation, Accept, upgrades, and what proxies pass on",
    "strangers",
)
def http_headers() -> Target:
    def run(data: bytes) -> None:
        lines = data.decode("utf-8", "surrogateescape").replace("\0", "").splitlines()
        headers = CIMultiDict(
            (name.strip(), text.strip()) for name, _, text in (one.partition(":") for one in lines)
        )
        request: Any = SimpleNamespace(headers=headers, remote="192.0.2.1")
        token_of(request)
        without_token(headers.get("Sec-WebSocket-Protocol", ""))
        media_type_of(headers.get("Content-Type", ""))
        http.seconds(headers.get("Timeout", ""))
        passed_on(request, {"X-Forwarded-For": "a"})
        list(_end_to_end(request))
        for read in (
            lambda: effective_user(User("u"), headers, Allowing()),  # type: ignore[arg-type]
            lambda: form_of(headers.get("Accept", "")),
            lambda: negotiate(request, SPDY_PROTOCOLS),
            lambda: http.answer(b"", warnings=list(headers.values())),
        ):
            try:
                read()
            except ApiError:
                pass

    names = {line.split(b":")[0] + b": " for one in _HEADERS for line in one.splitlines()}
    return Target(run, _HEADERS, (*sorted(names), b"\n", b";as=", b",", b"; ", b"Timeout: 1h"))


@target("ingress-request", "gateway/routing.py, and headers that the router passes on", "strangers")
def ingress_request() -> Target:
    service = {"service": {"name": "s", "port": {"number": 80}}}
    paths = [{"path": "/a", "pathType": kind, "backend": service} for kind in ("Prefix", "Exact")]
    rules = [{"host": host, "http": {"paths": paths}} for host in ("a.b", "*.c", "")]
    routes = Routes([{"metadata": {"name": "i", "namespace": "n"}, "spec": {"rules": rules}}])

    def run(data: bytes) -> None:
        host, _, path = data.decode("utf-8", "surrogateescape").partition("\n")
        routes.find(host, path)
        headers = CIMultiDict({"Host": host.replace("\r", "").replace("\0", "")})
        request: Any = SimpleNamespace(headers=headers, host=host, secure=True)
        list(_forwarded(request, "192.0.2.1"))

    seeds = encoded(("a.b:80\n/a/b", "[::1]:443\n/", "x.c\n/a", "\n", "::1\n//a/../b"))
    return Target(run, seeds, encoded(("a.b", "*.c", ":", "[", "]", "/a")), largest=1 << 13)


# What other servers answer: webhooks, extension servers, backends of proxies


@target(
    "answer-webhook", "answers of admission and conversion webhooks", "whoever may write webhooks"
)
def answer_webhook() -> Target:
    old = {"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n", "uid": "u"}}

    def run(data: bytes) -> None:
        try:
            answer = decode_json(data)
        except ApiError:
            return
        _refusal(404, data)
        if not isinstance(answer, dict):
            return  # as WebhookClient.ask
        for is_mutating in (True, False):
            try:
                verdict = verdict_of(answer, "u", "v1", is_mutating=is_mutating)
                refusal("w", verdict.status).status()
            except CallFailed:
                pass
        try:
            conversion._checked([old], answer, "a/v2")
        except conversion._Refused:
            pass

    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    patch = {"patchType": "JSONPatch", "patch": "W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL2EifV0="}
    response = {"uid": "u", "allowed": True, "warnings": ["w"], "auditAnnotations": {"a": "b"}}
    status = {"code": 403, "message": "no", "reason": "Forbidden", "details": {"causes": []}}
    converted = {"convertedObjects": [{**old, "apiVersion": "a/v2"}]}
    seeds = (
        {**review, "response": {**response, **patch}},
        {**review, "response": {**response, "allowed": False, "status": status}},
        converted,
    )
    made = tuple(json.dumps(one).encode() for one in seeds)
    return Target(run, made, encoded(("response", "uid", "status")), is_json=True)


@target(
    "answer-extension", "discovery documents of extension servers", "whoever may write APIServices"
)
def answer_extension() -> Target:
    def run(data: bytes) -> None:
        try:
            document = decode_json(data)
        except ApiError:
            return
        if not isinstance(document, dict):
            return
        resources = resources_of(document)
        if resources is not None:
            aggregated(Discovered(resources))
        schema_path_of(document, "apis/a/v1")
        definitions_of(document, "a", "v1")

    resource = {"name": "things", "kind": "Thing", "namespaced": True, "verbs": ["get"]}
    seeds = (
        {"resources": [resource, {**resource, "name": "things/status"}]},
        {"paths": {"apis/a/v1": {"serverRelativeURL": "/x?hash=1"}, "/apis/a/v1/x": {}}},
        {"definitions": {"a": {}}, "paths": {}},
    )
    made = tuple(json.dumps(one).encode() for one in seeds)
    return Target(run, made, encoded(("resources", "paths", "name", "definitions")), is_json=True)


@target(
    "answer-upgrade",
    "apiserver/proxy/http_proxy.py: what a backend answers to an upgrade",
    "hostile pods",
)
def answer_upgrade() -> Target:
    loop = Loop()

    async def read(data: bytes) -> None:
        reader = asyncio.StreamReader(limit=64 << 10)
        reader.feed_data(data)
        reader.feed_eof()
        head = await reader.readuntil(b"\r\n\r\n")
        if _status_of(head) != 101:
            await _refused(reader, head)

    def run(data: bytes) -> None:
        loop.run(lambda: read(data))

    seeds = (
        b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nno",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    )
    # What pass_upgrade answers 503 to.
    refuses = (OSError, EOFError, ValueError, asyncio.LimitOverrunError)
    return Target(run, seeds, encoded(("\r\n\r\n", "Content-Length: ", "HTTP/1.1 ")), refuses)


@target("body-options", "apiserver/verbs/delete.py: options_from", "small accounts")
def body_options() -> Target:
    def run(data: bytes) -> None:
        options_from(decode_json(data))

    seeds = (
        {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 3, "dryRun": ["All"]},
        {"preconditions": {"uid": "u", "resourceVersion": "3"}, "propagationPolicy": "Foreground"},
        {"orphanDependents": True},
    )
    made = tuple(json.dumps(one).encode() for one in seeds)
    words = encoded(("gracePeriodSeconds", "preconditions", "uid", "dryRun", "propagationPolicy"))
    return Target(run, made, words, (ApiError,), is_json=True)
