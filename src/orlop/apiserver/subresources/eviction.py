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
from ..conversion import bucket_of
from ..failures import bad_request
from ..registry import Call, Registry
from ..verbs.delete import DeleteOptions, delete, options_from
from ..verbs.update import modify
from .admitting import admit
from .answers import created


async def evict(registry: Registry, call: Call, body: Any) -> Obj:
    """Delete the pod if its budget allows; TooManyRequests if it does not for now."""
    if not isinstance(body, dict):
        raise bad_request("the body of the request must be an Eviction")
    options = options_from(body.get("deleteOptions"))
    call.dry_run = call.dry_run or options.dry_run
    pod = registry.find_newest(call).decode()
    body = {"apiVersion": "policy/v1", "kind": "Eviction", **body}
    await admit(registry, call, body, ("policy", "v1", "Eviction"))
    call.subresource = ""
    budgets = _budgets(registry, pod)
    if budgets and not _may_ignore_budgets(pod):
        await _spend(registry, call, pod, budgets)
    await delete(registry, call, _with_uid(options, pod))
    return created()


def _with_uid(options: DeleteOptions, pod: Obj) -> DeleteOptions:
    """Never evict another pod of the same name than the one whose budget was asked."""
    return DeleteOptions(
        grace=options.grace,
        uid=options.uid or pod["metadata"]["uid"],
        resource_version=options.resource_version,
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


def _one_less(registry: Registry, budget: Obj, pod: Obj) -> Obj:
    status = budget.setdefault("status", {})
    if not is_ready(pod) and status.get("currentHealthy", 0) >= status.get("desiredHealthy", 1) > 0:
        return budget  # a pod that is not healthy costs nothing
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _try_later(budget, "The disruption budget %s is still being processed by the server.")
    if status.get("disruptionsAllowed", 0) <= 0:
        needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise _try_later(
            budget,
            f"The disruption budget %s needs {needs} healthy pods and has {has} currently",
        )
    status["disruptionsAllowed"] -= 1
    status.setdefault("disruptedPods", {})[pod["metadata"]["name"]] = registry.timestamp()
    return budget


def _try_later(budget: Obj, why: str) -> ApiError:
    cause = {"reason": "DisruptionBudget", "message": why % budget["metadata"]["name"]}
    return TooManyRequests(
        "Cannot evict pod as it would violate the pod's disruption budget.",
        details={"causes": [cause]},
    )
