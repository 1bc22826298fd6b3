"""Limits of pods as wholes, and of what they keep on disk, in the plan."""

from __future__ import annotations

import pytest

from orlop.kubelet.planning.limits import planned_pod_limits, planned_storage

from ..objects import a_container, a_pod


def disk(name="main", **resources):
    amounts = {field: {"ephemeral-storage": text} for field, text in resources.items()}
    return a_container(name, resources=amounts)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (a_pod(), {}),
        (a_pod(resources={"limits": {"cpu": "1500m", "memory": "1Gi"}}),
         {"memoryLimit": 1 << 30, "cpuLimit": 1500}),
        (a_pod(resources={"requests": {"cpu": "1"}}), {}),
        (a_pod(disk(limits="1Gi"), disk("b", limits="512Mi")),
         {"storage": {"limit": 3 << 29, "words": "1536Mi"}}),
        (a_pod(disk(limits="1Gi", requests="1Mi"), a_container("b")),
         {"storage": {"limit": 1 << 30, "words": "1Gi", "request": 1 << 20}}),
    ],
    ids=["none", "of-the-pod", "requests", "the-sum", "with-a-request"],
)  # fmt: skip
def test_limits_of_a_pod(pod, expected):
    assert planned_pod_limits(pod) == expected


def test_a_containers_limit_keeps_its_words():
    expected = {"storage": {"limit": 3 << 29, "words": "1536Mi"}}
    assert planned_storage({"ephemeral-storage": "1.5Gi"}) == expected
    assert planned_storage({"memory": "1Gi"}) == {}
