"""What is free is counted on this host and on others' nodes, never in a partition."""

from __future__ import annotations

import pytest

from tests.scheduler.clusters import chosen, decided, placed, waiting
from tests.scheduler.nodes import a_node

NODE = a_node("n", partition=None, cpu="4", memory="8Gi")


@pytest.mark.parametrize(
    ("requests", "taken", "reason"),
    [
        ({"cpu": "1"}, {"cpu": "3"}, ""),
        ({"cpu": "1500m"}, {"cpu": "3"}, "Insufficient cpu"),
        ({"memory": "6Gi"}, {"memory": "3Gi"}, "Insufficient memory"),
        ({"example.com/license": "1"}, {}, "Insufficient example.com/license"),
        ({}, {"cpu": "4"}, ""),
    ],
    ids=["fits", "cpu", "memory", "what the node has not", "asks for nothing"],
)
def test_requests_are_added_up(requests, taken, reason):
    found = decided(waiting(requests=requests), [NODE], placed("other", "n", requests=taken))
    assert (reason in found.message) if reason else found.node is not None


def test_partitions_are_never_full():
    partition = a_node("main", cpu="4")
    others = [placed(f"o{number}", "main", requests={"cpu": "4"}) for number in range(9)]
    assert chosen(waiting(requests={"cpu": "4"}), [partition], *others) == "main"


def test_pods_that_have_ended_need_nothing():
    done = placed("done", "n", requests={"cpu": "4"})
    done["status"]["phase"] = "Succeeded"
    assert chosen(waiting(requests={"cpu": "4"}), [NODE], done) == "n"


def test_pods_on_their_way_need_what_they_asked_for():
    other = waiting("other", requests={"cpu": "3"})
    assumed = {("default", "other"): (other, "n")}
    assert chosen(waiting(requests={"cpu": "2"}), [NODE], assumed=assumed) == ""


def test_room_that_is_made_for_others_is_not_free_for_lesser_ones():
    promised = {("default", "vip"): (waiting("vip", requests={"cpu": "3"}, priority=10), "n")}
    assert chosen(waiting(requests={"cpu": "2"}, priority=1), [NODE], nominated=promised) == ""
    assert chosen(waiting(requests={"cpu": "2"}, priority=11), [NODE], nominated=promised) == "n"


def test_it_says_what_it_needs_and_what_there_is():
    found = decided(waiting(requests={"cpu": "3"}), [NODE], placed("o", "n", requests={"cpu": "3"}))
    assert "It asks for 3 cpu; the most that is free on one node is 1." in found.message


def test_too_many_pods_are_too_many():
    small = a_node("n", partition=None)
    small["status"]["allocatable"]["pods"] = "1"
    assert "1 Too many pods" in decided(waiting(), [small], placed("o", "n")).message


def test_the_emptier_node_is_taken():
    nodes = [a_node("a", partition=None), a_node("b", partition=None)]
    assert chosen(waiting(), nodes, placed("o", "a")) == "b"
