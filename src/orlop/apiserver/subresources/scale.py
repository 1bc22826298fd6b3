"""scale: the number of replicas of a workload, in one shape for all kinds.

Called for GET, PUT and PATCH, apply patches among them, on `<workload>/<name>/scale`. What changes
is spec.replicas. As registry/apps/deployment/storage: ScaleREST.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ...api import selectors, validation
from ...api.managedfields import manager
from ...api.managedfields.scale import to_scale, to_workload
from ...api.managedfields.write import Write
from ...api.objects import Obj
from ...api.validation.errors import non_negative
from ...store import Record
from ..crd import scale as custom_scale
from ..objects.conversion import decode, ready
from ..objects.field_manager import applied
from ..registry import Call, Registry, View
from ..request.failures import bad_request
from ..verbs import apply as apply_verb
from ..verbs import patch as patch_verb
from ..verbs.update import modify

_SHARED = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


async def get_scale(registry: Registry, call: Call) -> Obj:
    return await _answer(call, registry.find(call))


async def update_scale(registry: Registry, call: Call, body: Any) -> Obj:
    return await _write(registry, call, lambda scale: _tracked(registry, call, scale, body))


async def patch_scale(registry: Registry, call: Call, media_type: str, body: Any) -> Obj:
    encoded = msgspec.json.encode(body)

    def change(scale: Obj) -> Obj:
        patch, target = (
            msgspec.json.decode(encoded),
            msgspec.json.decode(msgspec.json.encode(scale)),
        )
        # A Scale has no keyed lists: a strategic merge of it is a plain one.
        kind = patch_verb.MERGE if media_type == patch_verb.STRATEGIC else media_type
        new = patch_verb.apply(registry, call.kind, kind, target, patch)
        return _tracked(registry, call, scale, new)

    return await _write(registry, call, change)


async def apply_scale(registry: Registry, call: Call, config: Any, *, force: bool) -> Obj:
    """Apply a Scale: its number of replicas is the one field that can have owners."""
    apply_verb.check_type(config, "autoscaling/v1", "Scale")
    encoded = msgspec.json.encode(config)

    def change(scale: Obj) -> Obj:
        stated = msgspec.json.decode(encoded)
        return applied(_scale_write(registry, call), scale, stated, force=force)

    return await _write(registry, call, change)


async def _write(registry: Registry, call: Call, change: Callable[[Obj], Obj]) -> Obj:
    """Write a change of the Scale as one of the workload; the owners of replicas follow it."""

    def change_workload(workload: Obj) -> Obj:
        metadata, scale = workload["metadata"], _shown(call, workload)
        former = metadata.get("managedFields")
        scale["metadata"] |= {"managedFields": to_scale(former)}
        new = change(scale)
        managed = to_workload(
            former, (new.get("metadata") or {}).get("managedFields"), call.kind.api_version
        )
        workload = _scaled(call, workload, new)
        metadata.pop("managedFields", None)
        metadata |= {"managedFields": managed} if managed else {}
        return workload

    call.view = View(
        ("autoscaling", "v1", "Scale"),
        lambda workload: _shown(call, workload),
        lambda workload, scale: _scaled(call, workload, scale),
    )
    return await _answer(call, await modify(registry, call, change_workload, tracked=False))


def _tracked(registry: Registry, call: Call, old: Obj, new: Any) -> Obj:
    if not isinstance(new, dict):
        raise bad_request("the body of the request must be a Scale of autoscaling/v1")
    if not isinstance(new.get("metadata") or {}, dict) or not isinstance(
        new.get("spec") or {}, dict
    ):
        raise bad_request("metadata and spec of a Scale must be objects")
    obj = {**new, "metadata": dict(new.get("metadata") or {}), "spec": new.get("spec") or {}}
    manager.update(_scale_write(registry, call), old, obj)
    return obj


def _scale_write(registry: Registry, call: Call) -> Write:
    now, shape = registry.timestamp(), registry.shapes.scale()
    return Write(call.manager, "autoscaling/v1", shape, now, "scale")


def _shown(call: Call, workload: Obj) -> Obj:
    return scale_of(workload) if call.kind.custom is None else custom_scale.of(call.kind, workload)


def scale_of(workload: Obj) -> Obj:
    """Make the autoscaling/v1 Scale of a workload."""
    spec, status = workload.get("spec") or {}, workload.get("status") or {}
    metadata = workload["metadata"]
    scale: Obj = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in _SHARED if name in metadata},
        "spec": {"replicas": spec["replicas"]} if spec.get("replicas") else {},
        "status": {"replicas": status.get("replicas", 0)},
    }
    selector = _selector(workload)
    if selector:
        scale["status"]["selector"] = selector
    return scale


def _selector(workload: Obj) -> str:
    selector = workload.get("spec", {}).get("selector")
    if workload["kind"] == "ReplicationController":
        return str(selectors.from_labels(selector or {}))
    return str(selectors.from_structure(selector))


def _scaled(call: Call, workload: Obj, scale: Any) -> Obj:
    if not isinstance(scale, dict):
        raise bad_request("the body of the request must be a Scale of autoscaling/v1")
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request("Scale.spec.replicas must be an integer")
    problems = non_negative("spec.replicas", replicas)
    if problems:
        raise validation.invalid(call.kind, call.name, problems)
    metadata = scale.get("metadata") or {}
    for name in ("uid", "resourceVersion"):
        if metadata.get(name):
            workload["metadata"][name] = metadata[name]
    if call.kind.custom is not None:
        return custom_scale.changed(call.kind, workload, replicas)
    workload.setdefault("spec", {})["replicas"] = replicas
    return workload


async def _answer(call: Call, record: Record) -> Obj:
    await ready(call.kind, [record])
    return _shown(call, decode(call.kind, record))
