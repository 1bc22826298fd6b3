"""Claims, volumes and classes as the binder, the scheduler and the kubelet all read them.

Pure: which claims a pod has, whether a volume can serve a claim and which serves it best, what
class is the default. As component-helpers/storage/volume and pkg/controller/volume; who binds,
makes or mounts anything is elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..api import quantity, selectors
from ..api.objects import Key, Obj, annotations_of, is_deleting, key_of, labels_of, meta, uid_of
from .affinity import matches_term

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
# The second name of each is upstream's older one, which tools still read and write.
PROVISIONER = ("volume.kubernetes.io/storage-provisioner",
               "volume.beta.kubernetes.io/storage-provisioner")  # fmt: skip
DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class",
                 "storageclass.beta.kubernetes.io/is-default-class")  # fmt: skip
_CLASS = "volume.beta.kubernetes.io/storage-class"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
WAIT = "WaitForFirstConsumer"
ONE_POD = "ReadWriteOncePod"


class PodClaim(NamedTuple):
    """A claim that a pod mounts as one of its volumes."""

    volume: str
    name: str
    is_ephemeral: bool = False
    read_only: bool = False


def claims_of(pod: Obj) -> Iterator[PodClaim]:
    """Yield the claims of a pod's volumes.

    Those of generic ephemeral ones come under their made-up name.
    """
    for volume in pod["spec"].get("volumes") or []:
        source = volume.get("persistentVolumeClaim")
        if source:
            read_only = bool(source.get("readOnly"))
            yield PodClaim(volume["name"], source.get("claimName", ""), read_only=read_only)
        elif volume.get("ephemeral"):
            yield PodClaim(volume["name"], ephemeral_name(pod, volume["name"]), is_ephemeral=True)


def claim_keys(pod: Obj) -> tuple[str, ...]:
    """Return the claims of a pod, as `namespace/name`, for an index."""
    namespace = meta(pod).get("namespace") or ""
    return tuple(str(Key(namespace, claim.name)) for claim in claims_of(pod))


def ephemeral_name(pod: Obj, volume: str) -> str:
    """Return the claim's name for a generic ephemeral volume.

    As component-helpers/storage/ephemeral.
    """
    return f"{meta(pod)['name']}-{volume}"


def not_the_owner(pod: Obj, claim: Obj) -> str:
    """Return why a claim of the right name is not that of the pod's ephemeral volume.

    Empty if it is.
    """
    owners = meta(claim).get("ownerReferences") or []
    if any(owner["uid"] == uid_of(pod) and owner.get("controller") for owner in owners):
        return ""
    return f'PVC "{key_of(claim)}" was not created for pod "{key_of(pod)}" (pod is not the owner)'


# Classes


def class_of(obj: Obj) -> str:
    """Return the class of a claim or a volume; empty where it has none."""
    named = annotations_of(obj).get(_CLASS)
    return named if named is not None else str((obj.get("spec") or {}).get("storageClassName", ""))


def names_no_class(claim: Obj) -> bool:
    """Return whether the default class may be given to it.

    An empty name is a name, and means none.
    """
    return "storageClassName" not in claim["spec"] and _CLASS not in annotations_of(claim)


def is_default(storage_class: Obj) -> bool:
    annotations = annotations_of(storage_class)
    return any(annotations.get(name) == "true" for name in DEFAULT_CLASS)


def default_class(classes: Iterable[Obj]) -> Obj | None:
    """Return the newest of the defaults; of those of one moment the first by name."""
    found = sorted((one for one in classes if is_default(one)), key=lambda one: meta(one)["name"])
    return max(found, key=lambda one: meta(one).get("creationTimestamp") or "", default=None)


def waits_for_consumer(storage_class: Obj | None) -> bool:
    return storage_class is not None and storage_class.get("volumeBindingMode") == WAIT


# Binding


def is_bound(claim: Obj) -> bool:
    """Return whether a claim is bound completely, so that nothing is left to do for it."""
    return bool(claim["spec"].get("volumeName")) and BIND_COMPLETED in annotations_of(claim)


def is_meant_for(volume: Obj, claim: Obj) -> bool:
    """Return whether the volume names this very claim, by its name, or by name and uid."""
    reference = volume["spec"].get("claimRef")
    if not reference:
        return False
    place = Key(reference.get("namespace", ""), reference.get("name", ""))
    return place == key_of(claim) and reference.get("uid", "") in ("", uid_of(claim))


def mismatch(volume: Obj, claim: Obj) -> str:
    """Return why a volume that is named cannot serve a claim; as checkVolumeSatisfyClaim."""
    if class_of(volume) != class_of(claim):
        return "storageClassName does not match"
    return _cannot_serve(volume, claim)


def _cannot_serve(volume: Obj, claim: Obj) -> str:
    """Return why a volume cannot serve a claim, for reasons that no word of a user can mend."""
    if is_deleting(volume):
        return "the volume is marked for deletion"
    if size_of(volume) < request_of(claim):
        return "requested PV is too small"
    if _mode(volume) != _mode(claim):
        return "incompatible volumeMode"
    if not _has_modes(volume, claim):
        return "incompatible accessMode"
    return ""


def best_volume(claim: Obj, volumes: Iterable[Obj], node: Obj | None = None) -> Obj | None:
    """Return the volume that was made for the claim, else the smallest that will do.

    With a `node`, volumes that cannot be reached there are left out; as FindMatchingVolume.
    """
    smallest: Obj | None = None
    selector = selectors.from_structure(claim["spec"].get("selector"))
    for volume in sorted(volumes, key=lambda one: str(meta(one)["name"])):
        if is_meant_for(volume, claim):
            if not _cannot_serve(volume, claim):
                return volume
            continue
        if volume["spec"].get("claimRef") or mismatch(volume, claim):
            continue
        if (volume.get("status") or {}).get("phase") not in ("Available", "Pending", "", None):
            continue
        if claim["spec"].get("selector") and not selector.matches(labels_of(volume)):
            continue
        if node is not None and not is_reachable(volume, node):
            continue
        if smallest is None or size_of(volume) < size_of(smallest):
            smallest = volume
    return smallest


def is_reachable(volume: Obj, node: Obj) -> bool:
    """Return whether the volume's node affinity, if it has one, lets it be mounted there."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if required is None:
        return True
    return any(matches_term(term, node) for term in required.get("nodeSelectorTerms") or [])


def size_of(volume: Obj) -> quantity.Quantity:
    return quantity.parse((volume["spec"].get("capacity") or {}).get("storage", "0"))


def request_of(claim: Obj) -> quantity.Quantity:
    resources = claim["spec"].get("resources") or {}
    return quantity.parse((resources.get("requests") or {}).get("storage", "0"))


def _mode(obj: Obj) -> str:
    return obj["spec"].get("volumeMode") or "Filesystem"


def _has_modes(volume: Obj, claim: Obj) -> bool:
    return set(claim["spec"].get("accessModes") or []) <= set(
        volume["spec"].get("accessModes") or []
    )
