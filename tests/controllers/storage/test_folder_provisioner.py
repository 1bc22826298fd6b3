"""Claims get folders, grow, and lose them again as their class says."""

from __future__ import annotations

from pathlib import Path

import pytest

from orlop.api.kinds import EVENT, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from orlop.api.objects import Key, annotations_of, meta
from orlop.client.storage import PROVISIONED_BY
from orlop.controllers.storage.folder_provisioner import (
    FolderDeleter,
    FolderProvisioner,
    class_named,
    folders_in,
)
from orlop.controllers.storage.persistentvolume import Volumes
from orlop.controllers.storage.persistentvolumeclaim import VolumeClaims
from orlop.controllers.storage.storage_protection import ClaimProtection, VolumeProtection
from orlop.wellknown import FOLDER_PROVISIONER
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


def foreign(root: Path, name: str) -> None:
    raise AssertionError("nothing foreign here")


def parts(cluster: World, tmp_path: Path, scratch: str = ""):
    folders = folders_in(tmp_path / "volumes", scratch, "c1", foreign)
    plain = (VolumeClaims, Volumes, ClaimProtection, VolumeProtection)
    return [
        *(lambda informers, kind=kind: kind(cluster.api, informers) for kind in plain),
        lambda informers: FolderProvisioner(cluster.api, informers, folders),
        lambda informers: FolderDeleter(cluster.api, informers, folders),
    ]


async def folder_of(cluster: World, claim: str = "data") -> Path:
    volume = await cluster.get(PERSISTENT_VOLUME, await bound_to(cluster, claim))
    return Path(volume["spec"]["hostPath"]["path"])


async def reasons(cluster: World) -> list[str]:
    return [event["reason"] for event in await cluster.list(EVENT)]


async def volumes_are_gone(cluster: World) -> bool:
    return not await cluster.list(PERSISTENT_VOLUME)


async def test_the_classes_of_the_site_are_there_and_home_is_the_default(cluster, tmp_path):
    async with cluster.running(*parts(cluster, tmp_path, str(tmp_path / "fast"))):

        async def both():
            found = {meta(one)["name"]: one for one in await cluster.list(STORAGE_CLASS)}
            assert sorted(found) == ["home", "scratch"]
            assert annotations_of(found["home"]) == DEFAULT
            assert not annotations_of(found["scratch"])

        await eventually(both)


async def test_a_default_of_the_users_own_stays_the_only_one(cluster, tmp_path):
    await add(cluster, a_class("mine", annotations=DEFAULT))
    async with cluster.running(*parts(cluster, tmp_path)):
        home = await eventually(lambda: cluster.get(STORAGE_CLASS, "home"))
    assert not annotations_of(home)


async def test_a_claim_gets_a_folder_and_deleting_it_removes_the_data(cluster, tmp_path):
    async with cluster.running(*parts(cluster, tmp_path)):
        await eventually(lambda: cluster.get(STORAGE_CLASS, "home"))
        await add(cluster, a_claim(storageClassName=None, accessModes=["ReadWriteMany"]))
        path = await eventually(lambda: folder_of(cluster))
        assert path.is_dir()
        assert path.is_relative_to(tmp_path / "volumes")
        (path / "file").write_text("data")
        told = await reasons(cluster)
        for reason in ("ExternalProvisioning", "Provisioning", "ProvisioningSucceeded"):
            assert reason in told
        await cluster.api.delete(PERSISTENT_VOLUME_CLAIM, Key("default", "data"))
        await eventually(lambda: volumes_are_gone(cluster))
        assert not path.exists()


async def test_retain_keeps_volume_and_data(cluster, tmp_path):
    keep = class_named("home", is_default=False) | {"reclaimPolicy": "Retain"}
    await add(cluster, keep, a_claim(storageClassName="home"))
    async with cluster.running(*parts(cluster, tmp_path)):
        path = await eventually(lambda: folder_of(cluster))
        name = await bound_to(cluster)
        await cluster.api.delete(PERSISTENT_VOLUME_CLAIM, Key("default", "data"))

        async def released():
            assert await phase(cluster, name, PERSISTENT_VOLUME) == "Released"

        await eventually(released)
        await stays(released, 0.2)
        await cluster.api.delete(PERSISTENT_VOLUME, Key("", name))
        await eventually(lambda: volumes_are_gone(cluster))
        assert path.is_dir()


class Later:
    """An API that knows of volumes what caches have not seen yet."""

    def __init__(self, cluster: World, **fields) -> None:
        self._cluster = cluster
        self._fields = fields
        self.asked = 0

    def __getattr__(self, name):
        return getattr(self._cluster.api, name)

    async def get(self, kind, key):
        found = await self._cluster.api.get(kind, key)
        self.asked += 1
        return {**found, **{name: found.get(name, {}) | new for name, new in self._fields.items()}}


@pytest.mark.parametrize(
    "meanwhile",
    [
        {"spec": {"persistentVolumeReclaimPolicy": "Retain"}},
        {"spec": {"claimRef": None}},
        {"status": {"phase": "Bound"}},
    ],
    ids=["retained", "freed", "bound anew"],
)
async def test_what_was_taken_back_just_now_keeps_its_data(cluster, tmp_path, meanwhile):
    folders = folders_in(tmp_path / "volumes", "", "c1", foreign)
    path = tmp_path / "volumes" / "default_data_pv" / "data"
    folders["home"].create(path)
    policy = {"persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": str(path)}}
    claim = {"namespace": "default", "name": "data", "uid": "gone"}
    metadata = {"annotations": {PROVISIONED_BY: FOLDER_PROVISIONER}}
    await add(cluster, a_volume("pv", metadata=metadata, claimRef=claim, **policy))
    released = {"status": {"phase": "Released"}}
    await cluster.api.patch(PERSISTENT_VOLUME, Key("", "pv"), released, subresource="status")
    api = Later(cluster, **meanwhile)
    async with cluster.running(lambda informers: FolderDeleter(api, informers, folders)):

        async def is_looked_at():
            return api.asked > 0

        await eventually(is_looked_at)
        await stays(lambda: cluster.get(PERSISTENT_VOLUME, "pv", ""), 0.2)
    assert path.is_dir()


async def test_a_volume_deleted_before_its_claim_goes_after_it_with_its_data(cluster, tmp_path):
    await add(cluster, class_named("home", is_default=False), a_claim(storageClassName="home"))
    async with cluster.running(*parts(cluster, tmp_path)):
        path = await eventually(lambda: folder_of(cluster))
        await cluster.api.delete(PERSISTENT_VOLUME, Key("", await bound_to(cluster)))
        assert path.is_dir()
        await cluster.api.delete(PERSISTENT_VOLUME_CLAIM, Key("default", "data"))
        await eventually(lambda: volumes_are_gone(cluster))
        assert not path.exists()


async def test_a_claim_grows(cluster, tmp_path):
    await add(cluster, class_named("home", is_default=False), a_claim(storageClassName="home"))
    async with cluster.running(*parts(cluster, tmp_path)):
        name = await eventually(lambda: bound_to(cluster))
        change = {"spec": {"resources": {"requests": {"storage": "5Gi"}}}}
        await cluster.patch(PERSISTENT_VOLUME_CLAIM, "data", change)

        async def grown():
            claim = await cluster.get(PERSISTENT_VOLUME_CLAIM, "data")
            volume = await cluster.get(PERSISTENT_VOLUME, name)
            assert claim["status"]["capacity"] == volume["spec"]["capacity"] == {"storage": "5Gi"}
            assert not claim["status"].get("conditions")
            assert "VolumeResizeSuccessful" in await reasons(cluster)

        await eventually(grown)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"volumeMode": "Block"}, "no block device"),
        ({"selector": {"matchLabels": {"a": "b"}}}, "Selector is not supported"),
        ({"dataSource": {"kind": "PersistentVolumeClaim", "name": "x"}}, "dataSource"),
    ],
    ids=["block", "selector", "source"],
)
async def test_what_a_folder_cannot_be_is_refused(cluster, tmp_path, spec, words):
    await add(cluster, class_named("home", is_default=False))
    await add(cluster, a_claim(storageClassName="home", **spec))
    async with cluster.running(*parts(cluster, tmp_path)):

        async def told():
            events = await cluster.list(EVENT)
            found = [one["message"] for one in events if one["reason"] == "ProvisioningFailed"]
            assert any(words in message for message in found)

        await eventually(told)
        assert await phase(cluster) == "Pending"


@pytest.mark.parametrize("inside", [False, True], ids=["elsewhere", "a link in the root"])
async def test_a_volume_that_leads_out_of_the_root_is_never_removed(cluster, tmp_path, inside):
    precious = tmp_path / "precious"
    (precious / "data").mkdir(parents=True)
    path = precious / "data"
    if inside:
        (tmp_path / "volumes").mkdir()
        (tmp_path / "volumes" / "link").symlink_to(precious)
        path = tmp_path / "volumes" / "link" / "data"
    metadata = {"annotations": {"pv.kubernetes.io/provisioned-by": "orlop.dev/folder"}}
    volume = a_volume(
        metadata=metadata, hostPath={"path": str(path)}, persistentVolumeReclaimPolicy="Delete"
    )
    await add(cluster, volume, a_claim())
    async with cluster.running(*parts(cluster, tmp_path)):
        await eventually(lambda: bound_to(cluster))
        await cluster.api.delete(PERSISTENT_VOLUME_CLAIM, Key("default", "data"))

        async def refused():
            assert "VolumeFailedDelete" in await reasons(cluster)
            assert await phase(cluster, "pv", PERSISTENT_VOLUME) == "Failed"

        await eventually(refused)
        assert (precious / "data").is_dir()
