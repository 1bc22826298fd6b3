"""scale: the number of replicas of a workload, in one shape for all kinds.

Called for GET, PUT and PATCH on `<workload>/<name>/scale`. Only spec.replicas ever changes. As
registry/apps/deployment/storage: ScaleREST.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...api import selectors, validation
from ...api.objects import Obj
from ...api.validation.errors import non_negative
from ...store import Record
from ..conversion import decode, ready
from ..customresources import scale as custom_scale
from ..failures import bad_request
from ..registry import Call, Registry
from ..verbs import patch as patch_verb
from ..verbs.update import modify

_SHARED = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


async def get_scale(registry: Registry, call: Call) -> Obj:
    return await _answer(call, registry.find(call))


async def update_scale(registry: Registry, call: Call, body: Any) -> Obj:
    def change(workload: Obj) -> Obj:
        return _scaled(call, workload, body)

    return await _answer(call, await modify(registry, call, change))


async def patch_scale(registry: Registry, call: Call, media_type: str, body: Any) -> Obj:
    encoded = msgspec.json.encode(body)

    def change(workload: Obj) -> Obj:
        patch = msgspec.json.decode(encoded)
        # A Scale has no keyed lists: a strategic merge of it is a plain one.
        kind = patch_verb.MERGE if media_type == patch_verb.STRATEGIC else media_type
        scale = patch_verb.apply(registry, call.kind, kind, _shown(call, workload), patch)
        return _scaled(call, workload, scale)

    return await _answer(call, await modify(registry, call, change))


def _shown(call: Call, workload: Obj) -> Obj:
    return scale_of(workload) if call.kind.custom is None else custom_scale.of(call.kind, workload)


def scale_of(workload: Obj) -> Obj:
    """autoscaling/v1 Scale of a workload."""
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
