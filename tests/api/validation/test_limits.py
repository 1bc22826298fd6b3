"""LimitRanges and quotas that make sense."""

from __future__ import annotations

import pytest

from orlop.api.validation.limits import limit_range, resource_quota, resource_quota_update


@pytest.mark.parametrize(
    ("item", "field", "words"),
    [
        ({"type": "Node"}, "type", "Unsupported value"),
        ({"type": "Pod", "default": {"cpu": "1"}}, "default", "when `type` is 'Pod'"),
        ({"type": "PersistentVolumeClaim"}, "limits", "either minimum or maximum storage"),
        ({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}, "min[cpu]",
         "min value 2 is greater than max value 1"),
        ({"type": "Container", "defaultRequest": {"cpu": "2"}, "default": {"cpu": "1"}},
         "defaultRequest[cpu]", "default request value 2 is greater than default limit value 1"),
        ({"type": "Container", "maxLimitRequestRatio": {"cpu": "800m"}},
         "maxLimitRequestRatio[cpu]", "ratio 800m is less than 1"),
    ],
)  # fmt: skip
def test_a_limit_range_that_contradicts_itself(item, field, words) -> None:
    (error,) = limit_range({"spec": {"limits": [item]}})
    assert error.field == f"spec.limits[0].{field}"
    assert words in error.message


def test_one_item_of_each_type() -> None:
    item = {"type": "Container", "max": {"cpu": "1"}}
    (error,) = limit_range({"spec": {"limits": [item, item]}})
    assert error.message.startswith("Duplicate value")
    assert limit_range({"spec": {"limits": [item, {"type": "Pod", "max": {"cpu": "2"}}]}}) == []


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"hard": {"pods": "-1"}}, "greater than or equal to 0"),
        ({"hard": {"pods": "1"}, "scopes": ["Some"]}, "unsupported scope"),
        ({"hard": {"services": "1"}, "scopes": ["Terminating"]}, "scope applied to resource"),
        ({"hard": {"cpu": "1"}, "scopes": ["BestEffort"]}, "scope applied to resource"),
        ({"hard": {"pods": "1"}, "scopes": ["BestEffort", "NotBestEffort"]}, "conflicting"),
        ({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "In"}]}}, "at least one value"),
        ({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "Exists", "values": ["a"]}]}}, "no value"),
        ({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "Near"}]}}, "Unsupported value"),
    ],
)  # fmt: skip
def test_a_quota_that_cannot_be(spec, words) -> None:
    (error,) = resource_quota({"spec": spec})
    assert words in error.message


def test_a_quota_that_can_be_and_whose_scopes_stay() -> None:
    hard = {"pods": "1", "requests.cpu": "4", "limits.memory": "1Gi"}
    quota = {"spec": {"hard": hard, "scopes": ["NotBestEffort"]}}
    assert resource_quota(quota) == []
    assert resource_quota_update({"spec": {"hard": hard, "scopes": ["NotBestEffort"]}}, quota) == []
    (error,) = resource_quota_update({"spec": {"hard": hard}}, quota)
    assert "field is immutable" in error.message
