"""Which of several nodes."""

from __future__ import annotations

import pytest

from orlop.scheduler.scores import best
from tests.scheduler.nodes import a_node, a_pod

SOFT = [{"key": "k", "effect": "PreferNoSchedule"}]


def prefers(**labels: str) -> dict:
    terms = [
        {
            "weight": 1,
            "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]},
        }
        for key, value in labels.items()
    ]
    return {
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    }


@pytest.mark.parametrize(
    ("spec", "nodes", "expected"),
    [
        ({}, [a_node("a"), a_node("b", default=True)], "b"),
        ({}, [a_node("b"), a_node("a")], "a"),
        (prefers(disk="ssd"), [a_node("a", labels={"disk": "ssd"}), a_node("b", default=True)],
         "a"),
        ({}, [a_node("a", default=True, taints=SOFT), a_node("b")], "b"),
        ({"tolerations": [{"operator": "Exists"}]},
         [a_node("a", default=True, taints=SOFT), a_node("b")], "a"),
    ],
    ids=["the default partition", "the first by name", "what the pod prefers",
         "what the node prefers", "a tolerated wish"],
)  # fmt: skip
def test_the_best_node(spec, nodes, expected):
    pod = a_pod(**spec)
    assert best(pod, nodes)["metadata"]["name"] == expected
    assert best(pod, nodes[::-1])["metadata"]["name"] == expected
