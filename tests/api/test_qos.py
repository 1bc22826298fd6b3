"""Classes of service, by what the containers ask for."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api.qos import qos_class

FULL = {"cpu": "1", "memory": "1Gi"}


def pod(*resources: dict[str, Any], init: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"resources": one} for one in resources]}
    if init is not None:
        spec["initContainers"] = [{"resources": one} for one in init]
    return {"spec": spec}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (pod({}), "BestEffort"),
        (pod({"requests": {"cpu": "0"}}), "BestEffort"),
        (pod({"limits": {"nvidia.com/gpu": "1"}}), "BestEffort"),
        (pod({"requests": {"cpu": "100m"}}), "Burstable"),
        (pod({"limits": {"cpu": "1"}}), "Burstable"),
        (pod({"limits": FULL}), "Guaranteed"),
        (pod({"limits": FULL, "requests": FULL}), "Guaranteed"),
        (pod({"limits": FULL, "requests": {"cpu": "1000m", "memory": "1024Mi"}}), "Guaranteed"),
        (pod({"limits": FULL, "requests": {"cpu": "500m", "memory": "1Gi"}}), "Burstable"),
        (pod({"limits": FULL, "requests": FULL}, {}), "Burstable"),
        (pod({"limits": FULL, "requests": FULL}, init=[{}]), "Burstable"),
        (pod({"limits": FULL, "requests": FULL}, init=[{"limits": FULL}]), "Guaranteed"),
        ({"spec": {"containers": [{}], "resources": {"limits": FULL}}}, "Guaranteed"),
        ({"spec": {"containers": [{}], "resources": {"requests": FULL}}}, "Burstable"),
        ({}, "BestEffort"),
    ],
)
def test_the_class_of_a_pod(obj: dict[str, Any], expected: str) -> None:
    assert qos_class(obj) == expected
