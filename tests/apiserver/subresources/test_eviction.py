"""Evictions ask the budget first."""

from __future__ import annotations

import pytest

from orlop import errors
from orlop.api import kinds
from orlop.api.objects import Key

A = Key("default", "a")
BUDGET = Key("default", "budget")
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}


@pytest.fixture
async def running(local, pod) -> None:
    await local.create(kinds.POD, pod("a", labels={"app": "x"}))
    await local.create_subresource(kinds.POD, A, "binding", {"target": {"name": "n1"}})
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await local.patch(kinds.POD, A, {"status": ready}, subresource="status")


async def budget(local, allowed: int, *, observed: int = 1, name: str = "budget") -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    await local.create(
        kinds.POD_DISRUPTION_BUDGET,
        {"metadata": {"name": name, "namespace": "default"}, "spec": spec},
    )
    status = {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1,
              "expectedPods": 1, "observedGeneration": observed}  # fmt: skip
    key = Key("default", name)
    await local.patch(kinds.POD_DISRUPTION_BUDGET, key, {"status": status}, subresource="status")


async def test_without_a_budget_an_eviction_is_a_deletion(api, running) -> None:
    body = {**EVICTION, "deleteOptions": {"gracePeriodSeconds": 7}}
    answer = await api.create_subresource(kinds.POD, A, "eviction", body)
    assert answer["status"] == "Success"
    found = await api.get(kinds.POD, A)
    assert found["metadata"]["deletionGracePeriodSeconds"] == 7


async def test_a_budget_that_allows_is_spent(api, local, running) -> None:
    await budget(local, 1)
    await api.create_subresource(kinds.POD, A, "eviction", EVICTION)
    status = (await local.get(kinds.POD_DISRUPTION_BUDGET, BUDGET))["status"]
    assert status["disruptionsAllowed"] == 0
    assert "a" in status["disruptedPods"]


@pytest.mark.parametrize(
    ("allowed", "observed", "why"),
    [(0, 1, "needs 1 healthy pods"), (1, 0, "still being processed")],
)
async def test_a_budget_that_does_not_allow_holds_the_pod(
    api, local, running, allowed, observed, why
) -> None:
    await budget(local, allowed, observed=observed)
    with pytest.raises(errors.TooManyRequests, match="disruption budget") as refused:
        await api.create_subresource(kinds.POD, A, "eviction", EVICTION)
    assert refused.value.details is not None
    assert why in refused.value.details["causes"][0]["message"]
    assert "deletionTimestamp" not in (await api.get(kinds.POD, A))["metadata"]


async def test_two_budgets_for_one_pod_are_an_error(api, local, running) -> None:
    await budget(local, 1)
    await budget(local, 1, name="second")
    with pytest.raises(errors.InternalError, match="more than one PodDisruptionBudget"):
        await api.create_subresource(kinds.POD, A, "eviction", EVICTION)


async def test_a_pod_that_has_ended_costs_no_budget(api, local, running) -> None:
    await budget(local, 0)
    await local.patch(kinds.POD, A, {"status": {"phase": "Failed"}}, subresource="status")
    await api.create_subresource(kinds.POD, A, "eviction", EVICTION)
    with pytest.raises(errors.NotFound):
        await api.get(kinds.POD, A)


async def test_a_dry_run_spends_and_deletes_nothing(http, local, running) -> None:
    await budget(local, 1)
    path = "/api/v1/namespaces/default/pods/a/eviction?dryRun=All"
    assert (await http("POST", path, EVICTION)).code == 201
    status = (await local.get(kinds.POD_DISRUPTION_BUDGET, BUDGET))["status"]
    assert status["disruptionsAllowed"] == 1
    assert "deletionTimestamp" not in (await local.get(kinds.POD, A))["metadata"]


@pytest.mark.parametrize(("observed", "after"), [(1, None), (0, "10")])
async def test_only_a_budget_that_is_not_yet_counted_says_when_to_come_again(
    http, local, running, observed, after
) -> None:
    """kubectl drain tells people of a budget; with a time, client-go would silently retry."""
    await budget(local, 0, observed=observed)
    reply = await http("POST", "/api/v1/namespaces/default/pods/a/eviction", EVICTION)
    assert reply.code == 429
    assert reply.headers.get("Retry-After") == after


async def test_an_evicted_pod_is_told_why(api, running) -> None:
    await api.create_subresource(kinds.POD, A, "eviction", EVICTION)
    conditions = (await api.get(kinds.POD, A))["status"]["conditions"]
    (target,) = [one for one in conditions if one["type"] == "DisruptionTarget"]
    assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")


@pytest.mark.parametrize("policy", ["AlwaysAllow", "IfHealthyBudget"])
async def test_a_sick_pod_goes_by_the_budgets_policy(api, local, running, policy) -> None:
    await budget(local, 0)
    spec = {"spec": {"unhealthyPodEvictionPolicy": policy}}
    await local.patch(kinds.POD_DISRUPTION_BUDGET, BUDGET, spec)
    healthy = {"status": {"currentHealthy": 0, "observedGeneration": 2}}
    await local.patch(kinds.POD_DISRUPTION_BUDGET, BUDGET, healthy, subresource="status")
    sick = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    await local.patch(kinds.POD, A, sick, subresource="status")
    if policy == "AlwaysAllow":
        await api.create_subresource(kinds.POD, A, "eviction", EVICTION)
        return
    with pytest.raises(errors.TooManyRequests):
        await api.create_subresource(kinds.POD, A, "eviction", EVICTION)
