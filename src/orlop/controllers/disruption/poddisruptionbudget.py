"""Says how many pods of a PodDisruptionBudget may be evicted now.

Called by the controller manager with the key of a budget whenever it, a pod that it selects, or
the scale of who made that pod changes. Evictions spend what is written here, and note the pod;
until that pod is gone it does not count as healthy. As pkg/controller/disruption.
"""

from __future__ import annotations

from collections.abc import Iterator

from ... import errors
from ...api import selectors, times
from ...api.kinds import POD, POD_DISRUPTION_BUDGET
from ...api.objects import Key, Obj, is_deleting, is_ready, key_of, labels_of, meta, phase_of
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ..framework.controller import Controller, Result
from ..framework.status import condition, with_condition
from .expected_scale import Scales

_GIVEN_UP = 120.0  # seconds after which an eviction that has not happened is forgotten
_UNMANAGED = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a "
    "result, the status of the PDB cannot be calculated correctly, which may result in undefined "
    'behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to an '
    "integer value."
)


class DisruptionBudgets(Controller):
    name = "controllermanager"  # as upstream names the source of its events
    kind = POD_DISRUPTION_BUDGET

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self._pods = informers.informer(POD)
        self._scales = Scales(api, informers)
        self.watch(self._pods, self._pod_changed)
        for informer in self._scales.informers:
            self.watch(informer, self._owner_changed)

    def _pod_changed(self, event: WatchEvent, previous: Obj | None) -> Iterator[Key]:
        if (
            previous is not None
            and event.type == "MODIFIED"
            and _face(previous) == _face(event.object)
        ):
            return
        states = [labels_of(one) for one in (event.object, previous) if one is not None]
        for budget in self.objects.list(meta(event.object)["namespace"]):
            if any(_selector(budget).matches(labels) for labels in states):
                yield key_of(budget)

    def _owner_changed(self, event: WatchEvent, previous: Obj | None) -> Iterator[Key]:
        """Queue the budgets of a workload that was scaled: that changes the expected pods."""
        if previous is not None and event.object.get("spec", {}).get("replicas") == (
            previous.get("spec", {}).get("replicas")
        ):
            return
        template = (event.object.get("spec") or {}).get("template") or {}
        for budget in self.objects.list(meta(event.object)["namespace"]):
            if _selector(budget).matches(labels_of(template)):
                yield key_of(budget)

    async def reconcile(self, key: Key) -> Result:
        budget = self.objects.get(key)
        if budget is None:
            return Result.done()
        try:
            return await self._sync(budget)
        except (errors.Conflict, errors.NotFound):
            raise
        except errors.ApiError as error:
            await self._fail_safe(budget, error.message)
            raise

    async def _sync(self, budget: Obj) -> Result:
        """Count the pods, those expected and those healthy; write how many may be evicted."""
        selector = _selector(budget)
        pods = [  # 1
            pod for pod in self._pods.list(meta(budget)["namespace"])
            if selector.matches(labels_of(pod))
        ]  # fmt: skip
        if not pods:
            await self.recorder.event(budget, "Normal", "NoPods", "No matching pods found")
        expected, desired = await self._expected(budget, pods)  # 2
        disrupted, after = await self._disrupted(budget, pods)
        healthy = sum(  # 3
            is_ready(pod) and not is_deleting(pod) and meta(pod)["name"] not in disrupted
            for pod in pods
        )
        allowed = max(healthy - desired, 0) if expected > 0 else 0  # 4
        status = {
            **(budget.get("status") or {}),
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": allowed,
            "disruptedPods": disrupted,
            "observedGeneration": meta(budget).get("generation", 0),
        }
        reason = "SufficientPods" if allowed else "InsufficientPods"
        self._with_condition(budget, status, bool(allowed), reason, "")
        if not disrupted:
            status.pop("disruptedPods")
        await self.write_status(budget, status, lock=True)
        return Result(after)

    async def _expected(self, budget: Obj, pods: list[Obj]) -> tuple[int, int]:
        """Return how many pods there should be, and how many of them must stay healthy."""
        spec = budget.get("spec") or {}
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if most is None and isinstance(least, int):
            return len(pods), least
        if most is None and least is None:
            return len(pods), 0
        expected, unmanaged = await self._scales.expected(pods)
        if unmanaged:
            shown = _selector(budget)
            await self.recorder.event(budget, "Warning", "UnmanagedPods", _UNMANAGED.format(shown))
        if most is not None:
            return expected, max(expected - _amount(most, expected), 0)
        return expected, _amount(least or 0, expected)

    async def _disrupted(self, budget: Obj, pods: list[Obj]) -> tuple[Obj, float | None]:
        """Return the evictions still to be seen, and when the first of them is given up."""
        noted = (budget.get("status") or {}).get("disruptedPods") or {}
        kept: Obj = {}
        left: list[float] = []
        for pod in pods:
            since = noted.get(meta(pod)["name"])
            if since is None or is_deleting(pod):
                continue
            remaining = times.parse(since) + _GIVEN_UP - self.clock.now()
            if remaining > 0:
                kept[meta(pod)["name"]] = since
                left.append(remaining)
                continue
            words = f"Pod was expected by PDB {key_of(budget)} to be deleted but it wasn't"
            await self.recorder.event(pod, "Warning", "NotDeleted", words)
        return kept, min(left, default=None)

    async def _fail_safe(self, budget: Obj, why: str) -> None:
        """Allow no disruptions where the pods cannot be counted."""
        words = f"Failed to calculate the number of expected pods: {why}"
        await self.recorder.event(budget, "Warning", "CalculateExpectedPodCountFailed", words)
        status = {**(budget.get("status") or {}), "disruptionsAllowed": 0}
        status["observedGeneration"] = meta(budget).get("generation", 0)
        self._with_condition(budget, status, False, "SyncFailed", why)
        await self.write_status(budget, status, lock=True)

    def _with_condition(
        self, budget: Obj, status: Obj, is_allowed: bool, reason: str, message: str
    ) -> None:
        said = "True" if is_allowed else "False"
        new = condition("DisruptionAllowed", said, reason, message, self.clock.now())
        new["observedGeneration"] = meta(budget).get("generation", 0)
        status["conditions"] = with_condition(status.get("conditions") or [], new)


def _selector(budget: Obj) -> selectors.LabelSelector:
    return selectors.from_structure((budget.get("spec") or {}).get("selector"))


def _face(pod: Obj) -> tuple[object, ...]:
    return (labels_of(pod), phase_of(pod), is_ready(pod), is_deleting(pod),
            meta(pod).get("ownerReferences"))  # fmt: skip


def _amount(value: int | str, total: int) -> int:
    """Return a number as it is, or a percentage of the whole, rounded up."""
    if isinstance(value, int):
        return value
    return -(-int(value.rstrip("%")) * total // 100)
