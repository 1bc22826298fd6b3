"""Claims that pods mount stay until the last of these pods is gone."""

from __future__ import annotations

from orlop.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD
from orlop.api.objects import Key, is_deleting, meta
from orlop.controllers.storage.storage_protection import ClaimProtection, VolumeProtection
from tests.controllers.storage_objects import a_claim, a_volume, add
from tests.controllers.world import World, eventually, stays

CLAIM = Key("default", "data")


def parts(cluster: World):
    return [
        lambda informers: ClaimProtection(cluster.api, informers),
        lambda informers: VolumeProtection(cluster.api, informers),
    ]


def pod(**spec) -> dict:
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    containers = [{"name": "main", "image": "busybox"}]
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": containers, "volumes": volumes, **spec},
    }


async def test_claims_and_volumes_are_made_with_their_finalizer(cluster):
    await add(cluster, a_claim(), a_volume())
    claim = await cluster.get(PERSISTENT_VOLUME_CLAIM, "data")
    volume = await cluster.get(PERSISTENT_VOLUME, "pv")
    assert meta(claim)["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert meta(volume)["finalizers"] == ["kubernetes.io/pv-protection"]


async def test_a_claim_in_use_goes_with_the_pod(cluster):
    await add(cluster, a_claim())
    await cluster.create(POD, pod(nodeName="n1"))
    async with cluster.running(*parts(cluster)):
        await cluster.api.delete(PERSISTENT_VOLUME_CLAIM, CLAIM)

        async def still_there():
            return is_deleting(await cluster.get(PERSISTENT_VOLUME_CLAIM, "data"))

        await stays(still_there, 0.2)
        await cluster.api.delete(POD, Key("default", "p"), grace=0)

        async def gone():
            return await cluster.find(PERSISTENT_VOLUME_CLAIM, "data") is None

        await eventually(gone)


async def test_a_pod_without_a_node_holds_nothing(cluster):
    await add(cluster, a_claim())
    await cluster.create(POD, pod())
    async with cluster.running(*parts(cluster)):
        await cluster.api.delete(PERSISTENT_VOLUME_CLAIM, CLAIM)

        async def gone():
            return await cluster.find(PERSISTENT_VOLUME_CLAIM, "data") is None

        await eventually(gone)


async def test_a_finalizer_that_somebody_took_off_comes_back(cluster):
    await add(cluster, a_claim())
    async with cluster.running(*parts(cluster)):
        await cluster.patch(PERSISTENT_VOLUME_CLAIM, "data", {"metadata": {"finalizers": None}})

        async def back():
            claim = await cluster.get(PERSISTENT_VOLUME_CLAIM, "data")
            assert meta(claim)["finalizers"] == ["kubernetes.io/pvc-protection"]

        await eventually(back)
