"""Tells which gang a pod is a member of: pods that must start together, or not at all.

Asked by the scheduler, which gives all members one node, and by the kubelet, which has them start
together. Marks, the first that is there counts: the annotation `slurm.orlop.dev/gang`, and what a
pod has of the kinds whose objects are gangs, which extensions bring. The annotation also says that
there is none, whatever else a pod has. How many members a gang needs is not known here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from .. import wellknown
from ..errors import ConfigError
from .kinds import Kind
from .objects import Obj, annotations_of, controller_of, key_of
from .reading import decode_json

BY_GANG = "gang"  # index of pods, shared by the scheduler and the kubelet
OWN = "true"  # the annotation's value that means: the gang of my controller
MOST_LATER = 10_000  # members that a gang keeps room for
NONE = "false"  # and: none, as in a PodGroup whose pods need not start together


class Mark(NamedTuple):
    """A pod's word about its gang."""

    kind: str  # gang, owner, or the mark of a GroupKind
    namespace: str
    name: str  # of the gang, of the controller, or of the object that is the gang
    key: str  # the same for all members, and for no other gang; empty: it cannot be one

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class GroupKind:
    """A kind whose objects are gangs, as its extension brings it."""

    mark: str  # of Mark, and a part of the gang's key
    versions: tuple[Kind, ...]  # that are asked for the object, the best first
    named_by: Callable[[Obj], str]  # the object that a pod names; empty if none
    size_of: Callable[[Obj], int]  # how many members the object needs; 0: it is no gang

    @property
    def resource(self) -> str:
        return self.versions[0].resource


_group_kinds: tuple[GroupKind, ...] = ()


def use_group_kinds(found: Iterable[GroupKind]) -> None:
    """Set which kinds' objects are gangs: once, when the process begins."""
    global _group_kinds
    _group_kinds = tuple(found)


def group_kind(mark: str) -> GroupKind | None:
    """Return the kind whose objects are gangs of that mark."""
    return next((one for one in _group_kinds if one.mark == mark), None)


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
    for one in _group_kinds:
        group = one.named_by(pod)
        if group:
            return Mark(one.mark, namespace, group, f"{namespace}/{one.mark}/{group}")
    return None


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
