"""Generic ephemeral volumes get their claims, and only their own."""

from __future__ import annotations

from orlop.api.kinds import EVENT, PERSISTENT_VOLUME_CLAIM, POD
from orlop.api.objects import controller_of, labels_of, uid_of
from orlop.controllers.storage.ephemeral_volume import EphemeralVolumes
from tests.controllers.storage_objects import a_claim, add
from tests.controllers.world import World, eventually


def pod() -> dict:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    template = {"metadata": {"labels": {"of": "template"}}, "spec": spec}
    volumes = [{"name": "tmp", "ephemeral": {"volumeClaimTemplate": template}}]
    containers = [{"name": "main", "image": "busybox"}]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers, "volumes": volumes}}


def part(cluster: World):
    return lambda informers: EphemeralVolumes(cluster.api, informers)


async def test_the_claim_is_the_pods_own(cluster):
    made = await cluster.create(POD, pod())
    async with cluster.running(part(cluster)):
        claim = await eventually(lambda: cluster.get(PERSISTENT_VOLUME_CLAIM, "p-tmp"))
    assert controller_of(claim)["uid"] == uid_of(made)
    assert labels_of(claim) == {"of": "template"}
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


async def test_a_claim_of_that_name_which_is_not_the_pods_is_left_alone(cluster):
    await add(cluster, a_claim("p-tmp"))
    await cluster.create(POD, pod())
    async with cluster.running(part(cluster)):

        async def told():
            said = [event["message"] for event in await cluster.list(EVENT)]
            assert any('PVC "default/p-tmp" was not created for pod' in one for one in said)

        await eventually(told)
        claim = await cluster.get(PERSISTENT_VOLUME_CLAIM, "p-tmp")
        assert controller_of(claim) is None
