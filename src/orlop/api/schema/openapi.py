"""OpenAPI documents of the served kinds: what kubectl explain, apply, create and diff read.

Called by the API server, which keeps the results: a document takes tens of milliseconds to make.
Version 3 has one document per group and version, version 2 one for all; both name for each kind its
paths and, on patch, the parameter `fieldValidation`, without which kubectl validates by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from ..crd import openapi
from ..kinds import Kind, Kinds, subresource
from ..objects import Obj
from .definitions import Definitions, definition_name, group_version_kind, reachable
from .model import Schema, struct_name

PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")
_LIST_PARAMETERS = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "timeoutSeconds",
    "watch",
)
_METADATA = ("meta_v1.ListMeta", "meta_v1.ObjectMeta")
_DELETE_PARAMETERS = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
# verb: HTTP method, upstream's name of the action
_ON_OBJECT = {
    "get": ("get", "get"),
    "update": ("put", "put"),
    "patch": ("patch", "patch"),
    "delete": ("delete", "delete"),
}
_ON_COLLECTION = {
    "list": ("get", "list"),
    "create": ("post", "post"),
    "deletecollection": ("delete", "deletecollection"),
}


def group_path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def v3_index(schema: Schema, kinds: Kinds) -> Obj:
    """Make the document at /openapi/v3: where each group-version's own document is."""
    paths = {}
    for group, versions in kinds.groups().items():
        for version in versions:
            path = group_path(group, version)
            digest = hashlib.sha256(schema.fingerprint.encode())
            digest.update(repr(kinds.of_group_version(group, version)).encode())
            url = f"/openapi/v3/{path}?hash={digest.hexdigest().upper()}"
            paths[path] = {"serverRelativeURL": url}
    return {"paths": paths}


def v3_document(schema: Schema, kinds: Kinds, group: str, version: str) -> Obj:
    served = kinds.of_group_version(group, version)
    writer = _Paths(schema, 3)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": writer.paths(served),
        "components": {"schemas": writer.definitions(served)},
    }


def v2_document(schema: Schema, kinds: Kinds) -> Obj:
    writer = _Paths(schema, 2)
    served = list(kinds)
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": writer.paths(served),
        "definitions": writer.definitions(served),
    }


class _Paths:
    """Writes the operations of kinds, for one OpenAPI version."""

    def __init__(self, schema: Schema, version: int) -> None:
        self._schema = schema
        self._version = version
        self._definitions = Definitions(schema, version)
        self._known = set(schema.names())
        self._names = {definition_name(name) for name in self._known}

    def definitions(self, kinds: Iterable[Kind]) -> dict[str, Obj]:
        roots: dict[str, Obj] = {}
        custom: dict[str, Obj] = {}
        for kind in kinds:
            if kind.custom is not None:
                reference = self._definitions.reference("")
                custom |= openapi.definitions(kind, self._version, reference)
            for name in (kind.kind, kind.list_kind) if kind.custom is None else ():
                struct = struct_name(kind.group, kind.version, name)
                if struct in self._known:
                    roots[struct] = group_version_kind(kind.group, kind.version, name)
            for sub in kind.subresources:
                found = subresource(kind, sub)
                if found is not None and (kind.custom is None or found.name == "scale"):
                    struct = struct_name(found.group, found.version, found.kind)
                    if struct in self._known:
                        roots[struct] = group_version_kind(found.group, found.version, found.kind)
        others = [*roots, "meta_v1.DeleteOptions", *(_METADATA if custom else ())]
        written = self._definitions.all(reachable(self._schema, others))
        for struct, gvk in roots.items():
            written[definition_name(struct)]["x-kubernetes-group-version-kind"] = [gvk]
        return {**written, **custom}

    def paths(self, kinds: Iterable[Kind]) -> dict[str, Obj]:
        paths: dict[str, Obj] = {}
        for kind in kinds:
            if kind.custom is not None:
                self._names |= {_definition(kind, name) for name in (kind.kind, kind.list_kind)}
            base = f"/{group_path(kind.group, kind.version)}"
            scoped = f"{base}/namespaces/{{namespace}}" if kind.namespaced else base
            collection = f"{scoped}/{kind.plural}"
            one = f"{collection}/{{name}}"
            if kind.namespaced and "list" in kind.verbs:
                paths[f"{base}/{kind.plural}"] = self._item(kind, {"list": _ON_COLLECTION["list"]})
            paths[collection] = self._item(kind, _ON_COLLECTION)
            if "get" in kind.verbs:
                paths[one] = self._item(kind, _ON_OBJECT)
            for name in kind.subresources:
                paths[f"{one}/{name}"] = self._subresource(kind, name)
        for path, item in paths.items():
            item["parameters"] = [
                self._path_parameter(name)
                for name in ("name", "namespace")
                if f"{{{name}}}" in path
            ]
        return dict(sorted(paths.items()))

    def _path_parameter(self, name: str) -> Obj:
        text = {"type": "string"}
        typed = text if self._version == 2 else {"schema": text}
        return {"name": name, "in": "path", "required": True, **typed}

    def _item(self, kind: Kind, verbs: dict[str, tuple[str, str]]) -> Obj:
        gvk = group_version_kind(kind.group, kind.version, kind.kind)
        item = {}
        for verb, (method, action) in verbs.items():
            if verb in kind.verbs:
                name = _definition(kind, kind.list_kind if verb == "list" else kind.kind)
                item[method] = self._operation(verb, action, gvk, name, _patch_types(kind))
        return item

    def _subresource(self, kind: Kind, name: str) -> Obj:
        found = subresource(kind, name)
        assert found is not None, f"{kind.plural} has no subresource {name}"
        gvk = group_version_kind(found.group, found.version, found.kind)
        struct = definition_name(struct_name(found.group, found.version, found.kind))
        if found.name == "status":
            struct = _definition(kind, kind.kind)
        verbs, patches = {**_ON_OBJECT, "create": ("post", "post")}, _patch_types(kind)
        return {
            verbs[verb][0]: self._operation(verb, verbs[verb][1], gvk, struct, patches)
            for verb in found.verbs
        }

    def _operation(
        self, verb: str, action: str, gvk: Obj, struct: str, patches: tuple[str, ...]
    ) -> Obj:
        operation: Obj = {
            "parameters": [self._parameter(name) for name in _parameters(verb)],
            "responses": {"200": self._response(struct)},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk,
        }
        if verb == "patch":
            self._consume(operation, patches, None)
        elif verb in ("create", "update"):
            self._consume(operation, ("application/json",), struct)
        return operation

    def _parameter(self, name: str) -> Obj:
        kind = "integer" if name.endswith("Seconds") or name == "limit" else "string"
        if name in ("watch", "allowWatchBookmarks", "orphanDependents"):
            kind = "boolean"
        if self._version == 2:
            return {"name": name, "in": "query", "type": kind}
        return {"name": name, "in": "query", "schema": {"type": kind}}

    def _schema_of(self, struct: str) -> Obj:
        """Return the schema of a definition, by its name; just an object where there is none."""
        if struct not in self._names:
            return {"type": "object"}
        return {"$ref": self._definitions.reference(struct)}

    def _response(self, struct: str) -> Obj:
        written = self._schema_of(struct)
        if self._version == 2:
            return {"description": "OK", "schema": written}
        return {"description": "OK", "content": {"application/json": {"schema": written}}}

    def _consume(self, operation: Obj, types: Iterable[str], struct: str | None) -> None:
        body: dict[str, Any] = {"type": "object"} if struct is None else self._schema_of(struct)
        if self._version == 2:
            operation["consumes"] = list(types)
            operation["parameters"].append({"name": "body", "in": "body", "schema": body})
        else:
            operation["requestBody"] = {"content": {one: {"schema": body} for one in types}}


def _definition(kind: Kind, name: str) -> str:
    if kind.custom is not None:
        return openapi.definition_name(kind, name)
    return definition_name(struct_name(kind.group, kind.version, name))


def _patch_types(kind: Kind) -> tuple[str, ...]:
    """Return the patch types of a kind.

    Custom resources know no strategic merge, and kubectl must not try.
    """
    is_custom = kind.custom is not None
    return tuple(one for one in PATCH_TYPES if not is_custom or "strategic" not in one)


def _parameters(verb: str) -> tuple[str, ...]:
    if verb in ("create", "update"):
        return _WRITE_PARAMETERS
    if verb == "patch":
        return (*_WRITE_PARAMETERS, "force")
    if verb == "list":
        return _LIST_PARAMETERS
    return _DELETE_PARAMETERS if verb.startswith("delete") else ()
