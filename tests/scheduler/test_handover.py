"""What Slurm is told about hosts, and what people are told that it is not."""

from __future__ import annotations

import pytest

from orlop.scheduler import affinity
from orlop.scheduler.handover import handover
from tests.scheduler.clusters import HOSTNAME, placed, snapshot, waiting
from tests.scheduler.nodes import a_node
from tests.scheduler.test_affinity import away, near, rather, term

MAIN = a_node("main")
DB = {"app": "db"}


def told(pod, *pods, node=MAIN):
    return handover(pod, node, affinity.prepare(pod, snapshot([node], *pods)))


def test_a_pod_without_such_wishes_says_nothing():
    found = told(waiting())
    assert (found.annotations, found.passed, found.lost) == ({}, [], [])


def test_away_from_others_is_a_host_of_its_own():
    found = told(waiting(affinity=away(term())))
    assert found.annotations == {"slurm.orlop.dev/exclusive": "true"}
    assert "--exclusive" in found.passed[0]


def test_near_another_is_its_host():
    found = told(waiting(affinity=near(term())), placed("db", "main", labels=DB, hosts="n3"))
    assert found.annotations == {"slurm.orlop.dev/nodelist": "n3"}


def test_the_first_of_a_group_goes_anywhere():
    assert told(waiting(labels=DB, affinity=near(term()))).annotations == {}


def test_the_pods_own_words_stand():
    own = waiting(affinity=away(term()), annotations={"slurm.orlop.dev/exclusive": "false"})
    assert told(own).annotations == {}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"affinity": rather("podAntiAffinity", (1, term()))},
            "preferred pod anti-affinity between hosts cannot be passed on",
        ),
        (
            {
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": HOSTNAME,
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {},
                    }
                ]
            },
            "topology spread constraints between hosts cannot be passed on",
        ),
    ],
    ids=["preferences", "spreading"],
)
def test_what_cannot_be_told_is_said(spec, words):
    lost = told(waiting(**spec)).lost
    assert lost[0] == words
    assert lost[-1] == "within partition main Slurm places by its own rules"


def test_other_nodes_are_scheduled_and_told_nothing():
    other = a_node("n", partition=None)
    assert told(waiting(affinity=away(term())), node=other).annotations == {}
