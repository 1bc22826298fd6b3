"""Priorities come from classes."""

from __future__ import annotations

import pytest

from orlop import errors
from orlop.api import kinds
from orlop.api.objects import Key


async def a_class(local, name: str, value: int, **more) -> None:
    await local.create(kinds.PRIORITY_CLASS, {"metadata": {"name": name}, "value": value, **more})


def with_spec(pod, name: str, **spec) -> dict:
    made = pod(name)
    made["spec"] |= spec
    return made


async def test_a_pod_without_a_class_has_priority_zero(local, pod) -> None:
    made = await local.create(kinds.POD, pod("a"))
    assert made["spec"]["priority"] == 0
    assert made["spec"]["preemptionPolicy"] == "PreemptLowerPriority"
    assert "priorityClassName" not in made["spec"]


async def test_a_pod_gets_the_value_and_the_policy_of_its_class(local, pod) -> None:
    await a_class(local, "high", 1000, preemptionPolicy="Never")
    made = await local.create(kinds.POD, with_spec(pod, "a", priorityClassName="high"))
    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (1000, "Never")


async def test_the_default_class_is_given_to_those_who_name_none(local, pod) -> None:
    await a_class(local, "usual", 7, globalDefault=True)
    made = await local.create(kinds.POD, pod("a"))
    assert (made["spec"]["priorityClassName"], made["spec"]["priority"]) == ("usual", 7)
    with pytest.raises(errors.Forbidden, match="PriorityClass usual is already marked as default"):
        await a_class(local, "other", 8, globalDefault=True)
    await local.patch(kinds.PRIORITY_CLASS, Key("", "usual"), {"globalDefault": False})
    assert (await local.create(kinds.POD, pod("b")))["spec"]["priority"] == 0


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        ({"priority": 5}, r"the integer value of priority \(5\) must not be provided in pod spec"),
        (
            {"preemptionPolicy": "Never"},
            r"the string value of PreemptionPolicy \(Never\) must not be provided",
        ),
    ],
)
async def test_a_pod_cannot_choose_its_own(local, pod, spec, why) -> None:
    with pytest.raises(errors.Forbidden, match=why):
        await local.create(kinds.POD, with_spec(pod, "a", **spec))


async def test_the_systems_classes_are_there_and_stay(local, pod) -> None:
    made = await local.create(
        kinds.POD, with_spec(pod, "a", priorityClassName="system-node-critical")
    )
    assert made["spec"]["priority"] == 2000001000
    with pytest.raises(errors.Forbidden, match="is a system priority class and cannot be deleted"):
        await local.delete(kinds.PRIORITY_CLASS, Key("", "system-cluster-critical"))


async def test_an_update_that_leaves_the_priority_out_keeps_it(local, pod) -> None:
    await a_class(local, "high", 1000)
    made = await local.create(kinds.POD, with_spec(pod, "a", priorityClassName="high"))
    del made["spec"]["priority"], made["spec"]["preemptionPolicy"]
    made["metadata"]["labels"] = {"new": "label"}
    kept = await local.update(kinds.POD, made)
    assert kept["spec"]["priority"] == 1000
