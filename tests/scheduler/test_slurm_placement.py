"""What Slurm is told about hosts, and what people are told that it is not."""

from __future__ import annotations

import pytest

from orlop.scheduler import affinity
from orlop.scheduler.slurm_placement import handover
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


IB, INTEL = "feature.slurm.orlop.dev/ib", "feature.slurm.orlop.dev/intel"


def to_features(*terms):
    made = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": ["true"]} for key in keys]}
        for keys in terms
    ]
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": made}
        }
    }


@pytest.mark.parametrize(
    ("terms", "own", "constraint"),
    [
        ([[IB]], "", "ib"),
        ([[IB, INTEL]], "", "ib&intel"),
        ([[IB, INTEL], [IB]], "", "ib"),
        ([[IB, "feature.slurm.orlop.dev/none"], [INTEL]], "", "intel"),
        ([[IB]], "big", "big&ib"),
        ([[IB]], "ib", "ib"),
    ],
    ids=["one", "both", "the least will do", "what the node has", "with its own", "the same"],
)
def test_features_that_affinity_asks_for_are_a_constraint(terms, own, constraint):
    notes = {"slurm.orlop.dev/constraint": own} if own else {}
    node = a_node("main", labels={IB: "true", INTEL: "true"})
    found = told(waiting(affinity=to_features(*terms), annotations=notes), node=node)
    assert found.annotations == {"slurm.orlop.dev/constraint": constraint}


S1, MI = "switch.slurm.orlop.dev/s1", "gpu.slurm.orlop.dev/mi210"


@pytest.mark.parametrize(
    ("key", "operator", "values", "hosts"),
    [
        (S1, "In", ["true"], S1),
        (MI, "Exists", None, MI),
        (S1, "NotIn", ["true"], f"!{S1}"),
        (IB, "DoesNotExist", None, f"!{IB}"),
        (IB, "NotIn", ["false"], None),
    ],
)
def test_other_labels_of_hosts_are_passed_on_as_a_selector(key, operator, values, hosts):
    expression = {"key": key, "operator": operator, **({"values": values} if values else {})}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    node = a_node("main", labels=dict.fromkeys((S1, MI, IB), "true"))
    node["metadata"]["annotations"] = {"slurm.orlop.dev/labels-of-some-hosts": f"{IB},{S1}"}
    found = told(waiting(affinity=affinity), node=node)
    assert found.annotations == ({"slurm.orlop.dev/hosts": hosts} if hosts else {})
    assert bool(found.passed) == bool(hosts)


def test_a_constraint_that_cannot_be_joined_is_said():
    notes = {"slurm.orlop.dev/constraint": "[rack1|rack2]"}
    node = a_node("main", labels={IB: "true"})
    found = told(waiting(affinity=to_features([IB]), annotations=notes), node=node)
    assert found.annotations == {}
    assert "cannot be joined with a selection of features (ib)" in found.lost[0]


def test_other_nodes_are_scheduled_and_told_nothing():
    other = a_node("n", partition=None)
    assert told(waiting(affinity=away(term())), node=other).annotations == {}
