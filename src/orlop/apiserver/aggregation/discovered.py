"""Reads what an extension server has, in the forms that our own discovery documents need.

Made by the controller from the server's answers, which may be anything; read by discovery and
OpenAPI, which rely on what is made of them. Pure. Extension
servers of every age answer the legacy documents, so that these are asked for; the aggregated form
is made of them. As kube-aggregator's handler_discovery.go for legacy backends.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...api.objects import Obj


@dataclass(frozen=True, slots=True)
class Discovered:
    """The resources of one group and version, and its OpenAPI."""

    resources: tuple[Obj, ...] = ()
    openapi_v3: str = ""  # where its server has it: a path with the hash of its content
    openapi_v2: Obj = field(default_factory=dict)


def resources_of(document: Obj) -> tuple[Obj, ...] | None:
    """Return the resources of an APIResourceList; None where the document is none."""
    found = document.get("resources") or []
    if not isinstance(found, list):
        return None
    is_list = all(isinstance(one, dict) and isinstance(one.get("name"), str) for one in found)
    return tuple(found) if is_list else None


def schema_path_of(index: Obj, group_version: str) -> str:
    """Return where the index of OpenAPI v3 has a group and version; empty where it does not."""
    where = _mapping(_mapping(index.get("paths")).get(group_version))
    return str(where.get("serverRelativeURL") or "")


def _mapping(value: object) -> Obj:
    return value if isinstance(value, dict) else {}


def aggregated(found: Discovered) -> list[Obj]:
    """Make the APIResourceDiscovery of each resource, subresources below it."""
    made: dict[str, Obj] = {}
    for one in found.resources:
        name, _, below = str(one.get("name", "")).partition("/")
        if not below:
            made[name] = _resource(one)
    for one in found.resources:
        name, _, below = str(one.get("name", "")).partition("/")
        if below and name in made:
            entry = {
                "subresource": below,
                "responseKind": _kind(one),
                "verbs": one.get("verbs") or [],
            }
            made[name].setdefault("subresources", []).append(entry)
    return list(made.values())


def _resource(one: Obj) -> Obj:
    entry = {
        "resource": one["name"],
        "responseKind": _kind(one),
        "scope": "Namespaced" if one.get("namespaced") else "Cluster",
        "singularResource": one.get("singularName") or "",
        "verbs": one.get("verbs") or [],
    }
    return entry | {key: one[key] for key in ("shortNames", "categories") if one.get(key)}


def _kind(one: Obj) -> Obj:
    return {
        "group": one.get("group") or "",
        "version": one.get("version") or "",
        "kind": one.get("kind") or "",
    }


def definitions_of(document: Obj, group: str, version: str) -> Obj:
    """Cut an OpenAPI v2 document to the paths of a group and version, and all definitions."""
    prefix = f"/apis/{group}/{version}/"
    paths = {path: item for path, item in _mapping(document.get("paths")).items()
             if path.startswith(prefix)}  # fmt: skip
    return {"paths": paths, "definitions": _mapping(document.get("definitions"))}
