"""Selectors, affinity, taints and tolerations."""

from __future__ import annotations

import pytest

from orlop.client.affinity import matches_selector, preference, untolerated
from tests.scheduler.nodes import a_node, a_pod

NODE = a_node("n1", labels={"disk": "ssd", "cores": "32"})


def required(*terms: dict) -> dict:
    selector = {"nodeSelectorTerms": list(terms)}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}
    }


def expression(key: str, operator: str, *values: str) -> dict:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("spec", "matches"),
    [
        ({}, True),
        ({"nodeSelector": {"disk": "ssd"}}, True),
        ({"nodeSelector": {"disk": "hdd"}}, False),
        ({"nodeSelector": {"disk": "ssd", "other": "x"}}, False),
        (required(expression("disk", "In", "ssd", "nvme")), True),
        (required(expression("disk", "In", "hdd")), False),
        (required(expression("disk", "NotIn", "hdd")), True),
        (required(expression("absent", "NotIn", "x")), True),
        (required(expression("disk", "Exists")), True),
        (required(expression("disk", "DoesNotExist")), False),
        (required(expression("cores", "Gt", "16")), True),
        (required(expression("cores", "Gt", "32")), False),
        (required(expression("cores", "Lt", "64")), True),
        (required(expression("disk", "Gt", "1")), False),
        (required(expression("disk", "In", "hdd"), expression("cores", "Exists")), True),
        (required({}), False),
        (required(), False),
        (required({"matchFields": [{"key": "metadata.name", "operator": "In",
                                    "values": ["n1"]}]}), True),
        (required({"matchFields": [{"key": "metadata.name", "operator": "In",
                                    "values": ["n2"]}]}), False),
        ({"nodeSelector": {"disk": "ssd"}, **required(expression("disk", "In", "hdd"))}, False),
    ],
)  # fmt: skip
def test_what_a_pod_demands_of_a_node(spec, matches):
    assert matches_selector(a_pod(**spec), NODE) is matches


@pytest.mark.parametrize("operator", ["NotIn", "DoesNotExist"])
def test_a_partition_lacks_what_one_of_its_hosts_lacks(operator):
    words = ("true",) if operator == "NotIn" else ()
    for label, lacks in (("feature/ib", True), ("feature/amd", False)):
        pod = {"spec": required(expression(label, operator, *words))}
        labels = {"feature/ib": "true", "feature/amd": "true"}
        notes = {"slurm.orlop.dev/labels-of-some-hosts": "feature/ib,feature/x"}
        node = {"metadata": {"name": "main", "labels": labels, "annotations": notes}}
        assert matches_selector(pod, node) is lacks


def test_preferences_add_their_weights():
    preferred = [
        {"weight": 10, "preference": expression("disk", "In", "ssd")},
        {"weight": 5, "preference": expression("disk", "In", "hdd")},
        {"weight": 1, "preference": expression("cores", "Exists")},
    ]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    assert preference(a_pod(affinity=affinity), NODE) == 11
    assert preference(a_pod(), NODE) == 0


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        ({"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        (None, False),
    ],
)
def test_tolerations(toleration, tolerates):
    pod = a_pod(tolerations=[toleration] if toleration else [])
    assert (untolerated(pod, a_node("n", taints=[TAINT])) == []) is tolerates


def test_a_preference_against_a_node_is_no_refusal():
    soft = {**TAINT, "effect": "PreferNoSchedule"}
    assert untolerated(a_pod(), a_node("n", taints=[soft])) == []
    assert untolerated(a_pod(), a_node("n", taints=[soft]), ("PreferNoSchedule",)) == [soft]
