"""Adds to pods what their RuntimeClass names: an overhead, and where they may run.

An admission plugin, always on. As plugin/pkg/admission/runtimeclass; which runtime starts the
containers is not its business.
"""

from __future__ import annotations

from ...api import kinds
from ...api.objects import Key, Obj
from ...store import Store
from ..request.failures import forbidden
from .chain import Attributes, Plugin
from .reading import Objects


class RuntimeClass(Plugin):
    def __init__(self, store: Store) -> None:
        self._classes = Objects(store, kinds.RUNTIME_CLASS)

    async def admit(self, attributes: Attributes) -> None:
        pod = attributes.obj
        if not _is_new_pod(attributes) or pod is None or not isinstance(pod.get("spec"), dict):
            return
        spec, found = pod["spec"], self._class(attributes)
        if found is None:
            return
        overhead = (found.get("overhead") or {}).get("podFixed")
        if overhead and not spec.get("overhead"):
            spec["overhead"] = dict(overhead)
        scheduling = found.get("scheduling") or {}
        self._select(attributes, spec, scheduling.get("nodeSelector") or {})
        present = spec.get("tolerations") or []
        more = [one for one in scheduling.get("tolerations") or () if one not in present]
        if more:
            spec["tolerations"] = [*present, *more]

    async def validate(self, attributes: Attributes) -> None:
        pod = attributes.obj
        if not _is_new_pod(attributes) or pod is None:
            return
        asked = (pod.get("spec") or {}).get("overhead")
        found = self._class(attributes)
        defined = ((found or {}).get("overhead") or {}).get("podFixed")
        if asked and not defined:
            why = (
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )
            raise forbidden(attributes.kind, attributes.name, why)
        if defined and asked != defined:
            why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            raise forbidden(attributes.kind, attributes.name, why)

    def _class(self, attributes: Attributes) -> Obj | None:
        name = ((attributes.obj or {}).get("spec") or {}).get("runtimeClassName")
        if not name:
            return None
        found = self._classes.get(Key("", str(name)))
        if found is None:
            why = f'pod rejected: RuntimeClass "{name}" not found'
            raise forbidden(attributes.kind, attributes.name, why)
        return found

    def _select(self, attributes: Attributes, spec: Obj, wanted: Obj) -> None:
        present = spec.get("nodeSelector") or {}
        for key, value in wanted.items():
            if present.get(key, value) != value:
                why = (
                    f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                    f"pod.spec.nodeSelector[{key}] = {present[key]}"
                )
                raise forbidden(attributes.kind, attributes.name, why)
        if wanted:
            spec["nodeSelector"] = {**present, **wanted}


def _is_new_pod(attributes: Attributes) -> bool:
    is_pod = attributes.kind.resource == kinds.POD.resource
    return is_pod and attributes.operation == "CREATE" and not attributes.subresource
