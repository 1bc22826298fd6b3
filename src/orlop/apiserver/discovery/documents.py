"""Tells what this server serves: the legacy documents per group, and the aggregated one.

Called for /api, /apis and below, without a resource in the path. Documents are built from the
registry of kinds when it changes and kept as bytes with their ETag. Only subresources that are
really served are shown.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import msgspec

from ...api.kinds import Kind, Kinds, Subresource, subresource, version_priority
from ...api.objects import Obj
from ..aggregation import ExtensionServer, ExtensionServers
from ..aggregation.discovered import aggregated
from ..request.negotiation import clauses

CONNECT = ("exec", "attach", "portforward")
SERVED_SUBRESOURCES = (
    "status",
    "scale",
    "binding",
    "eviction",
    "finalize",
    "log",
    "token",
    "approval",
    "proxy",
    "ephemeralcontainers",
    "resize",
    *CONNECT,
)
_GROUP = "apidiscovery.k8s.io"
_AGGREGATED = "APIGroupDiscoveryList"


@dataclass(frozen=True, slots=True)
class Document:
    body: bytes
    media_type: str
    etag: str


def subresources_of(kind: Kind) -> list[Subresource]:
    served = (name for name in kind.subresources if name in SERVED_SUBRESOURCES)
    return [facts for name in served if (facts := subresource(kind, name)) is not None]


class Documents:
    """Documents by path and form, kept until the kinds or the extension servers change."""

    def __init__(self, kinds: Kinds, extension_servers: ExtensionServers | None = None) -> None:
        self._kinds = kinds
        self._extension_servers = extension_servers
        self._documents: dict[tuple[str, str], Document] = {}
        self._made_of: tuple[object, ...] = ()

    def _forget_old(self) -> None:
        servers = self._extension_servers
        others = () if servers is None else tuple(one.name for one in servers.all())
        made_of = (*self._kinds, others, 0 if servers is None else servers.stamp)
        if made_of != self._made_of:
            self._documents.clear()
            self._made_of = made_of


class Discovery(Documents):
    def document(self, path: str, accept: str) -> Document | None:
        """Return the document at a path, in the form asked for; None if there is none."""
        self._forget_old()
        path = path.rstrip("/")
        version = aggregated_version(accept) if path in ("/api", "/apis") else ""
        document = self._documents.get((path, version))
        if document is None:
            made = self._aggregated(path, version) if version else self._legacy(path)
            if made is None:
                return None
            document = self._documents[path, version] = _document(made, version)
        return document

    def _legacy(self, path: str) -> Obj | None:
        match path.strip("/").split("/"):
            case ["api"]:
                return _api_versions()
            case ["apis"]:
                groups = [self._group(group) for group in self._groups() if group]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case ["apis", group] if group in self._groups():
                return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)}
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group, version]:
                return self._resources(group, version)
        return None

    def _group(self, group: str) -> Obj:
        versions = [
            {"groupVersion": f"{group}/{version}", "version": version}
            for version in self._groups()[group]
        ]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _groups(self) -> dict[str, list[str]]:
        """Return our groups and those of extension servers, each version once."""
        groups = {group: list(versions) for group, versions in self._kinds.groups().items()}
        for one in self._extension_servers.all() if self._extension_servers is not None else ():
            versions = groups.setdefault(one.group, [])
            if one.version not in versions:
                versions.append(one.version)
                versions.sort(key=version_priority, reverse=True)
        return groups

    def _extension_server(self, group: str, version: str) -> ExtensionServer | None:
        return (
            self._extension_servers.known(group, version)
            if self._extension_servers is not None
            else None
        )

    def _resources(self, group: str, version: str) -> Obj | None:
        kinds = self._kinds.of_group_version(group, version)
        if not kinds:
            return None
        resources = [entry for kind in kinds for entry in _legacy_entries(kind)]
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": kinds[0].api_version,
            "resources": sorted(resources, key=lambda entry: str(entry["name"])),
        }

    def _aggregated(self, path: str, version: str) -> Obj:
        groups = self._groups()
        shown = [""] if path == "/api" else [group for group in groups if group]
        items = [
            {
                "metadata": {"name": group, "creationTimestamp": None}
                if group
                else {"creationTimestamp": None},
                "versions": [self._version(group, one) for one in groups.get(group, ())],
            }
            for group in shown
        ]
        return {
            "kind": _AGGREGATED,
            "apiVersion": f"{_GROUP}/{version}",
            "metadata": {},
            "items": items,
        }

    def _version(self, group: str, version: str) -> Obj:
        server = self._extension_server(group, version)
        if server is not None:
            freshness = "Current" if server.is_available else "Stale"
            resources = aggregated(server.discovered) if server.is_available else []
            return {"version": version, "resources": resources, "freshness": freshness}
        kinds = sorted(self._kinds.of_group_version(group, version), key=lambda kind: kind.plural)
        resources = [_aggregated_entry(kind) for kind in kinds]
        return {"version": version, "resources": resources, "freshness": "Current"}


def aggregated_version(accept: str) -> str:
    """Return v2 or v2beta1 if the client takes the aggregated form, else empty."""
    for media_type, parameters in clauses(accept):
        if media_type == "application/json" and parameters.get("g") == _GROUP:
            version = parameters.get("v", "")
            if parameters.get("as") == _AGGREGATED and version in ("v2", "v2beta1"):
                return version
        elif media_type in ("application/json", "*/*"):
            return ""
    return ""


def _document(made: Obj, version: str) -> Document:
    body = msgspec.json.encode(made) + b"\n"
    media_type = "application/json"
    if version:
        media_type += f";g={_GROUP};v={version};as={_AGGREGATED}"
    return Document(body, media_type, f'"{hashlib.sha256(body).hexdigest()[:64].upper()}"')


def _api_versions() -> Obj:
    everyone = {"clientCIDR": "0.0.0.0/0", "serverAddress": ""}
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [everyone],
    }


def _legacy_entries(kind: Kind) -> list[Obj]:
    entry: Obj = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": sorted(kind.verbs),
        **_names(kind),
    }
    return [entry, *(_legacy_subresource(kind, facts) for facts in subresources_of(kind))]


def _legacy_subresource(kind: Kind, facts: Subresource) -> Obj:
    entry: Obj = {
        "name": f"{kind.plural}/{facts.name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": facts.kind,
        "verbs": sorted(facts.verbs),
    }
    if (facts.group, facts.version) != (kind.group, kind.version):
        entry |= {"group": facts.group, "version": facts.version}
    return entry


def _names(kind: Kind) -> Obj:
    names: Obj = {}
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    if kind.categories:
        names["categories"] = list(kind.categories)
    return names


def _aggregated_entry(kind: Kind) -> Obj:
    entry: Obj = {
        "resource": kind.plural,
        # Empty where they are those of the enclosing group and version: kubectl shows no resource
        # otherwise.
        "responseKind": {"group": "", "version": "", "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": sorted(kind.verbs),
        **_names(kind),
    }
    served = [_aggregated_subresource(kind, facts) for facts in subresources_of(kind)]
    if served:
        entry["subresources"] = served
    return entry


def _aggregated_subresource(kind: Kind, facts: Subresource) -> Obj:
    is_own = (facts.group, facts.version) == (kind.group, kind.version)
    response = {
        "group": "" if is_own else facts.group,
        "version": "" if is_own else facts.version,
        "kind": facts.kind,
    }
    verbs = sorted(facts.verbs)
    return {"subresource": facts.name, "responseKind": response, "verbs": verbs}
