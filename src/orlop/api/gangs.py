"""Tells which gang a pod is a member of: pods that must start together, or not at all.

Asked by the scheduler, which gives all members one node, and by the kubelet, which has them start
together. Pure. Marks, the first that is there counts: the annotation `slurm.orlop.dev/gang`, the
label of a PodGroup of scheduling.x-k8s.io, `spec.schedulingGroup` with one of scheduling.k8s.io.
The annotation also says that there is none, whatever else a pod has. How many members a gang needs
is not known here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from .. import wellknown
from ..errors import ConfigError
from .objects import Obj, annotations_of, controller_of, key_of, labels_of
from .reading import decode_json

BY_GANG = "gang"  # index of pods, shared by the scheduler and the kubelet
OWN = "true"  # the annotation's value that means: the gang of my controller
MOST_LATER = 10_000  # members that a gang keeps room for
NONE = "false"  # and: none, as in a PodGroup whose pods need not start together


class Mark(NamedTuple):
    """A pod's word about its gang."""

    kind: str  # gang, owner, podgroup or schedulinggroup
    namespace: str
    name: str  # of the gang, of the controller, or of the PodGroup
    key: str  # the same for all members, and for no other gang; empty: it cannot be one

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}"


def mark_of(pod: Obj) -> Mark | None:
    """Return the pod's gang; None for a pod that starts on its own, as nearly all do."""
    namespace = key_of(pod).namespace
    name = annotations_of(pod).get(wellknown.GANG, "").strip()
    if name == OWN:
        owner = controller_of(pod)
        if owner is None:
            return Mark("owner", namespace, "", "")
        return Mark("owner", namespace, owner["name"], f"{namespace}/owner/{owner['uid']}")
    if name == NONE:
        return None
    if name:
        return Mark("gang", namespace, name, f"{namespace}/gang/{name}")
    group = labels_of(pod).get(wellknown.POD_GROUP_LABEL, "")
    if group:
        return Mark("podgroup", namespace, group, f"{namespace}/podgroup/{group}")
    group = scheduling_group_of(pod)
    if group:
        return Mark("schedulinggroup", namespace, group, f"{namespace}/schedulinggroup/{group}")
    return None


def scheduling_group_of(pod: Obj) -> str:
    """Return the name of its built-in PodGroup, a gang or not; empty for a pod without."""
    group = (pod.get("spec") or {}).get("schedulingGroup") or {}
    return str(group.get("podGroupName") or "")


@dataclass(frozen=True, slots=True)
class LaterMembers:
    """Members of a gang that come once others of it run."""

    count: int
    template: Obj  # of their pods, as far as it says what they ask for


def later_of(text: str) -> list[LaterMembers]:
    """Parse the annotation of those that start first; ConfigError."""
    if not text:
        return []
    try:
        found = [_later(one) for one in _listed(decode_json(text))]
    except (ValueError, TypeError, KeyError, AttributeError):
        form = '[{"count": 1, "spec": {"containers": [{"resources": {"requests": {"cpu": "2"}}}]}}]'
        message = f"{wellknown.GANG_ROOM}: expected pods that come later, as {form}"
        raise ConfigError(f"{message}; found {text[:300]!r}") from None
    count = sum(one.count for one in found)
    if count > MOST_LATER:
        words = f"expected at most {MOST_LATER} pods that come later"
        raise ConfigError(f"{wellknown.GANG_ROOM}: {words}, found {count}")
    return found


def _listed(found: object) -> list[Obj]:
    if not isinstance(found, list):
        raise TypeError
    return found


def _later(one: Obj) -> LaterMembers:
    count = int(one.get("count", 1))
    spec = {**one["spec"]}
    spec["containers"] = [{"name": f"c{n}", **c} for n, c in enumerate(spec["containers"])]
    for name in ("initContainers", "volumes"):
        spec[name] = [{**each} for each in spec.get(name) or []]
    annotations = dict((one.get("metadata") or {}).get("annotations") or {})
    is_text = all(isinstance(text, str) for pair in annotations.items() for text in pair)
    if count < 1 or not spec["containers"] or not is_text:
        raise ValueError
    spec = {name: value for name, value in spec.items() if value}
    return LaterMembers(count, {"metadata": {"annotations": annotations}, "spec": spec})


def room_for(later: Iterable[LaterMembers]) -> str:
    """Write the annotation; the same text for the same pods."""
    found = [{"count": one.count, **one.template} for one in later]
    return json.dumps(found, separators=(",", ":"), sort_keys=True)


def keys_of(pod: Obj) -> tuple[str, ...]:
    """Return the pod's gang as keys for the index of pods by gang."""
    mark = mark_of(pod)
    return (mark.key,) if mark is not None and mark.key else ()
