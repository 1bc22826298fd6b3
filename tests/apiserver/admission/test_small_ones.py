"""Tolerations everyone has, and runtime classes."""

from __future__ import annotations

import pytest

from orlop import errors
from orlop.api import kinds


async def test_every_pod_bears_a_lost_node_for_a_while(local, pod) -> None:
    made = pod("a")
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
           "tolerationSeconds": 5}  # fmt: skip
    made["spec"]["tolerations"] = [own]
    made = await local.create(kinds.POD, made)
    added = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
             "tolerationSeconds": 300}  # fmt: skip
    assert made["spec"]["tolerations"] == [own, added]
    made = pod("b")
    made["spec"]["tolerations"] = [{"operator": "Exists"}]
    made = await local.create(kinds.POD, made)
    assert made["spec"]["tolerations"] == [{"operator": "Exists"}]


async def runtime_class(local, **more) -> None:
    await local.create(kinds.RUNTIME_CLASS, {"metadata": {"name": "vm"}, "handler": "vm", **more})


def of_class(pod, **spec) -> dict:
    made = pod("a")
    made["spec"] |= {"runtimeClassName": "vm", **spec}
    return made


async def test_a_runtime_class_adds_its_overhead_and_its_place(local, pod) -> None:
    tolerations = [{"key": "vm", "operator": "Exists"}]
    scheduling = {"nodeSelector": {"kvm": "yes"}, "tolerations": tolerations}
    await runtime_class(local, overhead={"podFixed": {"memory": "64Mi"}}, scheduling=scheduling)
    made = await local.create(kinds.POD, of_class(pod, nodeSelector={"zone": "a"}))
    assert made["spec"]["overhead"] == {"memory": "64Mi"}
    assert made["spec"]["nodeSelector"] == {"zone": "a", "kvm": "yes"}
    assert tolerations[0] in made["spec"]["tolerations"]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
        ({"overhead": {"memory": "1Mi"}}, "Pod's Overhead doesn't match RuntimeClass's"),
        ({"nodeSelector": {"kvm": "no"}}, r"conflict: runtimeClass.scheduling.nodeSelector\[kvm\]"),
    ],
)
async def test_a_pod_cannot_disagree_with_its_class(local, pod, spec, why) -> None:
    scheduling = {"nodeSelector": {"kvm": "yes"}}
    await runtime_class(local, overhead={"podFixed": {"memory": "64Mi"}}, scheduling=scheduling)
    with pytest.raises(errors.Forbidden, match=why):
        await local.create(kinds.POD, of_class(pod, **spec))


async def test_overhead_comes_from_a_class_alone(local, pod) -> None:
    made = pod("a")
    made["spec"]["overhead"] = {"cpu": "1"}
    with pytest.raises(errors.Forbidden, match="Overhead set without corresponding RuntimeClass"):
        await local.create(kinds.POD, made)
