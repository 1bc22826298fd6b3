"""LeaderWorkerSets: groups by tables, and their lives in a world of quick pods."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api.gangs import later_of
from orlop.api.kinds import EVENT, PERSISTENT_VOLUME_CLAIM, POD, SERVICE
from orlop.api.objects import Obj, annotations_of, key_of, labels_of, meta
from orlop.extensions.bundled import BundledKinds, RunWhileInstalled
from orlop.extensions.leaderworkerset.children import (
    gang,
    pod_for,
    pod_name,
    restart_policy,
    revision,
    services,
    subgroup,
)
from orlop.extensions.leaderworkerset.controller import (
    LEADER_WORKER_SET,
    LeaderWorkerSets,
)
from orlop.extensions.leaderworkerset.plan import Groups, observe, plan
from orlop.extensions.registry import definitions
from tests.controllers.world import Kubelet, World, eventually, stays

KEY = "leaderworkerset.sigs.k8s.io/"


def lws(size: int = 2, replicas: int = 2, template: Obj | None = None, **spec: Any) -> Obj:
    worker = {"spec": {"containers": [{"name": "main", "image": "worker"}]}}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "s", "namespace": "default", "uid": "0123456789", "generation": 1},
        "spec": {
            "replicas": replicas,
            "leaderWorkerTemplate": {"size": size, "workerTemplate": worker, **(template or {})},
            **spec,
        },
    }


def env_of(pod: Obj) -> dict[str, str]:
    return {one["name"]: one["value"] for one in pod["spec"]["containers"][0]["env"]}


def test_a_worker_knows_its_leader_its_group_and_itself() -> None:
    pod = pod_for(lws(), 1, 1, {})
    assert meta(pod)["name"] == pod["spec"]["hostname"] == "s-1-1"
    assert env_of(pod) == {
        "LWS_LEADER_ADDRESS": "s-1.s.default",
        "LWS_GROUP_SIZE": "2",
        "LWS_WORKER_INDEX": "1",
    }
    labels = {name.removeprefix(KEY): value for name, value in labels_of(pod).items()}
    assert (labels["name"], labels["group-index"], labels["worker-index"]) == ("s", "1", "1")
    assert annotations_of(pod)[KEY + "leader-name"] == "s-1"
    assert annotations_of(pod)[KEY + "size"] == "2"


def test_a_leader_may_have_a_template_of_its_own() -> None:
    leader = {"spec": {"containers": [{"name": "main", "image": "leader"}]}}
    made = lws(template={"leaderTemplate": leader})
    images = [pod_for(made, 0, w, {})["spec"]["containers"][0]["image"] for w in (0, 1)]
    assert images == ["leader", "worker"]


def test_each_group_may_have_a_domain_of_its_own() -> None:
    made = lws(networkConfig={"subdomainPolicy": "UniquePerReplica"})
    assert [meta(one)["name"] for one in services(made, 2)] == ["s-0", "s-1"]
    assert env_of(pod_for(made, 1, 1, {}))["LWS_LEADER_ADDRESS"] == "s-1.s-1.default"
    assert [meta(one)["name"] for one in services(lws(), 2)] == ["s"]


SUBGROUPS = [
    (4, 2, "LeaderWorker", [0, 0, 1, 1]),
    (5, 2, "LeaderWorker", [0, 0, 0, 1, 1]),
    (5, 2, "LeaderExcluded", [None, 0, 0, 1, 1]),
]


@pytest.mark.parametrize(("size", "part", "kind", "wanted"), SUBGROUPS)
def test_subgroups(size: int, part: int, kind: str, wanted: list[int | None]) -> None:
    policy = {"subGroupPolicyType": kind, "subGroupSize": part}
    made = lws(size, template={"subGroupPolicy": policy})
    assert [subgroup(made, worker) for worker in range(size)] == wanted


def test_a_group_is_a_gang_by_itself_and_keeps_its_name() -> None:
    first = gang(lws(3), 0, 0, [], now=1000.0)
    assert first["slurm.orlop.dev/gang-size"] == "3"
    sibling = {"metadata": {"annotations": first}}
    assert gang(lws(3), 0, 1, [sibling], now=2000.0) == first
    assert gang(lws(3), 1, 0, [], now=1000.0) != first


def test_a_leader_that_must_be_ready_first_has_room_for_its_workers() -> None:
    waiting = lws(3, startupPolicy="LeaderReady")
    asked = {"requests": {"cpu": "2"}}
    worker = waiting["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    worker["spec"]["containers"][0]["resources"] = asked
    leader = gang(waiting, 0, 0, [], 1.0)
    assert leader["slurm.orlop.dev/gang-size"] == "1"
    (later,) = later_of(leader["slurm.orlop.dev/gang-room"])
    assert later.count == 2
    assert later.template["spec"]["containers"][0]["resources"] == asked
    follower = gang(waiting, 0, 1, [{"metadata": {"annotations": leader}}], 2.0)
    assert follower["slurm.orlop.dev/gang"] == leader["slurm.orlop.dev/gang"]
    assert follower["slurm.orlop.dev/gang-size"] == "3", "without its leader it starts nothing"
    assert "slurm.orlop.dev/gang-room" not in follower
    assert gang(lws(1, startupPolicy="LeaderReady"), 0, 0, [], 1.0) == {}


def groups_of(
    made: Obj, *changes: tuple[int, int, dict[str, Any]], of: Obj | None = None
) -> Groups:
    """All pods of a set, ready, but for what is said of some."""
    pods = []
    for group in range(made["spec"]["replicas"]):
        for worker in range(made["spec"]["leaderWorkerTemplate"]["size"]):
            pod = pod_for(of or made, group, worker, {})
            ready = {"type": "Ready", "status": "True"}
            pod["status"] = {"phase": "Running", "conditions": [ready]}
            for at_group, at_worker, change in changes:
                if (at_group, at_worker) == (group, worker):
                    pod["status"] |= change.get("status", {})
                    pod["metadata"] |= change.get("metadata", {})
            pods.append(pod)
    return Groups(made, pods)


def names(pods: list[Obj]) -> list[str]:
    return sorted(meta(pod)["name"] for pod in pods)


RESTARTED = {"status": {"containerStatuses": [{"restartCount": 1}]}}
FAILED = {"status": {"phase": "Failed", "conditions": []}}
DELETING = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
LOSSES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "a container restarted": ("RecreateGroupOnPodRestart", RESTARTED, ["s-1", "s-1-1"]),
    "a pod failed": ("RecreateGroupOnPodRestart", FAILED, ["s-1", "s-1-1"]),
    "a pod goes": ("RecreateGroupOnPodRestart", DELETING, ["s-1"]),
    "a pod failed, on its own": ("None", FAILED, ["s-1-1"]),
    "a container restarted, on its own": ("None", RESTARTED, []),
    "after all had started": ("RecreateGroupAfterStart", RESTARTED, ["s-1", "s-1-1"]),
}


@pytest.mark.parametrize(("policy", "change", "wanted"), LOSSES.values(), ids=LOSSES)
def test_who_goes_when_one_is_lost(policy: str, change: dict[str, Any], wanted: list[str]) -> None:
    made = lws(template={"restartPolicy": policy})
    todo = plan(groups_of(made, (1, 1, change)))
    assert names(todo.delete) == wanted
    assert todo.create == []


def test_before_all_have_started_a_restart_may_be_let_be() -> None:
    made = lws(template={"restartPolicy": "RecreateGroupAfterStart"})
    pending = {"status": {"phase": "Pending", "conditions": []}}
    assert plan(groups_of(made, (1, 1, RESTARTED), (1, 0, pending))).delete == []


def test_a_pod_that_has_gone_takes_its_group_with_it() -> None:
    made = lws()
    groups = groups_of(made)
    del groups.by_group[0][1]
    assert plan(groups).create == [(0, 1)]
    assert names(plan(groups, frozenset({0})).delete) == ["s-0"]


UPDATES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["s-2", "s-2-1"]),
    ({"maxUnavailable": 2}, ["s-1", "s-1-1", "s-2", "s-2-1"]),
    ({"maxUnavailable": "67%"}, ["s-1", "s-1-1", "s-2", "s-2-1"]),
    ({"partition": 3}, []),
    ({"maxUnavailable": 0, "maxSurge": 1}, []),
]


@pytest.mark.parametrize(("configuration", "wanted"), UPDATES)
def test_a_new_template_comes_to_the_last_groups_first(
    configuration: dict[str, Any], wanted: list[str]
) -> None:
    old, new = lws(replicas=3), lws(replicas=3)
    new["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["image"] = "new"
    new["spec"]["rolloutStrategy"] = {"rollingUpdateConfiguration": configuration}
    todo = plan(groups_of(new, of=old))
    assert names(todo.delete) == wanted
    surge = configuration.get("maxSurge", 0)
    assert todo.create == ([(3, 0), (3, 1)] if surge else [])


def test_workers_may_wait_until_their_leader_is_ready() -> None:
    made = lws(startupPolicy="LeaderReady", replicas=1)
    assert plan(Groups(made, [])).create == [(0, 0)]
    groups = groups_of(made)
    del groups.by_group[0][1]
    assert plan(groups).create == [(0, 1)]
    groups.by_group[0][0]["status"]["conditions"] = []
    assert plan(groups).create == []


def test_the_status_counts_groups() -> None:
    status = observe(groups_of(lws(replicas=3), (2, 1, FAILED)), 0.0)
    counts = (status["replicas"], status["readyReplicas"], status["updatedReplicas"])
    assert counts == (3, 2, 3)
    said = {one["type"]: one["status"] for one in status["conditions"]}
    assert said == {"Available": "False", "Progressing": "True"}
    assert status["hpaPodSelector"] == f"{KEY}worker-index=0,{KEY}name=s"


# In the world


def parts(cluster: World) -> list[Any]:
    manifests = {LEADER_WORKER_SET.resource: definitions()[LEADER_WORKER_SET.resource]}
    api = cluster.api
    return [
        lambda informers: BundledKinds(api, informers, manifests),
        lambda informers: RunWhileInstalled(
            informers, [LEADER_WORKER_SET.resource], lambda: [LeaderWorkerSets(api, informers)]
        ),
        lambda informers: Kubelet(api, informers, fate=lambda pod: None),
    ]


async def made(cluster: World, annotations: dict[str, str] | None = None, **fields: Any) -> None:
    wanted = lws(**fields)
    wanted["metadata"] = {"name": "s", "annotations": annotations or {}}

    async def create() -> None:
        await cluster.create(LEADER_WORKER_SET, wanted)

    await eventually(create, "the kind is served")


async def ready(cluster: World, groups: int) -> None:
    found = await cluster.get(LEADER_WORKER_SET, "s")
    assert found["status"]["readyReplicas"] == found["status"]["replicas"] == groups
    assert found["status"]["observedGeneration"] == meta(found)["generation"]


async def test_groups_come_and_go_as_they_are_scaled(cluster: World) -> None:
    async with cluster.running(*parts(cluster)):
        await made(cluster)
        await eventually(lambda: ready(cluster, 2))
        assert names(await cluster.list(POD)) == ["s-0", "s-0-1", "s-1", "s-1-1"]
        assert await cluster.find(SERVICE, "s") is not None
        scale = {"spec": {"replicas": 1}}
        await cluster.patch(LEADER_WORKER_SET, "s", scale, subresource="scale")
        await eventually(lambda: ready(cluster, 1))
        assert names(await cluster.list(POD)) == ["s-0", "s-0-1"]


async def test_a_deleted_worker_has_its_group_made_again(cluster: World) -> None:
    async with cluster.running(*parts(cluster)):
        await made(cluster)
        await eventually(lambda: ready(cluster, 2))
        before = {meta(pod)["name"]: meta(pod)["uid"] for pod in await cluster.list(POD)}
        gone = await cluster.get(POD, "s-0-1")
        await cluster.api.delete(POD, key_of(gone), grace=0)

        async def is_new() -> None:
            now = {meta(pod)["name"]: meta(pod)["uid"] for pod in await cluster.list(POD)}
            same = {name for name in before if now[name] == before[name]}
            assert same == {"s-1", "s-1-1"}

        await eventually(is_new)
        await eventually(lambda: ready(cluster, 2))


async def test_a_new_template_is_rolled_out(cluster: World) -> None:
    async with cluster.running(*parts(cluster)):
        await made(cluster)
        await eventually(lambda: ready(cluster, 2))
        worker = {"spec": {"containers": [{"name": "main", "image": "new"}]}}
        patch = {"spec": {"leaderWorkerTemplate": {"workerTemplate": worker}}}
        await cluster.patch(LEADER_WORKER_SET, "s", patch)

        async def is_rolled() -> None:
            images = {pod["spec"]["containers"][0]["image"] for pod in await cluster.list(POD)}
            assert images == {"new"}
            await ready(cluster, 2)

        await eventually(is_rolled)
        await stays(is_rolled)


def test_names() -> None:
    assert [pod_name(lws(), 3, worker) for worker in (0, 2)] == ["s-3", "s-3-2"]


CLAIM = {
    "metadata": {"name": "data", "labels": {"mine": "too"}},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
}


def test_each_pod_mounts_a_claim_of_its_own() -> None:
    """In the place of a volume of the same name."""
    worker = {"name": "main", "image": "worker", "volumeMounts": [{"name": "data"}]}
    spec = {"containers": [worker], "volumes": [{"name": "data", "emptyDir": {}}, {"name": "b"}]}
    made = lws(template={"volumeClaimTemplates": [CLAIM], "workerTemplate": {"spec": spec}})
    volumes = {one["name"]: one for one in pod_for(made, 1, 1, {})["spec"]["volumes"]}
    assert volumes["data"]["persistentVolumeClaim"]["claimName"] == "data-s-1-1"
    assert set(volumes) == {"data", "b"}


def test_what_becomes_of_claims_is_no_new_revision() -> None:
    policy = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}
    assert revision(lws()) == revision(lws(template=policy))
    assert revision(lws()) != revision(lws(template={"volumeClaimTemplates": [CLAIM]}))


def test_pods_are_told_of_the_parts_of_their_group() -> None:
    policy = {"subGroupPolicyType": "LeaderWorker", "subGroupSize": 2}
    found = annotations_of(pod_for(lws(4, template={"subGroupPolicy": policy}), 0, 1, {}))
    assert found[KEY + "subgroup-size"] == "2"
    assert found[KEY + "subgroup-policy-type"] == "LeaderWorker"


def test_an_earlier_annotation_means_a_restart_policy() -> None:
    made = lws()
    assert restart_policy(made) == "RecreateGroupOnPodRestart"
    made["metadata"]["annotations"] = {KEY + "experimental-recreate-group-after-start": ""}
    assert restart_policy(made) == "RecreateGroupAfterStart"


RETENTIONS = [
    ({}, {"data-s-0", "data-s-0-1", "data-s-1", "data-s-1-1"}, False),
    ({"whenScaled": "Delete"}, {"data-s-0", "data-s-0-1"}, False),
    ({"whenDeleted": "Delete"}, {"data-s-0", "data-s-0-1", "data-s-1", "data-s-1-1"}, True),
]


@pytest.mark.parametrize(("policy", "left", "is_tied"), RETENTIONS)
async def test_claims_stay_or_go_as_the_set_says(
    cluster: World, policy: Obj, left: set[str], is_tied: bool
) -> None:
    template = {"volumeClaimTemplates": [CLAIM], "persistentVolumeClaimRetentionPolicy": policy}
    async with cluster.running(*parts(cluster)):
        await made(cluster, template=template)
        await eventually(lambda: ready(cluster, 2))
        scale = {"spec": {"replicas": 1}}
        await cluster.patch(LEADER_WORKER_SET, "s", scale, subresource="scale")
        await eventually(lambda: ready(cluster, 1))

        async def is_so() -> None:
            claims = await cluster.list(PERSISTENT_VOLUME_CLAIM)
            # One that is protected waits for a controller that is not here.
            there = [one for one in claims if "deletionTimestamp" not in meta(one)]
            assert set(names(there)) == left
            assert {bool(meta(one).get("ownerReferences")) for one in there} == {is_tied}
            assert {labels_of(one)["mine"] for one in there} == {"too"}

        await eventually(is_so)


async def test_what_is_not_honoured_is_told(cluster: World) -> None:
    async with cluster.running(*parts(cluster)):
        await made(cluster, {KEY + "exclusive-topology": "rack"})

        async def is_told() -> None:
            (told,) = [e for e in await cluster.list(EVENT) if e["reason"] == "NotSupported"]
            assert "slurm.orlop.dev/exclusive" in told["message"]

        await eventually(is_told)
