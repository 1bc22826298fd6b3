"""A plan says of the network what its pod needs to take part in it."""

from __future__ import annotations

import pytest

from orlop.kubelet.planning.network import (
    ClusterNetwork,
    network_key,
    planned_network,
    planned_rank_network,
    planned_resolver,
    rank_ports,
)
from orlop.network.ranges import Ranges
from orlop.settings import NetworkSettings

from ..objects import a_pod

NETWORK = ClusterNetwork(Ranges.of(NetworkSettings()), network_key(b"secret"))
SEARCHES = ["default.svc.cluster.local", "svc.cluster.local", "cluster.local"]
NOTHING_MORE = {"nameservers": [], "searches": [], "options": []}


def test_the_whole_of_a_planned_network():
    assert planned_network(a_pod(), NETWORK, "10.244.3.7") == {
        "podIP": "10.244.3.7",
        "podCIDR": "10.244.0.0/16",
        "serviceCIDR": "10.96.0.0/16",
        "key": NETWORK.key,
        "dns": {
            "nameserver": "10.96.0.10",
            "domain": "cluster.local",
            "searches": SEARCHES,
            "options": [["ndots", "5"]],
            "upstream": [],
            "stubs": {},
        },
        "helper": "",
        "host": {"allowOutside": False},
        "policy": None,
        "hostPorts": [],
    }


def test_the_key_is_the_clusters_own_and_not_its_token_key():
    assert len(bytes.fromhex(network_key(b"a"))) == 32
    assert network_key(b"a") != network_key(b"b")


@pytest.mark.parametrize(
    ("pod", "network", "address"),
    [
        (a_pod(hostNetwork=True), NETWORK, "10.244.3.7"),
        (a_pod(), None, "10.244.3.7"),
        (a_pod(), NETWORK, ""),
    ],
    ids=["host network", "no network", "no address"],
)
def test_a_pod_on_its_nodes_network_has_none_of_its_own(pod, network, address):
    assert planned_network(pod, network, address) is None


CLUSTER = {
    "policy": "ClusterFirst",
    "nameservers": ["10.96.0.10"],
    "searches": SEARCHES,
    "options": [["ndots", "5"]],
}
OF_NODE = {"policy": "Default", "nameservers": [], "searches": [], "options": []}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, CLUSTER),
        ({"dnsPolicy": "ClusterFirst"}, CLUSTER),
        ({"dnsPolicy": "ClusterFirstWithHostNet"}, CLUSTER),
        ({"dnsPolicy": "Default"}, OF_NODE),
        ({"dnsPolicy": "None"}, {**OF_NODE, "policy": "None"}),
        ({"hostNetwork": True}, OF_NODE),
        ({"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}, CLUSTER),
    ],
)
def test_the_resolver_follows_the_policy(spec, expected):
    assert planned_resolver(a_pod(**spec), NETWORK) == {**expected, "more": NOTHING_MORE}


def test_what_a_pod_configures_itself_is_kept_apart_to_be_added_last():
    config = {
        "nameservers": ["192.0.2.1"],
        "searches": ["my.example"],
        "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
    }
    found = planned_resolver(a_pod(dnsConfig=config), NETWORK)
    assert found["more"] == {
        "nameservers": ["192.0.2.1"],
        "searches": ["my.example"],
        "options": [["ndots", "2"], ["edns0", ""]],
    }


def test_ports_of_the_node_are_those_that_containers_ask_for():
    ports = [
        {"containerPort": 80, "hostPort": 8080},
        {"containerPort": 53, "hostPort": 5353, "protocol": "UDP", "hostIP": "127.0.0.1"},
        {"containerPort": 81},
        {"containerPort": 82, "hostPort": 82, "protocol": "SCTP"},
    ]
    pod = a_pod()
    pod["spec"]["containers"] = [{"name": "a", "ports": ports}]
    assert planned_network(pod, NETWORK, "10.244.3.7")["hostPorts"] == [
        {"protocol": "tcp", "port": 80, "hostPort": 8080, "hostIP": ""},
        {"protocol": "udp", "port": 53, "hostPort": 5353, "hostIP": "127.0.0.1"},
    ]


def test_on_its_nodes_network_a_pod_knows_the_cluster_if_it_wants_to():
    assert planned_network(a_pod(hostNetwork=True), NETWORK, "") is None
    wanting = a_pod(hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet")
    found = planned_network(wanting, NETWORK, "")
    assert (found["onNode"], found["podIP"]) == (True, "")
    assert found["dns"]["nameserver"] == "10.96.0.10"
    assert "hostPorts" not in found


@pytest.mark.parametrize("on_node", [False, True])
def test_ranks_know_the_cluster_if_they_want_to(on_node):
    assert planned_rank_network(a_pod(), NETWORK, "10.244.3.7") is None
    wanting = a_pod(hostNetwork=on_node, dnsPolicy="ClusterFirstWithHostNet")
    assert planned_rank_network(wanting, None, "10.244.3.7") is None
    found = planned_rank_network(wanting, NETWORK, "10.244.3.7", {"egress": []})
    assert (found["onNode"], found["podIP"]) == (True, "10.244.3.7")
    assert found["dns"]["nameserver"] == "10.96.0.10"
    assert found["policy"] == {"egress": []}


@pytest.mark.parametrize(
    ("annotations", "ports"),
    [
        ({"ntasks": "2"}, {"tcp": {"80": 80}}),
        ({}, {}),
        ({"ntasks": "2", "mpi-container": "nosuch"}, {}),
    ],
)
def test_ports_of_ranks_are_those_that_they_declare(annotations, ports):
    named = {f"slurm.orlop.dev/{name}": value for name, value in annotations.items()}
    main = {"name": "main", "ports": [{"containerPort": 80}]}
    side = {"name": "side", "ports": [{"containerPort": 81}]}
    metadata = {"name": "p", "namespace": "d", "annotations": named}
    pod = {"metadata": metadata, "spec": {"containers": [main, side]}}
    assert rank_ports(pod) == ports
