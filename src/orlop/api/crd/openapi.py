"""A custom resource's schema as OpenAPI publishes it.

Called by openapi for the documents that kubectl explain and clients read. Version 3 says nearly
what the definition says; version 2 has no words for nullable or for alternatives, and where a
schema keeps unknown fields kubectl must not complain of them. As apiextensions' openapi builder.
"""

from __future__ import annotations

from typing import Any

from ..kinds import Kind
from ..objects import Obj

_API_VERSION = (
    "APIVersion defines the versioned schema of this representation of an object. Servers should "
    "convert recognized schemas to the latest internal value, and may reject unrecognized values."
)
_KIND = (
    "Kind is a string value representing the REST resource this object represents. Servers may "
    "infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase."
)
_METADATA = "Standard object's metadata."
_LIST_METADATA = "Standard list metadata."
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
_NOT_IN_V2 = ("nullable", "anyOf", "oneOf", "not", "allOf", "default")


def definition_name(kind: Kind, name: str) -> str:
    """Return com.example.stable.v1.CronTab for `stable.example.com`, `v1`, `CronTab`."""
    group = ".".join(reversed(kind.group.split(".")))
    return f"{group}.{kind.version}.{name}"


def definitions(kind: Kind, version: int, reference: str) -> dict[str, Obj]:
    """Define the object and its list; `reference` is the prefix of definitions' names."""
    assert kind.custom is not None, f"{kind.resource} is no custom resource"
    group_version = {"group": kind.group, "version": kind.version}
    one = _resource(kind.custom.schema, version, reference)
    one["x-kubernetes-group-version-kind"] = [{**group_version, "kind": kind.kind}]
    name = definition_name(kind, kind.kind)
    many: Obj = {
        "description": f"{kind.list_kind} is a list of {kind.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": _API_VERSION},
            "items": {
                "type": "array",
                "description": f"List of {kind.plural}.",
                "items": {"$ref": reference + name},
            },
            "kind": {"type": "string", "description": _KIND},
            "metadata": _reference(version, reference + _LIST_META, _LIST_METADATA),
        },
        "x-kubernetes-group-version-kind": [{**group_version, "kind": kind.list_kind}],
    }
    return {name: one, definition_name(kind, kind.list_kind): many}


def _resource(schema: Obj, version: int, reference: str) -> Obj:
    published = _published(schema, version, reference)
    if version == 2 and schema.get("x-kubernetes-preserve-unknown-fields"):
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    published["type"] = "object"
    published["properties"] = {**published.get("properties", {}), **_type_meta(version, reference)}
    return published


def _type_meta(version: int, reference: str) -> Obj:
    return {
        "apiVersion": {"type": "string", "description": _API_VERSION},
        "kind": {"type": "string", "description": _KIND},
        "metadata": _reference(version, reference + _OBJECT_META, _METADATA),
    }


def _reference(version: int, target: str, about: str) -> Obj:
    if version == 2:
        return {"description": about, "$ref": target}
    return {"description": about, "allOf": [{"$ref": target}]}


def _published(schema: Obj, version: int, reference: str) -> Obj:
    out: Obj = {}
    preserves = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    for key, value in schema.items():
        if version == 2 and key in _NOT_IN_V2:
            continue
        if key == "properties":
            out[key] = {name: _published(one, version, reference) for name, one in value.items()}
        elif key in ("items", "additionalProperties", "not") and isinstance(value, dict):
            out[key] = _published(value, version, reference)
        elif key in ("allOf", "anyOf", "oneOf"):
            out[key] = [_published(one, version, reference) for one in value]
        else:
            out[key] = _plain(value)
    if version == 2:
        _weaken(out, schema, preserves)
    if schema.get("x-kubernetes-embedded-resource") and not (version == 2 and preserves):
        out["properties"] = {**out.get("properties", {}), **_type_meta(version, reference)}
    return out


def _weaken(out: Obj, schema: Obj, preserves: bool) -> None:
    """Remove what kubectl must not judge by itself. As ToStructuralOpenAPIV2."""
    if schema.get("nullable") or schema.get("x-kubernetes-int-or-string") or preserves:
        for key in ("type", "items", "properties", "additionalProperties", "required"):
            out.pop(key, None)
    if isinstance(out.get("additionalProperties"), bool):
        del out["additionalProperties"]


def _plain(value: Any) -> Any:
    return value
