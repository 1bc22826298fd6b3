"""The status of a definition: whether its names are free, whether it is served, whether it goes.

Used by the controller and by delete. Pure: the other definitions and the time are passed in. As
apiextensions' status/naming_controller.go, establish and finalizer, whose words these are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...api.objects import Obj, is_deleting, meta
from ...api.times import rfc3339

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_APPROVAL = "api-approved.kubernetes.io"
_PROTECTED = (".k8s.io", ".kubernetes.io")


def condition_of(definition: Obj, kind: str) -> Obj | None:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == kind), None)


def is_true(definition: Obj, kind: str) -> bool:
    return (condition_of(definition, kind) or {}).get("status") == "True"


def is_established(definition: Obj) -> bool:
    return is_true(definition, "Established")


def status_of(definition: Obj, others: Iterable[Obj], now: float) -> Obj:
    """Return the status a definition should have beside these others of its group."""
    names, taken = definition["spec"]["names"], _taken(others)
    accepted, conflict = _accepted(definition, names, taken)
    if conflict is None:
        free = _condition("NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
    else:
        free = _condition("NamesAccepted", "False", *conflict, now)
    if is_established(definition) or conflict is None:
        reason, text = "InitialNamesAccepted", "the initial names have been accepted"
        served = _condition("Established", "True", reason, text, now)
    else:
        text = "not all names are accepted"
        served = _condition("Established", "False", "NotAccepted", text, now)
    status = dict(definition.get("status") or {})
    status["acceptedNames"] = accepted
    for one in (free, served, *_approval(definition, now)):
        status["conditions"] = with_condition(status.get("conditions") or [], one)
    return status


def _taken(others: Iterable[Obj]) -> dict[str, set[str]]:
    """Return the names, of resources and of kinds, that other definitions of the group have."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        accepted = (other.get("status") or {}).get("acceptedNames") or {}
        resources |= {accepted.get("plural", ""), accepted.get("singular", "")}
        resources |= set(accepted.get("shortNames") or ())
        kinds |= {accepted.get("kind", ""), accepted.get("listKind", "")}
    return {"resources": resources - {""}, "kinds": kinds - {""}}


def _accepted(
    definition: Obj, wanted: Obj, taken: dict[str, set[str]]
) -> tuple[Obj, tuple[str, str] | None]:
    """Return the names it gets, and the first reason why it does not get all that it wants."""
    had = (definition.get("status") or {}).get("acceptedNames") or {}
    accepted: Obj = {"plural": had.get("plural", ""), "kind": had.get("kind", "")}
    conflict: tuple[str, str] | None = None
    for name, reason in _NAMES.items():
        value: Any = wanted.get(name)
        among = taken["kinds" if name in ("kind", "listKind") else "resources"]
        values = [value] if isinstance(value, str) else value or ()
        clash = [one for one in values if one in among]
        if clash:
            conflict = conflict or (reason, f'"{clash[0]}" is already in use')
            value = had.get(name)
        if value:
            accepted[name] = value
    if wanted.get("categories"):
        accepted["categories"] = wanted["categories"]
    return accepted, conflict


_NAMES = {
    "plural": "PluralConflict",
    "singular": "SingularConflict",
    "shortNames": "ShortNamesConflict",
    "kind": "KindConflict",
    "listKind": "ListKindConflict",
}


def _approval(definition: Obj, now: float) -> list[Obj]:
    """Return the condition about approval.

    Groups of the Kubernetes project itself say who has approved them.
    """
    kind = "KubernetesAPIApprovalPolicyConformant"
    if not definition["spec"]["group"].endswith(_PROTECTED):
        return []
    text = (meta(definition).get("annotations") or {}).get(_APPROVAL, "")
    if text.startswith("unapproved"):
        why = f'not approved: "{text}"'
        return [_condition(kind, "False", "UnapprovedAnnotation", why, now)]
    return [_condition(kind, "True", "ApprovedAnnotation", f"approved in {text}", now)]


def mark_terminating(definition: Obj, now: float) -> None:
    """Hold a definition that is being deleted until its objects are gone; in place."""
    if is_deleting(definition):
        return
    finalizers = definition["metadata"].setdefault("finalizers", [])
    if FINALIZER not in finalizers:
        finalizers.append(FINALIZER)
    reason = "InstanceDeletionPending"
    text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    terminating(definition, "True", reason, text, now)


def terminating(definition: Obj, status: str, reason: str, text: str, now: float) -> None:
    """Set the condition Terminating, in place."""
    one = _condition("Terminating", status, reason, text, now)
    held = definition.setdefault("status", {})
    held["conditions"] = with_condition(held.get("conditions") or [], one)


def _condition(kind: str, status: str, reason: str, message: str, now: float) -> Obj:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": rfc3339(now),
    }


def with_condition(conditions: list[Obj], new: Obj) -> list[Obj]:
    """Return the list with `new` in its place; the time changes when the status does."""
    out = []
    for old in conditions:
        if old["type"] == new["type"]:
            if old["status"] == new["status"]:
                new = {**new, "lastTransitionTime": old.get("lastTransitionTime")}
        else:
            out.append(old)
    position = next((i for i, old in enumerate(conditions) if old["type"] == new["type"]), len(out))
    return [*out[:position], new, *out[position:]]
