"""Which gang a pod is a member of."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api.gangs import LaterMembers, keys_of, later_of, mark_of, room_for
from orlop.errors import ConfigError

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


def test_what_comes_later_is_read_as_it_was_written():
    template = {
        "metadata": {"annotations": {"slurm.orlop.dev/time": "5"}},
        "spec": {"containers": [{"name": "c0", "resources": {"requests": {"cpu": "2"}}}]},
    }
    later = [LaterMembers(3, template)]
    assert later_of(room_for(later)) == later
    assert later_of("") == []
    assert later_of('[{"spec": {"containers": [{}]}}]')[0].count == 1


@pytest.mark.parametrize("text", ["4", "{}", "[{}]", "[4]", '[{"count": 0, "spec": {}}]', "x"])
def test_what_cannot_be_read_as_pods_to_come_is_refused(text):
    with pytest.raises(ConfigError, match="gang-room: expected pods that come later"):
        later_of(text)


@pytest.mark.parametrize("value", ["", "false", " "])
def test_a_pod_without_a_mark_is_in_no_gang(value):
    pod = a_pod({"slurm.orlop.dev/gang": value})
    assert mark_of(pod) is None
    assert keys_of(pod) == ()


def test_a_pod_in_a_group_may_say_that_it_starts_on_its_own():
    """As one whose ranks are to be started, in a PodGroup that is no gang."""
    pod = a_pod({"slurm.orlop.dev/gang": "false"}, labels={"scheduling.x-k8s.io/pod-group": "g"})
    pod["spec"] = {"schedulingGroup": {"podGroupName": "g"}}
    assert mark_of(pod) is None
    assert keys_of(pod) == ()


def test_a_gang_of_its_owner_needs_an_owner():
    pod = a_pod({"slurm.orlop.dev/gang": "true"})
    mark = mark_of(pod)
    assert mark is not None
    assert mark.key == ""
    assert keys_of(pod) == ()
