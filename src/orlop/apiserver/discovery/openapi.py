"""OpenAPI documents, as kubectl explain, apply and diff ask for them.

Called for paths below /openapi. They are made of the schema when first asked for and kept as bytes
with their ETag; version 2 is there for old kubectls, in the protobuf that those insist on.
"""

from __future__ import annotations

import hashlib

import msgspec

from ...api.kinds import Kinds
from ...api.objects import Obj
from ...api.schema import Schema, gnostic, openapi
from ..aggregation import ExtensionServers
from ..request.negotiation import clauses
from .documents import Document, Documents

_JSON = "application/json"
_ASKED_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
# A dot where the Accept header has an @: Go's parser of media types refuses the latter.
_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


class OpenApi(Documents):
    def __init__(
        self, kinds: Kinds, schema: Schema, extension_servers: ExtensionServers | None = None
    ) -> None:
        super().__init__(kinds, extension_servers)
        self._schema = schema

    def document(self, path: str, accept: str) -> Document | None:
        """Return the document at a path, in the form asked for; None if there is none."""
        self._forget_old()
        path = path.strip("/")
        media_type = _PROTOBUF if path == "openapi/v2" and _wants_protobuf(accept) else _JSON
        document = self._documents.get((path, media_type))
        if document is None:
            made = self._made(path)
            if made is None:
                return None
            encode = gnostic.encode if media_type == _PROTOBUF else msgspec.json.encode
            document = self._documents[path, media_type] = _document(encode(made), media_type)
        return document

    def _made(self, path: str) -> Obj | None:
        match path.split("/"):
            case ["openapi", "v2"]:
                return self._with_others(openapi.v2_document(self._schema, self._kinds))
            case ["openapi", "v3"]:
                return self._index()
            case ["openapi", "v3", "api", version]:
                return self._group_version("", version)
            case ["openapi", "v3", "apis", group, version]:
                return self._group_version(group, version)
        return None

    def _index(self) -> Obj:
        index = openapi.v3_index(self._schema, self._kinds)
        for one in self._extension_servers.all() if self._extension_servers is not None else ():
            path = f"apis/{one.group}/{one.version}"
            index["paths"].pop(path, None)
            if one.is_available and one.discovered.openapi_v3:
                index["paths"][path] = {"serverRelativeURL": one.discovered.openapi_v3}
        return index

    def _with_others(self, document: Obj) -> Obj:
        """Add what extension servers have; a definition of theirs does not replace one of ours."""
        for one in self._extension_servers.all() if self._extension_servers is not None else ():
            found = one.discovered.openapi_v2 if one.is_available else {}
            for part in ("paths", "definitions"):
                document[part] = {**(found.get(part) or {}), **document[part]}
        return document

    def _group_version(self, group: str, version: str) -> Obj | None:
        if not self._kinds.of_group_version(group, version):
            return None
        return openapi.v3_document(self._schema, self._kinds, group, version)


def _wants_protobuf(accept: str) -> bool:
    for media_type, _ in clauses(accept):
        if media_type in (_ASKED_PROTOBUF, _PROTOBUF):
            return True
        if media_type in (_JSON, "*/*"):
            return False
    return False


def _document(body: bytes, media_type: str) -> Document:
    return Document(body, media_type, f'"{hashlib.sha256(body).hexdigest().upper()}"')
