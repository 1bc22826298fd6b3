"""Two views of one object show the same, and writing by one is seen by the other."""

from __future__ import annotations

import pytest

from orlop.api import kinds
from orlop.api.objects import Key
from orlop.apiserver.objects.conversion import bucket_of, is_view

A = Key("default", "a")
METRIC = {
    "type": "Resource",
    "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 70}},
}


def new_event() -> dict:
    return {
        "metadata": {"name": "a", "namespace": "default"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "note": "it began",
        "reason": "Started",
        "type": "Normal",
        "action": "Start",
        "eventTime": "2026-01-02T15:04:05.000000Z",
        "reportingController": "x.dev/test",
        "reportingInstance": "t1",
    }


async def test_an_event_of_the_new_group_is_seen_as_a_core_one(api) -> None:
    made = await api.create(kinds.EVENTS_EVENT, new_event())
    assert made["apiVersion"] == "events.k8s.io/v1"
    assert made["note"] == "it began"
    core = await api.get(kinds.EVENT, A)
    assert (core["apiVersion"], core["message"]) == ("v1", "it began")
    assert core["involvedObject"]["name"] == "p"
    assert core["reportingComponent"] == "x.dev/test"


async def test_a_core_event_is_seen_and_patched_in_the_new_group(api) -> None:
    core = {
        "metadata": {"name": "a", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Started",
        "message": "one",
        "type": "Normal",
        "count": 3,
        "source": {"component": "kubelet"},
    }
    await api.create(kinds.EVENT, core)
    listed = await api.list(kinds.EVENTS_EVENT, "default")
    assert listed.items[0]["deprecatedCount"] == 3
    assert listed.items[0]["deprecatedSource"] == {"component": "kubelet"}
    patched = await api.patch(kinds.EVENT, A, {"message": "two"})
    assert patched["message"] == "two"
    assert (await api.get(kinds.EVENTS_EVENT, A))["note"] == "two"


async def test_events_are_selected_by_what_they_regard(http, api) -> None:
    await api.create(kinds.EVENTS_EVENT, new_event())
    for path, field in [
        ("/api/v1/namespaces/default/events", "involvedObject.name"),
        ("/apis/events.k8s.io/v1/namespaces/default/events", "regarding.name"),
    ]:
        for name, count in (("p", 1), ("q", 0)):
            reply = await http("GET", f"{path}?fieldSelector={field}%3D{name}")
            assert len(reply.json["items"]) == count
        if reply.json["items"]:
            assert reply.json["items"][0]["apiVersion"] == reply.json["apiVersion"]


def autoscaler(**spec: object) -> dict:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    return {
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 5, **spec},
    }


async def test_an_autoscaler_of_v1_is_seen_as_v2(api) -> None:
    sent = autoscaler(targetCPUUtilizationPercentage=80)
    await api.create(kinds.HORIZONTAL_POD_AUTOSCALER_V1, sent)
    new = await api.get(kinds.HORIZONTAL_POD_AUTOSCALER, A)
    assert new["apiVersion"] == "autoscaling/v2"
    resource = new["spec"]["metrics"][0]["resource"]
    assert resource["name"] == "cpu"
    assert resource["target"]["averageUtilization"] == 80
    old = await api.get(kinds.HORIZONTAL_POD_AUTOSCALER_V1, A)
    assert old["spec"]["targetCPUUtilizationPercentage"] == 80


async def test_what_v1_cannot_say_survives_an_update_by_v1(api) -> None:
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 5}}
    sent = autoscaler(metrics=[METRIC], behavior=behavior)
    await api.create(kinds.HORIZONTAL_POD_AUTOSCALER, sent)
    old = await api.get(kinds.HORIZONTAL_POD_AUTOSCALER_V1, A)
    old["spec"]["maxReplicas"] = 9
    await api.update(kinds.HORIZONTAL_POD_AUTOSCALER_V1, old)
    new = await api.get(kinds.HORIZONTAL_POD_AUTOSCALER, A)
    assert new["spec"]["maxReplicas"] == 9
    assert new["spec"]["metrics"][0]["resource"]["name"] == "memory"
    assert new["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"] == 5
    assert not new["metadata"].get("annotations")


@pytest.mark.parametrize("kind", kinds.STORED, ids=lambda kind: f"{kind.api_version} {kind.kind}")
def test_every_other_kind_is_kept_as_it_is_served(kind) -> None:
    if not is_view(kind):
        assert bucket_of(kind) == kind.resource
