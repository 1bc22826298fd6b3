"""Lists which fields of which kinds `--field-selector` may name.

Used by list, watch and deletecollection. Every kind has metadata.name and metadata.namespace; the
others are upstream's list. Values compare as strings, and a field that is absent has the zero value
of its type: `spec.unschedulable=false` selects the node that says nothing about it.
"""

from __future__ import annotations

from typing import Any

from ..errors import BadRequest
from .kinds import Kind
from .objects import Obj
from .selectors import FieldSelector, FieldTerm, Getter, split_fields

_EVENT = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_SELECTABLE: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "pods"): (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    ("", "nodes"): ("spec.unschedulable",),
    ("", "namespaces"): ("status.phase",),
    ("", "secrets"): ("type",),
    ("", "services"): ("spec.clusterIP", "spec.type"),
    ("", "replicationcontrollers"): ("status.replicas",),
    ("", "events"): _EVENT,
    ("events.k8s.io", "events"): (
        *_EVENT,
        "regarding.kind",
        "regarding.namespace",
        "regarding.name",
        "regarding.uid",
        "regarding.apiVersion",
        "regarding.resourceVersion",
        "regarding.fieldPath",
        "reportingController",
    ),
    ("apps", "replicasets"): ("status.replicas",),
    ("batch", "jobs"): ("status.successful",),
    ("certificates.k8s.io", "certificatesigningrequests"): ("spec.signerName",),
}
_ZERO = {
    "spec.unschedulable": "false",
    "spec.hostNetwork": "false",
    "status.replicas": "0",
    "status.successful": "0",
}
_METADATA = ("metadata.name", "metadata.namespace")


def selectable(kind: Kind) -> tuple[str, ...]:
    """Return the fields a selector on this kind may name."""
    if kind.custom is not None:
        return (*_METADATA, *kind.custom.selectable)
    return (*_METADATA, *_SELECTABLE.get((kind.group, kind.plural), ()))


def parse_fields(kind: Kind, text: str) -> FieldSelector:
    """Parse `metadata.name=x,status.phase!=Running`; BadRequest if a field is not selectable."""
    if not text:
        return FieldSelector()
    known = selectable(kind)
    terms = []
    for name, equal, value in split_fields(text):
        if name not in known:
            raise BadRequest(_unknown(kind, name))
        getter = _custom_getter(kind, name) or _getter(name)
        terms.append(FieldTerm(name, value, equal, getter))
    return FieldSelector(tuple(terms))


def _unknown(kind: Kind, name: str) -> str:
    if kind.custom is not None or (kind.group, kind.plural) in _SELECTABLE:
        return f"field label not supported: {name}"
    return f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def _custom_getter(kind: Kind, name: str) -> Getter | None:
    custom = kind.custom
    if custom is None or name not in custom.selectable:
        return None
    return lambda obj: _text(custom.field(obj, name), "")


def _getter(name: str) -> Getter:
    special = _SPECIAL.get(name)
    if special is not None:
        return special
    path, zero = name.split("."), _ZERO.get(name, "")
    if len(path) == 2:
        outer, inner = path

        def get_nested(obj: Obj) -> str:
            return _text((obj.get(outer) or {}).get(inner), zero)

        return get_nested

    def get(obj: Obj) -> str:
        return _text(obj.get(name), zero)

    return get


def _text(value: Any, zero: str) -> str:
    if value is None:
        return zero
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _regarding(name: str) -> Getter:
    """Make a getter for the object an event is about.

    Events are stored as core/v1; events.k8s.io calls the same fields by other names.
    """
    inner = name.partition(".")[2]

    def get(obj: Obj) -> str:
        about = obj.get("involvedObject") or obj.get("regarding") or {}
        return _text(about.get(inner), "")

    return get


def _source(obj: Obj) -> str:
    component = (obj.get("source") or obj.get("deprecatedSource") or {}).get("component")
    return _text(component, "") or _reporter(obj)


def _reporter(obj: Obj) -> str:
    return _text(obj.get("reportingComponent") or obj.get("reportingController"), "")


def _pod_ips(obj: Obj) -> str:
    addresses = (obj.get("status") or {}).get("podIPs") or []
    return ",".join(address.get("ip", "") for address in addresses)


_SPECIAL: dict[str, Getter] = {
    "source": _source,
    "reportingComponent": _reporter,
    "reportingController": _reporter,
    "status.podIPs": _pod_ips,
    "status.successful": lambda obj: _text((obj.get("status") or {}).get("succeeded"), "0"),
    **{
        name: _regarding(name)
        for name in _SELECTABLE["events.k8s.io", "events"]
        if name.startswith(("involvedObject.", "regarding."))
    },
}
