"""Scales workloads by what their pods use, or by what an adapter measures.

Called by the controller manager with the key of a HorizontalPodAutoscaler when its spec changes and
every sync period from then on; where there is none, nothing runs. It writes the target's scale and
the autoscaler's status. As pkg/controller/podautoscaler/horizontal.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from ... import errors
from ...api import selectors
from ...api.kinds import CUSTOM_RESOURCE_DEFINITION, HORIZONTAL_POD_AUTOSCALER, POD, Kind, Kinds
from ...api.objects import Key, Obj, key_of, labels_of, meta
from ...api.selectors import LabelSelector
from ...api.times import rfc3339
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ...settings import AutoscalingSettings
from ..framework import custom_kinds
from ..framework.controller import Loop, Result
from ..framework.status import condition, merge_diff, with_condition
from .behavior import Bounds, History, Moment, decide
from .metric_sources import Evaluation, Failure, Target, evaluate
from .metrics_client import Metrics, MetricsError
from .replica_calculator import Caution, NoReplicas

_BUILT_IN = Kinds()
_CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}


class HorizontalPodAutoscalers(Loop[Key]):
    name = "horizontal-pod-autoscaler"

    def __init__(
        self,
        api: Api,
        informers: Informers,
        *,
        clock: Clock | None = None,
        settings: AutoscalingSettings | None = None,
    ) -> None:
        super().__init__(api, informers, clock=clock)
        self._settings = settings or AutoscalingSettings()
        self._caution = Caution(
            self._settings.tolerance,
            self._settings.cpu_initialization_period,
            self._settings.initial_readiness_delay,
        )
        self._metrics = Metrics(api)
        self.objects = informers.informer(HORIZONTAL_POD_AUTOSCALER)
        self.pods = informers.informer(POD)
        self._definitions = informers.informer(CUSTOM_RESOURCE_DEFINITION)
        self._histories: dict[Key, History] = {}
        self._selectors: dict[Key, LabelSelector] = {}
        self.watch(self.objects, self._changed)
        self.watch(self.pods, lambda event, previous: ())  # read, but no reason to look again
        self.watch(self._definitions, lambda event, previous: ())

    def _changed(self, event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
        """Skip a change of the status: our own writes are no reason to look again."""
        key = key_of(event.object)
        if event.type == "DELETED":
            self._histories.pop(key, None)
            self._selectors.pop(key, None)
            self.queue.forget(key)
        elif previous is None or previous["spec"] != event.object["spec"]:
            yield key

    async def reconcile(self, key: Key) -> Result:
        autoscaler = self.objects.get(key)
        if autoscaler is None:
            return Result.done()
        look = _Look(autoscaler, self.clock.now())
        try:
            await self._autoscale(key, look)
        except _GiveUp as given_up:
            self.log.debug("cannot autoscale", key=key, error=given_up)
        await self._write(autoscaler, look.status)
        return Result.again(self._settings.sync_period)

    async def _autoscale(self, key: Key, look: _Look) -> None:
        """Read the target's scale, decide what it should be, and write it."""
        kind, scale = await self._scale_of(look)  # 1
        current = int((scale.get("spec") or {}).get("replicas") or 0)
        history = self._histories.setdefault(key, History())
        if not history.recommendations:
            history.recommendations = _initial(current, look.now)
        spec = look.autoscaler["spec"]
        bounds = Bounds(int(spec.get("minReplicas", 1)), int(spec["maxReplicas"]))
        look.status["currentReplicas"] = current
        if not current and bounds.minimum:  # 2
            look.status["desiredReplicas"] = 0
            words = "scaling is disabled since the replica count of the target is zero"
            look.say("ScalingActive", False, "ScalingDisabled", words)
            return
        if current > bounds.maximum:
            desired, why = bounds.maximum, "Current number of replicas above Spec.MaxReplicas"
        elif current < bounds.minimum:
            desired, why = bounds.minimum, "Current number of replicas below Spec.MinReplicas"
        else:
            desired, why = await self._desired(key, look, scale, bounds, history)
        if desired != current:  # 3
            await self._rescale(look, kind, scale, desired, why)
            history.scaled(current, desired, spec.get("behavior"), look.now)
        look.status["desiredReplicas"] = desired

    async def _scale_of(self, look: _Look) -> tuple[Kind, Obj]:
        reference = look.autoscaler["spec"]["scaleTargetRef"]
        try:
            kind = self._kind(reference)
            where = Key(meta(look.autoscaler)["namespace"], reference["name"])
            scale = await self.api.get_subresource(kind, where, "scale")
        except errors.ApiError as error:
            words = "the HPA controller was unable to get the target's current scale: "
            look.say("AbleToScale", False, "FailedGetScale", words + error.message)
            await self._warn(look, "FailedGetScale", error.message)
            raise _GiveUp(error.message) from error
        words = "the HPA controller was able to get the target's current scale"
        look.say("AbleToScale", True, "SucceededGetScale", words)
        return kind, scale

    def _kind(self, reference: Obj) -> Kind:
        version, name = reference.get("apiVersion") or "v1", reference["kind"]
        found = _BUILT_IN.by_kind(version, name)
        if found is not None:
            return found
        group = version.rpartition("/")[0]
        for definition in self._definitions.list():
            spec = definition["spec"]
            if (spec["group"], spec["names"]["kind"]) == (group, name):
                custom = custom_kinds.kind_of(definition)
                if custom is not None:
                    return custom
        raise errors.NotFound(f'no matches for kind "{name}" in group "{group}"')

    async def _desired(
        self, key: Key, look: _Look, scale: Obj, bounds: Bounds, history: History
    ) -> tuple[int, str]:
        """Return what the metrics ask for, within bounds, rates and windows; and why."""
        current: int = look.status["currentReplicas"]
        target = await self._target(key, look, scale)
        wanted, metric = await self._by_metrics(look, target)
        spec = look.autoscaler["spec"]
        decision = decide(
            history,
            current,
            wanted,
            bounds,
            spec.get("behavior"),
            now=look.now,
            down_window=self._settings.downscale_stabilization,
        )
        look.say("AbleToScale", True, *decision.able)
        look.say("ScalingLimited", decision.is_limited, *decision.limited)
        return decision.replicas, (
            f"{metric} above target" if wanted > current else "All metrics below target"
        )

    async def _target(self, key: Key, look: _Look, scale: Obj) -> Target:
        """Return the pods of the scale's selector; two autoscalers may not select the same."""
        status = scale.get("status") or {}
        text = status.get("selector") or ""
        if not text:
            words = "the HPA target's scale is missing a selector"
            look.say("ScalingActive", False, "InvalidSelector", words)
            await self._warn(look, "SelectorRequired", "selector is required")
            raise _GiveUp("selector is required")
        selector = selectors.parse_labels(text)
        self._selectors[key] = selector
        pods = [pod for pod in self.pods.list(key.namespace) if selector.matches(labels_of(pod))]
        rivals = [str(other) for other in self._rivals(key, pods)]
        if rivals:
            words = f"pods by selector {text} are controlled by multiple HPAs: [{' '.join(rivals)}]"
            look.say("ScalingActive", False, "AmbiguousSelector", words)
            await self._warn(look, "AmbiguousSelector", words)
            raise _GiveUp(words)
        return Target(
            namespace=key.namespace,
            selector=text,
            pods=pods,
            replicas=int((scale.get("spec") or {}).get("replicas") or 0),
            observed=int(status.get("replicas") or 0),
        )

    def _rivals(self, key: Key, pods: list[Obj]) -> list[Key]:
        """Return all autoscalers that select these pods, where there are several."""
        found = [
            other
            for other, selector in self._selectors.items()
            if other.namespace == key.namespace
            and other != key
            and any(selector.matches(labels_of(pod)) for pod in pods)
        ]
        return sorted([key, *found]) if found else []

    async def _by_metrics(self, look: _Look, target: Target) -> tuple[int, str]:
        """Return the largest number that any metric asks for; failing metrics do not scale down."""
        specs = look.autoscaler["spec"].get("metrics") or [_CPU]
        found: list[Evaluation] = []
        failures: list[Failure] = []
        for spec in specs:
            try:
                one = await evaluate(
                    self._metrics, spec, target, self._caution, look.now, self._kind
                )
            except (Failure, NoReplicas, MetricsError) as error:
                failures.append(Failure.of(spec, error))
                await self._warn(look, failures[-1].reason, str(failures[-1]))
            else:
                found.append(one)
        look.status["currentMetrics"] = [one.status for one in found]
        best = max(found, key=lambda one: one.replicas, default=None)
        if best is None or (failures and best.replicas < target.replicas):
            await self._no_metrics(look, failures, len(specs))
        assert best is not None, "without a metric we have given up"
        words = f"the HPA was able to successfully calculate a replica count from {best.metric}"
        look.say("ScalingActive", True, "ValidMetricFound", words)
        return best.replicas, best.metric

    async def _no_metrics(self, look: _Look, failures: list[Failure], total: int) -> None:
        first = failures[0]
        words = f"the HPA was unable to compute the replica count: {first}"
        look.say("ScalingActive", False, first.reason, words)
        told = f"invalid metrics ({len(failures)} invalid out of {total}), first error is: {first}"
        await self._warn(look, "FailedComputeMetricsReplicas", told)
        raise _GiveUp(told)

    async def _rescale(self, look: _Look, kind: Kind, scale: Obj, desired: int, why: str) -> None:
        change = {
            "metadata": {"resourceVersion": meta(scale)["resourceVersion"]},
            "spec": {"replicas": desired},
        }
        try:
            await self.api.patch(kind, key_of(scale), change, subresource="scale")
        except errors.Conflict:
            raise  # changed just now: looked at again at once
        except errors.ApiError as error:
            words = "the HPA controller was unable to update the target scale: "
            look.say("AbleToScale", False, "FailedUpdateScale", words + error.message)
            told = f"New size: {desired}; reason: {why}; error: {error.message}"
            await self._warn(look, "FailedRescale", told)
            raise _GiveUp(error.message) from error
        words = f"the HPA controller was able to update the target scale to {desired}"
        look.say("AbleToScale", True, "SucceededRescale", words)
        look.status["lastScaleTime"] = rfc3339(look.now)
        told = f"New size: {desired}; reason: {why}"
        await self.recorder.event(look.autoscaler, "Normal", "SuccessfulRescale", told)
        self.log.info("scaled", autoscaler=key_of(look.autoscaler), replicas=desired, reason=why)

    async def _warn(self, look: _Look, reason: str, message: str) -> None:
        await self.recorder.event(look.autoscaler, "Warning", reason, message)

    async def _write(self, autoscaler: Obj, status: Obj) -> None:
        patch = merge_diff(autoscaler.get("status") or {}, status)
        if patch:
            key = key_of(autoscaler)
            written = await self.api.patch(
                HORIZONTAL_POD_AUTOSCALER, key, {"status": patch}, subresource="status"
            )
            await self.objects.seen(written)


class _GiveUp(Exception):
    """Ends this look early; the reason is in the status already."""


class _Look:
    """One look at one autoscaler: the moment, and the status as it will be."""

    def __init__(self, autoscaler: Obj, now: float) -> None:
        self.autoscaler = autoscaler
        self.now = now
        self.status: Obj = {"desiredReplicas": 0, **(autoscaler.get("status") or {})}

    def say(self, kind: str, is_true: bool, reason: str, message: str) -> None:
        new = condition(kind, "True" if is_true else "False", reason, message, self.now)
        present = self.status.get("conditions") or []
        former = next((one for one in present if one["type"] == kind), None)
        # Other than most, these conditions also tell when only their words have changed.
        if former is not None and former["message"] != message:
            present = [one for one in present if one["type"] != kind]
            if former["status"] == new["status"]:
                new["lastTransitionTime"] = former.get("lastTransitionTime")
        self.status["conditions"] = _ordered(with_condition(present, new))


_ORDER = {"AbleToScale": 0, "ScalingActive": 1, "ScalingLimited": 2}


def _ordered(conditions: list[Obj]) -> list[Obj]:
    return sorted(conditions, key=lambda one: _ORDER.get(one["type"], len(_ORDER)))


def _initial(current: int, now: float) -> list[Moment]:
    """Count the size at the first look as recommended, so that a restart is no reason to shrink."""
    return [Moment(now, current)]
