"""Kinds that are two views of one stored object, and the way between the views.

Called wherever an object goes into the store or comes out of it. Events are kept as core/v1, as
most clients write them; horizontal pod autoscalers as autoscaling/v2, which can say everything that
v1 can. All other kinds are kept as they are served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from ...api import kinds
from ...api.kinds import Kind
from ...api.objects import Obj
from ...api.reading import decode_json
from ...store import Record
from ..crd import versions

Convert = Callable[[Obj], Obj]


class View(NamedTuple):
    """Another way to see objects of the kind `stored`."""

    stored: Kind
    to_stored: Convert
    from_stored: Convert


# core/v1 field -> events.k8s.io/v1 field; all others have one name.
_EVENT_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_CORE_NAMES = {new: old for old, new in _EVENT_NAMES.items()}
# What v1 cannot say of an autoscaler travels in annotations, as upstream's conversion has it.
_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
_BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"


def bucket_of(kind: Kind) -> str:
    """Return where objects of a kind are kept; all views of it share one place."""
    return stored_kind(kind).resource


def stored_kind(kind: Kind) -> Kind:
    view = _view(kind)
    return view.stored if view is not None else kind


def decode(kind: Kind, record: Record) -> Obj:
    """Return a stored object as `kind` shows it; a fresh copy."""
    if kind.custom is not None:
        return versions.read(kind, kind.custom, record)
    view = _view(kind)
    return record.decode() if view is None else view.from_stored(record.decode())


async def ready(kind: Kind, records: Iterable[Record]) -> None:
    """Await what `decode` of these needs: nothing, but for conversion webhooks."""
    if kind.custom is not None:
        await versions.ready(kind, kind.custom, records)


async def stored(kind: Kind, obj: Obj) -> Obj:
    """Return an object of `kind` as it is kept."""
    if kind.custom is not None:
        return await versions.write(kind, kind.custom, obj)
    view = _view(kind)
    return obj if view is None else view.to_stored(obj)


def converted(kind: Kind, obj: Obj, wanted: Kind) -> Obj:
    """Return an object of one kind as another kind of the same bucket shows it."""
    if wanted.custom is not None:
        copy: Obj = msgspec.json.decode(msgspec.json.encode(obj))
        return wanted.custom.read({**copy, "apiVersion": wanted.api_version})
    former, view = _view(kind), _view(wanted)
    kept = obj if former is None else former.to_stored(obj)
    return kept if view is None else view.from_stored(kept)


async def in_version(kind: Kind, obj: Obj, wanted: Kind) -> Obj:
    """Do as `converted`, and by webhook where a definition wants that."""
    custom = kind.custom
    if custom is not None and custom.conversion.strategy == "Webhook":
        return await versions.between(kind, custom, obj, wanted)
    return converted(kind, obj, wanted)


def namespace_fields(namespace: Obj | None) -> Obj | None:
    """Return what expressions see of a namespace: its phase and metadata without managed fields."""
    if namespace is None:
        return None
    hidden = ("managedFields", "ownerReferences", "selfLink")
    metadata = {key: value for key, value in namespace["metadata"].items() if key not in hidden}
    return {**namespace, "metadata": metadata}


def is_view(kind: Kind) -> bool:
    """Return whether the stored bytes are not what clients of this kind must see."""
    return kind.custom is not None or _view(kind) is not None


def _view(kind: Kind) -> View | None:
    if kind.custom is not None:
        return None
    return _VIEWS.get((kind.group, kind.version, kind.kind))


def _typed(kind: Kind, obj: Obj) -> Obj:
    return {**obj, "apiVersion": kind.api_version, "kind": kind.kind}


def _event_to_core(event: Obj) -> Obj:
    core = {_CORE_NAMES.get(name, name): value for name, value in event.items()}
    series = core.get("series")
    if series:
        core["series"] = dict(series)
    return _typed(kinds.EVENT, core)


def _event_from_core(event: Obj) -> Obj:
    new = {_EVENT_NAMES.get(name, name): value for name, value in event.items()}
    return _typed(kinds.EVENTS_EVENT, new)


def _autoscaler_to_v2(old: Obj) -> Obj:
    new = _typed(kinds.HORIZONTAL_POD_AUTOSCALER, old)
    spec, metadata = dict(old.get("spec") or {}), dict(old["metadata"])
    annotations = dict(metadata.get("annotations") or {})
    metrics = _unpacked(annotations.pop(_METRICS, "[]"), [])
    behavior = _unpacked(annotations.pop(_BEHAVIOR, "null"), None)
    target = spec.pop("targetCPUUtilizationPercentage", None)
    if target is not None:
        metrics = [
            _cpu({"target": {"type": "Utilization", "averageUtilization": target}}),
            *metrics,
        ]
    spec |= {"metrics": metrics} if metrics else {}
    spec |= {"behavior": behavior} if behavior else {}
    metadata.pop("annotations", None)
    metadata |= {"annotations": annotations} if annotations else {}
    status = dict(old.get("status") or {})
    current = status.pop("currentCPUUtilizationPercentage", None)
    if current is not None:
        status["currentMetrics"] = [_cpu({"current": {"averageUtilization": current}})]
    return {**new, "metadata": metadata, "spec": spec, "status": status}


def _autoscaler_from_v2(new: Obj) -> Obj:
    old = _typed(kinds.HORIZONTAL_POD_AUTOSCALER_V1, new)
    spec, status = dict(new.get("spec") or {}), dict(new.get("status") or {})
    metadata = dict(new["metadata"])
    metrics, behavior = spec.pop("metrics", []), spec.pop("behavior", None)
    cpu = next((one for one in metrics if _is_cpu_target(one)), None)
    if cpu is not None:
        target = cpu["resource"]["target"]["averageUtilization"]
        spec["targetCPUUtilizationPercentage"] = target
        metrics = [one for one in metrics if one is not cpu]
    extra = {_METRICS: metrics} if metrics else {}
    extra |= {_BEHAVIOR: behavior} if behavior else {}
    if extra:
        packed = {name: msgspec.json.encode(value).decode() for name, value in extra.items()}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **packed}
    for one in status.pop("currentMetrics", None) or []:
        current = (one.get("resource") or {}).get("current") or {}
        if (one.get("resource") or {}).get("name") == "cpu" and "averageUtilization" in current:
            status["currentCPUUtilizationPercentage"] = current["averageUtilization"]
    status.pop("conditions", None)
    return {**old, "metadata": metadata, "spec": spec, "status": status}


def _cpu(rest: Obj) -> Obj:
    return {"type": "Resource", "resource": {"name": "cpu", **rest}}


def _is_cpu_target(metric: Obj) -> bool:
    resource = metric.get("resource") or {}
    target = resource.get("target") or {}
    return resource.get("name") == "cpu" and "averageUtilization" in target


def _unpacked(text: str, otherwise: Any) -> Any:
    try:
        return decode_json(text) or otherwise
    except ValueError:
        return otherwise


_VIEWS: dict[tuple[str, str, str], View] = {
    ("events.k8s.io", "v1", "Event"): View(kinds.EVENT, _event_to_core, _event_from_core),
    ("autoscaling", "v1", "HorizontalPodAutoscaler"): View(
        kinds.HORIZONTAL_POD_AUTOSCALER, _autoscaler_to_v2, _autoscaler_from_v2
    ),
}
