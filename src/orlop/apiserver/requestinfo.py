"""What a request's method and path ask for, before anything is looked up.

Called once per HTTP request; authorization and dispatch read the result. It knows the shape of
Kubernetes' paths and no kind. As apiserver/pkg/endpoints/request/requestinfo.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_OF_A_NAMESPACE = ("status", "finalize")  # subresources of namespaces, not resources within them


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """A verb on a resource, or on a path where `is_resource` is False."""

    verb: str
    path: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""  # the path behind a subresource, e.g. of a proxy


def flag(query: Mapping[str, str], name: str) -> bool:
    """A boolean parameter: anything but `false` and `0` is true, the empty string too."""
    value = query.get(name)
    return value is not None and value.lower() not in ("false", "0")


def parse(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """`path` as it is on the wire, still quoted."""
    verb = method.lower()
    parts = [unquote(part) for part in path.strip("/").split("/") if part]
    if len(parts) >= 3 and parts[0] == "api":
        group, version, parts = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, parts = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo(verb, unquote(path))
    verb = _VERBS.get(method, verb)
    if parts[0] == "watch" and len(parts) > 1:
        verb, parts = "watch", parts[1:]
    namespace, resource, rest = _located(parts)
    name = rest[0] if rest else ""
    verb = _of_many(verb, query) if not name else verb
    return RequestInfo(
        verb=verb,
        path=unquote(path),
        is_resource=True,
        group=group,
        version=version,
        namespace=namespace,
        resource=resource,
        name=name,
        subresource=rest[1] if len(rest) > 1 else "",
        rest="/".join(rest[2:]),
    )


def _located(parts: list[str]) -> tuple[str, str, list[str]]:
    """Namespace, resource, and what follows the resource."""
    if parts[0] != "namespaces":
        return "", parts[0], parts[1:]
    if len(parts) > 2 and parts[2] not in _OF_A_NAMESPACE:
        return parts[1], parts[2], parts[3:]
    return (parts[1] if len(parts) > 1 else ""), "namespaces", parts[1:]


def _of_many(verb: str, query: Mapping[str, str]) -> str:
    if verb == "get":
        return "watch" if flag(query, "watch") else "list"
    return "deletecollection" if verb == "delete" else verb
