"""Finds which ReplicaSet is of today's template, and numbers the revisions of a Deployment.

Called by the Deployment controller. `kubectl rollout history` and `undo` read the annotations that
are computed here. Pure. As pkg/controller/deployment/util/deployment_util.go.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from ....api.kinds import REPLICA_SET
from ....api.names import SUFFIX_ALPHABET
from ....api.objects import Obj, annotations_of, labels_of, meta, owner_reference
from ..pod_control import deep_copy

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAX = "deployment.kubernetes.io/max-replicas"
_HISTORY_LENGTH = 2000  # characters, as upstream: the oldest numbers go first
# What a Deployment's annotations say of itself, and would be wrong on its ReplicaSets.
_NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        HISTORY,
        DESIRED,
        MAX,
    }
)


def template_hash(template: Obj, collisions: int = 0) -> str:
    """Return a short name of a pod template, equal for equal templates; `collisions` changes it."""
    text = msgspec.json.encode([template, collisions], order="sorted")
    number = int.from_bytes(hashlib.blake2s(text, digest_size=4).digest(), "big")
    return "".join(SUFFIX_ALPHABET[ord(digit) % len(SUFFIX_ALPHABET)] for digit in str(number))


def is_same_template(one: Obj, other: Obj) -> bool:
    """Return whether two templates are equal but for the hash that a ReplicaSet's carries."""
    return _without_hash(one) == _without_hash(other)


def _without_hash(template: Obj) -> Obj:
    labels = labels_of(template)
    if HASH_LABEL not in labels:
        return template
    kept = {name: value for name, value in labels.items() if name != HASH_LABEL}
    return {**template, "metadata": {**meta(template), "labels": kept}}


def split(deployment: Obj, replica_sets: Sequence[Obj]) -> tuple[Obj | None, list[Obj]]:
    """Return the ReplicaSet of today's template, if any, and the old ones, oldest first."""
    ordered = sorted(replica_sets, key=age_order)
    template = deployment["spec"]["template"]
    new = next(
        (one for one in ordered if is_same_template(one["spec"]["template"], template)), None
    )
    return new, [one for one in ordered if one is not new]


def age_order(obj: Obj) -> tuple[str, str]:
    """Return a sort key, oldest first."""
    return meta(obj).get("creationTimestamp") or "", meta(obj)["name"]


def revision_number(obj: Obj) -> int:
    text = annotations_of(obj).get(REVISION, "")
    return int(text) if text.isdecimal() else 0


def next_revision(old: Sequence[Obj]) -> int:
    return max((revision_number(one) for one in old), default=0) + 1


def copied_annotations(deployment: Obj) -> dict[str, str]:
    return {
        name: value for name, value in annotations_of(deployment).items() if name not in _NOT_COPIED
    }


def updated_annotations(deployment: Obj, new: Obj, revision: int) -> dict[str, str]:
    """Return which annotations of the new ReplicaSet must change, and to what."""
    former = annotations_of(new)
    wanted = copied_annotations(deployment)
    if revision_number(new) < revision:
        wanted[REVISION] = str(revision)
        if former.get(REVISION):
            wanted[HISTORY] = _history(former.get(HISTORY, ""), former[REVISION])
    return {name: value for name, value in wanted.items() if former.get(name) != value}


def _history(history: str, revision: str) -> str:
    """Return the revisions a ReplicaSet had before `kubectl rollout undo` came back to it."""
    past = [*(history.split(",") if history else ()), revision]
    while len(",".join(past)) > _HISTORY_LENGTH and len(past) > 1:
        past.pop(0)
    return ",".join(past)


def new_replica_set(deployment: Obj, replicas: int, max_replicas: int, revision: int) -> Obj:
    """Return the ReplicaSet of the Deployment's present template."""
    spec = deployment["spec"]
    collisions = (deployment.get("status") or {}).get("collisionCount", 0)
    hashed = template_hash(spec["template"], collisions)
    template = deep_copy(spec["template"])
    labels = {**labels_of(template), HASH_LABEL: hashed}
    template.setdefault("metadata", {})["labels"] = labels
    selector = deep_copy(spec["selector"])
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: hashed}
    return {
        "apiVersion": REPLICA_SET.api_version,
        "kind": REPLICA_SET.kind,
        "metadata": {
            "name": f"{meta(deployment)['name']}-{hashed}",
            "namespace": meta(deployment)["namespace"],
            "labels": labels,
            "annotations": {
                **copied_annotations(deployment),
                REVISION: str(revision),
                DESIRED: str(spec.get("replicas", 1)),
                MAX: str(max_replicas),
            },
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": spec.get("minReadySeconds", 0),
            "selector": selector,
            "template": template,
        },
    }
