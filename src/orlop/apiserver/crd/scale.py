"""scale for custom resources: replicas at the places their definition names.

Called by the scale subresource. As apiextensions' registry/customresource/etcd.go: ScaleREST.
"""

from __future__ import annotations

from typing import Any

from ...api.kinds import Kind
from ...api.objects import Obj
from ...errors import InternalError

_SHARED = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def of(kind: Kind, obj: Obj) -> Obj:
    """Make the autoscaling/v1 Scale of a custom resource.

    InternalError where it has no replicas.
    """
    paths = kind.custom.scale if kind.custom is not None else None
    assert paths is not None, f"{kind.resource} has no scale"
    replicas = _at(obj, paths.spec_replicas)
    if not isinstance(replicas, int):
        path = paths.spec_replicas
        raise InternalError(
            f'Internal error occurred: the spec replicas field "{path}" does not exist'
        )
    metadata = obj["metadata"]
    status: Obj = {"replicas": _at(obj, paths.status_replicas) or 0}
    selector = _at(obj, paths.selector) if paths.selector else None
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in _SHARED if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def changed(kind: Kind, obj: Obj, replicas: int) -> Obj:
    """Return the object with another number of replicas."""
    paths = kind.custom.scale if kind.custom is not None else None
    assert paths is not None, f"{kind.resource} has no scale"
    *outer, last = paths.spec_replicas.strip(".").split(".")
    place = obj
    for name in outer:
        place = place.setdefault(name, {})
    place[last] = replicas
    return obj


def _at(obj: Any, path: str) -> Any:
    for name in path.strip(".").split("."):
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj
