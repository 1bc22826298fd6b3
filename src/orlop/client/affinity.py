"""Node selectors, node affinity, taints and tolerations, as Kubernetes defines them.

Used by whoever chooses nodes: the scheduler's filters and scores, and the DaemonSet controller.
Pure. As component-helpers/scheduling/corev1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .. import wellknown
from ..api.objects import Obj, annotations_of, labels_of, meta

HARD_EFFECTS = ("NoSchedule", "NoExecute")


def matches_selector(pod: Obj, node: Obj) -> bool:
    """Return whether nodeSelector and required node affinity both hold."""
    spec = pod["spec"]
    labels = labels_of(node)
    if not (spec.get("nodeSelector") or {}).items() <= labels.items():
        return False
    required = _node_affinity(pod).get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(matches_term(term, node) for term in required.get("nodeSelectorTerms") or [])


def preference(pod: Obj, node: Obj) -> int:
    """Add up the weights of the preferred terms that the node meets."""
    terms = _node_affinity(pod).get("preferredDuringSchedulingIgnoredDuringExecution") or []
    return sum(
        int(term.get("weight", 0))
        for term in terms
        # An empty preference is met by every node.
        if not _requirements(term["preference"]) or matches_term(term["preference"], node)
    )


def _node_affinity(pod: Obj) -> Obj:
    return (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}


def _requirements(term: Obj) -> list[Obj]:
    return [*(term.get("matchExpressions") or []), *(term.get("matchFields") or [])]


def matches_term(term: Obj, node: Obj) -> bool:
    """Return whether all expressions and fields of one term hold; without any, none does."""
    fields = {"metadata.name": meta(node)["name"]}
    return bool(_requirements(term)) and (
        all(_holds(one, _labels(one, node)) for one in term.get("matchExpressions") or [])
        and all(_holds(one, fields) for one in term.get("matchFields") or [])
    )


def _labels(requirement: Obj, node: Obj) -> Mapping[str, str]:
    """Return a node's labels.

    A partition has what any of its hosts has, and lacks what any of them lacks.
    """
    labels = labels_of(node)
    if requirement["operator"] not in ("NotIn", "DoesNotExist"):
        return labels
    partial = annotations_of(node).get(wellknown.SOME_HOSTS, "").split(",")
    return {key: value for key, value in labels.items() if key not in partial}


def _holds(requirement: Obj, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement["key"])
    values = requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement["operator"], value, values)
    return False


def _compares(operator: str, value: str | None, values: list[str]) -> bool:
    try:
        found, bound = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return found > bound if operator == "Gt" else found < bound


def untolerated(pod: Obj, node: Obj, effects: Iterable[str] = HARD_EFFECTS) -> list[Obj]:
    """Return the node's taints of those effects that the pod does not tolerate."""
    tolerations = pod["spec"].get("tolerations") or []
    return [
        taint
        for taint in (node.get("spec") or {}).get("taints") or []
        if taint["effect"] in effects and not any(tolerates(one, taint) for one in tolerations)
    ]


def tolerates(toleration: Obj, taint: Obj) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    key = toleration.get("key")
    if key and key != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(key) and (toleration.get("value") or "") == (taint.get("value") or "")
