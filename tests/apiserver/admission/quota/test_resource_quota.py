"""Charges are exact, whoever comes at the same time."""

from __future__ import annotations

import asyncio

import pytest

from orlop import errors
from orlop.api import kinds
from orlop.api.objects import Key


async def quota(local, hard: dict, used: dict | None = None, name: str = "q", **spec) -> None:
    metadata = {"name": name, "namespace": "default"}
    await local.create(kinds.RESOURCE_QUOTA, {"metadata": metadata, "spec": {"hard": hard, **spec}})
    status = {"hard": hard, "used": dict.fromkeys(hard, "0") | (used or {})}
    key = Key("default", name)
    await local.patch(kinds.RESOURCE_QUOTA, key, {"status": status}, subresource="status")


async def used(local, name: str = "q") -> dict:
    found = await local.get(kinds.RESOURCE_QUOTA, Key("default", name))
    return found["status"]["used"]


def asking(pod, cpu: str, name: str = "a") -> dict:
    made = pod(name)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


async def test_what_is_made_is_charged_and_what_is_too_much_refused(api, local, pod) -> None:
    await quota(local, {"requests.cpu": "3", "pods": "5"})
    await api.create(kinds.POD, asking(pod, "1500m"))
    assert await used(local) == {"requests.cpu": "1500m", "pods": "1"}
    with pytest.raises(errors.Forbidden) as refused:
        await api.create(kinds.POD, asking(pod, "2", name="b"))
    assert refused.value.message == (
        'pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=2, '
        "used: requests.cpu=1500m, limited: requests.cpu=3"
    )
    assert (await used(local))["pods"] == "1"


async def test_many_at_once_never_get_more_than_there_is(api, local, pod) -> None:
    await quota(local, {"pods": "7"})
    results = await asyncio.gather(
        *(api.create(kinds.POD, pod(f"p{number}")) for number in range(20)),
        return_exceptions=True,
    )
    assert sum(isinstance(one, dict) for one in results) == 7
    assert all(isinstance(one, dict | errors.Forbidden) for one in results)
    assert (await used(local))["pods"] == "7"


async def test_what_a_quota_limits_must_be_said(local, pod) -> None:
    await quota(local, {"limits.memory": "1Gi"})
    with pytest.raises(
        errors.Forbidden, match=r"failed quota: q: must specify limits\.memory for: m"
    ):
        await local.create(kinds.POD, pod("a"))


async def test_a_quota_that_was_never_counted_is_not_trusted(local, pod) -> None:
    await quota(local, {"pods": "7"})
    change = {"status": {"used": {"pods": None}}}
    await local.patch(kinds.RESOURCE_QUOTA, Key("default", "q"), change, subresource="status")
    with pytest.raises(errors.Forbidden, match="status unknown for quota: q, resources: pods"):
        await local.create(kinds.POD, pod("a"))


async def test_a_dry_run_is_judged_and_not_charged(http, local, pod) -> None:
    await quota(local, {"pods": "1"})
    path = "/api/v1/namespaces/default/pods"
    assert (await http("POST", f"{path}?dryRun=All", pod("a"))).code == 201
    assert (await used(local))["pods"] == "0"
    await local.create(kinds.POD, pod("a"))
    assert (await http("POST", f"{path}?dryRun=All", pod("b"))).code == 403


async def test_scopes_decide_who_is_charged(local, pod) -> None:
    await quota(local, {"pods": "1"}, name="best", scopes=["BestEffort"])
    await quota(local, {"pods": "1"}, name="rest", scopes=["NotBestEffort"])
    await local.create(kinds.POD, pod("a"))
    await local.create(kinds.POD, asking(pod, "1", name="b"))
    assert (await used(local, "best"))["pods"] == (await used(local, "rest"))["pods"] == "1"
    with pytest.raises(errors.Forbidden, match="exceeded quota: best"):
        await local.create(kinds.POD, pod("c"))


async def test_an_update_is_charged_for_what_it_adds(local) -> None:
    await quota(local, {"services.nodeports": "1", "services": "5"})
    service = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"ports": [{"port": 80}]}}
    made = await local.create(kinds.SERVICE, service)
    assert await used(local) == {"services.nodeports": "0", "services": "1"}
    made["spec"]["type"] = "NodePort"
    made = await local.update(kinds.SERVICE, made)
    assert await used(local) == {"services.nodeports": "1", "services": "1"}
    made["spec"]["ports"].append({"port": 81, "name": "more"})
    made["spec"]["ports"][0]["name"] = "first"
    with pytest.raises(errors.Forbidden, match=r"requested: services\.nodeports=1, used"):
        await local.update(kinds.SERVICE, made)


async def test_any_kind_can_be_counted(local, config_map) -> None:
    await quota(local, {"count/configmaps": "1", "count/deployments.apps": "0"})
    await local.create(kinds.CONFIG_MAP, config_map("a"))
    with pytest.raises(errors.Forbidden, match="exceeded quota: q, requested: count/configmaps=1"):
        await local.create(kinds.CONFIG_MAP, config_map("b"))
    template = {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}  # fmt: skip
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    with pytest.raises(errors.Forbidden, match=r"limited: count/deployments\.apps=0"):
        await local.create(
            kinds.DEPLOYMENT, {"metadata": {"name": "d", "namespace": "default"}, "spec": spec}
        )
