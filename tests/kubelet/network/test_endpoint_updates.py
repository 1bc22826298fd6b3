"""Agents are told what they ask about, at once, and again when it changes; and nothing else."""

from __future__ import annotations

import asyncio
import json

import pytest

from orlop.api import kinds
from orlop.api.objects import Key
from orlop.kubelet.network.endpoint_updates import LONGEST_KEY, MOST_KEYS

from ..fakes import FakeAgent
from ..objects import a_container, running, started

HERE = {"address": "10.77.0.1", "notice": 7}
LISTEN = {"type": "net-listen", "protocol": "tcp", "port": 80, "real": 40123, **HERE}


def a_service(name="web", **spec):
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"ports": ports, **spec},
    }


def a_slice(*addresses, service="web", ready=True):
    return {
        "metadata": {
            "name": f"{service}-1",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{"addresses": [a], "conditions": {"ready": ready}} for a in addresses],
    }


async def told(agent, key):
    """The next word about a key."""
    while True:
        message = await agent.hear("net-tell")
        if message["key"] == key:
            return message["value"]


def ask(agent, *keys):
    agent.tell({"type": "net-ask", "keys": list(keys)})


async def a_running_pod(site, name="web", *containers, **fields):
    """Its agent, and its address."""
    await site.create(name, *containers, **fields)
    agent = await site.agent(name)
    await agent.say(started(), running())
    pod = await site.until_phase("Running", name)
    return agent, pod["status"]["podIP"]


async def test_where_a_pod_is_is_told_when_its_agent_has_said_so(site):
    agent, ip = await a_running_pod(site)
    other, _ = await a_running_pod(site, "client")
    ask(other, f"pod/{ip}", "pod/10.244.255.254")
    assert await told(other, "pod/10.244.255.254") is None
    agent.tell({"type": "net-state", "tcp": {}, "udp": {}, **HERE})
    first = await told(other, f"pod/{ip}")
    assert (first["address"], first["notice"], first["tcp"]) == ("10.77.0.1", 7, {})
    agent.tell(LISTEN)
    assert (await told(other, f"pod/{ip}"))["tcp"] == {"80": 40123}
    agent.tell({"type": "net-close", "protocol": "tcp", "port": 80})
    assert (await told(other, f"pod/{ip}"))["tcp"] == {}
    await agent.hang_up()
    await other.hang_up()


async def test_ports_that_ranks_declare_are_those_of_their_node(site):
    ports = [{"containerPort": 8080}, {"containerPort": 53, "protocol": "UDP"}]
    ranks = {"annotations": {"slurm.orlop.dev/ntasks": "4"}}
    agent, ip = await a_running_pod(site, "web", a_container(ports=ports), metadata=ranks)
    other, _ = await a_running_pod(site, "client")
    ask(other, f"pod/{ip}")

    async def until_told(tcp, **fields):
        while (found := await told(other, f"pod/{ip}"))["tcp"] != tcp or not (
            fields.items() <= found.items()
        ):
            pass

    await until_told({"8080": 8080}, udp={"53": 53})  # by the pod alone
    agent.tell({**LISTEN, "port": 8080})  # a sidecar, which has it while it runs
    await until_told({"8080": 40123}, **HERE)
    agent.tell({"type": "net-close", "protocol": "tcp", "port": 8080})
    await until_told({"8080": 8080}, udp={"53": 53}, **HERE)
    await agent.hang_up()
    await other.hang_up()


async def test_a_service_is_told_with_its_endpoints_and_their_changes(site):
    agent, _ = await a_running_pod(site)
    made = await site.api.create(kinds.SERVICE, a_service())
    ip = made["spec"]["clusterIP"]
    ask(agent, f"svc/{ip}")
    while (first := await told(agent, f"svc/{ip}")) is None:
        pass
    assert first["ports"][0]["endpoints"] == []
    one = await site.api.create(kinds.ENDPOINT_SLICE, a_slice("10.244.0.8", "10.244.0.9"))
    second = await told(agent, f"svc/{ip}")
    assert [end[:2] for end in second["ports"][0]["endpoints"]] == [
        ["10.244.0.8", 8080],
        ["10.244.0.9", 8080],
    ]
    one["endpoints"][0]["conditions"]["ready"] = False
    await site.api.update(kinds.ENDPOINT_SLICE, one)
    third = await told(agent, f"svc/{ip}")
    assert [end[0] for end in third["ports"][0]["endpoints"]] == ["10.244.0.9"]
    await site.api.delete(kinds.SERVICE, Key("default", "web"))
    assert await told(agent, f"svc/{ip}") is None
    await agent.hang_up()


async def a_line(site, agent, node):
    """Ranks of a node of the pod's job, beside its agent."""
    line = FakeAgent(agent.folder)
    dialled = await line.dial(site.authority.client_context(), line=node)
    assert dialled == "HTTP/1.1 101 Switching Protocols"
    return line


async def test_ranks_on_other_nodes_ask_over_lines_of_their_own(site):
    agent, ip = await a_running_pod(site)
    agent.tell(LISTEN)
    lines = [await a_line(site, agent, node) for node in ("n1", "n2")]
    for line in lines:
        line.tell({"type": "net-state", "tcp": {}, "udp": {}, "address": "10.77.0.9", "notice": 9})
        line.tell({"type": "terminate", "grace": 0})
        ask(line, f"pod/{ip}", "policy")
        # Where the pod is, is its agent's to say.
        assert (await told(line, f"pod/{ip}"))["address"] == "10.77.0.1"
        assert await told(line, "policy") is None
    agent.tell({"type": "net-close", "protocol": "tcp", "port": 80})
    for line in lines:
        assert (await told(line, f"pod/{ip}"))["tcp"] == {}
        await line.hang_up()
    assert (await site.pod())["status"]["phase"] == "Running"
    await agent.hang_up()


async def test_ranks_that_dial_again_take_the_place_of_their_former_line(site):
    agent, ip = await a_running_pod(site)
    agent.tell(LISTEN)
    former = await a_line(site, agent, "n1")
    ask(former, f"pod/{ip}")
    assert await told(former, f"pod/{ip}")
    line = await a_line(site, agent, "n1")
    assert await former.reader.read() == b""
    ask(line, f"pod/{ip}")
    assert (await told(line, f"pod/{ip}"))["tcp"] == {"80": 40123}
    agent.tell({"type": "net-close", "protocol": "tcp", "port": 80})
    assert (await told(line, f"pod/{ip}"))["tcp"] == {}
    await former.hang_up()
    await line.hang_up()
    await agent.hang_up()


async def test_a_pod_that_has_ended_is_nowhere(site):
    agent, ip = await a_running_pod(site)
    other, _ = await a_running_pod(site, "client")
    agent.tell(LISTEN)
    ask(other, f"pod/{ip}")
    assert await told(other, f"pod/{ip}") is not None
    await agent.say({"type": "finished", "phase": "Succeeded"})
    await site.until_phase("Succeeded")
    while await told(other, f"pod/{ip}") is not None:
        pass
    await agent.hang_up()
    await other.hang_up()


async def test_what_was_forgotten_is_not_told_any_more(site):
    agent, _ = await a_running_pod(site)
    ask(agent, "name/a.default.svc.cluster.local", "name/b.default.svc.cluster.local")
    assert await told(agent, "name/b.default.svc.cluster.local") is None
    agent.tell({"type": "net-forget", "keys": ["name/a.default.svc.cluster.local"]})
    await site.api.create(kinds.SERVICE, a_service("a"))
    await site.api.create(kinds.SERVICE, a_service("b"))
    message = await agent.hear("net-tell")
    assert message["key"] == "name/b.default.svc.cluster.local"
    await agent.hang_up()


async def test_a_policy_is_told_to_the_pods_it_selects(site):
    agent, _ = await a_running_pod(site)
    ask(agent, "policy")
    assert await told(agent, "policy") is None
    policy = {
        "metadata": {"name": "shut", "namespace": "default"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
    }
    await site.api.create(kinds.NETWORK_POLICY, policy)
    assert await told(agent, "policy") == {"ingress": [], "egress": []}
    await site.api.delete(kinds.NETWORK_POLICY, Key("default", "shut"))
    assert await told(agent, "policy") is None
    await agent.hang_up()


async def test_peers_are_told_with_the_labels_of_their_namespace(site):
    agent, ip = await a_running_pod(site)
    ask(agent, f"peer/{ip}")
    peer = await told(agent, f"peer/{ip}")
    assert peer["namespace"] == "default"
    patch = {"metadata": {"labels": {"team": "a"}}}
    await site.api.patch(kinds.NAMESPACE, Key("", "default"), patch)
    assert (await told(agent, f"peer/{ip}"))["namespaceLabels"]["team"] == "a"
    await agent.hang_up()


async def test_pods_of_one_cluster_have_different_addresses_also_after_a_restart(site):
    agent, first = await a_running_pod(site)
    await agent.hang_up()
    await site.stop()
    await site.start()
    other, second = await a_running_pod(site, "other")
    await other.hang_up()
    assert first != second
    assert (await site.pod())["status"]["podIP"] == first


async def test_the_plan_has_the_policy_of_the_day(site):
    policy = {
        "metadata": {"name": "shut", "namespace": "default"},
        "spec": {"podSelector": {}, "policyTypes": ["Egress"]},
    }
    await site.api.create(kinds.NETWORK_POLICY, policy)
    await asyncio.sleep(0.1)
    await site.create()
    await site.submitted()
    plan = json.loads((site.folder() / "plan.json").read_text())
    assert plan["network"]["policy"] == {"egress": []}


async def test_an_agent_that_asks_without_end_is_not_remembered_without_end(site):
    """Whoever has a pod's token can speak for its agent: the control plane is everybody's."""
    agent, _ = await a_running_pod(site)
    [state] = list(site.parts.shared.cache.pods)
    for start in range(0, 3 * MOST_KEYS, 8192):
        ask(agent, *(f"pod/10.244.{n}.x" for n in range(start, start + 8192)))
    ask(agent, "name/" + "x" * 100_000, "pod/10.244.1.x")
    for _ in range(2):  # by the second time all of it was heard
        assert await told(agent, "pod/10.244.1.x") is None
    asked = site.parts.network.network._asked[state.uid, ""]
    assert len(asked) <= MOST_KEYS
    assert max(map(len, asked)) <= LONGEST_KEY
    await agent.hang_up()


@pytest.mark.parametrize(
    "wrong",
    [{"port": 1 << 40}, {"notice": 1 << 40}, {"notice": -1}, {"address": "slow.example.org"}],
)
async def test_an_agent_that_names_places_which_are_none_loses_its_line(site, wrong):
    """Others connect to them, and the control plane does: a name, it would have to look up."""
    agent, _ = await a_running_pod(site)
    agent.tell({**LISTEN, **wrong})
    with pytest.raises(asyncio.IncompleteReadError):
        await told(agent, "nothing")
    [state] = list(site.parts.shared.cache.pods)
    place = site.parts.network.network.view.places.get(state.uid)
    assert place is None or (place.address, place.notice, place.tcp) == ("", 0, {})
