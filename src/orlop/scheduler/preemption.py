"""Chooses whom an important pod preempts where nothing is free: the victims, and the node.

Asked by the scheduler for a pod that fits nowhere. Pure. Nodes whose capacity is counted are
considered: in a partition Slurm's own preemption decides. As pkg/scheduler/framework/preemption and
plugins/defaultpreemption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ..api import selectors, times
from ..api.objects import Obj, is_deleting, key_of, labels_of, meta, uid_of
from .capacity import priority_of
from .snapshot import Snapshot, is_partition

# Why a node will not do, for a pod that sees the cluster so.
Refuses = Callable[[Obj, Snapshot], str]
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"


class Plan(NamedTuple):
    node: Obj
    victims: Sequence[Obj]
    violations: int  # victims that a disruption budget would have kept


class Outcome(NamedTuple):
    """A plan, or the words that say why there is none."""

    plan: Plan | None
    words: str = ""


def is_eligible(pod: Obj, snapshot: Snapshot) -> str:
    """Return why the pod may not preempt others; empty where it may."""
    if pod["spec"].get("preemptionPolicy") == "Never":
        return "not eligible due to preemptionPolicy=Never."
    nominated = (pod.get("status") or {}).get("nominatedNodeName")
    if nominated and any(
        is_deleting(other) and priority_of(other) < priority_of(pod)
        for other in snapshot.pods_on(nominated)
    ):
        return "not eligible due to a terminating pod on the nominated node."
    return ""


def preempt(
    pod: Obj,
    snapshot: Snapshot,
    refusals: Sequence[str],
    is_curable: Callable[[str], bool],
    refuses: Refuses,
    budgets: Iterable[Obj],
) -> Outcome:
    """Return the best node to make room on."""
    why_not = is_eligible(pod, snapshot)
    if why_not:
        return Outcome(None, why_not)
    known = list(budgets)
    plans: list[Plan] = []
    words: Counter[str] = Counter()
    for node, reason in zip(snapshot.nodes, refusals, strict=True):
        if is_partition(node) or not is_curable(reason):
            words[NOT_HELPFUL] += 1
            continue
        plan = _on_node(pod, node, snapshot, refuses, known)
        if plan is None:
            words[NO_VICTIMS] += 1
        else:
            plans.append(plan)
    if plans:
        return Outcome(min(plans, key=_cost))
    told = ", ".join(sorted(f"{count} {text}" for text, count in words.items()))
    return Outcome(None, f"0/{len(snapshot.nodes)} nodes are available: {told}.")


def _on_node(
    pod: Obj, node: Obj, snapshot: Snapshot, refuses: Refuses, budgets: Sequence[Obj]
) -> Plan | None:
    """Take away all that are less important, then give back those that may stay."""
    priority = priority_of(pod)
    lesser = [one for one in snapshot.pods_on(meta(node)["name"]) if priority_of(one) < priority]
    if not lesser:
        return None
    if refuses(node, snapshot.imagine_without(lesser)):  # 1
        return None
    violating, others = _split(lesser, budgets)
    victims: list[Obj] = list(lesser)
    violations = 0
    for group, is_violation in ((violating, True), (others, False)):  # 2
        for candidate in sorted(group, key=_importance):
            kept = [one for one in victims if one is not candidate]
            if refuses(node, snapshot.imagine_without(kept)):
                violations += is_violation
            else:
                victims = kept
    return Plan(node, victims, violations) if victims else None


def _importance(pod: Obj) -> tuple[int, float]:
    """Return a sort key, the most important first: by priority, then who has run longest."""
    return -priority_of(pod), _started(pod)


def _started(pod: Obj) -> float:
    text = (pod.get("status") or {}).get("startTime") or meta(pod).get("creationTimestamp")
    return times.parse(text) if text else 0.0


def _split(pods: Sequence[Obj], budgets: Sequence[Obj]) -> tuple[list[Obj], list[Obj]]:
    """Return those whom a disruption budget does not let go any more, and the others."""
    allowed = {
        uid_of(budget): int((budget.get("status") or {}).get("disruptionsAllowed") or 0)
        for budget in budgets
    }
    violating: list[Obj] = []
    others: list[Obj] = []
    for pod in sorted(pods, key=_importance):
        is_kept = False
        for budget in budgets:
            if _covers(budget, pod):
                allowed[uid_of(budget)] -= 1
                is_kept = is_kept or allowed[uid_of(budget)] < 0
        (violating if is_kept else others).append(pod)
    return violating, others


def _covers(budget: Obj, pod: Obj) -> bool:
    if key_of(budget).namespace != key_of(pod).namespace:
        return False
    selector = selectors.from_structure(budget["spec"].get("selector"))
    return selector.matches(labels_of(pod))


def _cost(plan: Plan) -> tuple[object, ...]:
    """Return the cost, as pickOneNodeForPreemption: less is better."""
    priorities = [priority_of(victim) for victim in plan.victims]
    return (
        plan.violations,
        max(priorities),
        sum(priorities),
        len(plan.victims),
        -min(_started(victim) for victim in plan.victims),
        meta(plan.node)["name"],
    )
