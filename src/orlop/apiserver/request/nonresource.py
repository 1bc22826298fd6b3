"""Answers what is no resource: /metrics, /version, discovery, OpenAPI, and the state for a backup.

Called for authorized requests whose path names no resource and that no extension server takes.
"""

from __future__ import annotations

from aiohttp import web

from ...metrics import MEDIA_TYPE, PROCESS
from ...wellknown import STATE_PATH
from ..aggregation import ExtensionServers
from ..backup import send_state
from ..discovery.documents import Discovery
from ..discovery.openapi import OpenApi
from ..discovery.version import version_info
from ..registry import Registry
from .failures import no_such_path
from .http import answer
from .render import encode
from .requestinfo import RequestInfo


class NonResourcePaths:
    def __init__(self, registry: Registry, extension_servers: ExtensionServers) -> None:
        self._store = registry.store
        self._discovery = Discovery(registry.kinds, extension_servers)
        self._openapi = OpenApi(registry.kinds, registry.schema, extension_servers)
        self._version = encode(version_info()) + b"\n"

    async def serve(self, request: web.BaseRequest, info: RequestInfo) -> web.StreamResponse:
        if info.path == "/metrics" and info.verb == "get":
            return answer(PROCESS.text().encode(), MEDIA_TYPE)
        if info.path == STATE_PATH and info.verb == "get":
            return await send_state(request, self._store)
        if info.path.strip("/") == "version" and info.verb == "get":
            return answer(self._version)
        return self._document(request, info)

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
