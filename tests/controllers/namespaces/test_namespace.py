"""Namespaces go with all they hold, and wait for what is held."""

from __future__ import annotations

from orlop.api.kinds import CONFIG_MAP, DEPLOYMENT, JOB, NAMESPACE, POD, SECRET, SERVICE_ACCOUNT
from orlop.api.objects import Key, condition_of, is_deleting
from orlop.controllers.framework.manager import ControllerManager
from orlop.controllers.namespaces.namespace import Namespaces, Remains, conditions_of
from tests.controllers.world import Kubelet, World, eventually, job, pod, stays, workload


def namespace(name: str) -> dict:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def config(name: str, **metadata) -> dict:
    metadata = {"name": name, "namespace": "room", **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def moved(obj: dict) -> dict:
    return {**obj, "metadata": {**obj["metadata"], "namespace": "room"}}


async def is_gone(cluster: World) -> bool:
    return await cluster.find(NAMESPACE, "room") is None


async def test_an_empty_namespace_goes_at_once(cluster):
    await cluster.create(NAMESPACE, namespace("room"))
    async with cluster.running(lambda informers: Namespaces(cluster.api, informers)):
        await cluster.api.delete(NAMESPACE, Key("", "room"))
        await eventually(lambda: is_gone(cluster), within=3)


async def test_a_namespace_takes_everything_with_it(cluster):
    await cluster.create(NAMESPACE, namespace("room"))
    async with cluster.running(
        lambda informers: ControllerManager(cluster.api, informers, root_ca="PEM"),
        lambda informers: Kubelet(cluster.api, informers, fate=lambda _: None),
    ):
        await cluster.create(DEPLOYMENT, moved(workload(DEPLOYMENT, "web", replicas=3)), "room")
        await cluster.create(JOB, moved(job("work", completions=3, parallelism=3)), "room")
        await cluster.create(POD, moved(pod("lone")), "room")
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
        await cluster.create(SECRET, secret, "room")

        async def is_full():
            assert await cluster.list(SERVICE_ACCOUNT, "room")
            return len(await cluster.list(POD, "room")) == 7

        await eventually(is_full)
        await cluster.api.delete(NAMESPACE, Key("", "room"))
        await eventually(lambda: is_gone(cluster))
        for kind in (DEPLOYMENT, JOB, POD, SECRET, SERVICE_ACCOUNT, CONFIG_MAP):
            assert await cluster.list(kind, "room") == []
        assert await cluster.find(NAMESPACE, "default") is not None


async def test_what_holds_a_namespace_open_is_named(cluster):
    await cluster.create(NAMESPACE, namespace("room"))
    held = config("held", finalizers=["example.com/hold"])
    await cluster.create(CONFIG_MAP, held, "room")
    async with cluster.running(lambda informers: Namespaces(cluster.api, informers)):
        await cluster.api.delete(NAMESPACE, Key("", "room"))

        async def told():
            found = await cluster.get(NAMESPACE, "room")
            assert found["status"]["phase"] == "Terminating"
            assert condition_of(found, "NamespaceContentRemaining")["message"] == (
                "Some resources are remaining: configmaps has 1 resource instances"
            )
            assert condition_of(found, "NamespaceFinalizersRemaining")["message"] == (
                "Some content in the namespace has finalizers remaining: "
                "example.com/hold in 1 resource instances"
            )
            assert condition_of(found, "NamespaceDeletionContentFailure")["status"] == "False"

        await eventually(told)
        change = {"metadata": {"finalizers": None}}
        await cluster.api.patch(CONFIG_MAP, Key("room", "held"), change)
        await eventually(lambda: is_gone(cluster), within=5)


async def test_a_namespace_that_nobody_deletes_is_left_alone(cluster):
    await cluster.create(NAMESPACE, namespace("room"))
    await cluster.create(CONFIG_MAP, config("kept"), "room")
    async with cluster.running(lambda informers: Namespaces(cluster.api, informers)):

        async def is_there():
            assert not is_deleting(await cluster.get(NAMESPACE, "room"))
            return await cluster.find(CONFIG_MAP, "kept", "room") is not None

        await stays(is_there)


def test_nothing_left_is_told_as_nothing():
    told = conditions_of(Remains(), 0.0)
    assert {one["status"] for one in told} == {"False"}
    assert len(told) == 5


def test_failures_are_told_in_their_own_words():
    told = conditions_of(Remains(failures=["no", "no", "never"]), 0.0)
    failure = next(one for one in told if one["type"] == "NamespaceDeletionContentFailure")
    assert (failure["status"], failure["message"]) == ("True", "never; no")
