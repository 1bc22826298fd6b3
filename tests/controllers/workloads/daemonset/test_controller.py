"""DaemonSets have one pod on each node that fits, through changes of both."""

from __future__ import annotations

import pytest

from orlop.api.kinds import CONTROLLER_REVISION, DAEMON_SET, NODE, POD
from orlop.api.objects import Key, is_active, is_ready, meta, uid_of
from orlop.client.clock import ManualClock
from orlop.controllers.workloads.daemonset.controller import DaemonSets
from orlop.controllers.workloads.daemonset.plan import belongs, node_of, pod_for, probe_of
from orlop.scheduler import Scheduler
from tests.controllers.world import Kubelet, World, eventually, stays, template, workload
from tests.scheduler.nodes import a_node


def parts(cluster: World, **kubelet):
    return (
        lambda informers: DaemonSets(cluster.api, informers),
        lambda informers: Scheduler(cluster.api, informers),
        lambda informers: Kubelet(cluster.api, informers, binds=False, **kubelet),
    )


async def add_node(cluster: World, name: str, **options) -> None:
    node = a_node(name, **options)
    await cluster.create(NODE, {key: value for key, value in node.items() if key != "status"})
    status = {"status": node["status"]}
    await cluster.api.patch(NODE, Key("", name), status, subresource="status")


def agent(**spec) -> dict:
    return workload(DAEMON_SET, "agent", **spec)


def image(name: str) -> dict:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}}


async def homes(cluster: World) -> list[str]:
    """Nodes of running daemons, one entry each."""
    pods = [one for one in await cluster.list(POD) if is_active(one) and is_ready(one)]
    return sorted(one["spec"]["nodeName"] for one in pods)


async def on(cluster: World, *nodes: str) -> bool:
    return await homes(cluster) == list(nodes)


async def is_rolled(cluster: World, number: int) -> bool:
    found = await cluster.get(DAEMON_SET, "agent")
    status = found.get("status") or {}
    return status.get("observedGeneration") == meta(found)["generation"] and all(
        status.get(name, 0) == number
        for name in ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable")
    )


@pytest.fixture
async def three(cluster: World) -> World:
    for name in ("n1", "n2", "n3"):
        await add_node(cluster, name)
    return cluster


async def test_every_node_gets_one_and_the_numbers_are_told(three):
    await three.create(DAEMON_SET, agent())
    async with three.running(*parts(three)):
        await eventually(lambda: on(three, "n1", "n2", "n3"))
        await eventually(lambda: is_rolled(three, 3))
        status = (await three.get(DAEMON_SET, "agent"))["status"]
        assert status == {
            "currentNumberScheduled": 3,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 3,
            "numberReady": 3,
            "observedGeneration": 1,
            "updatedNumberScheduled": 3,
            "numberAvailable": 3,
        }


async def test_a_new_node_gets_one_and_a_relabelled_one_loses_it(three):
    spec = agent()
    spec["spec"]["template"]["spec"]["nodeSelector"] = {"role": "worker"}
    await three.create(DAEMON_SET, spec)
    worker = {"metadata": {"labels": {"role": "worker"}}}
    async with three.running(*parts(three)):
        await stays(lambda: on(three), 0.1)
        await three.api.patch(NODE, Key("", "n2"), worker)
        await eventually(lambda: on(three, "n2"))
        await add_node(three, "n4", labels={"role": "worker"})
        await eventually(lambda: on(three, "n2", "n4"))
        idle = {"metadata": {"labels": {"role": "idle"}}}
        await three.api.patch(NODE, Key("", "n2"), idle)
        await eventually(lambda: on(three, "n4"))


async def test_a_deleted_daemon_comes_back_to_its_node(three):
    await three.create(DAEMON_SET, agent())
    async with three.running(*parts(three)):
        await eventually(lambda: on(three, "n1", "n2", "n3"))
        pods = await three.list(POD)
        lost = next(one for one in pods if one["spec"]["nodeName"] == "n2")
        await three.api.delete(POD, Key("default", meta(lost)["name"]))

        async def is_back():
            uids = {uid_of(one) for one in await three.list(POD)}
            return uid_of(lost) not in uids and await on(three, "n1", "n2", "n3")

        await eventually(is_back)


async def test_a_failed_daemon_is_replaced_each_time_later(three):
    clock = ManualClock()
    await three.create(DAEMON_SET, agent())
    _, scheduler, kubelet = parts(three)
    async with three.running(
        lambda informers: DaemonSets(three.api, informers, clock=clock), scheduler, kubelet
    ):
        await eventually(lambda: on(three, "n1", "n2", "n3"))
        for round_ in range(2):
            pods = [one for one in await three.list(POD) if is_active(one)]
            victim = next(one for one in pods if one["spec"]["nodeName"] == "n1")
            failed = {"status": {"phase": "Failed"}}
            await three.patch(POD, meta(victim)["name"], failed, subresource="status")
            if round_:
                await stays(lambda: on(three, "n2", "n3"), 0.1)
                clock.advance(1)
            await eventually(lambda: on(three, "n1", "n2", "n3"))


async def test_a_new_template_is_rolled_one_node_at_a_time(three):
    await three.create(DAEMON_SET, agent())
    async with three.running(*parts(three)) as informers:
        await eventually(lambda: is_rolled(three, 3))
        fewest = [3]

        def watch(event, previous):
            pods = informers.informer(POD).list()
            fewest[0] = min(fewest[0], sum(is_active(one) and is_ready(one) for one in pods))

        informers.informer(POD).subscribe(watch)
        await three.patch(DAEMON_SET, "agent", image("busybox:2"))
        await eventually(lambda: is_rolled(three, 3))
    assert fewest[0] == 2
    pods = await three.list(POD)
    assert {one["spec"]["containers"][0]["image"] for one in pods} == {"busybox:2"}
    assert len(await three.list(CONTROLLER_REVISION)) == 2


async def test_by_surge_no_node_is_ever_without_a_daemon(three):
    rolling = {"maxSurge": 1, "maxUnavailable": 0}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    await three.create(DAEMON_SET, agent(updateStrategy=strategy))
    async with three.running(*parts(three)) as informers:
        await eventually(lambda: is_rolled(three, 3))
        seen: list[tuple[int, int]] = []

        def watch(event, previous):
            pods = [one for one in informers.informer(POD).list() if is_active(one)]
            ready = {one["spec"].get("nodeName") for one in pods if is_ready(one)}
            seen.append((len(ready), len(pods)))

        informers.informer(POD).subscribe(watch)
        await three.patch(DAEMON_SET, "agent", image("busybox:2"))

        async def is_over():
            return await is_rolled(three, 3) and len(await three.list(POD)) == 3

        await eventually(is_over)
    assert min(nodes for nodes, _ in seen) == 3
    assert max(pods for _, pods in seen) == 4


async def test_on_delete_old_daemons_stay_until_deleted(three):
    await three.create(DAEMON_SET, agent(updateStrategy={"type": "OnDelete"}))
    async with three.running(*parts(three)):
        await eventually(lambda: on(three, "n1", "n2", "n3"))
        before = {uid_of(one) for one in await three.list(POD)}
        await three.patch(DAEMON_SET, "agent", image("busybox:2"))

        async def same():
            return {uid_of(one) for one in await three.list(POD)} == before

        await stays(same, 0.2)


NO_SCHEDULE = [{"key": "k", "effect": "NoSchedule"}]
NO_EXECUTE = [{"key": "k", "effect": "NoExecute"}]
CORDON = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("node", "spec", "expected"),
    [
        (a_node("n"), {}, (True, True)),
        (a_node("n", taints=NO_SCHEDULE), {}, (False, True)),
        (a_node("n", taints=NO_EXECUTE), {}, (False, False)),
        (a_node("n", taints=CORDON, unschedulable=True), {}, (True, True)),
        (a_node("n", taints=NO_EXECUTE), {"tolerations": [{"operator": "Exists"}]}, (True, True)),
        (a_node("n"), {"nodeSelector": {"a": "b"}}, (False, False)),
        (a_node("n"), {"nodeName": "other"}, (False, False)),
    ],
    ids=["plain", "new ones kept out", "driven out", "cordoned", "tolerated", "selector", "named"],
)
def test_where_a_daemon_belongs(node, spec, expected):
    daemon_set = {"spec": {"template": template(**spec)}}
    assert belongs(probe_of(daemon_set), node) == expected


def test_a_daemon_names_its_node_and_tolerates_its_troubles():
    owner = {**agent(), "metadata": {"name": "agent", "namespace": "default", "uid": "u"}}
    pod = pod_for(owner, "n7", owner["spec"]["template"], "agent-abc")
    assert node_of(pod) == "n7"
    assert pod["metadata"]["labels"]["controller-revision-hash"] == "agent-abc"
    keys = {one["key"] for one in pod["spec"]["tolerations"]}
    assert {"node.kubernetes.io/not-ready", "node.kubernetes.io/unschedulable"} <= keys
    assert "affinity" not in owner["spec"]["template"]["spec"]
