"""Defaults of HorizontalPodAutoscalers, of both versions.

Called by the dispatch. As pkg/apis/autoscaling/{v1,v2}/defaults.go.
"""

from __future__ import annotations

from ..objects import Obj
from .fill import fill, section


def horizontal_pod_autoscaler_v1(obj: Obj) -> None:
    section(obj, "spec").setdefault("minReplicas", 1)


def horizontal_pod_autoscaler(obj: Obj) -> None:
    spec = section(obj, "spec")
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        spec["metrics"] = [_cpu()]
    behavior = spec.get("behavior")
    if behavior is not None:
        _rules(section(behavior, "scaleUp"), 0, _scale_up())
        _rules(section(behavior, "scaleDown"), None, _scale_down())


def _cpu() -> Obj:
    target = {"type": "Utilization", "averageUtilization": 80}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _rules(rules: Obj, window: int | None, policies: list[Obj]) -> None:
    if window is not None:
        rules.setdefault("stabilizationWindowSeconds", window)
    fill(rules, "selectPolicy", "Max")
    fill(rules, "policies", policies)


def _scale_up() -> list[Obj]:
    return [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ]


def _scale_down() -> list[Obj]:
    return [{"type": "Percent", "value": 100, "periodSeconds": 15}]
