"""finalize: the namespace controller says that a namespace is empty.

Called for PUT on `namespaces/<name>/finalize`. What changes is spec.finalizers; without any, a
deleted namespace goes. As registry/core/namespace/storage: FinalizeREST.
"""

from __future__ import annotations

from typing import Any

from ...api.objects import Obj
from ...store import Record
from ..objects.prepare_object import identify
from ..registry import Call, Registry
from ..verbs.update import modify


async def finalize(registry: Registry, call: Call, body: Any) -> Record:
    wanted = identify(call, body)
    finalizers = (wanted.get("spec") or {}).get("finalizers") or []

    def change(namespace: Obj) -> Obj:
        for name in ("uid", "resourceVersion"):
            if wanted["metadata"].get(name):
                namespace["metadata"][name] = wanted["metadata"][name]
        spec = namespace.setdefault("spec", {})
        spec["finalizers"] = list(finalizers)
        return namespace

    return await modify(registry, call, change)
