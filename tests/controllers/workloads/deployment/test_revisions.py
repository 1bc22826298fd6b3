"""Which ReplicaSet is of today, and how revisions are numbered."""

from __future__ import annotations

import pytest

from orlop.controllers.workloads.deployment.revisions import (
    DESIRED,
    HASH_LABEL,
    HISTORY,
    MAX,
    REVISION,
    is_same_template,
    new_replica_set,
    next_revision,
    revision_number,
    split,
    template_hash,
    updated_annotations,
)
from tests.controllers.world import template

TEMPLATE = template({"app": "web"})


def deployment(**metadata) -> dict:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "ns", "uid": "u", **metadata},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": TEMPLATE,
        },
    }


def replica_set(name: str, *, of=TEMPLATE, created="2026", **annotations) -> dict:
    return {
        "metadata": {"name": name, "creationTimestamp": created, "annotations": annotations},
        "spec": {"template": of},
    }


def with_hash(of: dict, value: str = "abc") -> dict:
    labels = {**of["metadata"]["labels"], HASH_LABEL: value}
    return {**of, "metadata": {"labels": labels}}


def test_a_hash_is_of_the_template_and_its_collisions_and_nothing_else():
    same = {"spec": TEMPLATE["spec"], "metadata": TEMPLATE["metadata"]}
    assert template_hash(TEMPLATE) == template_hash(same)
    assert template_hash(TEMPLATE) != template_hash(template({"app": "other"}))
    assert template_hash(TEMPLATE) != template_hash(TEMPLATE, 1)


def test_a_hash_is_fit_for_names():
    for number in range(200):
        value = template_hash(template({"n": str(number)}))
        assert value.isalnum()
        assert value == value.lower()
        assert 1 <= len(value) <= 10


@pytest.mark.parametrize(
    ("other", "same"),
    [(TEMPLATE, True), (with_hash(TEMPLATE), True), (template({"app": "x"}), False),
     (template({"app": "web"}, hostname="h"), False)],
    ids=["itself", "with a hash", "other labels", "other spec"],
)  # fmt: skip
def test_templates_are_the_same_but_for_the_hash(other, same):
    assert is_same_template(TEMPLATE, other) is same


def test_the_oldest_of_equal_ones_is_the_new_one():
    first = replica_set("a", of=with_hash(TEMPLATE, "a"), created="1")
    second = replica_set("b", of=with_hash(TEMPLATE, "b"), created="2")
    stale = replica_set("c", of=template({"app": "old"}), created="0")
    new, old = split(deployment(), [second, stale, first])
    assert new is first
    assert old == [stale, second]
    assert split(deployment(), [stale]) == (None, [stale])


@pytest.mark.parametrize(("text", "number"), [("7", 7), ("", 0), ("x", 0)])
def test_revision_numbers(text, number):
    assert revision_number(replica_set("a", **{REVISION: text})) == number


def test_the_next_revision_follows_the_highest():
    sets = [replica_set("a", **{REVISION: "3"}), replica_set("b", **{REVISION: "7"})]
    assert next_revision(sets) == 8
    assert next_revision([]) == 1


def test_a_revived_replica_set_remembers_what_it_was():
    former = replica_set("a", **{REVISION: "2", HISTORY: "1"})
    assert updated_annotations(deployment(), former, 5) == {REVISION: "5", HISTORY: "1,2"}
    assert updated_annotations(deployment(), former, 2) == {}


def test_its_memory_is_bounded():
    long = ",".join(str(number) for number in range(1000))
    former = replica_set("a", **{REVISION: "1000", HISTORY: long})
    kept = updated_annotations(deployment(), former, 1001)[HISTORY]
    assert len(kept) <= 2000
    assert kept.endswith(",1000")


def test_annotations_of_the_deployment_are_carried_over_but_for_its_own():
    annotations = {
        "kubernetes.io/change-cause": "why",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        REVISION: "9",
    }
    updated = updated_annotations(deployment(annotations=annotations), replica_set("a"), 1)
    assert updated == {"kubernetes.io/change-cause": "why", REVISION: "1"}


def test_a_new_replica_set_is_named_labelled_and_selected_by_its_hash():
    made = new_replica_set(deployment(), 2, 4, 7)
    value = template_hash(TEMPLATE)
    assert made["metadata"]["name"] == f"web-{value}"
    assert made["metadata"]["annotations"] == {REVISION: "7", DESIRED: "3", MAX: "4"}
    assert made["spec"]["selector"]["matchLabels"] == {"app": "web", HASH_LABEL: value}
    assert made["spec"]["template"]["metadata"]["labels"][HASH_LABEL] == value
    assert made["spec"]["replicas"] == 2
    assert HASH_LABEL not in TEMPLATE["metadata"]["labels"]
    assert is_same_template(made["spec"]["template"], TEMPLATE)
