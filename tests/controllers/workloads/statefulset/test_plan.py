"""The next step of a StatefulSet, and the identity of its pods."""

from __future__ import annotations

import pytest

from orlop.api.times import rfc3339
from orlop.controllers.workloads.controller_revisions import REVISION_LABEL
from orlop.controllers.workloads.statefulset.controller import status_of
from orlop.controllers.workloads.statefulset.plan import plan, revision_for
from orlop.controllers.workloads.statefulset.pods import (
    claim_owners,
    claims_for,
    ordinal_of,
    ordinals_of,
    pod_for,
)
from tests.controllers.world import template

NOW = 1_800_000_000.0
CLAIM = {"metadata": {"name": "data", "labels": {"tier": "x"}}, "spec": {"accessModes": ["RWO"]}}


def db(replicas: int = 3, **spec) -> dict:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "ns", "uid": "set", "generation": 1},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "db"}},
            "serviceName": "db",
            "template": template({"app": "db"}),
            **spec,
        },
    }


PARALLEL = {"podManagementPolicy": "Parallel"}


def a_pod(ordinal: int, *, revision="new", ready=True, deleting=False, phase="Running") -> dict:
    metadata = {"name": f"db-{ordinal}", "uid": f"u{ordinal}", "labels": {REVISION_LABEL: revision}}
    if deleting:
        metadata["deletionTimestamp"] = rfc3339(NOW)
    status = "True" if ready else "False"
    condition = {"type": "Ready", "status": status, "lastTransitionTime": rfc3339(NOW - 100)}
    return {"metadata": metadata, "spec": {}, "status": {"phase": phase, "conditions": [condition]}}


def step(stateful_set: dict, *pods: dict) -> tuple[list[int], list[str]]:
    found = plan(stateful_set, pods, "new", NOW)
    return found.create, [pod["metadata"]["name"] for pod in found.delete]


@pytest.mark.parametrize(
    ("spec", "pods", "create", "delete"),
    [
        ({}, [], [0], []),
        (PARALLEL, [], [0, 1, 2], []),
        ({}, [a_pod(0)], [1], []),
        ({}, [a_pod(0, ready=False)], [], []),
        ({}, [a_pod(0), a_pod(2)], [1], []),
        ({}, [a_pod(0, deleting=True)], [], []),
        ({}, [a_pod(0, phase="Failed", ready=False)], [], ["db-0"]),
        ({}, [a_pod(n) for n in range(5)], [], ["db-4"]),
        (PARALLEL, [a_pod(n) for n in range(5)], [], ["db-4", "db-3"]),
        ({}, [a_pod(0), a_pod(1), a_pod(2), a_pod(3), a_pod(4, deleting=True)], [], []),
        ({}, [a_pod(0, ready=False), a_pod(1), a_pod(2), a_pod(3)], [], []),
        ({"ordinals": {"start": 5}}, [a_pod(5)], [6], []),
        ({}, [a_pod(0), a_pod(1), a_pod(2)], [], []),
    ],
    ids=["the first", "all at once", "the next", "not before the last is ready", "a gap first",
         "not before the last is gone", "an ended one goes", "too many: the highest",
         "too many: all at once", "one at a time", "not while one is unhealthy", "start elsewhere",
         "nothing to do"],
)  # fmt: skip
def test_the_next_step(spec, pods, create, delete):
    assert step(db(**spec), *pods) == (create, delete)


def rolling(**options) -> dict:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": options}}


OLD = [a_pod(n, revision="old") for n in range(3)]


@pytest.mark.parametrize(
    ("spec", "pods", "delete"),
    [
        ({}, OLD, ["db-2"]),
        ({}, [*OLD[:2], a_pod(2)], ["db-1"]),
        (rolling(partition=2), [*OLD[:2], a_pod(2)], []),
        (rolling(partition=1), [*OLD[:2], a_pod(2)], ["db-1"]),
        ({"updateStrategy": {"type": "OnDelete"}}, OLD, []),
        ({**PARALLEL, **rolling(maxUnavailable=2)}, OLD, ["db-2", "db-1"]),
        ({**PARALLEL, **rolling(maxUnavailable="50%")}, OLD, ["db-2", "db-1"]),
        ({**PARALLEL, **rolling(maxUnavailable=2)}, [*OLD[:2], a_pod(2, ready=False)], ["db-1"]),
        (PARALLEL, [*OLD[:2], a_pod(2, ready=False)], []),
    ],
    ids=["the highest", "the next", "above the partition", "down to the partition", "on delete",
         "several", "a share", "less those not ready", "one at a time"],
)  # fmt: skip
def test_rolling(spec, pods, delete):
    assert step(db(**spec), *pods) == ([], delete)


@pytest.mark.parametrize(
    ("spec", "ordinal", "revision"),
    [({}, 0, "new"), (rolling(partition=2), 1, "old"), (rolling(partition=2), 2, "new"),
     ({**rolling(partition=2), "ordinals": {"start": 10}}, 11, "old"),
     ({"updateStrategy": {"type": "OnDelete"}}, 0, "new")],
)  # fmt: skip
def test_the_revision_of_a_new_pod(spec, ordinal, revision):
    assert revision_for(db(**spec), ordinal, "old", "new") == revision


@pytest.mark.parametrize(
    ("name", "ordinal"),
    [("db-0", 0), ("db-12", 12), ("db-x", None), ("other-0", None), ("db", None), ("db-1-2", None)],
)
def test_ordinals_are_read_from_names(name, ordinal):
    assert ordinal_of({"metadata": {"name": name}}, db()) == ordinal


def test_which_ordinals_there_should_be():
    assert list(ordinals_of(db(2))) == [0, 1]
    assert list(ordinals_of(db(2, ordinals={"start": 7}))) == [7, 8]


def test_a_pod_has_its_names_and_its_claims_in_place_of_the_templates_volumes():
    made = db(volumeClaimTemplates=[CLAIM])
    made["spec"]["template"]["spec"]["volumes"] = [
        {"name": "data", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
    ]
    pod = pod_for(made, 2, made["spec"]["template"], "db-abc")
    assert pod["metadata"]["name"] == pod["spec"]["hostname"] == "db-2"
    assert pod["metadata"]["labels"][REVISION_LABEL] == "db-abc"
    volumes = {one["name"]: one for one in pod["spec"]["volumes"]}
    assert volumes["data"]["persistentVolumeClaim"]["claimName"] == "data-db-2"
    assert volumes["tmp"] == {"name": "tmp", "emptyDir": {}}


def test_claims_are_named_after_their_pods_and_selected_like_them():
    (claim,) = claims_for(db(volumeClaimTemplates=[CLAIM]), 2)
    assert claim["metadata"]["name"] == "data-db-2"
    assert claim["metadata"]["labels"] == {"tier": "x", "app": "db"}
    assert claim["spec"] == CLAIM["spec"]
    assert CLAIM["metadata"]["name"] == "data"


DELETE_BOTH = {"whenDeleted": "Delete", "whenScaled": "Delete"}


@pytest.mark.parametrize(
    ("policy", "is_scaled_away", "owners"),
    [
        (None, True, []),
        ({"whenDeleted": "Delete"}, True, ["set"]),
        ({"whenScaled": "Delete"}, True, ["pod"]),
        ({"whenScaled": "Delete"}, False, []),
        (DELETE_BOTH, False, ["set"]),
        (DELETE_BOTH, True, ["pod"]),
    ],
)
def test_who_takes_a_claim_along(policy, is_scaled_away, owners):
    made = db(persistentVolumeClaimRetentionPolicy=policy)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-2", "uid": "pod"}}
    found = claim_owners(made, pod, is_scaled_away)
    assert [one["uid"] for one in found] == owners


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], {"replicas": 0, "availableReplicas": 0, "currentRevision": "old"}),
        (OLD, {"replicas": 3, "readyReplicas": 3, "currentReplicas": 3,
               "availableReplicas": 3, "currentRevision": "old"}),
        ([*OLD[:2], a_pod(2)], {"replicas": 3, "readyReplicas": 3, "currentReplicas": 2,
                                "updatedReplicas": 1, "availableReplicas": 3,
                                "currentRevision": "old"}),
        ([a_pod(n) for n in range(3)], {"replicas": 3, "readyReplicas": 3, "currentReplicas": 3,
                                        "updatedReplicas": 3, "availableReplicas": 3,
                                        "currentRevision": "new"}),
        ([a_pod(0), a_pod(1), a_pod(2, ready=False)],
         {"replicas": 3, "readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 2,
          "currentRevision": "old"}),
    ],
    ids=["none", "old ones", "half way", "done", "almost done"],
)  # fmt: skip
def test_the_status(pods, expected):
    status = status_of(db(), pods, "old", "new", NOW)
    common = {"observedGeneration": 1, "updateRevision": "new", "collisionCount": 0}
    assert status == {**common, **expected}
