"""The sum of a pod's containers, as Kubernetes has it."""

from __future__ import annotations

import pytest

from orlop.api.pod_resources import pod_amounts


def container(cpu: str = "", limit: str = "", **more) -> dict:
    requests = {"cpu": cpu} if cpu else {}
    limits = {"cpu": limit} if limit else {}
    return {"name": "c", "resources": {"requests": requests, "limits": limits}, **more}


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "requests", "limits"),
    [
        ({"containers": []}, "", ""),
        ({"containers": [container("1", "2"), container("500m")]}, "1500m", "2"),
        ({"containers": [container("1")], "initContainers": [container("3")]}, "3", ""),
        ({"containers": [container("2")], "initContainers": [container("1")]}, "2", ""),
        (
            {
                "containers": [container("2")],
                "initContainers": [container("1", **SIDECAR), container("3")],
            },
            "4",
            "",
        ),
        (
            {
                "containers": [container("2")],
                "initContainers": [container("3"), container("1", **SIDECAR)],
            },
            "3",
            "",
        ),
        ({"containers": [container("1", "2")], "overhead": {"cpu": "1"}}, "2", "3"),
        ({"containers": [container("1")], "overhead": {"cpu": "1"}}, "2", ""),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "5"}}}, "5", ""),
    ],
    ids=["none", "side by side", "large init", "small init", "sidecar before", "sidecar after",
         "overhead", "overhead without limit", "of the whole pod"],
)  # fmt: skip
def test_what_a_pod_asks_for_in_all(spec, requests, limits) -> None:
    pod = {"spec": spec}
    assert str(pod_amounts(pod, "requests").get("cpu", "")) == requests
    assert str(pod_amounts(pod, "limits").get("cpu", "")) == limits


def test_overhead_can_be_left_out() -> None:
    pod = {"spec": {"containers": [container("1")], "overhead": {"cpu": "1"}}}
    assert str(pod_amounts(pod, "requests", with_overhead=False)["cpu"]) == "1"
