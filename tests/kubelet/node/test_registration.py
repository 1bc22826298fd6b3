"""Each machine of the engine is a node: registered, up to date, alive, gone with its machine."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from orlop.api.kinds import LEASE, NODE
from orlop.api.objects import Key
from orlop.api.times import parse, rfc3339
from orlop.engine import Machine
from orlop.errors import NotFound
from orlop.kubelet.node import node_object as node
from orlop.kubelet.node import registration
from orlop.kubelet.node.host import endpoints, own_addresses, this_host
from orlop.kubelet.node.node_object import Host, node_labels, node_name, node_object, node_status
from orlop.settings import Settings
from orlop.wellknown import SOME_HOSTS

from ..conftest import condition, eventually
from ..objects import NOW

HOST = Host("login1", ["10.0.0.1", "10.1.0.1"], 10250, {"kernelVersion": "6.1"})
MAIN = Machine("main", 32, 1024, {"nvidia.com/gpu": 4}, {"slurm.orlop.dev/partition": "main"})


@pytest.mark.parametrize(
    ("machine", "expected"),
    [("main", "main"), ("gpu.a100", "gpu.a100"), ("n-1", "n-1")],
)
def test_a_machine_that_is_a_valid_name_keeps_it(machine, expected):
    assert node_name(machine) == expected


def test_names_that_differ_only_in_what_a_node_may_not_have_stay_apart():
    names = [node_name(name) for name in ("Big_Mem", "big-mem", "big_mem", "BIG-MEM", "_")]
    assert len(set(names)) == 5
    assert all(name == name.lower() and "_" not in name for name in names)


def test_the_whole_status_of_a_node():
    status = node_status(node_object(MAIN, "slurm"), MAIN, HOST, "", NOW)
    assert status["capacity"] == status["allocatable"]
    assert status["capacity"] == {
        "cpu": "32",
        "memory": "1024Mi",
        "pods": "100000",
        "nvidia.com/gpu": "4",
    }
    assert status["addresses"] == [
        {"type": "InternalIP", "address": "10.0.0.1"},
        {"type": "InternalIP", "address": "10.1.0.1"},
        {"type": "Hostname", "address": "login1"},
    ]
    assert status["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10250}}
    assert status["nodeInfo"]["kernelVersion"] == "6.1"
    assert status["nodeInfo"]["kubeletVersion"].startswith("v")
    conditions = {item["type"]: item["status"] for item in status["conditions"]}
    assert conditions == {
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
        "Ready": "True",
    }


def test_a_node_is_labelled_as_upstreams_are_and_by_its_engine():
    assert node_labels(MAIN, "slurm") == {
        "slurm.orlop.dev/partition": "main",
        "kubernetes.io/hostname": "main",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "orlop.dev/engine": "slurm",
    }


@pytest.mark.parametrize(
    ("fields", "keys"),
    [
        ({}, []),
        ({"is_schedulable": False}, ["orlop.dev/closed"]),
        ({"is_ready": False}, ["node.kubernetes.io/not-ready"]),
    ],
)
def test_a_machine_that_takes_no_pods_is_tainted_beside_what_others_say(fields, keys):
    machine = Machine("main", 1, 1, **fields)
    others = {"key": "dedicated", "value": "me", "effect": "NoSchedule"}
    present = [others, {"key": "orlop.dev/closed", "effect": "NoSchedule"}]
    assert [taint["key"] for taint in node.node_taints(machine, present)] == ["dedicated", *keys]


def test_a_machine_that_is_not_ready_says_why():
    machine = Machine("main", 1, 1, is_ready=False, message="all nodes are down")
    found = condition({"status": node_status({}, machine, HOST, "", NOW)}, "Ready")
    assert (found["status"], found["message"]) == ("False", "all nodes are down")


def test_transition_times_are_kept_while_nothing_changes():
    first = {"status": node_status({}, MAIN, HOST, "", NOW)}
    later = {"status": node_status(first, MAIN, HOST, "", NOW + 100)}
    assert later == first
    silent = {"status": node_status(first, MAIN, HOST, "no answer", NOW + 100)}
    assert condition(silent, "Ready") == condition(first, "Ready")
    assert condition(silent, "orlop.dev/EngineReachable")["lastTransitionTime"] == rfc3339(
        NOW + 100
    )


async def test_every_machine_becomes_a_node_with_a_lease(site):
    main = await site.node()
    big = await site.node(node_name("Big_Mem"))
    assert big["metadata"]["annotations"]["orlop.dev/machine"] == "Big_Mem"
    assert condition(main, "Ready")["status"] == "True"
    assert "lastHeartbeatTime" in condition(main, "Ready")
    lease = await eventually(lambda: _lease(site, "main"))
    assert lease["spec"]["holderIdentity"] == "main"
    assert lease["spec"]["leaseDurationSeconds"] == 40


async def _lease(site, name):
    try:
        return await site.api.get(LEASE, Key("kube-node-lease", name))
    except NotFound:
        return None


async def test_leases_are_renewed(site):
    first = await eventually(lambda: _lease(site, "main"))
    await site.parts.engine.nodes.renew_leases()
    second = await _lease(site, "main")
    assert parse(second["spec"]["renewTime"]) > parse(first["spec"]["renewTime"])


async def test_a_pod_goes_to_the_machine_under_its_own_name(site):
    await site.create(nodeName=node_name("Big_Mem"))
    await site.submitted()
    assert site.engine.submissions[0].machine == "Big_Mem"


async def test_a_node_that_is_up_to_date_is_not_written(site):
    host = Host("h", ["127.0.0.1"], 1)
    await site.parts.engine.nodes.sync(host)
    await eventually(lambda: _port(site, 1))
    version = (await site.node())["metadata"]["resourceVersion"]
    cached = site.parts.engine.node_cache  # what is written is compared with it
    await eventually(lambda: cached.get(Key("", "main"))["metadata"]["resourceVersion"] == version)
    await site.parts.engine.nodes.sync(host)
    assert (await site.node())["metadata"]["resourceVersion"] == version


async def _port(site, port):
    endpoint = (await site.node())["status"]["daemonEndpoints"]["kubeletEndpoint"]
    return endpoint["Port"] == port


async def test_what_people_label_and_taint_is_kept_and_what_is_ours_is_mended(site):
    taint = {"key": "dedicated", "effect": "NoSchedule"}
    labels = {"mine": "1", "slurm.orlop.dev/old": "1", "slurm.orlop.dev/partition": "wrong"}
    metadata = {"labels": labels, "annotations": {"mine": "2", SOME_HOSTS: "feature/old"}}
    patch = {"metadata": metadata, "spec": {"taints": [taint]}}
    await site.api.patch(NODE, Key("", "main"), patch)
    cached = site.parts.engine.node_cache
    await eventually(lambda: "mine" in cached.get(Key("", "main"))["metadata"]["labels"])
    await site.parts.engine.nodes.sync(Host("h", ["127.0.0.1"], 1))
    main = await site.node()
    assert main["metadata"]["labels"]["mine"] == "1"
    assert main["metadata"]["labels"]["slurm.orlop.dev/partition"] == "main"
    assert "slurm.orlop.dev/old" not in main["metadata"]["labels"]
    assert main["metadata"]["annotations"]["mine"] == "2"
    assert SOME_HOSTS not in main["metadata"]["annotations"]
    assert main["spec"]["taints"] == [taint]


def test_a_node_names_the_labels_that_only_some_of_its_hosts_have():
    made = node_object(replace(MAIN, partial=("feature/a", "feature/b")), "slurm")
    assert made["metadata"]["annotations"][SOME_HOSTS] == "feature/a,feature/b"


async def test_a_node_goes_with_its_machine_once_no_pod_is_bound_to_it(site):
    await site.create()
    await site.submitted()
    site.engine.has_partition = False
    host = Host("h", ["127.0.0.1"], 1)
    await site.parts.engine.nodes.sync(host)
    assert condition(await site.node(), "Ready")["reason"] == "MachineGone"
    from orlop.api.kinds import POD

    await site.api.delete(POD, Key("default", "web"))
    await eventually(site.is_gone)
    await eventually(lambda: len(site.parts.shared.cache.informer) == 0)
    await site.parts.engine.nodes.sync(host)
    with pytest.raises(NotFound):
        await site.node()


async def test_nodes_of_others_are_left_alone(site):
    other = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker1"}, "spec": {}}
    await site.api.create(NODE, other)
    await eventually(lambda: site.parts.engine.node_cache.get(Key("", "worker1")))
    await site.parts.engine.nodes.sync(Host("h", ["127.0.0.1"], 1))
    assert await site.node("worker1")
    await site.create("there", nodeName="worker1")
    await asyncio.sleep(0.1)
    assert site.engine.submissions == []


async def test_heartbeats_are_written_now_and_then(site, monkeypatch):
    monkeypatch.setattr(registration, "HEARTBEAT_INTERVAL", 0.0)
    before = (await site.node())["metadata"]["resourceVersion"]
    await site.parts.engine.nodes.sync(Host("h", ["127.0.0.1"], 1))
    assert (await site.node())["metadata"]["resourceVersion"] != before


def test_agents_find_the_kubelet_at_all_its_addresses():
    host = this_host(Settings(advertise=["192.168.0.9"]), ["10.0.0.1", "fd00::1"], 10250)
    assert endpoints(host)[:3] == ["192.168.0.9:10250", "10.0.0.1:10250", "[fd00::1]:10250"]
    assert endpoints(host)[-2:] == [f"{host.name}:10250", "127.0.0.1:10250"]


def test_a_kubelet_that_listens_at_one_address_is_found_there():
    host = this_host(Settings(listen="10.9.9.9"), ["10.0.0.1"], 1)
    assert list(host.addresses) == ["10.9.9.9"]


def test_loopback_is_no_address_to_be_reached_at():
    assert not [address for address in own_addresses() if address.startswith("127.")]
    assert this_host(Settings(), [], 1).addresses


async def test_a_node_that_somebody_deleted_is_registered_again(site):
    uid = (await site.node())["metadata"]["uid"]
    await site.api.delete(NODE, Key("", "main"))

    async def again():
        try:
            return (await site.node())["metadata"]["uid"] != uid
        except NotFound:
            return False

    await eventually(again)
