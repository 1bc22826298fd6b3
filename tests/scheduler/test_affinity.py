"""Who must be near whom, who must not, and who would rather."""

from __future__ import annotations

import time

import pytest

from tests.scheduler.clusters import HOSTNAME, ZONE, chosen, decided, placed, waiting, will_do
from tests.scheduler.nodes import a_node

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def counted(name, zone=""):
    return a_node(name, partition=None, labels={ZONE: zone} if zone else {})


A1, A2, B1 = counted("a1", "a"), counted("a2", "a"), counted("b1", "b")
NODES = [A1, A2, B1]


def term(labels=None, key=HOSTNAME, **more):
    return {"labelSelector": {"matchLabels": labels or {"app": "db"}}, "topologyKey": key, **more}


def near(*terms):
    return {"podAffinity": {REQUIRED: list(terms)}}


def away(*terms):
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def rather(kind, *weighted):
    terms = [{"weight": weight, "podAffinityTerm": one} for weight, one in weighted]
    return {kind: {PREFERRED: terms}}


DB = {"app": "db"}


@pytest.mark.parametrize(
    ("affinity", "pods", "node"),
    [
        (near(term()), [placed("db", "a2", labels=DB)], "a2"),
        (near(term(key=ZONE)), [placed("db", "b1", labels=DB)], "b1"),
        (near(term()), [], ""),
        (near(term()), [placed("db", "a2", labels={"app": "web"})], ""),
        (away(term()), [placed("db", "a1", labels=DB)], "a2"),
        (away(term(key=ZONE)), [placed("db", "a1", labels=DB)], "b1"),
        (away(term(key=ZONE)), [placed("d", "a1", labels=DB), placed("e", "b1", labels=DB)], ""),
        (near(term(key="rack")), [placed("db", "a2", labels=DB)], ""),
        (away(term(key="rack")), [placed("db", "a1", labels=DB)], "a1"),
    ],
    ids=[
        "near on a host",
        "near in a zone",
        "near nobody",
        "near others is not near",
        "away on a host",
        "away in a zone",
        "away from everywhere",
        "near by a label that no node has",
        "away by a label that no node has",
    ],
)
def test_required_terms(affinity, pods, node):
    left = will_do(waiting(affinity=affinity), NODES, *pods)
    assert (node in left) if node else not left


def test_the_first_of_a_group_that_wants_to_be_together_may_begin():
    own = waiting(labels=DB, affinity=near(term(key=ZONE)))
    assert chosen(own, NODES) == "a1"
    assert chosen(own, NODES, placed("other", "b1", labels=DB)) == "b1"


def test_all_terms_of_affinity_must_hold():
    both = near(term(key=ZONE), term({"tier": "x"}))
    pods = [placed("d", "b1", labels={**DB, "tier": "x"}), placed("e", "a1", labels=DB)]
    assert chosen(waiting(affinity=both), NODES, *pods) == "b1"


def test_pods_that_are_there_refuse_whom_they_do_not_want():
    lonely = placed("lonely", "a1", affinity=away(term({"app": "web"}, ZONE)))
    assert chosen(waiting(labels={"app": "web"}), NODES, lonely) == "b1"
    assert "a1" in will_do(waiting(labels={"app": "other"}), NODES, lonely)
    said = decided(waiting(labels={"app": "web"}), [A1, A2], lonely).message
    assert "2 node(s) didn't satisfy existing pods anti-affinity rules" in said


@pytest.mark.parametrize(
    ("more", "may_share"),
    [
        ({}, True),
        ({"namespaces": ["prod"]}, False),
        ({"namespaceSelector": {}}, False),
        ({"namespaceSelector": {"matchLabels": {"env": "prod"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"env": "test"}}}, True),
    ],
    ids=["its own", "by name", "all", "by label", "by another label"],
)
def test_whose_namespaces_count(more, may_share):
    there = placed("db", "a1", labels=DB, namespace="prod")
    pod = waiting(affinity=away(term(**more)))
    left = will_do(pod, NODES, there, namespaces={"prod": {"env": "prod"}})
    assert ("a1" in left) is may_share


def test_match_label_keys_mean_the_pods_own_values():
    labels = {**DB, "pod-template-hash": "2"}
    old = placed("old", "a1", labels={**DB, "pod-template-hash": "1"})
    pod = waiting(labels=labels, affinity=away(term(matchLabelKeys=["pod-template-hash"])))
    assert "a1" in will_do(pod, NODES, old)
    pod = waiting(labels=labels, affinity=away(term(mismatchLabelKeys=["pod-template-hash"])))
    assert "a1" not in will_do(pod, NODES, old)


def test_preferences_are_weighed():
    pods = [placed("db", "b1", labels=DB), placed("noise", "a1", labels={"app": "noise"})]
    likes = rather("podAffinity", (10, term()))
    assert chosen(waiting(affinity=likes), NODES, *pods) == "b1"
    dislikes = rather("podAntiAffinity", (10, term({"app": "noise"}, ZONE)))
    assert chosen(waiting(affinity=dislikes), NODES, *pods) == "b1"
    torn = {**rather("podAffinity", (5, term())), **rather("podAntiAffinity", (50, term()))}
    assert chosen(waiting(affinity=torn), NODES, *pods) != "b1"


def test_preferences_of_those_that_are_there_count():
    friend = placed("friend", "b1", affinity=rather("podAffinity", (10, term({"app": "web"}))))
    assert chosen(waiting(labels={"app": "web"}), NODES, friend) == "b1"


def test_pods_on_their_way_are_neighbours_already():
    other = waiting("other", labels=DB)
    assumed = {("default", "other"): (other, "a1")}
    assert chosen(waiting(affinity=away(term())), NODES, assumed=assumed) == "a2"


def test_it_says_what_it_waits_for():
    found = decided(waiting(affinity=near(term())), NODES)
    assert found.message.startswith(
        "0/3 nodes are available: 3 node(s) didn't match pod affinity rules."
    )
    assert "It waits for a pod that it must be near" in found.message


PARTITIONS = [a_node("big"), a_node("main", default=True)]


def test_between_hosts_of_a_partition_slurm_chooses():
    pods = [placed("db", "main", labels=DB, hosts="n3")]
    assert chosen(waiting(affinity=away(term())), PARTITIONS, *pods) == "main"
    assert chosen(waiting(affinity=near(term())), PARTITIONS, *pods) == "main"
    pods = [placed("db", "big", labels=DB, hosts="n7")]
    assert chosen(waiting(affinity=near(term())), PARTITIONS, *pods) == "big"


def test_near_a_pod_that_is_still_queued_is_nowhere_yet():
    queued = placed("db", "main", labels=DB)
    assert chosen(waiting(affinity=near(term())), PARTITIONS, queued) == ""


def test_between_partitions_terms_hold_as_between_nodes():
    by_partition = away(term(key="slurm.orlop.dev/partition"))
    there = placed("db", "main", labels=DB)
    assert chosen(waiting(affinity=by_partition), PARTITIONS, there) == "big"


@pytest.mark.parametrize("hosts", ["n[1-", "n" + "[0-99]" * 20, "[x]"])
def test_a_host_list_that_somebody_wrote_into_a_pod_keeps_nobody_from_being_placed(hosts):
    pods = [placed("db", "big", labels=DB, hosts=hosts), placed("db2", "main", labels=DB)]
    assert chosen(waiting(affinity=away(term())), PARTITIONS, *pods) in ("main", "big")


def test_lists_of_very_many_hosts_hold_nobody_up():
    """Whoever may change pods may write one into each of theirs."""
    pods = [placed(f"db{n}", "big", labels=DB, hosts=f"n[{n}-60000]") for n in range(300)]
    began = time.process_time()
    assert chosen(waiting(affinity=near(term())), PARTITIONS, *pods) == "big"
    assert time.process_time() - began < 2
