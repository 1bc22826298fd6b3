"""Reads what a request's method and path ask for, before anything is looked up.

Called once per HTTP request. Authorization, audit, admission, dispatch and whoever passes a request
on all go by the result and do not look at the path again: two readings of one path are how rights
are passed over. It knows the shape of Kubernetes' paths and no kind. As
apiserver/pkg/endpoints/request/requestinfo.go: a path is unquoted once and then split.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes, urlencode

from multidict import MultiMapping

from ...errors import BadRequest

_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
    "OPTIONS": "options",
}
_READING = ("GET", "HEAD")
_OF_A_NAMESPACE = ("status", "finalize")  # subresources of namespaces, not resources within them
_PROXY = "proxy"  # what follows this subresource of a pod, service or node is the far side's path
# A quoted slash is a slash. Each is found by itself: else, of a run that nothing follows, all of it
# would be looked at anew from each of its slashes.
_WORD = re.compile(r"/|%2[Ff]|((?:(?!%2[Ff])[^/])+)")
_PLAIN = ":@!$&'()*+,=~"  # needs no quoting within a word of a path; `;` begins parameters for some


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
    # Of a proxy, as on the wire: the path that leads to it, and the one for the far side.
    prefix: str = ""
    beyond: str = ""

    @property
    def target(self) -> str:
        """Return the path to be asked of another server: that which was authorized, quoted anew.

        Refused where some servers would read in it what was not authorized.
        """
        if unicodedata.normalize("NFKC", self.path) != self.path:
            raise BadRequest("the path of the request has characters that others take for others")
        return quote(self.path, safe="/" + _PLAIN)


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    end: int  # where it ends on the wire


def flag(query: Mapping[str, str], name: str) -> bool:
    """Read a boolean parameter: anything but `false` and `0` is true, the empty string too."""
    value = query.get(name)
    return value is not None and value.lower() not in ("false", "0")


def query_of(query: Mapping[str, str]) -> str:
    """Write the parameters as they were read here, quoted anew.

    So nobody after us reads other parameters.
    """
    return f"?{urlencode(list(query.items()))}" if query else ""


def parse(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """Read a request's path and query; BadRequest for a path that could be read in two ways.

    `path` is as it is on the wire, still quoted.
    """
    words = [_Word(_unquoted(one[1]), one.end()) for one in _WORD.finditer(path) if one[1]]
    texts = [word.text for word in words]
    if len(texts) >= 3 and texts[0] == "api":
        before, group, version = 2, "", texts[1]
    elif len(texts) >= 4 and texts[0] == "apis":
        before, group, version = 3, texts[1], texts[2]
    else:
        _check(texts)
        end = "/" if texts and path.endswith("/") else ""
        return RequestInfo(method.lower(), f"/{'/'.join(texts)}{end}")
    verb, parts = _VERBS.get(method, ""), texts[before:]
    if parts[0] == "watch" and len(parts) > 1 and method in _READING:
        verb, parts = "watch", parts[1:]
    namespace, resource, rest = _located(parts)
    name, subresource = (rest[0] if rest else ""), (rest[1] if len(rest) > 1 else "")
    verb = _of_many(verb, query) if not name else verb
    prefix, beyond, ours = "", "", texts
    if subresource == _PROXY and not group:
        last = len(texts) - len(rest) + 2
        prefix, beyond = path[: words[last - 1].end], _beyond(path, words[last - 1].end)
        ours = texts[:last]
    _check(ours)
    return RequestInfo(
        verb=verb,
        path="/" + "/".join(texts),
        is_resource=True,
        group=group,
        version=version,
        namespace=namespace,
        resource=resource,
        name=name,
        subresource=subresource,
        rest="/".join(rest[2:]),
        prefix=prefix,
        beyond=beyond,
    )


def _unquoted(word: str) -> str:
    """Unquote once, and not again."""
    try:
        return unquote_to_bytes(word).decode()
    except UnicodeError:
        raise BadRequest("the path of the request is not UTF-8") from None


def _check(words: Sequence[str]) -> None:
    for word in words:
        if word in (".", ".."):
            raise BadRequest("the path of the request must not have . or .. in it")
        if not word.isprintable():
            raise BadRequest("the path of the request must not have control characters in it")


def _beyond(path: str, end: int) -> str:
    """Return what follows a proxy, for the far side to read.

    It begins with a slash or is empty.
    """
    rest = path[end:]
    return f"/{rest[3:]}" if rest[:3].lower() == "%2f" else rest


def _located(parts: list[str]) -> tuple[str, str, list[str]]:
    """Return namespace, resource, and what follows the resource."""
    if parts[0] != "namespaces":
        return "", parts[0], parts[1:]
    if len(parts) > 2 and parts[2] not in _OF_A_NAMESPACE:
        return parts[1], parts[2], parts[3:]
    return (parts[1] if len(parts) > 1 else ""), "namespaces", parts[1:]


def _of_many(verb: str, query: Mapping[str, str]) -> str:
    if verb == "get":
        _check_one_watch(query)
        return "watch" if flag(query, "watch") else "list"
    return "deletecollection" if verb == "delete" else verb


def _check_one_watch(query: Mapping[str, str]) -> None:
    """Refuse `watch` said twice: some read the first and others the last."""
    said = query.getall("watch", []) if isinstance(query, MultiMapping) else []
    if len({flag({"watch": text}, "watch") for text in said}) > 1:
        raise BadRequest("the request asks for a watch and for none")
