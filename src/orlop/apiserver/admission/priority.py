"""Gives a pod the priority of its class, and refuses a second default class.

An admission plugin, always on. As plugin/pkg/admission/priority, and what its registry says of the
system's own classes.
"""

from __future__ import annotations

from ...api import kinds
from ...api.objects import Key, Obj, meta
from ...errors import Forbidden
from ...store import Store
from ..request.failures import forbidden
from .chain import Attributes, Plugin
from .reading import Objects

# The classes every cluster has, with what they are for.
SYSTEM_CLASSES = {
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another "
        "node if necessary.",
    ),
}
_PREEMPTS = "PreemptLowerPriority"


class Priority(Plugin):
    def __init__(self, store: Store) -> None:
        self._classes = Objects(store, kinds.PRIORITY_CLASS)

    async def admit(self, attributes: Attributes) -> None:
        pod = attributes.obj
        is_pod = attributes.kind.resource == kinds.POD.resource and not attributes.subresource
        if pod is None or not is_pod or not isinstance(pod.get("spec"), dict):
            return
        if attributes.operation == "CREATE":
            self._resolve(attributes, pod["spec"])
        elif attributes.operation == "UPDATE":
            old = (attributes.old or {}).get("spec") or {}
            for field in ("priority", "preemptionPolicy"):
                if pod["spec"].get(field) is None and old.get(field) is not None:
                    pod["spec"][field] = old[field]

    async def validate(self, attributes: Attributes) -> None:
        if attributes.kind.resource != kinds.PRIORITY_CLASS.resource or attributes.subresource:
            return
        if attributes.operation == "DELETE" and attributes.name in SYSTEM_CLASSES:
            why = "this is a system priority class and cannot be deleted"
            raise forbidden(attributes.kind, attributes.name, why)
        if attributes.obj is not None and attributes.obj.get("globalDefault"):
            default = self._default()
            if default is not None and meta(default)["name"] != attributes.name:
                found = f"PriorityClass {meta(default)['name']} is already marked as default"
                why = f"{found}. Only one default can exist"
                raise forbidden(attributes.kind, attributes.name, why)

    def _resolve(self, attributes: Attributes, spec: Obj) -> None:
        found = self._class(attributes, spec)
        value = found.get("value", 0)
        policy = found.get("preemptionPolicy") or _PREEMPTS
        if found:
            spec["priorityClassName"] = meta(found)["name"]
        if spec.get("priority") is not None and spec["priority"] != value:
            raise self._refused(attributes, "integer value of priority", spec["priority"], value)
        if spec.get("preemptionPolicy") is not None and spec["preemptionPolicy"] != policy:
            said = spec["preemptionPolicy"]
            raise self._refused(attributes, "string value of PreemptionPolicy", said, policy)
        spec["priority"], spec["preemptionPolicy"] = value, policy

    def _class(self, attributes: Attributes, spec: Obj) -> Obj:
        """Return the class that the pod names, else the default one, else none: priority 0."""
        name = spec.get("priorityClassName")
        if not name:
            return self._default() or {}
        found = self._classes.get(Key("", name))
        if found is None:
            why = f"no PriorityClass with name {name} was found"
            raise forbidden(attributes.kind, attributes.name, why)
        return found

    def _default(self) -> Obj | None:
        """Return the default class. Of several, which a race can make, it is the lowest."""
        marked = [one for one in self._classes.all() if one.get("globalDefault")]
        return min(marked, key=lambda one: one.get("value", 0), default=None)

    def _refused(
        self, attributes: Attributes, what: str, said: object, computed: object
    ) -> Forbidden:
        why = (
            f"the {what} ({said}) must not be provided in pod spec; priority admission controller "
            f"computed {computed} from the given PriorityClass name"
        )
        return forbidden(attributes.kind, attributes.name, why)
