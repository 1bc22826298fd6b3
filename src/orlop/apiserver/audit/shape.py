"""Parts of audit events that all records share.

Used by the trail of a request over HTTP and by the notes of in-process ones. Pure.
"""

from __future__ import annotations

from typing import Any, Protocol

from ...api.objects import Obj
from ..request.requestinfo import RequestInfo


class Sink(Protocol):
    def write(self, event: Obj) -> None: ...


def reference(info: RequestInfo) -> Obj:
    named = {
        "resource": info.resource,
        "namespace": info.namespace,
        "name": info.name,
        "apiGroup": info.group,
        "apiVersion": info.version,
        "subresource": info.subresource,
    }
    return {name: value for name, value in named.items() if value}


def without_managed_fields(obj: Any) -> Any:
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
        return obj
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": metadata}
