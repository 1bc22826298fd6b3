"""Evaluates one metric of an autoscaler: fetches it, weighs it, and reports it in the status.

Called by the autoscaler for each entry of spec.metrics. Amounts are thousandths, as metrics APIs
and targets are compared; what cannot be had or weighed raises, and `Failure.of` gives it upstream's
reason and words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ... import errors
from ...api import quantity
from ...api.kinds import Kind
from ...api.objects import Obj
from ...api.quantity import MICRO, Quantity
from .metrics_client import Metrics
from .replica_calculator import (
    Caution,
    Proposal,
    average_replicas,
    group_pods,
    requests_of,
    shared_replicas,
    utilization_replicas,
    value_replicas,
)

KindOf = Callable[[Obj], Kind]


@dataclass(frozen=True, slots=True)
class Target:
    """The scaled object: its pods, and how many there should be and are."""

    namespace: str
    selector: str
    pods: Sequence[Obj]
    replicas: int
    observed: int


class Evaluation(NamedTuple):
    replicas: int
    metric: str  # its name, for people
    status: Obj


class Failure(Exception):
    """A metric that has no value, with the reason for its condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    @classmethod
    def of(cls, spec: Obj, error: Exception) -> Failure:
        if isinstance(error, Failure):
            return error
        source = str(spec["type"])
        name = _name(spec)
        words = {
            "Resource": f"failed to get {name} utilization",
            "ContainerResource": f"failed to get {name} container metric value",
            "Pods": "failed to get pods metric value",
            "Object": "failed to get object metric value",
            "External": f"failed to get {name} external metric value",
        }.get(source, "failed to get metric")
        return cls(f"FailedGet{source}Metric", f"{words}: {error}")


def _name(spec: Obj) -> str:
    source = str(spec["type"])
    body = spec.get(source[0].lower() + source[1:]) or {}
    return str(body.get("name") or (body.get("metric") or {}).get("name") or "")


async def evaluate(
    metrics: Metrics, spec: Obj, target: Target, caution: Caution, now: float, kind_of: KindOf
) -> Evaluation:
    """Return the replicas that one metric asks for."""
    match spec["type"]:
        case "Resource":
            return await _resource(metrics, spec, "resource", target, caution, now)
        case "ContainerResource":
            return await _resource(metrics, spec, "containerResource", target, caution, now)
        case "Pods":
            return await _pods(metrics, spec["pods"], target, caution, now)
        case "Object":
            return await _object(metrics, spec["object"], target, caution, kind_of)
        case "External":
            return await _external(metrics, spec["external"], target, caution)
    raise Failure("InvalidMetricSourceType", f'unknown metric source type "{spec["type"]}"')


async def _resource(
    metrics: Metrics, spec: Obj, field: str, target: Target, caution: Caution, now: float
) -> Evaluation:
    body, wanted = spec[field], spec[field]["target"]
    name, container = body["name"], body.get("container", "")
    measured = await metrics.resource(target.namespace, target.selector, name, container)
    groups = group_pods(target.pods, measured, is_cpu=name == "cpu", caution=caution, now=now)
    kind = f"{name} container resource" if container else f"{name} resource"
    if wanted.get("averageValue") is not None:
        amount = quantity.to_millis(wanted["averageValue"])
        found = average_replicas(target.replicas, amount, target.pods, groups, measured, caution)
    else:
        kind += " utilization (percentage of request)"
        requests = requests_of(target.pods, name, container)
        percent = int(wanted["averageUtilization"])
        found = utilization_replicas(
            target.replicas, percent, target.pods, groups, measured, requests, caution
        )
    current: Obj = {"averageValue": amount_of(found.average)}
    if found.utilization is not None:
        current["averageUtilization"] = found.utilization
    named = {"name": name, **({"container": container} if container else {})}
    return Evaluation(found.replicas, kind, _status(spec["type"], {**named, "current": current}))


async def _pods(
    metrics: Metrics, body: Obj, target: Target, caution: Caution, now: float
) -> Evaluation:
    metric, amount = body["metric"], quantity.to_millis(body["target"]["averageValue"])
    measured = await metrics.pods(target.namespace, target.selector, metric)
    groups = group_pods(target.pods, measured, is_cpu=False, caution=caution, now=now)
    found = average_replicas(target.replicas, amount, target.pods, groups, measured, caution)
    told = {"metric": metric, "current": {"averageValue": amount_of(found.average)}}
    return Evaluation(found.replicas, f"pods metric {metric['name']}", _status("Pods", told))


async def _object(
    metrics: Metrics, body: Obj, target: Target, caution: Caution, kind_of: KindOf
) -> Evaluation:
    metric, described = body["metric"], body["describedObject"]
    try:
        kind = kind_of(described)
    except errors.ApiError as error:
        words = f"failed to get object metric value: {error.message}"
        raise Failure("FailedGetObjectMetric", words) from error
    value = await metrics.object(target.namespace, kind, described["name"], metric)
    found, current = _whole(body["target"], target, value, caution)
    told = {"metric": metric, "describedObject": described, "current": current}
    name = f"{described['kind']} metric {metric['name']}"
    return Evaluation(found.replicas, name, _status("Object", told))


async def _external(metrics: Metrics, body: Obj, target: Target, caution: Caution) -> Evaluation:
    metric = body["metric"]
    value = await metrics.external(target.namespace, metric)
    found, current = _whole(body["target"], target, value, caution)
    name = f"external metric {metric['name']}({metric.get('selector') or 'nil'})"
    return Evaluation(
        found.replicas, name, _status("External", {"metric": metric, "current": current})
    )


def _whole(wanted: Obj, target: Target, value: int, caution: Caution) -> tuple[Proposal, Obj]:
    """Evaluate one value of the whole, against a target of the whole or for each pod."""
    if wanted.get("averageValue") is not None:
        amount = quantity.to_millis(wanted["averageValue"])
        found = shared_replicas(target.observed, amount, value, caution)
        return found, {"averageValue": amount_of(found.average)}
    amount = quantity.to_millis(wanted["value"])
    found = value_replicas(target.replicas, amount, value, target.pods, caution)
    return found, {"value": amount_of(found.average)}


def _status(source: str, told: Obj) -> Obj:
    return {"type": source, source[0].lower() + source[1:]: told}


def amount_of(millis: int) -> str:
    return str(Quantity(millis * MICRO))
