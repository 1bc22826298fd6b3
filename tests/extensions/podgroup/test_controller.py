"""A PodGroup says how its members do."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api.kinds import EVENT, NODE, POD
from orlop.api.objects import Key, Obj, condition_of
from orlop.extensions.bundled import BundledKinds, RunWhileInstalled, bundled_kind
from orlop.extensions.podgroup.controller import (
    BuiltInPodGroups,
    PodGroups,
    status_of,
)
from orlop.extensions.podgroup.groups import BUILT_IN, BUILT_IN_DEFINITIONS, POD_GROUP
from orlop.extensions.registry import definitions
from tests.controllers.world import World, eventually

LABEL = "scheduling.x-k8s.io/pod-group"


def a_member(name: str, phase: str = "Pending") -> Obj:
    metadata = {"name": name, "namespace": "default", "labels": {LABEL: "pg"}}
    spec = {"containers": [{"name": "main", "image": "busybox"}]}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def a_group(least: int = 3, **more: Any) -> Obj:
    metadata = {"name": "pg", "namespace": "default"}
    head = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
    return {**head, "metadata": metadata, "spec": {"minMember": least, **more}}


@pytest.mark.parametrize(
    ("phases", "phase"),
    [
        (["Pending", "Pending"], "Pending"),
        (["Pending", "Pending", "Pending"], "Scheduling"),
        (["Running", "Running", "Pending"], "Scheduling"),
        (["Running", "Running", "Running"], "Running"),
        (["Running", "Succeeded", "Running"], "Running"),
        (["Running", "Failed", "Running"], "Failed"),
        (["Running", "Failed", "Running", "Pending"], "Failed"),
        (["Running", "Failed", "Running", "Running"], "Running"),
        (["Succeeded", "Succeeded", "Succeeded"], "Finished"),
        (["Succeeded", "Succeeded", "Succeeded", "Running"], "Finished"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_the_phase_follows_from_the_members(phases, phase):
    members = [a_member(f"m{n}", each) for n, each in enumerate(phases)]
    status = status_of(a_group(), members, 0.0)
    assert status["phase"] == phase
    assert status["running"] == phases.count("Running")
    assert status["succeeded"] == phases.count("Succeeded")
    assert status["failed"] == phases.count("Failed")
    assert ("scheduleStartTime" in status) is (phase != "Pending")


def test_the_start_of_scheduling_and_whose_members_they_are_are_kept():
    group = a_group(1)
    first = status_of(group, [a_member("a")], 0.0)
    group["status"] = first
    later = status_of(group, [a_member("b", "Running")], 99.0)
    assert later["scheduleStartTime"] == first["scheduleStartTime"]
    assert later["occupiedBy"] == "default/a"


def controllers(cluster: World) -> list[Any]:
    manifests = {POD_GROUP.resource: definitions()[POD_GROUP.resource]}
    return [
        lambda informers: BundledKinds(cluster.api, informers, manifests),
        lambda informers: RunWhileInstalled(
            informers, [POD_GROUP.resource], lambda: [PodGroups(cluster.api, informers)]
        ),
    ]


async def test_a_groups_status_follows_its_pods(cluster):
    async with cluster.running(*controllers(cluster)):

        async def create() -> Obj:
            return await cluster.api.create(POD_GROUP, a_group(1, scheduleTimeoutSeconds=1))

        await eventually(create)
        pod = a_member("m0")
        del pod["status"]
        await cluster.create(POD, pod)

        async def is_scheduling() -> None:
            found = await cluster.get(POD_GROUP, "pg")
            assert found["status"]["phase"] == "Scheduling"

        async def is_late() -> None:
            events = await cluster.list(EVENT)
            assert any(event["reason"] == "Timeout" for event in events)

        await eventually(is_scheduling)
        await eventually(is_late)


async def test_a_built_in_group_says_whether_it_was_scheduled(cluster):
    manifests = {BUILT_IN.resource: definitions()[BUILT_IN.resource]}
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "PodGroup",
        "metadata": {"name": "pg", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
    }
    async with cluster.running(
        lambda informers: BundledKinds(cluster.api, informers, manifests),
        lambda informers: RunWhileInstalled(
            informers, [BUILT_IN.resource], lambda: [BuiltInPodGroups(cluster.api, informers)]
        ),
    ):
        await eventually(lambda: cluster.api.create(BUILT_IN, group))

        async def says(status: str) -> None:
            found = condition_of(await cluster.get(BUILT_IN, "pg"), "PodGroupInitiallyScheduled")
            assert found is not None
            assert found["status"] == status

        await eventually(lambda: says("False"))
        pod = a_member("m0")
        pod["spec"]["schedulingGroup"] = {"podGroupName": "pg"}
        del pod["metadata"]["labels"], pod["status"]
        await cluster.create(POD, pod)
        running = {"status": {"phase": "Running"}}
        await cluster.api.patch(POD, Key("default", "m0"), running, subresource="status")
        await eventually(lambda: says("True"))


@pytest.mark.parametrize("version", ["v1alpha2", "v1alpha3"])
async def test_what_kubernetes_documents_is_served_in_its_versions(cluster, version):
    """A Workload and a group that refers to it, as on kubernetes.io; both are read in any."""
    manifests = {name: definitions()[name] for name in BUILT_IN_DEFINITIONS}
    policy = {"schedulingPolicy": {"gang": {"minCount": 4}}}
    head = {"apiVersion": f"scheduling.k8s.io/{version}"}
    controller = {"apiGroup": "batch", "kind": "Job", "name": "train"}
    templates = [{"name": "workers", **policy}]
    workload = {
        **head,
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {"controllerRef": controller, "podGroupTemplates": templates},
    }
    named = {"workload": {"workloadName": "w", "podGroupTemplateName": "workers"}}
    group = {
        **head,
        "kind": "PodGroup",
        "metadata": {"name": "pg", "namespace": "default"},
        "spec": {"podGroupTemplateRef": named, **policy},
    }
    async with cluster.running(lambda informers: BundledKinds(cluster.api, informers, manifests)):
        for made, plural in ((workload, "workloads"), (group, "podgroups")):
            kind = bundled_kind("scheduling.k8s.io", version, made["kind"], plural)
            await eventually(lambda kind=kind, made=made: cluster.api.create(kind, made))
        found = await cluster.get(BUILT_IN, "pg")
        assert found["apiVersion"] == BUILT_IN.api_version
        assert found["spec"] == group["spec"]


async def test_a_group_that_needs_more_than_any_node_has_is_told_so(cluster: World) -> None:
    manifests, api = {POD_GROUP.resource: definitions()[POD_GROUP.resource]}, cluster.api
    async with cluster.running(
        lambda informers: BundledKinds(api, informers, manifests),
        lambda informers: RunWhileInstalled(
            informers, [POD_GROUP.resource], lambda: [PodGroups(api, informers)]
        ),
    ):
        node = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}}
        await cluster.create(NODE, node)
        group = a_group(minResources={"cpu": "3500m", "nvidia.com/gpu": 1})
        await eventually(lambda: cluster.create(POD_GROUP, group), "the kind is served")

        async def is_told() -> None:
            (told,) = [e for e in await cluster.list(EVENT) if e["reason"] == "MinResourcesNotMet"]
            assert "nvidia.com/gpu 1 (it has 0)" in told["message"]
            assert "cpu" not in told["message"]

        await eventually(is_told)
