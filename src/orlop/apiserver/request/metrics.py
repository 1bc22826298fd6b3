"""Counts every request, under upstream's names.

Called by the handler around each request. Labels are taken from what is served, not from what was
asked, so that nobody can make up series. As apiserver/pkg/endpoints/metrics.
"""

from __future__ import annotations

from ...api.kinds import Kind
from ...metrics import PROCESS
from ...store import Store
from ..objects.conversion import bucket_of
from ..registry import Registry
from .requestinfo import RequestInfo

_BUCKETS = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30,
    45, 60,
)  # fmt: skip
_RESOURCE = ("verb", "group", "version", "resource", "subresource", "scope", "component")
_total = PROCESS.counter(
    "apiserver_request_total",
    "Counter of apiserver requests broken out for each verb, group, version, resource, scope, "
    "component, and HTTP response code.",
    *_RESOURCE,
    "code",
)
_seconds = PROCESS.histogram(
    "apiserver_request_duration_seconds",
    "Response latency distribution in seconds for each verb, group, version, resource, "
    "subresource, scope and component.",
    *_RESOURCE,
    buckets=_BUCKETS,
)
_long_running = PROCESS.gauge(
    "apiserver_longrunning_requests",
    "Gauge of all active long-running apiserver requests broken out by verb, group, version, "
    "resource, scope and component.",
    *_RESOURCE,
)
_objects = PROCESS.gauge(
    "apiserver_storage_objects",
    "Number of stored objects at the time of last check split by kind.",
    "resource",
)
in_flight = PROCESS.gauge(
    "apiserver_current_inflight_requests",
    "Number of currently used inflight request limit of this apiserver per request kind.",
    "request_kind",
)
dropped = PROCESS.counter(
    "apiserver_dropped_requests_total",
    "Number of requests dropped with 'Try again later' response.",
    "request_kind",
)
_VERBS = {"create": "POST", "update": "PUT"}
_KNOWN = {
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "head",
    "post", "put", "options",
}  # fmt: skip
_CONNECTS = ("exec", "attach", "portforward", "proxy")


def is_long_running(info: RequestInfo) -> bool:
    """Return whether a request may rightly take as long as its client wants."""
    return info.verb == "watch" or (
        info.is_resource and (info.subresource in _CONNECTS or info.subresource == "log")
    )


def labels_of(info: RequestInfo, kind: Kind | None) -> tuple[str, ...]:
    verb = info.verb if info.verb in _KNOWN else "other"
    verb = "CONNECT" if info.subresource in _CONNECTS else _VERBS.get(verb, verb.upper())
    if kind is None:
        return (verb, "", "", "", "", "", "apiserver")
    known = info.subresource if info.subresource in kind.subresources else ""
    scope = "resource" if info.name else "namespace" if info.namespace else "cluster"
    return (verb, kind.group, kind.version, kind.plural, known, scope, "apiserver")


class Request:
    """One request from begin to end; whoever makes it ends it, whatever happens."""

    def __init__(self, info: RequestInfo, kind: Kind | None, began: float) -> None:
        self._labels = labels_of(info, kind)
        self._began = began
        self._is_long = is_long_running(info)
        if self._is_long:
            _long_running.add(*self._labels)

    def end(self, code: int, now: float) -> None:
        _total.add(*self._labels, str(code))
        if self._is_long:
            _long_running.add(*self._labels, by=-1)
        else:
            _seconds.observe(now - self._began, *self._labels)


def look_at_store(registry: Registry) -> None:
    """Count what is stored, once for all views of a kind."""
    store: Store = registry.store
    for bucket in sorted({bucket_of(kind) for kind in registry.kinds if "list" in kind.verbs}):
        _objects.set(store.count(bucket), bucket)
