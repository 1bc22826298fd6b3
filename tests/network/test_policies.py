"""NetworkPolicies become the rules of one pod."""

from __future__ import annotations

import pytest

from orlop.network.policies import named_ports, peer_value, policy_value

POD = {
    "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 8080}]}]},
}


def a_policy(selector=None, **spec):
    return {"metadata": {"namespace": "shop"}, "spec": {"podSelector": selector or {}, **spec}}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (a_policy({"matchLabels": {"app": "db"}}), None),
        (a_policy(), {"ingress": []}),
        (a_policy({"matchLabels": {"app": "web"}}), {"ingress": []}),
        (a_policy(policyTypes=["Egress"]), {"egress": []}),
        (a_policy(policyTypes=["Ingress", "Egress"]), {"ingress": [], "egress": []}),
        (a_policy(egress=[{}]), {"ingress": [], "egress": [{}]}),
        (a_policy(policyTypes=["Ingress"], egress=[{}]), {"ingress": []}),
        (a_policy(ingress=[{}]), {"ingress": [{}]}),
    ],
    ids=["not selected", "all", "by label", "egress", "both", "by rules", "not said", "open"],
)
def test_which_directions_are_restricted(policy, expected):
    assert policy_value(POD, [policy]) == expected


def test_rules_of_all_policies_count_together():
    one = a_policy(ingress=[{"ports": [{"port": 80}]}])
    two = a_policy(ingress=[{"ports": [{"port": 81}]}])
    rules = policy_value(POD, [one, two])["ingress"]
    assert [rule["ports"] for rule in rules] == [[["tcp", 80, 80]], [["tcp", 81, 81]]]


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        ({"port": 80}, [["tcp", 80, 80]]),
        ({"protocol": "UDP"}, [["udp", 1, 65535]]),
        ({"port": 8000, "endPort": 9000}, [["tcp", 8000, 9000]]),
        ({"port": "http"}, [["tcp", 8080, 8080]]),
        ({"port": "metrics"}, []),
    ],
)
def test_ports_of_ingress_are_the_pods_own(port, expected):
    assert policy_value(POD, [a_policy(ingress=[{"ports": [port]}])])["ingress"] == [
        {"ports": expected}
    ]


def test_a_name_in_egress_is_that_of_the_other_pod():
    found = policy_value(POD, [a_policy(egress=[{"ports": [{"port": "http"}]}])])
    assert found["egress"] == [{"ports": [["tcp", "http"]]}]


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        (
            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
            {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]},
        ),
        ({"podSelector": {}}, {"namespace": "shop", "pods": []}),
        ({"namespaceSelector": {}}, {"namespaces": []}),
        (
            {
                "namespaceSelector": {"matchLabels": {"team": "a"}},
                "podSelector": {
                    "matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]
                },
            },
            {"namespaces": [["team", "In", ["a"]]], "pods": [["app", "In", ["x"]]]},
        ),
    ],
    ids=["block", "own namespace", "all namespaces", "both"],
)
def test_peers_are_handed_on_as_selectors(peer, expected):
    found = policy_value(POD, [a_policy(ingress=[{"from": [peer]}])])
    assert found["ingress"] == [{"peers": [expected]}]


def test_what_others_may_ask_of_a_pod():
    assert named_ports(POD) == {"tcp/http": 8080}
    assert peer_value(POD, {"team": "a"}) == {
        "namespace": "shop",
        "labels": {"app": "web"},
        "namespaceLabels": {"team": "a"},
        "ports": {"tcp/http": 8080},
    }
