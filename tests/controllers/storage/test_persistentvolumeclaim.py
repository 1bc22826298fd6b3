"""Claims find their volumes, keep them, and say why they have none."""

from __future__ import annotations

import pytest

from orlop import errors
from orlop.api.kinds import EVENT, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from orlop.api.objects import Key, annotations_of, meta
from orlop.controllers.storage.persistentvolume import Volumes
from orlop.controllers.storage.persistentvolumeclaim import VolumeClaims
from orlop.controllers.storage.storage_protection import ClaimProtection, VolumeProtection
from tests.controllers.storage_objects import (
    DEFAULT,
    a_claim,
    a_class,
    a_volume,
    add,
    bound_to,
    phase,
)
from tests.controllers.world import World, eventually, stays

RWX = ["ReadWriteMany"]


def parts(cluster: World):
    kinds = (VolumeClaims, Volumes, ClaimProtection, VolumeProtection)
    return [lambda informers, kind=kind: kind(cluster.api, informers) for kind in kinds]


async def told(cluster: World, reason: str) -> str:
    found = [event for event in await cluster.list(EVENT) if event["reason"] == reason]
    assert found
    return str(found[0]["message"])


@pytest.mark.parametrize(
    ("volumes", "claim", "chosen"),
    [
        pytest.param(
            [a_volume("big", "9Gi"), a_volume("fits", "2Gi"), a_volume("small", "1Mi")],
            a_claim(),
            "fits",
            id="the smallest that is large enough",
        ),
        pytest.param(
            [a_volume("one"), a_volume("many", "3Gi", accessModes=["ReadWriteOnce", *RWX])],
            a_claim(accessModes=RWX),
            "many",
            id="one with all its modes",
        ),
        pytest.param(
            [a_volume("a"), a_volume("b", "5Gi", metadata={"labels": {"disk": "ssd"}})],
            a_claim(selector={"matchLabels": {"disk": "ssd"}}),
            "b",
            id="one that its selector matches",
        ),
        pytest.param(
            [a_volume("none"), a_volume("named", "4Gi", storageClassName="slow")],
            a_claim(storageClassName="slow"),
            "named",
            id="one of its class, which need not exist",
        ),
        pytest.param(
            [a_volume("a"), a_volume("b", "7Gi")],
            a_claim(volumeName="b"),
            "b",
            id="the one it names",
        ),
        pytest.param(
            [
                a_volume("a"),
                a_volume("kept", "7Gi", claimRef={"namespace": "default", "name": "data"}),
            ],
            a_claim(),
            "kept",
            id="the one that names it",
        ),
        pytest.param(
            [a_volume("block", volumeMode="Block"), a_volume("files", "2Gi")],
            a_claim(),
            "files",
            id="one of its volume mode",
        ),
    ],
)
async def test_a_claim_is_bound_to(cluster, volumes, claim, chosen):
    await add(cluster, *volumes, claim)
    async with cluster.running(*parts(cluster)):
        assert await eventually(lambda: bound_to(cluster)) == chosen
        status = (await cluster.get(PERSISTENT_VOLUME_CLAIM, "data"))["status"]
        volume = (await cluster.get(PERSISTENT_VOLUME, chosen))["spec"]
        assert status["capacity"] == volume["capacity"]
        assert status["accessModes"] == volume["accessModes"]
        for other in volumes:
            if meta(other)["name"] != chosen:
                await eventually(lambda o=other: is_phase(cluster, meta(o)["name"], "Available"))


async def is_phase(cluster: World, volume: str, wanted: str) -> None:
    assert await phase(cluster, volume, PERSISTENT_VOLUME) == wanted


@pytest.mark.parametrize(
    ("volume", "claim", "reason", "words"),
    [
        pytest.param(
            a_volume(size="1Mi"),
            a_claim(),
            "FailedBinding",
            "no persistent volumes available for this claim and no storage class is set",
            id="none is large enough",
        ),
        pytest.param(
            a_volume(size="1Mi"),
            a_claim(volumeName="pv"),
            "VolumeMismatch",
            'Cannot bind to requested volume "pv": requested PV is too small',
            id="the one it names is too small",
        ),
        pytest.param(
            a_volume(),
            a_claim(volumeName="pv", storageClassName="x"),
            "VolumeMismatch",
            'Cannot bind to requested volume "pv": storageClassName does not match',
            id="the one it names is of another class",
        ),
        pytest.param(
            a_volume(claimRef={"namespace": "default", "name": "other", "uid": "u"}),
            a_claim(volumeName="pv"),
            "FailedBinding",
            'volume "pv" already bound to a different claim.',
            id="the one it names has another claim",
        ),
        pytest.param(
            a_volume(),
            a_claim(storageClassName="gone"),
            "ProvisioningFailed",
            'storageclass.storage.k8s.io "gone" not found',
            id="its class does not exist",
        ),
    ],
)
async def test_a_claim_without_a_volume_says_why(cluster, volume, claim, reason, words):
    await add(cluster, volume, claim)
    async with cluster.running(*parts(cluster)):
        assert await eventually(lambda: told(cluster, reason)) == words
        assert await phase(cluster) == "Pending"


async def test_a_volume_that_comes_later_is_taken(cluster):
    await add(cluster, a_claim())
    async with cluster.running(*parts(cluster)):
        await eventually(lambda: told(cluster, "FailedBinding"))
        await add(cluster, a_volume())
        assert await eventually(lambda: bound_to(cluster)) == "pv"


async def test_many_claims_at_once_share_no_volume(cluster):
    await add(cluster, *(a_volume(f"v{n}") for n in range(20)))
    await add(cluster, *(a_claim(f"c{n}") for n in range(20)))
    async with cluster.running(*parts(cluster)):
        for number in range(20):
            await eventually(lambda n=number: bound_to(cluster, f"c{n}"))
        found = {await bound_to(cluster, f"c{n}") for n in range(20)}
    assert len(found) == 20


async def test_the_default_class_is_given_at_once_and_to_claims_older_than_it(cluster):
    await add(cluster, a_claim(storageClassName=None), a_claim("none", storageClassName=""))
    async with cluster.running(*parts(cluster)):
        await eventually(lambda: told(cluster, "FailedBinding"))
        await add(
            cluster, a_class("std", annotations=DEFAULT), a_claim("new", storageClassName=None)
        )
        new = await cluster.get(PERSISTENT_VOLUME_CLAIM, "new")
        assert new["spec"]["storageClassName"] == "std"

        async def old_has_it():
            old = await cluster.get(PERSISTENT_VOLUME_CLAIM, "data")
            assert old["spec"]["storageClassName"] == "std"
            assert annotations_of(old)["volume.kubernetes.io/storage-provisioner"]

        await eventually(old_has_it)
        none = await cluster.get(PERSISTENT_VOLUME_CLAIM, "none")
        assert none["spec"]["storageClassName"] == ""


async def test_a_claim_that_waits_for_its_first_consumer_says_so(cluster):
    await add(cluster, a_class(volumeBindingMode="WaitForFirstConsumer"))
    await add(cluster, a_volume(storageClassName="fast"), a_claim(storageClassName="fast"))
    async with cluster.running(*parts(cluster)):
        words = await eventually(lambda: told(cluster, "WaitForFirstConsumer"))
        assert words == "waiting for first consumer to be created before binding"
        assert await phase(cluster) == "Pending"


async def test_a_claim_that_loses_its_volume_is_lost(cluster):
    await add(cluster, a_volume(), a_claim())
    async with cluster.running(*parts(cluster)):
        await eventually(lambda: bound_to(cluster))
        await cluster.api.delete(PERSISTENT_VOLUME, Key("", "pv"))
        await stays(lambda: is_phase(cluster, "pv", "Bound"), 0.1)  # it is protected
        await cluster.api.patch(PERSISTENT_VOLUME, Key("", "pv"), {"metadata": {"finalizers": []}})
        words = await eventually(lambda: told(cluster, "ClaimLost"))
        assert words == "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        assert await phase(cluster) == "Lost"


@pytest.mark.parametrize(
    ("policy", "ends", "reason"),
    [
        ("Retain", "Released", None),
        ("Recycle", "Failed", "VolumeFailedRecycle"),
        ("Delete", "Failed", "VolumeFailedDelete"),
    ],
)
async def test_a_volume_whose_claim_is_gone_is_not_given_to_another(cluster, policy, ends, reason):
    await add(cluster, a_volume(persistentVolumeReclaimPolicy=policy), a_claim())
    async with cluster.running(*parts(cluster)):
        await eventually(lambda: bound_to(cluster))
        await cluster.api.delete(PERSISTENT_VOLUME_CLAIM, Key("default", "data"))
        await eventually(lambda: is_phase(cluster, "pv", ends))
        if reason:
            await eventually(lambda: told(cluster, reason))
        await add(cluster, a_claim())
        await eventually(lambda: told(cluster, "FailedBinding"))
        assert await phase(cluster) == "Pending"
        # A user who takes the old claim off it gives it free again.
        await cluster.api.patch(PERSISTENT_VOLUME, Key("", "pv"), {"spec": {"claimRef": None}})
        assert await eventually(lambda: bound_to(cluster)) == "pv"


@pytest.mark.parametrize(
    ("grown", "words"),
    [
        (True, "Only bound persistent volume claims can be expanded"),
        (False, "only dynamically provisioned pvc can be resized"),
    ],
    ids=["before it is bound", "of a class that cannot"],
)
async def test_a_claim_may_not_grow(cluster, grown, words):
    await add(cluster, a_class(), a_claim(storageClassName="fast"))
    if not grown:
        status = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
        await cluster.patch(PERSISTENT_VOLUME_CLAIM, "data", status, subresource="status")
    change = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    with pytest.raises(errors.Forbidden, match=words):
        await cluster.patch(PERSISTENT_VOLUME_CLAIM, "data", change)


async def test_a_claim_may_not_ask_for_less_than_it_has(cluster):
    await add(cluster, a_claim(size="3Gi"))
    status = {"status": {"phase": "Bound", "capacity": {"storage": "3Gi"}}}
    await cluster.patch(PERSISTENT_VOLUME_CLAIM, "data", status, subresource="status")
    with pytest.raises(errors.Invalid, match=r"can not be less than status\.capacity"):
        await cluster.patch(
            PERSISTENT_VOLUME_CLAIM,
            "data",
            {"spec": {"resources": {"requests": {"storage": "2Gi"}}}},
        )


async def test_of_several_defaults_the_newest_counts(cluster):
    await add(cluster, a_class("old", annotations=DEFAULT))
    await cluster.api.patch(
        STORAGE_CLASS, Key("", "old"), {"metadata": {"labels": {"touched": "later"}}}
    )
    await add(cluster, a_class("a-tie", annotations=DEFAULT))
    await add(cluster, a_claim(storageClassName=None))
    # Made within one second: then the first by name.
    chosen = (await cluster.get(PERSISTENT_VOLUME_CLAIM, "data"))["spec"]["storageClassName"]
    assert chosen == "a-tie"


@pytest.mark.parametrize("done", ["volume", "both", "all but the status"])
async def test_a_binding_that_was_cut_short_is_finished(cluster, done):
    """Whoever bound them was killed on the way."""
    await add(cluster, a_volume(), a_claim())
    claim = await cluster.get(PERSISTENT_VOLUME_CLAIM, "data")
    reference = {"namespace": "default", "name": "data", "uid": meta(claim)["uid"]}
    bound = {"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}}
    change = {**bound, "spec": {"claimRef": reference}}
    await cluster.api.patch(PERSISTENT_VOLUME, Key("", "pv"), change)
    if done != "volume":
        await cluster.patch(PERSISTENT_VOLUME_CLAIM, "data", {"spec": {"volumeName": "pv"}})
    if done == "all but the status":
        mark = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
        await cluster.patch(PERSISTENT_VOLUME_CLAIM, "data", mark)
    await add(cluster, a_volume("another"))
    async with cluster.running(*parts(cluster)):
        assert await eventually(lambda: bound_to(cluster)) == "pv"
        await eventually(lambda: is_phase(cluster, "another", "Available"))


async def test_a_lost_claim_is_found_again_with_its_volume(cluster):
    await add(cluster, a_volume(), a_claim())
    async with cluster.running(*parts(cluster)):
        await eventually(lambda: bound_to(cluster))
        await cluster.api.delete(PERSISTENT_VOLUME, Key("", "pv"))
        await cluster.api.patch(PERSISTENT_VOLUME, Key("", "pv"), {"metadata": {"finalizers": []}})
        await eventually(lambda: told(cluster, "ClaimLost"))
        await add(cluster, a_volume())
        assert await eventually(lambda: bound_to(cluster)) == "pv"
