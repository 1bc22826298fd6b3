"""The `Api` of any Kubernetes API server, over HTTPS.

Lets every component run against a real kube-apiserver, and our tests speak to our own server as
strangers do. It maps requests and failures one to one; to follow a broken watch again is the
informer's work.
"""

from __future__ import annotations

import random
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from .. import errors
from ..api.kinds import Kind
from ..api.objects import Key, Obj, key_of
from .api import ObjList, PatchType, Propagation, WatchEvent

PAGE = 500  # objects a LIST asks for at a time, as client-go
_PATCH_TYPES: Mapping[PatchType, str] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}
_BY_CODE: Mapping[int, type[errors.ApiError]] = {
    400: errors.BadRequest,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.MethodNotAllowed,
    406: errors.NotAcceptable,
    409: errors.Conflict,
    410: errors.Gone,
    415: errors.UnsupportedMediaType,
    422: errors.Invalid,
    429: errors.TooManyRequests,
    503: errors.Unavailable,
    504: errors.Timeout,
}


class HttpsApi:
    """One API server; credentials are a client certificate in `tls`, a token, or both."""

    def __init__(
        self,
        url: str,
        *,
        tls: ssl.SSLContext | None = None,
        token: str = "",
        timeout: float = 60.0,
        user_agent: str = "orlop",
        page: int = PAGE,
    ) -> None:
        self._url = url.rstrip("/")
        self._tls: ssl.SSLContext | bool = tls if tls is not None else True
        self._headers = {"Accept": "application/json", "User-Agent": user_agent}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._page = page
        self._opened: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    async def get(self, kind: Kind, key: Key) -> Obj:
        return await self._call("GET", _path(kind, key.namespace, key.name))

    async def get_subresource(self, kind: Kind, key: Key, subresource: str) -> Obj:
        return await self._call("GET", _path(kind, key.namespace, key.name, subresource))

    async def get_raw(self, path: str, query: Mapping[str, str] | None = None) -> Obj:
        return await self._call("GET", path, query=query)

    async def ready(self) -> None:
        """Raise Unavailable unless the server says at /readyz that it is ready."""
        try:
            async with self._session().get(f"{self._url}/readyz") as answer:
                if answer.status != 200:
                    raise errors.Unavailable(f"{self._url} is not ready: {await answer.text()}")
        except (aiohttp.ClientError, TimeoutError) as error:
            raise errors.Unavailable(f"{self._url} does not answer: {error}") from error

    async def list(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> ObjList:
        query = {"limit": str(self._page), **_selectors(labels, fields)}
        items: list[Obj] = []
        while True:
            page = await self._call("GET", _path(kind, namespace), query=query)
            items += page.get("items") or []
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                break
            query["continue"] = metadata["continue"]
        for item in items:
            _name_kind(item, kind)
        return ObjList(items, str(metadata.get("resourceVersion", "")))

    async def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent]:
        """Watch until the server ends it, after five to ten minutes as client-go asks."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(random.randint(300, 600)),
            **_selectors(labels, fields),
        }
        forever = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout.total)
        try:
            async with self._session().get(
                self._url + _path(kind, namespace), params=query, timeout=forever
            ) as response:
                if response.status >= 400:
                    raise _failure(response.status, await response.read())
                async for line in _lines(response.content):
                    yield _event(line, kind)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise errors.Unavailable(f"watch of {kind.plural} at {self._url}: {error}") from error

    async def create(self, kind: Kind, obj: Obj, *, namespace: str = "") -> Obj:
        namespace = namespace or (obj.get("metadata") or {}).get("namespace") or ""
        return await self._call("POST", _path(kind, namespace), body=obj)

    async def update(self, kind: Kind, obj: Obj, *, subresource: str = "") -> Obj:
        key = key_of(obj)
        path = _path(kind, key.namespace, key.name, subresource)
        return await self._call("PUT", path, body=obj)

    async def patch(
        self,
        kind: Kind,
        key: Key,
        patch: Obj | Sequence[Any],
        *,
        patch_type: PatchType = "merge",
        subresource: str = "",
    ) -> Obj:
        path = _path(kind, key.namespace, key.name, subresource)
        return await self._call("PATCH", path, body=patch, content=_PATCH_TYPES[patch_type])

    async def delete(
        self,
        kind: Kind,
        key: Key,
        *,
        grace: int | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
    ) -> Obj:
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options: Obj = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": grace,
            "propagationPolicy": propagation,
            "preconditions": {k: v for k, v in preconditions.items() if v is not None} or None,
        }
        body = {name: value for name, value in options.items() if value is not None}
        return await self._call("DELETE", _path(kind, key.namespace, key.name), body=body)

    async def create_subresource(self, kind: Kind, key: Key, subresource: str, body: Obj) -> Obj:
        return await self._call(
            "POST", _path(kind, key.namespace, key.name, subresource), body=body
        )

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            # Each watch holds a connection for itself: no limit of the client's own.
            connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
            self._opened = aiohttp.ClientSession(connector=connector, headers=self._headers)
        return self._opened

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Obj | Sequence[Any] | None = None,
        content: str = "application/json",
    ) -> Obj:
        data = msgspec.json.encode(body) if body is not None else None
        headers = {"Content-Type": content} if body is not None else None
        try:
            async with self._session().request(
                method,
                self._url + path,
                params=query,
                data=data,
                headers=headers,
                timeout=self._timeout,
            ) as response:
                answer = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            message = f"{method} {self._url}{path}: {error or 'no answer in time'}"
            raise errors.Unavailable(message) from error
        if response.status >= 400:
            raise _failure(response.status, answer)
        return _decoded(answer)


def _path(kind: Kind, namespace: str, name: str = "", subresource: str = "") -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    scope = f"/namespaces/{namespace}" if kind.namespaced and namespace else ""
    rest = "".join(f"/{part}" for part in (name, subresource) if part)
    return f"{root}{scope}/{kind.plural}{rest}"


def _selectors(labels: str, fields: str) -> dict[str, str]:
    query = {"labelSelector": labels, "fieldSelector": fields}
    return {name: value for name, value in query.items() if value}


def _name_kind(obj: Obj, kind: Kind) -> Obj:
    """Add its type to an item: items of lists do not say what they are, ours always do."""
    obj.setdefault("apiVersion", kind.api_version)
    obj.setdefault("kind", kind.kind)
    return obj


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield lines of any length: aiohttp's own readline gives up at its buffer's size."""
    parts: list[bytes] = []
    async for chunk in stream.iter_any():
        head, *rest = chunk.split(b"\n")
        parts.append(head)
        for piece in rest:
            line = b"".join(parts)
            if line:
                yield line
            parts = [piece]


def _event(line: bytes, kind: Kind) -> WatchEvent:
    event = _decoded(line)
    if event["type"] == "ERROR":
        raise errors.from_status(event["object"])
    return WatchEvent(event["type"], _name_kind(event["object"], kind))


def _decoded(answer: bytes) -> Obj:
    try:
        return msgspec.json.decode(answer, type=dict[str, Any])
    except msgspec.DecodeError as error:
        shown = answer[:200].decode(errors="replace")
        raise errors.InternalError(f"expected a JSON object, found {shown!r}") from error


def _failure(code: int, answer: bytes) -> errors.ApiError:
    """Make the error that an answer describes, also where a proxy on the way spoke."""
    try:
        status = msgspec.json.decode(answer)
    except msgspec.DecodeError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return errors.from_status(status)
    text = answer[:500].decode(errors="replace").strip() or f"status {code} without a message"
    return _BY_CODE.get(code, errors.InternalError)(text, code=code)
