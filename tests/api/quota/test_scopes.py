"""Which pods a quota is about."""

from __future__ import annotations

import pytest

from orlop.api.kinds import CONFIG_MAP, PERSISTENT_VOLUME_CLAIM, POD
from orlop.api.quota import matches


def pod(**spec) -> dict:
    return {"spec": {"containers": [{"name": "c"}], **spec}}


BUSY = pod(containers=[{"name": "c", "resources": {"requests": {"cpu": "1"}}}])
TERM = {"topologyKey": "k"}
CROSSING = pod(
    affinity={
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": {**TERM, "namespaces": ["other"]}}
            ]
        }
    }
)
STAYING = pod(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}})


@pytest.mark.parametrize(
    ("scope", "within", "without"),
    [
        ("Terminating", pod(activeDeadlineSeconds=0), pod()),
        ("NotTerminating", pod(), pod(activeDeadlineSeconds=9)),
        ("BestEffort", pod(), BUSY),
        ("NotBestEffort", BUSY, pod()),
        ("PriorityClass", pod(priorityClassName="high"), pod()),
        ("CrossNamespacePodAffinity", CROSSING, STAYING),
    ],
)
def test_a_scope_takes_some_pods_and_leaves_others(scope, within, without) -> None:
    quota = {"spec": {"scopes": [scope]}}
    assert matches(quota, POD, within)
    assert not matches(quota, POD, without)


@pytest.mark.parametrize(
    ("operator", "values", "name", "expected"),
    [
        ("In", ["high", "low"], "low", True),
        ("In", ["high"], "low", False),
        ("NotIn", ["high"], "low", True),
        ("NotIn", ["low"], "low", False),
        ("Exists", [], "low", True),
        ("Exists", [], "", False),
        ("DoesNotExist", [], "", True),
        ("DoesNotExist", [], "low", False),
        ("Sideways", [], "low", False),
    ],
)
def test_a_selector_over_priority_classes(operator, values, name, expected) -> None:
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    quota = {"spec": {"scopeSelector": {"matchExpressions": [expression]}}}
    assert matches(quota, POD, pod(priorityClassName=name)) is expected


def test_all_scopes_must_hold_and_those_of_pods_hold_for_nothing_else() -> None:
    both = {"spec": {"scopes": ["BestEffort", "Terminating"]}}
    assert not matches(both, POD, pod())
    assert matches(both, POD, pod(activeDeadlineSeconds=1))
    assert not matches(both, CONFIG_MAP, {"data": {}})
    assert matches({"spec": {}}, CONFIG_MAP, {"data": {}})
    classes = {"spec": {"scopes": ["VolumeAttributesClass"]}}
    assert matches(classes, PERSISTENT_VOLUME_CLAIM, {"spec": {"volumeAttributesClassName": "g"}})
    assert not matches(classes, PERSISTENT_VOLUME_CLAIM, {"spec": {}})
    assert not matches({"spec": {"scopes": ["BestEffort"]}}, PERSISTENT_VOLUME_CLAIM, {"spec": {}})
