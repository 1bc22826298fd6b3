"""How many members a pod's gang needs, and who they are."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api.objects import Key, uid_of
from orlop.client.workqueue import Backoff
from orlop.errors import ConfigError, NotFound, WaitingForGang
from orlop.kubelet.start.gangs import Gangs, size_of_job

from ..conftest import condition, waiting

GANG, SIZE = "slurm.orlop.dev/gang", "slurm.orlop.dev/gang-size"


class Objects:
    """An API that has a few objects."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self.objects = {(one["kind"], one["metadata"]["name"]): one for one in objects}

    async def get(self, kind: Any, key: Key) -> dict[str, Any]:
        try:
            return self.objects[kind.kind, key.name]
        except KeyError:
            raise NotFound(f"{kind.plural} {key.name} not found") from None


class Cached:
    """A cache with an index, as an informer is."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self.pods = pods
        self.keys: Any = None

    def add_index(self, name: str, keys: Any) -> None:
        self.keys = keys

    def by_index(self, name: str, key: str) -> list[dict[str, Any]]:
        return [pod for pod in self.pods if key in self.keys(pod)]


def a_pod(name: str, owner: str = "", **annotations: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"namespace": "default", "name": name, "uid": f"uid-{name}"}
    metadata["annotations"] = {
        f"slurm.orlop.dev/{key.replace('_', '-')}": value for key, value in annotations.items()
    }
    if owner:
        kind, _, of = owner.partition("/")
        version = "batch/v1" if kind == "Job" else "apps/v1"
        reference = {"apiVersion": version, "kind": kind, "name": of, "uid": f"uid-{of}"}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    return {"metadata": metadata, "spec": {}, "status": {}}


def owner(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name}, "spec": spec}


def gangs_of(pods: list[dict[str, Any]], *objects: dict[str, Any]) -> Gangs:
    cached: Any = Cached(*pods)
    api: Any = Objects(*objects)
    return Gangs(api, cached)


async def test_a_pod_without_a_mark_starts_on_its_own():
    assert await gangs_of([]).of(a_pod("a")) is None


async def test_the_members_of_a_gang_are_those_that_are_still_wanted():
    pods = [a_pod(name, gang="g", gang_size="2") for name in "abcd"]
    pods[1]["status"]["phase"] = "Failed"
    pods[2]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    gang = await gangs_of([*pods, a_pod("e", gang="other", gang_size="2")]).of(pods[0])
    assert gang is not None
    assert (gang.key, gang.name, gang.size) == ("default/gang/g", "default/g", 2)
    assert gang.peers == {uid_of(pods[0]), uid_of(pods[3])}


@pytest.mark.parametrize(
    ("of", "made", "size"),
    [
        ("Job/train", owner("Job", "train", parallelism=4, completions=8), 4),
        ("Job/train", owner("Job", "train", parallelism=4), 4),
        ("StatefulSet/db", owner("StatefulSet", "db", replicas=3), 3),
        ("ReplicaSet/web", owner("ReplicaSet", "web", replicas=2), 2),
    ],
)
async def test_the_size_of_an_owners_gang_is_the_owners(of, made, size):
    pod = a_pod("a", of, gang="true")
    gang = await gangs_of([pod], made).of(pod)
    assert gang is not None
    assert gang.size == size
    assert gang.key == f"default/owner/uid-{made['metadata']['name']}"


async def test_a_size_on_the_pod_itself_holds():
    pod = a_pod("a", "Job/train", gang="true", gang_size="2")
    gang = await gangs_of([pod]).of(pod)
    assert gang is not None
    assert gang.size == 2


async def test_the_size_of_a_pod_groups_gang_is_its_least():
    pod = a_pod("a")
    pod["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "pg"}
    group = {"kind": "PodGroup", "metadata": {"name": "pg"}, "spec": {"minMember": 5}}
    gang = await gangs_of([pod], group).of(pod)
    assert gang is not None
    assert gang.size == 5


@pytest.mark.parametrize(
    ("policy", "size"),
    [({"gang": {"minCount": 3}}, 3), ({"basic": {}}, None)],
    ids=["gang", "basic"],
)
async def test_the_built_in_groups_policy_decides(policy, size):
    pod = a_pod("a")
    pod["spec"]["schedulingGroup"] = {"podGroupName": "pg"}
    group = {"kind": "PodGroup", "metadata": {"name": "pg"}, "spec": {"schedulingPolicy": policy}}
    gang = await gangs_of([pod], group).of(pod)
    assert (gang.size if gang is not None else None) == size


async def test_a_pod_whose_group_does_not_exist_yet_waits_for_it():
    pod = a_pod("a")
    pod["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "pg"}
    with pytest.raises(WaitingForGang, match="its PodGroup default/pg does not exist"):
        await gangs_of([pod]).of(pod)


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (a_pod("a", gang="true"), "the pod has no controller"),
        (a_pod("a", gang="g"), "does not say how many there are"),
        (a_pod("a", gang="g", gang_size="many"), "expected a number from 1 on, found 'many'"),
        (a_pod("a", gang="g", gang_size="0"), "expected a number from 1 on, found '0'"),
        (a_pod("a", "Job/gone", gang="true"), "Job default/gone, which does not exist"),
        (a_pod("a", "Thing/x", gang="true"), "how many pods Thing x has is not known"),
    ],
    ids=lambda value: value if isinstance(value, str) else "pod",
)
async def test_what_cannot_be_known_is_refused_with_the_remedy(pod, words):
    with pytest.raises(ConfigError, match=words):
        await gangs_of([pod]).of(pod)


@pytest.mark.parametrize(
    ("done", "size"), [(0, 4), (5, 3), (8, 1)], ids=["at first", "some are done", "all are"]
)
def test_a_jobs_gang_is_as_large_as_what_is_left_of_it(done, size):
    job = {"spec": {"parallelism": 4, "completions": 8}, "status": {"succeeded": done}}
    assert size_of_job(job) == size


async def test_a_member_says_that_it_waits_and_is_woken_by_the_last(site):
    """Not by its own timer, which is set to an hour here."""

    await site.restart(others=Backoff(3600.0, 3600.0))
    annotations = {GANG: "g", SIZE: "2"}
    site.engine.refusal = WaitingForGang("1 of 2 members of gang default/g are there")
    await site.create("first", metadata={"annotations": annotations})
    pod = await site.until(lambda pod: waiting(pod).get("reason") == "WaitingForGang", name="first")
    allocated = condition(pod, "orlop.dev/Allocated")
    assert (allocated["status"], allocated["reason"]) == ("False", "WaitingForGang")
    assert allocated["message"] == "1 of 2 members of gang default/g are there"
    site.engine.refusal = None
    await site.create("second", metadata={"annotations": annotations})
    for name in ("second", "first"):
        await site.submitted(name)
    gangs = {submission.gang.key for submission in site.engine.submissions}
    assert gangs == {"default/gang/g"}
