"""Takes one pod through all filters and scores: its node, or why there is none and what may help.

Called by the scheduler with a snapshot of the cluster. Pure: what is decided is done elsewhere. The
order is upstream's: what the node is, the pod's volumes, what is free, spreading, neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..api import quantity
from ..api.objects import Obj, meta
from . import affinity, capacity, gangs, preemption, spread
from .affinity import Affinity
from .filters import explain, refusal, wish_of
from .preemption import Plan
from .scores import best
from .snapshot import Snapshot, is_partition
from .volumes import View

# What may help a pod that fits nowhere; each wakes only those that it may help.
NODE, GONE, PLACED = "a node changed", "a pod has gone", "a pod was placed or changed"


@dataclass(slots=True)
class Decision:
    node: Obj | None = None
    message: str = ""
    helps: frozenset[str] = frozenset({NODE})
    plan: Plan | None = None  # whom to drive out, and where
    affinity: Affinity = field(default_factory=Affinity)


def decide(
    pod: Obj,
    snapshot: Snapshot,
    view: View,
    budgets: Callable[[], Iterable[Obj]],
    partition: str = "",
) -> Decision:
    """Decide on a node; `partition` is where its namespace belongs, if it says so."""
    nodes = snapshot.nodes
    if view.trouble:
        return Decision(message=f"0/{len(nodes)} nodes are available: {view.trouble}.")
    wish = wish_of(pod, partition)
    near, even = affinity.prepare(pod, snapshot), spread.prepare(pod, snapshot)
    mates = gangs.prepare(pod, snapshot)
    refusals = [
        refusal(wish, node)
        or view.refusal(node)
        or mates.refusal(node)
        or (not mates.are_queued_on(node) and capacity.refusal(node, pod, snapshot))
        or even.refusal(node)
        or near.refusal(node)
        for node in nodes
    ]
    feasible = [node for node, reason in zip(nodes, refusals, strict=True) if not reason]
    if feasible:
        node = view.chosen(feasible) or _nominated(pod, feasible)
        if node is None:
            rank = {
                meta(one)["name"]: (
                    -near.score(one),
                    even.score(one),
                    capacity.load(one, pod, snapshot),
                )
                for one in feasible
            }
            node = best(pod, feasible, rank)
        return Decision(node, affinity=near)
    message = " ".join([explain(wish, nodes, refusals), *_hints(pod, snapshot, refusals)])
    helps = _helps(refusals)
    if all(is_partition(node) for node in nodes):
        return Decision(message=message, helps=helps)
    outcome = preemption.preempt(
        pod,
        snapshot,
        refusals,
        _is_curable,
        lambda node, imagined: _crowded(pod, node, imagined),
        budgets(),
    )
    if outcome.plan is None:
        message = f"{message} preemption: {outcome.words}"
    return Decision(message=message, helps=helps, plan=outcome.plan)


def _nominated(pod: Obj, feasible: Sequence[Obj]) -> Obj | None:
    """Return the node on which room was made for it."""
    name = (pod.get("status") or {}).get("nominatedNodeName")
    return next((node for node in feasible if meta(node)["name"] == name), None)


def _crowded(pod: Obj, node: Obj, snapshot: Snapshot) -> str:
    """Return why other pods make the node unfit; empty where they do not."""
    return (
        capacity.refusal(node, pod, snapshot)
        or spread.prepare(pod, snapshot).refusal(node)
        or affinity.prepare(pod, snapshot).refusal(node)
    )


def _is_curable(reason: str) -> bool:
    """Return whether fewer pods on a node could make it do."""
    curable = (spread.SKEWED, affinity.ANTI_AFFINITY, affinity.EXISTING)
    return capacity.is_shortage(reason) or reason in curable


def _helps(refusals: Iterable[str]) -> frozenset[str]:
    found = {NODE}
    for reason in refusals:
        if _is_curable(reason):
            found.add(GONE)
        if reason == gangs.ELSEWHERE:
            found |= {GONE, PLACED}
        if reason in affinity.REASONS or reason in spread.REASONS:
            found.add(PLACED)
    return frozenset(found)


def _hints(pod: Obj, snapshot: Snapshot, refusals: Sequence[str]) -> list[str]:
    """Return what would help, where upstream's words leave one to guess."""
    hints = []
    counted = [
        (node, reason)
        for node, reason in zip(snapshot.nodes, refusals, strict=True)
        if not is_partition(node) and reason.startswith("Insufficient ")
    ]
    for name in sorted({reason.removeprefix("Insufficient ") for _, reason in counted}):
        free = [_free(node, pod, name, snapshot) for node, _ in counted]
        asked = _amount(name, capacity.requests_of(pod)[name])
        most = _amount(name, max(*free, 0))
        hints.append(f"It asks for {asked} {name}; the most that is free on one node is {most}.")
    if affinity.AFFINITY in refusals:
        hints.append("It waits for a pod that it must be near to have its host.")
    return hints


def _free(node: Obj, pod: Obj, name: str, snapshot: Snapshot) -> int:
    allocatable = ((node.get("status") or {}).get("allocatable") or {}).get(name, 0)
    return quantity.to_millis(allocatable) - capacity.used_on(node, pod, snapshot)[0][name]


def _amount(name: str, millis: int) -> str:
    if name == "memory":
        return f"{-(-millis // (1000 << 20))}Mi"
    return f"{millis / 1000:g}"
