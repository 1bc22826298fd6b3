"""Reads the three metrics APIs for autoscalers, through the API server.

Used by the autoscaler. metrics.k8s.io is always there; custom.metrics.k8s.io and
external.metrics.k8s.io are answered by an adapter that somebody installed, and where there is none
`MetricsError` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from ... import errors
from ...api import quantity, selectors, times
from ...api.kinds import NAMESPACE, POD_METRICS, Kind
from ...api.objects import Obj, meta
from ...client.api import Api
from .replica_calculator import Measured

CUSTOM, EXTERNAL = "custom.metrics.k8s.io", "external.metrics.k8s.io"
_VERSIONS = {CUSTOM: ("v1beta2", "v1beta1"), EXTERNAL: ("v1beta1",)}
_DEFAULT_WINDOW = 60.0  # seconds, as upstream's for custom metrics that name none


class MetricsError(Exception):
    """A metric that cannot be had; the words are for the autoscaler's condition."""


class Metrics:
    def __init__(self, api: Api) -> None:
        self._api = api

    async def resource(
        self, namespace: str, selector: str, resource: str, container: str = ""
    ) -> dict[str, Measured]:
        """Return what each pod uses of a resource, in all its containers or in one."""
        try:
            listed = await self._api.list(POD_METRICS, namespace, labels=selector)
        except errors.ApiError as error:
            raise MetricsError(
                f"unable to fetch metrics from resource metrics API: {error.message}"
            ) from error
        found = {}
        for one in listed.items:
            value = _usage(one, resource, container)
            if value is not None:
                moment = times.parse(one["timestamp"])
                window = duration(one.get("window") or "0s")
                found[meta(one)["name"]] = Measured(value, moment, window)
        if not found:
            raise MetricsError("no metrics returned from resource metrics API")
        return found

    async def pods(self, namespace: str, selector: str, metric: Obj) -> dict[str, Measured]:
        """Return a custom metric of each pod."""
        path = f"namespaces/{namespace}/pods/*/{_quoted(metric['name'])}"
        query = {"labelSelector": selector, **_metric_selector(metric)}
        items = await self._ask(CUSTOM, path, query)
        if not items:
            raise MetricsError("no metrics returned from custom metrics API")
        return {
            one["describedObject"]["name"]: Measured(
                quantity.to_millis(one["value"]),
                times.parse(one["timestamp"]) if one.get("timestamp") else 0.0,
                float(one.get("windowSeconds") or one.get("window") or _DEFAULT_WINDOW),
            )
            for one in items
        }

    async def object(self, namespace: str, kind: Kind, name: str, metric: Obj) -> int:
        """Return a custom metric of one object."""
        name, of = _quoted(name), _quoted(metric["name"])
        path = f"namespaces/{namespace}/{kind.resource}/{name}/{of}"
        if kind == NAMESPACE:
            path = f"namespaces/{name}/metrics/{of}"
        elif not kind.namespaced:
            path = f"{kind.resource}/{name}/{of}"
        items = await self._ask(CUSTOM, path, _metric_selector(metric))
        if not items:
            raise MetricsError("no metrics returned from custom metrics API")
        return quantity.to_millis(items[0]["value"])

    async def external(self, namespace: str, metric: Obj) -> int:
        """Return the sum of all series that an external metric's selector finds."""
        selector = _selector(metric)
        query = {"labelSelector": selector} if selector else {}
        path = f"namespaces/{namespace}/{_quoted(metric['name'])}"
        items = await self._ask(EXTERNAL, path, query)
        if not items:
            raise MetricsError("no metrics returned from external metrics API")
        return sum(quantity.to_millis(one["value"]) for one in items)

    async def _ask(self, group: str, path: str, query: Mapping[str, str]) -> list[Obj]:
        which = group.partition(".")[0]
        missing = ""
        for version in _VERSIONS[group]:
            try:
                answer = await self._api.get_raw(f"/apis/{group}/{version}/{path}", query)
            except errors.NotFound as error:
                missing = error.message
            except errors.ApiError as error:
                words = f"unable to fetch metrics from {which} metrics API: {error.message}"
                raise MetricsError(words) from error
            else:
                return list(answer.get("items") or [])
        raise MetricsError(
            f"unable to fetch metrics from {which} metrics API: {missing}; an adapter that serves "
            f"{group} must be installed and know the metric"
        )


def _quoted(name: str) -> str:
    """Quote a name as one part of a path, whatever a user has called it."""
    return quote(name, safe="")


def _usage(metrics: Obj, resource: str, container: str) -> int | None:
    """Return a pod's usage; None where a container that should be measured is not."""
    total = 0
    chosen = [one for one in metrics["containers"] if container in ("", one["name"])]
    for one in chosen:
        if resource not in one["usage"]:
            return None
        total += quantity.to_millis(one["usage"][resource])
    return total if chosen else None


def _selector(metric: Obj) -> str:
    selector = metric.get("selector")
    return str(selectors.from_structure(selector)) if selector else ""


def _metric_selector(metric: Obj) -> dict[str, str]:
    selector = _selector(metric)
    return {"metricLabelSelector": selector} if selector else {}


def duration(text: str) -> float:
    """Return the seconds of a metav1.Duration as metrics servers write it: `10.05s`, `1m30s`."""
    seconds, number = 0.0, ""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    for character in text.replace("ms", "§"):
        if character.isdecimal() or character == ".":
            number += character
            continue
        seconds += float(number or 0) * (0.001 if character == "§" else units.get(character, 0.0))
        number = ""
    return seconds
