"""The next kind is a folder and a line: all that a made-up one brings holds, and goes with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from orlop import errors
from orlop.api.gangs import mark_of
from orlop.api.kinds import CLUSTER_ROLE, NAMESPACE, POD
from orlop.api.kinds import CUSTOM_RESOURCE_DEFINITION as DEFINITION
from orlop.api.objects import Obj
from orlop.api.schema import Schema
from orlop.apiserver import ApiServer, ServerOptions
from orlop.cli.commands import down
from orlop.client.clock import SystemClock
from orlop.client.informer import Informers
from orlop.controllers.accounts.clusterrole_aggregation import ClusterRoleAggregation
from orlop.extensions import registry
from orlop.extensions.extension import Host
from orlop.extensions.registry import (
    ENTRIES,
    Entry,
    Extensions,
    definitions,
    home_folders,
    unconfined,
)
from orlop.kubelet.start.dependencies import Dependencies
from orlop.kubelet.start.gangs import Gangs
from orlop.settings import Paths, Settings
from orlop.store import Store
from tests.controllers.world import Quota, World, eventually, stays
from tests.extensions.ropes.extension import ROPE

ROPES = Entry("tests.extensions.ropes", is_unconfined=True)
LISTED = (*ENTRIES, ROPES)
DEPENDENCY = "slurm.orlop.dev/dependency"


@pytest.fixture
def extensions() -> Iterator[Extensions]:
    made = Extensions(entries=LISTED)
    made.register_pod_references()
    yield made
    Extensions().register_pod_references()


@pytest.fixture
async def site(tmp_path: Path, schema: Schema, extensions: Extensions) -> AsyncIterator[World]:
    store = await Store.open(tmp_path / "state.db")
    options = ServerOptions(unconfined=unconfined(LISTED), roles=extensions.roles)
    server = ApiServer(store, schema=schema, options=options)
    await server.prepare()
    yield World(store, server, server.client("test", ["system:masters"]), Quota())
    await server.stop()
    await store.close()


class Together:
    """What the controller manager runs of some extensions."""

    def __init__(self, site: World, informers: Informers, extensions: Extensions) -> None:
        self._controllers = extensions.controllers(
            Host(
                client=lambda user: site.api,
                informers=informers,
                clock=SystemClock(),
                settings=Settings(),
                paths=Paths(Path("/home/none/.orlop")),
            )
        )

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for controller in self._controllers:
                group.create_task(controller.run())


def a_rope(name: str = "a", **spec: object) -> Obj:
    return {"metadata": {"name": name}, "spec": spec}


async def tied(site: World, name: str) -> Obj:
    found = await site.get(ROPE, name)
    assert found["status"]["tied"]
    return found


async def test_its_definition_is_installed_and_its_controller_runs(
    site: World, extensions: Extensions
) -> None:
    async with site.running(lambda informers: Together(site, informers, extensions)):
        await eventually(lambda: site.create(ROPE, a_rope()), within=60)
        await eventually(lambda: tied(site, "a"), within=60)


async def test_left_out_its_objects_stay_and_nothing_is_done_for_them(
    site: World, extensions: Extensions
) -> None:
    async with site.running(lambda informers: Together(site, informers, extensions)):
        await eventually(lambda: site.create(ROPE, a_rope()), within=60)
        await eventually(lambda: tied(site, "a"), within=60)
    less = Extensions([ROPE.resource], LISTED)
    less.register_pod_references()
    async with site.running(lambda informers: Together(site, informers, less)):
        assert (await site.get(ROPE, "a"))["status"]["tied"]
        await site.create(ROPE, a_rope("b"))

        async def untouched() -> None:
            assert "status" not in await site.get(ROPE, "b")

        await stays(untouched)
        # Others go on: a definition that went is not theirs to wait for.
        await eventually(lambda: site.get(DEFINITION, "jobsets.jobset.x-k8s.io"), within=60)
    assert mark_of(a_pod(labels={"rig.example/rope": "a"})) is None


async def test_left_out_it_is_not_installed(site: World) -> None:
    less = Extensions([ROPE.resource], LISTED)
    async with site.running(lambda informers: Together(site, informers, less)):
        await eventually(lambda: site.get(DEFINITION, "jobsets.jobset.x-k8s.io"), within=60)
        assert await site.find(DEFINITION, ROPE.resource) is None


def a_pod(**metadata: object) -> Obj:
    metadata = {"name": "p", "namespace": "default", "uid": "p", **metadata}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def test_what_runs_unconfined_is_for_privileged_namespaces(
    site: World, extensions: Extensions
) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    await site.create(NAMESPACE, {"metadata": {"name": "walled", "labels": labels}})
    await site.create(DEFINITION, definitions(LISTED)[ROPE.resource].document())
    await eventually(lambda: site.create(ROPE, a_rope()), within=60)
    with pytest.raises(errors.Forbidden, match="outside of any container"):
        await site.create(ROPE, a_rope(), "walled")


async def test_its_rules_are_in_the_roles_that_every_cluster_has(site: World) -> None:
    reads = {"verbs": ["get", "list", "watch"], "apiGroups": ["rig.example"]}
    reads["resources"] = ["ropes"]
    writes = {**reads, "verbs": ["create", "delete"]}
    names = ("view", "edit", "admin")
    before = {name: await site.get(CLUSTER_ROLE, name) for name in names}
    allowed = {
        name: [rule in one["rules"] for rule in (reads, writes)] for name, one in before.items()
    }
    assert allowed == {"view": [True, False], "edit": [True, True], "admin": [True, True]}
    async with site.running(lambda informers: ClusterRoleAggregation(site.api, informers)):
        await asyncio.sleep(0.3)  # they are sums already: nothing is to be written
    assert {name: await site.get(CLUSTER_ROLE, name) for name in names} == before


async def test_what_slurm_has_may_be_read_as_ever(site: World) -> None:
    found = await site.get(CLUSTER_ROLE, "system:aggregated-slurm-reader")
    resources = [
        "slurmaccounts", "slurmjobs", "slurmjobs/status", "slurmpartitions", "slurmqos",
        "slurmreservations",
    ]  # fmt: skip
    rule = {"verbs": ["get", "list", "watch"], "apiGroups": ["slurm.orlop.dev"]}
    assert found["rules"] == [{**rule, "resources": resources}]


async def test_its_objects_are_gangs_and_may_be_waited_for(
    site: World, extensions: Extensions
) -> None:
    async with site.running(lambda informers: Together(site, informers, extensions)) as informers:
        await eventually(lambda: site.create(ROPE, a_rope(strands=3)), within=60)
        await eventually(lambda: tied(site, "a"), within=60)
        gang = await Gangs(site.api, informers.informer(POD)).of(
            a_pod(labels={"rig.example/rope": "a"})
        )
        assert gang is not None
        assert (gang.key, gang.size) == ("default/rope/a", 3)
        waiting = a_pod(annotations={DEPENDENCY: "afterok:rope/a"})
        met = await Dependencies(site.api).met(waiting)
        assert met["metadata"]["annotations"][DEPENDENCY] == "afterok:17"
        await site.patch(ROPE, "a", {"spec": {"held": False}})
        with pytest.raises(errors.DependencyNeverSatisfied, match="Rope a has failed"):
            await Dependencies(site.api).met(waiting)
        wrong = a_pod(annotations={DEPENDENCY: "afterok:yarn/a"})
        with pytest.raises(errors.ConfigError, match="pod/<name>, slurmjob/<name> or rope/<name>"):
            await Dependencies(site.api).met(wrong)


def test_what_it_keeps_in_the_home_is_purged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry.home_folders, "__defaults__", (LISTED,))
    home = tmp_path / "home"
    for name in ("pods", "slurmjobs", "ropes"):
        (home / name).mkdir(parents=True)
    assert home_folders() == ["slurmjobs", "ropes"]
    down.remove(Paths(home))
    assert not home.exists()


def test_what_runs_outside_of_containers() -> None:
    assert unconfined() == [
        "slurmjobs.slurm.orlop.dev",
        "slurmjobs.wlm.sylabs.io",
        "wlmjobs.wlm.sylabs.io",
        "bridgejobs.bridgejob.ibm.com",
    ]


async def test_a_definition_of_several_is_left_out_alone(site: World) -> None:
    less = Extensions(["podgroups.scheduling.x-k8s.io"])
    less.register_pod_references()
    by_label = a_pod(labels={"scheduling.x-k8s.io/pod-group": "g"})
    assert mark_of(by_label) is None
    by_field = {**by_label, "spec": {"schedulingGroup": {"podGroupName": "g"}}}
    assert mark_of(by_field) is not None
    async with site.running(lambda informers: Together(site, informers, less)):
        await eventually(lambda: site.get(DEFINITION, "podgroups.scheduling.k8s.io"), within=60)
        assert await site.find(DEFINITION, "podgroups.scheduling.x-k8s.io") is None


def test_every_folder_of_a_kind_is_listed() -> None:
    folders = {path.parent.name for path in Path(registry.__file__).parent.glob("*/*.yaml")}
    assert {entry.package for entry in ENTRIES} == {f"orlop.extensions.{name}" for name in folders}
