"""Rules let through what they name, and nothing else."""

from __future__ import annotations

import pytest

from orlop.agent.netd.policy import Policy, matches
from orlop.agent.netd.ranges import Range

PEER = {
    "namespace": "shop",
    "labels": {"app": "web", "tier": "front"},
    "namespaceLabels": {"team": "a"},
    "ports": {"tcp/http": 8080},
}


@pytest.mark.parametrize(
    ("rules", "peer", "protocol", "port", "expected"),
    [
        ([], PEER, "tcp", 80, False),
        ([{}], PEER, "tcp", 80, True),
        ([{}], None, "tcp", 80, True),
        ([{"ports": [["tcp", 80, 80]]}], PEER, "tcp", 80, True),
        ([{"ports": [["tcp", 80, 80]]}], PEER, "udp", 80, False),
        ([{"ports": [["tcp", 8000, 9000]]}], PEER, "tcp", 9000, True),
        ([{"ports": [["tcp", 8000, 9000]]}], PEER, "tcp", 9001, False),
        ([{"ports": [["tcp", "http"]]}], PEER, "tcp", 8080, True),
        ([{"ports": [["tcp", "http"]]}], PEER, "tcp", 80, False),
        ([{"ports": []}], PEER, "tcp", 80, False),
        ([{"peers": [{"namespace": "shop"}]}], PEER, "tcp", 80, True),
        ([{"peers": [{"namespace": "other"}]}], PEER, "tcp", 80, False),
        ([{"peers": [{"namespaces": []}]}], PEER, "tcp", 80, True),
        ([{"peers": [{"namespaces": []}]}], None, "tcp", 80, False),
        ([{"peers": [{"namespaces": [["team", "In", ["a"]]]}]}], PEER, "tcp", 80, True),
        ([{"peers": [{"namespaces": [["team", "In", ["b"]]]}]}], PEER, "tcp", 80, False),
        ([{"peers": [{"namespaces": [], "pods": [["app", "In", ["web"]]]}]}], PEER, "tcp", 1, True),
        ([{"peers": [{"namespaces": [], "pods": [["app", "In", ["db"]]]}]}], PEER, "tcp", 1, False),
        ([{"peers": [{"cidr": "10.0.0.0/8"}]}], None, "tcp", 80, True),
        ([{"peers": [{"cidr": "10.0.0.0/8", "except": ["10.9.0.0/16"]}]}], None, "tcp", 80, False),
        ([{"peers": [{"cidr": "fd00::/8"}]}], None, "tcp", 80, False),
        ([{"peers": [{"cidr": "192.0.2.0/24"}, {"namespace": "shop"}]}], PEER, "tcp", 80, True),
        ([{"ports": [["tcp", 1, 1]]}, {"ports": [["tcp", 2, 2]]}], PEER, "tcp", 2, True),
    ],
)  # fmt: skip
def test_a_rule_of_egress(rules, peer, protocol, port, expected):
    policy = Policy({"egress": rules})
    assert policy.allows("egress", protocol, "10.9.8.7", port, peer) is expected
    assert not policy.restricts("ingress")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ([], True),
        ([["a", "In", ["1", "2"]]], True),
        ([["a", "In", ["2"]]], False),
        ([["b", "In", ["1"]]], False),
        ([["a", "NotIn", ["1"]]], False),
        ([["b", "NotIn", ["1"]]], True),
        ([["a", "Exists", []]], True),
        ([["b", "Exists", []]], False),
        ([["b", "DoesNotExist", []]], True),
        ([["a", "DoesNotExist", []]], False),
        ([["a", "In", ["1"]], ["b", "Exists", []]], False),
    ],
)
def test_selectors_match_labels(selector, expected):
    assert matches(selector, {"a": "1"}) is expected


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("10.244.0.0/16", "10.244.255.255", "10.245.0.0"),
        ("0.0.0.0/0", "255.255.255.255", "::1"),
        ("192.0.2.7/32", "192.0.2.7", "192.0.2.8"),
        ("10.1.0.0/8", "10.200.0.1", "11.0.0.0"),
        ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
        ("::/0", "2001:db8::1", "10.0.0.1"),
        ("fd00::7", "fd00::7", "fd00::8"),
    ],
)
def test_a_range_holds_its_addresses(text, inside, outside):
    assert inside in Range(text)
    assert outside not in Range(text)
    assert "nonsense" not in Range(text)
