"""eviction: a deletion that asks the pod's disruption budget first.

Called for POST on `pods/<name>/eviction`, by kubectl drain. As
registry/core/pod/storage/eviction.go; the budget's own numbers are a controller's work.
"""

from __future__ import annotations

from typing import Any

from ...api import kinds, selectors
from ...api.objects import Obj, is_ready, is_terminal, labels_of
from ...errors import ApiError, InternalError, TooManyRequests
from ...store import Record
from ..objects.conversion import bucket_of
from ..registry import Call, Registry
from ..request.failures import bad_request, forbidden
from ..verbs.delete import DeleteOptions, check_preconditions, delete, options_from
from ..verbs.update import modify
from .admitting import admit
from .answers import created

_ALLOWED = "DisruptionAllowed"
_MOST_DISRUPTED = 2000


async def evict(registry: Registry, call: Call, body: Any) -> Obj:
    """Delete the pod if its budget allows; TooManyRequests if it does not for now.

    1. Which pod. 2. May it go: its budget is asked, and charged. 3. It is told why it goes. 4. Go.
    """
    if not isinstance(body, dict):
        raise bad_request("the body of the request must be an Eviction")
    options = options_from(body.get("deleteOptions"))
    call.dry_run = call.dry_run or options.dry_run
    named = (body.get("metadata") or {}).get("name")
    if named and named != call.name:
        raise bad_request("name in URL does not match name in Eviction object")
    pod = registry.find_newest(call).decode()  # 1
    body = {"apiVersion": "policy/v1", "kind": "Eviction", **body}
    await admit(registry, call, body, ("policy", "v1", "Eviction"))
    call.subresource = ""
    check_preconditions(call, pod, options)
    budgets = _budgets(registry, pod)  # 2
    if budgets and not _may_ignore_budgets(pod):
        await _spend(registry, call, pod, budgets)
    if not is_terminal(pod) and not call.dry_run:
        await _mark(registry, call, pod["metadata"]["uid"])  # 3
    await delete(registry, call, _with_uid(options, pod))  # 4
    return created()


async def _mark(registry: Registry, call: Call, uid: str) -> None:
    """Mark the pod as evicted. Those who count failures, Jobs say, tell it from a fault by this."""

    def mark(pod: Obj) -> Obj:
        if pod["metadata"]["uid"] != uid:
            return pod  # another of the same name, which will not be deleted either
        conditions = pod.setdefault("status", {}).get("conditions") or []
        others = [one for one in conditions if one.get("type") != "DisruptionTarget"]
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastTransitionTime": registry.timestamp(),
        }
        pod["status"]["conditions"] = [*others, target]
        return pod

    marking = Call(call.user, call.kind, call.namespace, call.name, subresource="status",
                   field_manager=call.field_manager, user_agent=call.user_agent)  # fmt: skip
    await modify(registry, marking, mark)


def _with_uid(options: DeleteOptions, pod: Obj) -> DeleteOptions:
    """Demand the uid of the pod whose budget was asked, so that no other of that name is evicted.

    A resource version was looked at above; the pod has been marked since.
    """
    return DeleteOptions(
        grace=options.grace,
        uid=options.uid or pod["metadata"]["uid"],
        propagation=options.propagation,
        orphan_dependents=options.orphan_dependents,
    )


def _may_ignore_budgets(pod: Obj) -> bool:
    is_pending = (pod.get("status") or {}).get("phase") == "Pending"
    return is_terminal(pod) or is_pending or "deletionTimestamp" in pod["metadata"]


def _budgets(registry: Registry, pod: Obj) -> list[Record]:
    bucket = bucket_of(kinds.POD_DISRUPTION_BUDGET)
    found = registry.store.list(bucket, pod["metadata"]["namespace"]).records
    return [record for record in found if _selects(record.decode(), pod)]


def _selects(budget: Obj, pod: Obj) -> bool:
    selector = selectors.from_structure(budget.get("spec", {}).get("selector"))
    return selector.matches(labels_of(pod))


async def _spend(registry: Registry, call: Call, pod: Obj, budgets: list[Record]) -> None:
    if len(budgets) > 1:
        raise InternalError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does "
            "not support."
        )
    if _costs_nothing(budgets[0].decode(), pod):
        return
    budget_call = Call(
        call.user,
        kinds.POD_DISRUPTION_BUDGET,
        call.namespace,
        budgets[0].key.name,
        subresource="eviction",
        dry_run=call.dry_run,
        is_admitted=True,
    )
    await modify(registry, budget_call, lambda budget: _one_less(registry, budget, pod))


def _costs_nothing(budget: Obj, pod: Obj) -> bool:
    """Return whether a pod may go without a charge to the budget.

    A pod that is not well may: always, or only while the others keep the budget.
    """
    if is_ready(pod):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy", 0)
    return bool(status.get("currentHealthy", 0) >= desired > 0)


def _one_less(registry: Registry, budget: Obj, pod: Obj) -> Obj:
    status = budget.setdefault("status", {})
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        why = "The disruption budget %s is still being processed by the server."
        raise _try_later(budget, why, after=10)
    allowed, name = status.get("disruptionsAllowed", 0), budget["metadata"]["name"]
    if allowed < 0:
        raise forbidden(kinds.POD_DISRUPTION_BUDGET, name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or {}) > _MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden(kinds.POD_DISRUPTION_BUDGET, name, why)
    if allowed == 0:
        raise _try_later(budget, _refusal(status))
    status["disruptionsAllowed"] = allowed - 1
    if allowed == 1:
        _exhausted(registry, budget)
    status.setdefault("disruptedPods", {})[pod["metadata"]["name"]] = registry.timestamp()
    return budget


def _refusal(status: Obj) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == _ALLOWED and condition.get("reason") == "SyncFailed":
            why = (
                "The disruption budget %s does not allow evicting pods currently because it failed"
            )
            return f"{why} sync: {condition.get('message', '')}"
    needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    return f"The disruption budget %s needs {needs} healthy pods and has {has} currently"


def _exhausted(registry: Registry, budget: Obj) -> None:
    """Set the budget's condition to what the controller says of it a moment later.

    So nobody reads something else until then.
    """
    told = {
        "type": _ALLOWED,
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "lastTransitionTime": registry.timestamp(),
        "observedGeneration": budget["status"].get("observedGeneration", 0),
    }
    conditions = budget["status"].get("conditions") or []
    others = [one for one in conditions if one.get("type") != _ALLOWED]
    budget["status"]["conditions"] = [*others, told]


def _try_later(budget: Obj, why: str, *, after: int = 0) -> ApiError:
    message = why.replace("%s", budget["metadata"]["name"], 1)
    cause = {"reason": "DisruptionBudget", "message": message}
    # Without a time: client libraries would otherwise try again by themselves and say nothing.
    details: Obj = {"causes": [cause], "retryAfterSeconds": after}
    return TooManyRequests(
        "Cannot evict pod as it would violate the pod's disruption budget.", details=details
    )
