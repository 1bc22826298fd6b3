"""Pods of a kind are spread over domains as evenly as they ask for."""

from __future__ import annotations

import pytest

from tests.scheduler.clusters import HOSTNAME, ZONE, chosen, decided, placed, waiting, will_do
from tests.scheduler.nodes import a_node


def counted(name, zone="", **more):
    return a_node(name, partition=None, labels={ZONE: zone} if zone else {}, **more)


NODES = [counted("a1", "a"), counted("b1", "b"), counted("c1", "c")]
WEB = {"app": "web"}


def constraint(skew=1, key=ZONE, hard=True, **more):
    return {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        "labelSelector": {"matchLabels": WEB},
        **more,
    }


def web(*constraints, **more):
    return waiting(labels=WEB, topologySpreadConstraints=list(constraints), **more)


def crowd(**counts):
    """`a1=2`: two pods on that node."""
    return [
        placed(f"{node}-{number}", node, labels=WEB)
        for node, count in counts.items()
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("skew", "there", "node"),
    [
        (1, {}, "a1"),
        (1, {"a1": 1}, "b1"),
        (1, {"a1": 1, "b1": 1}, "c1"),
        (1, {"a1": 1, "b1": 1, "c1": 1}, "a1"),
        (2, {"a1": 2, "b1": 2}, "c1"),
    ],
    ids=["empty", "one", "two", "even again", "the skew is used up"],
)
def test_the_skew_is_kept(skew, there, node):
    assert chosen(web(constraint(skew)), NODES, *crowd(**there)) == node


def test_where_no_domain_will_do_it_waits():
    full = counted("b1", "b", unschedulable=True)
    found = decided(web(constraint()), [NODES[0], full], *crowd(a1=1))
    assert found.node is None
    assert "1 node(s) didn't match pod topology spread constraints" in found.message


def test_nodes_without_the_label_are_out():
    bare = counted("bare")
    found = decided(web(constraint()), [bare])
    assert "topology spread constraints (missing required label)" in found.message


def test_fewer_domains_than_wanted_count_as_empty_ones():
    two = NODES[:2]
    assert chosen(web(constraint(minDomains=3)), two, *crowd(a1=1, b1=1)) == ""
    assert chosen(web(constraint(minDomains=2)), two, *crowd(a1=1, b1=1)) == "a1"


def test_nodes_that_the_pod_cannot_have_are_no_domains_unless_told():
    here = {"kubernetes.io/os": "linux"}
    nodes = [a_node("a1", partition=None, labels={ZONE: "a", **here}), counted("b1", "b")]
    pod = web(constraint(), nodeSelector=here)
    assert chosen(pod, nodes, *crowd(a1=3)) == "a1"
    pod = web(constraint(nodeAffinityPolicy="Ignore"), nodeSelector=here)
    assert chosen(pod, nodes, *crowd(a1=3)) == ""


def test_tainted_nodes_are_domains_unless_told():
    tainted = counted("b1", "b", taints=[{"key": "k", "effect": "NoSchedule"}])
    nodes = [NODES[0], tainted]
    assert chosen(web(constraint()), nodes, *crowd(a1=1)) == ""
    assert chosen(web(constraint(nodeTaintsPolicy="Honor")), nodes, *crowd(a1=1)) == "a1"


def test_soft_constraints_prefer_the_emptiest():
    soft = constraint(hard=False)
    assert chosen(web(soft), NODES, *crowd(a1=2, b1=1, c1=3)) == "b1"
    assert chosen(web(soft), NODES[:1], *crowd(a1=5)) == "a1"


def test_only_pods_of_the_namespace_that_stay_count():
    elsewhere = placed("e", "a1", labels=WEB, namespace="other")
    leaving = placed("l", "a1", labels=WEB)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert "a1" in will_do(web(constraint()), NODES, elsewhere, leaving)


def test_match_label_keys_tell_revisions_apart():
    old = placed("old", "a1", labels={**WEB, "hash": "1"})
    pod = waiting(
        labels={**WEB, "hash": "2"},
        topologySpreadConstraints=[constraint(matchLabelKeys=["hash"])],
    )
    assert "a1" in will_do(pod, NODES, old)


def test_hosts_of_a_partition_are_slurms():
    partition = a_node("main")
    pod = web(constraint(key=HOSTNAME))
    assert chosen(pod, [partition], *crowd(main=5)) == "main"
