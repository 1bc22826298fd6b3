"""Taints follow conditions."""

from __future__ import annotations

import pytest

from orlop.controllers.nodes.node_taints import with_taints

P = "node.kubernetes.io/"


def node(*conditions: tuple[str, str], taints=(), **spec) -> dict:
    found = [{"type": kind, "status": status} for kind, status in conditions]
    return {"spec": {"taints": list(taints), **spec}, "status": {"conditions": found}}


def keys(taints: list[dict]) -> list[str]:
    return [f"{one['key'].removeprefix(P)}:{one['effect']}" for one in taints]


@pytest.mark.parametrize(
    ("made", "gives_up", "expected"),
    [
        (node(("Ready", "True")), False, []),
        (node(("Ready", "False")), False, ["not-ready:NoSchedule"]),
        (node(("Ready", "False")), True, ["not-ready:NoSchedule", "not-ready:NoExecute"]),
        (node(("Ready", "Unknown")), True, ["unreachable:NoSchedule", "unreachable:NoExecute"]),
        (node(), False, ["not-ready:NoSchedule"]),
        (node(("Ready", "True"), ("MemoryPressure", "True"), ("DiskPressure", "False")), False,
         ["memory-pressure:NoSchedule"]),
        (node(("Ready", "True"), ("PIDPressure", "True"), ("NetworkUnavailable", "True")), False,
         ["pid-pressure:NoSchedule", "network-unavailable:NoSchedule"]),
        (node(("Ready", "True"), unschedulable=True), False, ["unschedulable:NoSchedule"]),
    ],
)  # fmt: skip
def test_what_conditions_mean(made, gives_up, expected) -> None:
    assert keys(with_taints(made, gives_up=gives_up, now=0)) == expected


def test_what_is_over_goes_and_what_others_put_there_stays() -> None:
    others = [{"key": "gpu", "effect": "NoSchedule"}, {"key": P + "not-ready", "effect": "Prefer"}]
    old = [{"key": P + "not-ready", "effect": e} for e in ("NoSchedule", "NoExecute")]
    made = node(("Ready", "True"), taints=[others[0], *old, others[1]])
    assert with_taints(made, gives_up=False, now=0) == others


def test_a_taint_keeps_the_time_it_was_put_there() -> None:
    taint = {"key": P + "unreachable", "effect": "NoExecute", "timeAdded": "2027-01-01T00:00:00Z"}
    made = node(("Ready", "Unknown"), taints=[taint])
    assert with_taints(made, gives_up=True, now=1e9)[0] == taint
