"""Small accessors over API objects, which are plain dicts with their camelCase keys.

Used by every component that reads objects. Nothing here changes an object it was given.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Obj = dict[str, Any]


class Key(NamedTuple):
    """Namespace (empty for cluster-scoped kinds) and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def meta(obj: Obj) -> Obj:
    """Return the object's metadata; an empty dict where it has none."""
    metadata: Obj = obj.get("metadata") or {}
    return metadata


def key_of(obj: Obj) -> Key:
    metadata = meta(obj)
    return Key(metadata.get("namespace") or "", metadata["name"])


def uid_of(obj: Obj) -> str:
    return str(meta(obj).get("uid", ""))


def labels_of(obj: Obj) -> dict[str, str]:
    return meta(obj).get("labels") or {}


def annotations_of(obj: Obj) -> dict[str, str]:
    return meta(obj).get("annotations") or {}


def is_deleting(obj: Obj) -> bool:
    return "deletionTimestamp" in meta(obj)


def controller_of(obj: Obj) -> Obj | None:
    """Return the owner reference marked as controller."""
    owners: list[Obj] = meta(obj).get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)


def is_controlled_by(obj: Obj, owner: Obj) -> bool:
    reference = controller_of(obj)
    return reference is not None and reference.get("uid") == uid_of(owner)


def owner_reference(owner: Obj) -> Obj:
    """Make a controller reference to `owner`, which must carry apiVersion and kind."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta(owner)["name"],
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def phase_of(pod: Obj) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def is_terminal(pod: Obj) -> bool:
    """Return whether a pod has ended for good."""
    return phase_of(pod) in ("Succeeded", "Failed")


def is_active(pod: Obj) -> bool:
    """Return whether a pod still counts for its controller."""
    return not is_terminal(pod) and not is_deleting(pod)


def condition_of(obj: Obj, kind: str) -> Obj | None:
    """Return the condition of that type in the object's status."""
    conditions: list[Obj] = (obj.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition.get("type") == kind), None)


def is_ready(pod: Obj) -> bool:
    condition = condition_of(pod, "Ready")
    return condition is not None and condition.get("status") == "True"
