"""By kind and subresource: which fields whoever may write there can change, and no others."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from orlop.api import kinds, strategy
from orlop.api.kinds import Kind
from orlop.wellknown import FLAGS, GROUP, JOB_ID, MIRROR, PRE_EXEC, RUNTIME_ANNOTATION

Obj = dict[str, Any]
LEVEL = "pod-security.kubernetes.io/enforce"
ASKED = (FLAGS, GROUP, MIRROR, PRE_EXEC, RUNTIME_ANNOTATION, "slurm-job.hpk.io/flags",
         "slurmjob.slinky.slurm.net/qos", "slurm.orlop.dev/nodelist")  # fmt: skip
_ALL = ("spec", "data", "stringData", "rules", "roleRef", "subjects", "template", "webhooks",
        "type", "immutable", "endpoints", "ports", "addressType", "secrets", "value",
        "provisioner")  # fmt: skip
FORGED = ("uid", "creationTimestamp", "generation", "deletionTimestamp",
          "deletionGracePeriodSeconds", "selfLink")  # fmt: skip

# What a status update may change beside the status; upstream's strategies have these.
AROUND = {"metadata.labels.a", "metadata.annotations.a", "metadata.finalizers",
          "metadata.managedFields", "metadata.annotations." + JOB_ID}  # fmt: skip
_FREE = {"metadata.labels." + LEVEL, *(f"metadata.annotations.{name}" for name in ASKED)}
OF_STATUS: dict[str, set[str]] = {
    "pods": AROUND | {"metadata.labels." + LEVEL},
    "namespaces": AROUND,
    "deployments.apps": {one for one in AROUND | _FREE if "labels" not in one},
    **{
        f"{plural}.{group}": {"metadata.managedFields"}
        for group, plural in strategy._STATUS_ALONE  # as upstream's ResetObjectMetaForStatus
    },
}


def obj(mark: str) -> Obj:
    """An object in which every field there could be says `mark`."""
    number = 3 if mark == "old" else 8
    metadata: Obj = {
        "name": "x",
        "labels": {"a": mark, LEVEL: mark},
        "annotations": {"a": mark, JOB_ID: mark, **dict.fromkeys(ASKED, mark)},
        "finalizers": [f"{mark}.example.com/f"],
        "ownerReferences": [{"kind": "Pod", "name": mark, "uid": mark}],
        "managedFields": [{"manager": mark}],
        **dict.fromkeys(FORGED, mark),
        "generation": number,
    }
    conditions = [{"type": kind, "status": mark} for kind in ("Approved", "Denied", "Ready")]
    status = {"phase": mark, "conditions": conditions}
    return {"metadata": metadata, "status": status, **{name: {"f": mark} for name in _ALL}}


def changed(new: Obj, old: Obj, path: str = "") -> Iterator[str]:
    """The paths of fields that differ; of labels and annotations each, of others the whole."""
    for name in sorted({*new, *old}):
        here = f"{path}.{name}" if path else name
        if new.get(name) == old.get(name):
            continue
        if here in ("metadata", "metadata.labels", "metadata.annotations", "status"):
            yield from changed(new.get(name) or {}, old.get(name) or {}, here)
        else:
            yield here


@pytest.mark.parametrize(
    "kind", [one for one in kinds.BUILT_IN if one.has_status], ids=lambda kind: kind.resource
)
def test_a_status_update_changes_the_status(kind: Kind) -> None:
    new = copy.deepcopy(obj("new"))
    strategy.prepare_for_status_update(kind, new, copy.deepcopy(obj("old")))
    found = set(changed(new, obj("old")))
    assert found - {"status.phase", "status.conditions"} == OF_STATUS.get(
        kind.resource, AROUND | _FREE
    )
    said = {one["type"]: one["status"] for one in new["status"]["conditions"]}
    is_request = kind.kind == "CertificateSigningRequest"
    assert said["Approved"] == said["Denied"] == ("old" if is_request else "new")
    assert said["Ready"] == "new"


# What an update of the object itself may not change, beside what validation keeps as it was.
KEPT: dict[str, set[str]] = {
    "namespaces": {"spec.finalizers"},
    "certificatesigningrequests.certificates.k8s.io": {"spec"},
}


@pytest.mark.parametrize("kind", kinds.BUILT_IN, ids=lambda kind: f"{kind.resource}/{kind.version}")
def test_an_update_changes_no_status_and_nothing_of_the_servers(kind: Kind) -> None:
    new, old = obj("new"), obj("old")
    new["spec"]["finalizers"], old["spec"]["finalizers"] = ["new"], ["old"]
    new.pop("stringData")
    old.pop("stringData")
    before = copy.deepcopy(old)
    if kind == kinds.CUSTOM_RESOURCE_DEFINITION:
        before["status"] |= {"storedVersions": [""]}
        old["status"] |= {"storedVersions": [""]}
    strategy.prepare_for_update(kind, new, old)
    expected = {**before["metadata"]}
    if kind.keeps_generation:
        expected["generation"] = 4
    assert {name: new["metadata"][name] for name in FORGED} == {
        name: expected[name] for name in FORGED
    }
    if kind.has_status:
        assert new["status"] == before["status"]
    kept = KEPT.get(kind.resource, set())
    assert ("spec" in kept) == (new["spec"] == before["spec"])
    if "spec.finalizers" in kept:
        assert new["spec"]["finalizers"] == ["old"]


@pytest.mark.parametrize("kind", kinds.BUILT_IN, ids=lambda kind: f"{kind.resource}/{kind.version}")
def test_a_new_object_has_nothing_of_the_servers(kind: Kind) -> None:
    new = obj("new")
    new["spec"] = {"containers": [], "template": {}, "versions": []}
    new["stringData"] = {}
    strategy.prepare_for_create(kind, new, now=0.0, uid="its own")
    assert new["metadata"]["uid"] == "its own"
    assert new["metadata"]["creationTimestamp"] == "1970-01-01T00:00:00Z"
    assert not {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} & {*new["metadata"]}
    assert new["metadata"].get("generation") == (1 if kind.keeps_generation else None)
    if kind.has_status and kind != kinds.NODE:
        assert "Approved" not in str(new.get("status"))
        assert (new.get("status") or {}).get("phase") != "new"
