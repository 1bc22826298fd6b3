"""Custom resources as owners, as owned, and in namespaces that go."""

from __future__ import annotations

from orlop.api.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NAMESPACE, Kind
from orlop.api.objects import Key, Obj, meta, uid_of
from orlop.controllers.framework.custom_kinds import kind_of
from orlop.controllers.gc.garbage_collector import GarbageCollector
from orlop.controllers.namespaces.namespace import Namespaces
from tests.controllers.world import World, eventually, stays

OWNER = Kind("example.com", "v1", "Owner", "owners", True)


def definition(plural: str = "owners", kind: str = "Owner") -> Obj:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"served": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {**version, "name": "v1beta1", "storage": False},
                {**version, "name": "v1", "storage": True},
            ],
        },
    }


def custom(name: str) -> Obj:
    return {"apiVersion": "example.com/v1", "kind": "Owner", "metadata": {"name": name}}


def owned_by(owner: Obj, name: str, version: str = "v1") -> Obj:
    reference = {
        "apiVersion": f"example.com/{version}",
        "kind": "Owner",
        "name": meta(owner)["name"],
        "uid": uid_of(owner),
    }
    metadata = {"name": name, "namespace": "default", "ownerReferences": [reference]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def defined(cluster: World) -> None:
    await cluster.create(CUSTOM_RESOURCE_DEFINITION, definition())

    async def is_served() -> bool:
        return cluster.server.registry.kinds.by_resource("example.com", "v1", "owners") is not None

    await eventually(is_served, within=3)


def collector(cluster: World):
    return lambda informers: GarbageCollector(cluster.api, informers)


async def has_no(cluster: World, name: str) -> bool:
    return await cluster.find(CONFIG_MAP, name) is None


async def has(cluster: World, name: str) -> bool:
    return not await has_no(cluster, name)


async def test_what_a_custom_resource_owns_goes_with_it(cluster):
    await defined(cluster)
    owner = await cluster.create(OWNER, custom("a"))
    await cluster.create(CONFIG_MAP, owned_by(owner, "dependent"))
    async with cluster.running(collector(cluster)):
        await stays(lambda: has(cluster, "dependent"), 0.3)
        await cluster.api.delete(OWNER, Key("default", "a"))
        await eventually(lambda: has_no(cluster, "dependent"), within=5)


async def test_a_kind_defined_while_the_collector_runs_is_followed(cluster):
    async with cluster.running(collector(cluster)):
        await defined(cluster)
        owner = await cluster.create(OWNER, custom("a"))
        await cluster.create(CONFIG_MAP, owned_by(owner, "dependent", "v1beta1"))
        await cluster.api.delete(OWNER, Key("default", "a"), propagation="Foreground")
        await eventually(lambda: has_no(cluster, "dependent"), within=5)


async def test_an_owner_that_went_while_nobody_looked_is_missed(cluster):
    await defined(cluster)
    owner = await cluster.create(OWNER, custom("a"))
    await cluster.create(CONFIG_MAP, owned_by(owner, "dependent"))
    await cluster.api.delete(OWNER, Key("default", "a"))
    async with cluster.running(collector(cluster)):
        await eventually(lambda: has_no(cluster, "dependent"), within=5)


async def test_what_it_owned_goes_when_the_definition_goes(cluster):
    await defined(cluster)
    owner = await cluster.create(OWNER, custom("a"))
    await cluster.create(CONFIG_MAP, owned_by(owner, "dependent"))
    async with cluster.running(collector(cluster)) as informers:
        await stays(lambda: has(cluster, "dependent"), 0.2)
        await cluster.api.delete(CUSTOM_RESOURCE_DEFINITION, Key("", "owners.example.com"))
        await eventually(lambda: has_no(cluster, "dependent"), within=5)

        async def is_forgotten() -> bool:
            return "owners" not in [kind.plural for kind in informers._metadata]

        await eventually(is_forgotten, within=5)


async def test_a_namespace_takes_its_custom_resources_with_it(cluster):
    await defined(cluster)
    room = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "room"}}
    await cluster.create(NAMESPACE, room)
    await cluster.create(OWNER, custom("a"), "room")
    async with cluster.running(lambda informers: Namespaces(cluster.api, informers)):
        await cluster.api.delete(NAMESPACE, Key("", "room"))

        async def is_gone() -> bool:
            return await cluster.find(NAMESPACE, "room") is None

        await eventually(is_gone, within=5)
    assert await cluster.list(OWNER, "room") == []


def test_a_definition_is_a_kind_once_it_is_established():
    made = definition()
    assert kind_of(made) is None
    made["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
    found = kind_of(made)
    assert found is not None
    assert (found.resource, found.version) == ("owners.example.com", "v1")
    made["spec"]["versions"][0] |= {"storage": True}
    made["spec"]["versions"][1] |= {"storage": False}
    kept = kind_of(made)
    assert kept is not None
    assert kept.version == "v1beta1"
    for version in made["spec"]["versions"]:
        version["served"] = False
    assert kind_of(made) is None
