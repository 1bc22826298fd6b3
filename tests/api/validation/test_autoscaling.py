"""Autoscalers that cannot be meant are refused in upstream's words."""

from __future__ import annotations

import pytest

from orlop.api.validation.autoscaling import horizontal_pod_autoscaler

PERCENT = {"type": "Utilization", "averageUtilization": 50}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": PERCENT}}
POLICY = {"type": "Pods", "value": 1, "periodSeconds": 15}


def errors(**spec):
    target = {"kind": "Deployment", "name": "web"}
    full = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3, "metrics": [CPU], **spec}
    return [str(error) for error in horizontal_pod_autoscaler({"spec": full})]


def test_what_is_well_formed_passes():
    behavior = {"scaleUp": {"policies": [POLICY], "selectPolicy": "Min"}}
    metric = {"name": "rate", "selector": {"matchLabels": {"a": "b"}}}
    external = {"metric": metric, "target": {"type": "Value", "value": "3"}}
    metrics = [CPU, {"type": "External", "external": external}]
    assert errors(behavior=behavior, metrics=metrics) == []


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"minReplicas": 0}, "spec.minReplicas: Invalid value: 0: must be greater than or equal"),
        ({"maxReplicas": 0}, "spec.maxReplicas: Invalid value: 0: must be greater than 0"),
        ({"minReplicas": 5}, "spec.maxReplicas: Invalid value: 3: must be greater than or equal"),
        ({"scaleTargetRef": {"kind": "X"}}, "spec.scaleTargetRef.name: Required value"),
        (
            {"scaleTargetRef": {"kind": "X", "name": "../a"}},
            "spec.scaleTargetRef.name: Invalid value: \"../a\": may not contain '/'",
        ),
        (
            {"metrics": [{"type": "External", "external": {"metric": {"name": "../x"}}}]},
            "spec.metrics[0].external.metric.name: Invalid value: \"../x\": may not contain '/'",
        ),
        (
            {"metrics": [{"type": "Pods", "pods": {"metric": {"name": "%2e"}}}]},
            "spec.metrics[0].pods.metric.name: Invalid value: \"%2e\": may not contain '%'",
        ),
        ({"metrics": [{}]}, "spec.metrics[0].type: Required value"),
        ({"metrics": [{"type": "Cpu"}]}, 'spec.metrics[0].type: Unsupported value: "Cpu"'),
        ({"metrics": [{"type": "Pods"}]}, "spec.metrics[0].pods: Required value"),
        (
            {"metrics": [{**CPU, "pods": {}}]},
            "spec.metrics[0].pods: Forbidden: must populate the given metric source only",
        ),
        (
            {"metrics": [{"type": "Resource", "resource": {"target": PERCENT}}]},
            "spec.metrics[0].resource.name: Required value",
        ),
        (
            {"metrics": [{"type": "Resource", "resource": {"name": "cpu"}}]},
            "spec.metrics[0].resource.target: Required value",
        ),
        (
            {
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {"name": "cpu", "target": {**PERCENT, "averageValue": "1"}},
                    }
                ]
            },
            "spec.metrics[0].resource.target.averageValue: Forbidden",
        ),
        (
            {
                "metrics": [
                    {
                        "type": "ContainerResource",
                        "containerResource": {"name": "cpu", "target": PERCENT},
                    }
                ]
            },
            "spec.metrics[0].containerResource.container: Required value",
        ),
        (
            {
                "metrics": [
                    {"type": "Pods", "pods": {"metric": {"name": "x"}, "target": {"value": "1"}}}
                ]
            },
            "spec.metrics[0].pods.target.averageValue: Required value",
        ),
        ({"behavior": {"scaleUp": {"selectPolicy": "Max"}}}, "scaleUp.policies: Required value"),
        (
            {"behavior": {"scaleDown": {"policies": [{**POLICY, "type": "Half"}]}}},
            'spec.behavior.scaleDown.policies[0].type: Unsupported value: "Half"',
        ),
        (
            {"behavior": {"scaleDown": {"policies": [{**POLICY, "value": 0}]}}},
            "spec.behavior.scaleDown.policies[0].value: Invalid value: 0",
        ),
        (
            {"behavior": {"scaleDown": {"policies": [{**POLICY, "periodSeconds": 1801}]}}},
            "policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800",
        ),
        (
            {"behavior": {"scaleUp": {"policies": [POLICY], "stabilizationWindowSeconds": 3601}}},
            "stabilizationWindowSeconds: Invalid value: 3601",
        ),
    ],
)
def test_what_is_not_is_named(spec, said):
    found = errors(**spec)
    assert any(said in error for error in found), found
