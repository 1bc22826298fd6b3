"""Pods wait for their claims, go where their volumes are, and start the binding of some."""

from __future__ import annotations

import pytest

from orlop.api.kinds import PERSISTENT_VOLUME_CLAIM, POD
from orlop.api.objects import Key, annotations_of, condition_of
from orlop.controllers.storage.persistentvolume import Volumes
from orlop.controllers.storage.persistentvolumeclaim import VolumeClaims
from orlop.scheduler import Scheduler
from tests.controllers.storage_objects import a_claim, a_class, a_volume, add, bound_to
from tests.controllers.world import World, eventually
from tests.scheduler.nodes import a_node, a_pod
from tests.scheduler.test_scheduler import add_node, node_of

LATE = a_class("late", volumeBindingMode="WaitForFirstConsumer")
LOCAL = LATE | {"provisioner": "kubernetes.io/no-provisioner"}


def parts(cluster: World):
    kinds = (Scheduler, VolumeClaims, Volumes)
    return [lambda informers, kind=kind: kind(cluster.api, informers) for kind in kinds]


def user(name: str = "p", claim: str = "data") -> dict:
    pod = a_pod()
    pod["metadata"]["name"] = name
    pod["spec"]["volumes"] = [{"name": "d", "persistentVolumeClaim": {"claimName": claim}}]
    return pod


def only_on(node: str) -> dict:
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    return {"required": {"nodeSelectorTerms": [{"matchFields": fields}]}}


async def told(cluster: World, words: str, name: str = "p") -> None:
    async def is_told():
        condition = condition_of(await cluster.get(POD, name), "PodScheduled")
        assert condition["status"] == "False"
        assert words in condition["message"]

    await eventually(is_told)


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ([], 'persistentvolumeclaim "data" not found'),
        ([a_claim()], "pod has unbound immediate PersistentVolumeClaims"),
    ],
    ids=["no claim", "a claim without a volume"],
)
async def test_a_pod_waits_for_its_claim_and_goes_once_it_is_bound(cluster, claims, words):
    await add_node(cluster, a_node("main"))
    await add(cluster, *claims)
    async with cluster.running(*parts(cluster)):
        await cluster.create(POD, user())
        await told(cluster, f"0/1 nodes are available: {words}.")
        await add(cluster, a_volume(), *([] if claims else [a_claim()]))
        assert await eventually(lambda: node_of(cluster)) == "main"


async def test_a_pod_goes_where_its_volume_is(cluster):
    for name in ("alpha", "main"):
        await add_node(cluster, a_node(name, default=name == "main"))
    await add(cluster, a_volume(nodeAffinity=only_on("alpha")), a_claim())
    async with cluster.running(*parts(cluster)):
        await cluster.create(POD, user())
        assert await eventually(lambda: node_of(cluster)) == "alpha"


async def test_a_volume_that_no_node_reaches_is_told(cluster):
    await add_node(cluster, a_node("main"))
    await add(cluster, a_volume(nodeAffinity=only_on("elsewhere")), a_claim())
    async with cluster.running(*parts(cluster)):
        await cluster.create(POD, user())
        await told(cluster, "1 node(s) didn't match PersistentVolume's node affinity")


async def test_the_choice_of_a_node_starts_the_binding_of_a_claim_that_waited(cluster):
    await add_node(cluster, a_node("main"))
    await add(cluster, LATE, a_claim(storageClassName="late"))
    async with cluster.running(*parts(cluster)):
        await cluster.create(POD, user())

        async def chosen():
            claim = await cluster.get(PERSISTENT_VOLUME_CLAIM, "data")
            assert annotations_of(claim)["volume.kubernetes.io/selected-node"] == "main"
            assert "volume.kubernetes.io/storage-provisioner" in annotations_of(claim)

        await eventually(chosen)
        assert not (await cluster.get(POD, "p"))["spec"].get("nodeName")
        await add(cluster, a_volume(storageClassName="late"))  # as a provisioner would
        assert await eventually(lambda: node_of(cluster)) == "main"
        assert await eventually(lambda: bound_to(cluster)) == "pv"


async def test_a_volume_of_a_node_is_bound_with_the_pod_that_goes_there(cluster):
    for name in ("alpha", "main"):
        await add_node(cluster, a_node(name, default=name == "main"))
    volume = a_volume(storageClassName="late", nodeAffinity=only_on("alpha"))
    await add(cluster, LOCAL, volume, a_claim(storageClassName="late"))
    async with cluster.running(*parts(cluster)):
        await cluster.create(POD, user())
        assert await eventually(lambda: node_of(cluster)) == "alpha"
        assert await eventually(lambda: bound_to(cluster)) == "pv"


async def test_without_such_a_volume_the_pod_is_told(cluster):
    await add_node(cluster, a_node("main"))
    await add(cluster, LOCAL, a_claim(storageClassName="late"))
    async with cluster.running(*parts(cluster)):
        await cluster.create(POD, user())
        await told(cluster, "1 node(s) didn't find available persistent volumes to bind")


async def test_read_write_once_pod_is_for_one_pod_at_a_time(cluster):
    await add_node(cluster, a_node("main"))
    modes = ["ReadWriteOncePod"]
    await add(cluster, a_volume(accessModes=modes), a_claim(accessModes=modes))
    async with cluster.running(*parts(cluster)):
        await cluster.create(POD, user())
        await eventually(lambda: node_of(cluster))
        await cluster.create(POD, user("second"))
        await told(cluster, "ReadWriteOncePod access mode", "second")
        await cluster.api.delete(POD, Key("default", "p"), grace=0)
        assert await eventually(lambda: node_of(cluster, "second")) == "main"
