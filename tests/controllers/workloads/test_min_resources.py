"""What is said of a group that asks for more than any node has, by tables."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.controllers.workloads.min_resources import lacking

NODES = [
    {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}},
    {"metadata": {"name": "n2"}, "status": {"allocatable": {"cpu": "8"}}},
]
ASKED = [
    (None, ""),
    ({"cpu": 8}, ""),
    ({"requests.cpu": "8"}, ""),
    ({"cpu": "9"}, "more than node n1 has in all: cpu 9 (it has 4)"),
    ({"cpu": "5", "memory": "1Gi"}, "n1 has in all: cpu 5 (it has 4)"),
    ({"cpu": "lots"}, "expected amounts as 4, 500m or 2Gi, found cpu lots"),
    ({"cpu": "1", "memory": "8 GB"}, "found memory 8 GB"),
]


@pytest.mark.parametrize(("asked", "words"), ASKED)
def test_what_no_node_has(asked: dict[str, Any] | None, words: str) -> None:
    said = lacking(asked, NODES)
    assert words in said
    assert bool(said) is bool(words)
