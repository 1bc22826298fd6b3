"""Which gang a pod is a member of."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api.gangs import keys_of, mark_of

OWNER = {"kind": "Job", "name": "train", "uid": "u1", "controller": True}


def a_pod(
    annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None, **more: Any
) -> dict[str, Any]:
    metadata = {"namespace": "team", "name": "p", "uid": "u", **more}
    return {"metadata": {**metadata, "annotations": annotations or {}, "labels": labels or {}}}


@pytest.mark.parametrize(
    ("pod", "key", "title"),
    [
        (a_pod({"slurm.orlop.dev/gang": "train"}), "team/gang/train", "team/train"),
        (
            a_pod({"slurm.orlop.dev/gang": "true"}, ownerReferences=[OWNER]),
            "team/owner/u1",
            "team/train",
        ),
        (
            a_pod(labels={"scheduling.x-k8s.io/pod-group": "pg"}),
            "team/podgroup/pg",
            "team/pg",
        ),
        (
            a_pod({"slurm.orlop.dev/gang": "a"}, {"scheduling.x-k8s.io/pod-group": "pg"}),
            "team/gang/a",
            "team/a",
        ),
        (
            {**a_pod(), "spec": {"schedulingGroup": {"podGroupName": "sg"}}},
            "team/schedulinggroup/sg",
            "team/sg",
        ),
    ],
    ids=["by name", "by owner", "by pod group", "the annotation first", "by scheduling group"],
)
def test_a_mark_says_which_gang_it_is(pod, key, title):
    mark = mark_of(pod)
    assert mark is not None
    assert (mark.key, mark.title) == (key, title)
    assert keys_of(pod) == (key,)


@pytest.mark.parametrize("value", ["", "false", " "])
def test_a_pod_without_a_mark_is_in_no_gang(value):
    pod = a_pod({"slurm.orlop.dev/gang": value})
    assert mark_of(pod) is None
    assert keys_of(pod) == ()


def test_a_gang_of_its_owner_needs_an_owner():
    pod = a_pod({"slurm.orlop.dev/gang": "true"})
    mark = mark_of(pod)
    assert mark is not None
    assert mark.key == ""
    assert keys_of(pod) == ()
