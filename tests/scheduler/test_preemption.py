"""Who goes when somebody more important comes."""

from __future__ import annotations

import pytest

from tests.scheduler.clusters import decided, placed, waiting
from tests.scheduler.nodes import a_node


def node(name="n", cpu="4"):
    return a_node(name, partition=None, cpu=cpu)


def pod(name, cpu, priority, on="n", **more):
    return placed(name, on, requests={"cpu": cpu}, priority=priority, **more)


def vip(cpu="2", **more):
    return waiting(requests={"cpu": cpu}, **{"priority": 100, **more})


def victims(found):
    names = sorted(one["metadata"]["name"] for one in found.plan.victims)
    return found.plan.node["metadata"]["name"], names


def test_the_least_important_goes_and_no_more_than_needed():
    there = [pod("low", "2", 1), pod("mid", "2", 5)]
    assert victims(decided(vip(), [node()], *there)) == ("n", ["low"])
    assert victims(decided(vip("4"), [node()], *there)) == ("n", ["low", "mid"])


def test_nobody_goes_for_an_equal():
    found = decided(vip(), [node()], pod("same", "4", 100))
    assert found.plan is None
    assert found.message.endswith(
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_nobody_goes_in_vain():
    found = decided(vip("5"), [node()], pod("low", "4", 1))
    assert found.plan is None


def test_who_does_not_want_to_drive_others_out_does_not():
    found = decided(vip(preemptionPolicy="Never"), [node()], pod("low", "4", 1))
    assert found.plan is None
    assert "preemption: not eligible due to preemptionPolicy=Never." in found.message


def test_who_has_been_made_room_for_waits_for_it():
    leaving = pod("low", "4", 1)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    again = vip(status={"phase": "Pending", "nominatedNodeName": "n"})
    found = decided(again, [node()], leaving)
    assert found.plan is None
    assert "not eligible due to a terminating pod on the nominated node." in found.message


@pytest.mark.parametrize(
    ("there", "where"),
    [
        ([pod("a", "4", 5, "n1"), pod("b", "4", 3, "n2")], "n2"),
        ([pod("a", "2", 3, "n1"), pod("c", "2", 3, "n1"), pod("b", "4", 3, "n2")], "n2"),
        (
            [
                pod("a", "4", 3, "n1", started="2026-01-01T00:00:00Z"),
                pod("b", "4", 3, "n2", started="2026-02-01T00:00:00Z"),
            ],
            "n2",
        ),
    ],
    ids=["the less important", "the fewer", "who began later"],
)
def test_which_node(there, where):
    assert victims(decided(vip("4"), [node("n1"), node("n2")], *there))[0] == where


def test_budgets_are_kept_where_there_is_a_choice():
    budget = {
        "metadata": {"name": "b", "namespace": "default", "uid": "b"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0},
    }
    there = [pod("db", "4", 1, "n1", labels={"app": "db"}), pod("web", "4", 9, "n2")]
    nodes = [node("n1"), node("n2")]
    assert victims(decided(vip("4"), nodes, *there, budgets=[budget])) == ("n2", ["web"])
    assert victims(decided(vip("4"), nodes[:1], *there, budgets=[budget])) == ("n1", ["db"])


def test_slurm_decides_in_partitions():
    partition = a_node("main", host=(2, 1000))
    found = decided(vip("3"), [partition], pod("low", "2", 1, "main"))
    assert found.plan is None
    assert "preemption" not in found.message
    mixed = decided(vip("5"), [partition, node()], pod("low", "2", 1, "main"))
    assert "1 Preemption is not helpful for scheduling" in mixed.message


def test_those_who_keep_others_away_may_have_to_go():
    away = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "labelSelector": {"matchLabels": {"app": "db"}},
                    "topologyKey": "kubernetes.io/hostname",
                }
            ]
        }
    }
    found = decided(vip(affinity=away), [node()], pod("db", "1", 1, labels={"app": "db"}))
    assert victims(found) == ("n", ["db"])
