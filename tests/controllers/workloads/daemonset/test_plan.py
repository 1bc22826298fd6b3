"""The next step of a DaemonSet."""

from __future__ import annotations

import pytest

from orlop.api.times import rfc3339
from orlop.controllers.workloads.controller_revisions import REVISION_LABEL
from orlop.controllers.workloads.daemonset.controller import status_of
from orlop.controllers.workloads.daemonset.plan import by_node, node_of, plan
from tests.controllers.world import template
from tests.scheduler.nodes import a_node

NOW = 1_800_000_000.0
NODES = [a_node("n1"), a_node("n2"), a_node("n3")]


def agent(*, min_ready=0, **rolling) -> dict:
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return {
        "metadata": {"name": "agent", "generation": 4},
        "spec": {
            "template": template({"app": "agent"}),
            "updateStrategy": strategy,
            "minReadySeconds": min_ready,
        },
    }


def a_pod(
    name: str,
    node: str,
    *,
    revision="new",
    ready=True,
    deleting=False,
    phase="Running",
    created="1",
) -> dict:
    labels = {REVISION_LABEL: revision}
    metadata = {"name": name, "uid": name, "labels": labels, "creationTimestamp": created}
    if deleting:
        metadata["deletionTimestamp"] = rfc3339(NOW)
    status = "True" if ready else "False"
    condition = {"type": "Ready", "status": status, "lastTransitionTime": rfc3339(NOW - 100)}
    return {
        "metadata": metadata,
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": [condition]},
    }


def on_all(**options) -> list[dict]:
    return [a_pod(f"p{n}", f"n{n}", **options) for n in (1, 2, 3)]


def step(daemon_set: dict, pods, nodes=NODES) -> tuple[list[str], list[str], list[str]]:
    found = plan(daemon_set, nodes, pods, "new", NOW)
    return (
        found.create,
        sorted(pod["metadata"]["name"] for pod in found.delete),
        [pod["metadata"]["name"] for _, pod in found.failed],
    )


@pytest.mark.parametrize(
    ("pods", "create", "delete", "failed"),
    [
        ([], ["n1", "n2", "n3"], [], []),
        (on_all(), [], [], []),
        (on_all()[:2], ["n3"], [], []),
        ([*on_all(), a_pod("late", "n1", created="2")], [], ["late"], []),
        ([*on_all()[:2], a_pod("p3", "n3", phase="Failed", ready=False)], [], [], ["p3"]),
        ([*on_all()[:2], a_pod("p3", "n3", deleting=True)], [], [], []),
    ],
    ids=["none", "all", "one missing", "one too many", "one failed", "one on its way out"],
)
def test_one_on_each_node(pods, create, delete, failed):
    assert step(agent(), pods) == (create, delete, failed)


def test_daemons_leave_nodes_that_drive_them_out_and_stay_where_only_new_ones_are_kept_out():
    nodes = [
        a_node("n1", taints=[{"key": "k", "effect": "NoExecute"}]),
        a_node("n2", taints=[{"key": "k", "effect": "NoSchedule"}]),
        a_node("n3", taints=[{"key": "k", "effect": "NoSchedule"}]),
    ]
    assert step(agent(), on_all()[:2], nodes) == ([], ["p1"], [])


def test_a_daemon_that_waits_for_a_node_that_is_gone_is_given_up():
    waiting = a_pod("lost", "", ready=False, phase="Pending")
    field = {"key": "metadata.name", "operator": "In", "values": ["gone"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    waiting["spec"] = {"affinity": affinity}
    assert node_of(waiting) == "gone"
    assert step(agent(), [*on_all(), waiting]) == ([], ["lost"], [])


@pytest.mark.parametrize(
    ("daemon_set", "pods", "delete"),
    [
        (agent(), on_all(revision="old"), ["p1"]),
        (agent(maxUnavailable=2), on_all(revision="old"), ["p1", "p2"]),
        (agent(maxUnavailable="34%"), on_all(revision="old"), ["p1", "p2"]),
        (agent(), [a_pod("p1", "n1", ready=False), *on_all(revision="old")[1:]], []),
        (agent(), on_all(revision="old", ready=False), ["p1", "p2", "p3"]),
        (agent(), [a_pod("p1", "n1"), *on_all(revision="old")[1:]], ["p2"]),
        (agent(min_ready=200), [a_pod("p1", "n1"), *on_all(revision="old")[1:]], ["p2", "p3"]),
    ],
    ids=["one at a time", "two at a time", "a share", "not while a new one is late",
         "those that serve nobody at once", "the next", "not yet available ones serve nobody"],
)  # fmt: skip
def test_rolling_by_replacement(daemon_set, pods, delete):
    create, deleted, _ = step(daemon_set, pods)
    assert (create, deleted) == ([], delete)


SURGE = agent(maxSurge=1, maxUnavailable=0)


@pytest.mark.parametrize(
    ("pods", "create", "delete"),
    [
        (on_all(revision="old"), ["n1"], []),
        ([*on_all(revision="old"), a_pod("new", "n1", created="2", ready=False)], [], []),
        ([*on_all(revision="old"), a_pod("new", "n1", created="2")], ["n2"], ["p1"]),
        ([a_pod("p1", "n1", revision="old", ready=False), *on_all()[1:]], [], ["p1"]),
        (on_all(), [], []),
    ],
    ids=["a second one first", "until it serves", "then the old goes", "a useless one at once",
         "nothing to do"],
)  # fmt: skip
def test_rolling_by_surge(pods, create, delete):
    created, deleted, _ = step(SURGE, pods)
    assert (created, deleted) == (create, delete)


def test_pods_are_found_on_their_nodes_oldest_first():
    young, old = a_pod("young", "n1", created="2"), a_pod("old", "n1", created="1")
    found = by_node([young, old, a_pod("else", "n2")])
    assert [pod["metadata"]["name"] for pod in found["n1"]] == ["old", "young"]
    assert set(found) == {"n1", "n2"}


def test_the_status_counts_nodes_not_pods():
    nodes = [*NODES, a_node("n4", taints=[{"key": "k", "effect": "NoSchedule"}])]
    pods = [
        a_pod("p1", "n1"),
        a_pod("p1b", "n1", revision="old"),
        a_pod("p2", "n2", revision="old", ready=False),
        a_pod("p4", "n4"),
    ]
    assert status_of(agent(), nodes, pods, "new", NOW) == {
        "desiredNumberScheduled": 3,
        "currentNumberScheduled": 2,
        "numberMisscheduled": 1,
        "numberReady": 1,
        "observedGeneration": 4,
        "updatedNumberScheduled": 1,
        "numberAvailable": 1,
        "numberUnavailable": 2,
    }
