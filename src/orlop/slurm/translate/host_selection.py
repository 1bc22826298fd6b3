"""Selects the hosts of a partition that a pod may run on, by labels that only some of them have.

Used by `job` and `placement`; pure. A node is a partition, so the scheduler can say no more than
that some host of it has what a pod selects. Features become --constraint, GPU types part of --gres,
and hosts that lack anything else, or have what the pod will not have, are excluded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ... import wellknown
from ...api.objects import Obj, annotations_of
from ...errors import ConfigError

PREFIXES = (
    wellknown.FEATURE_LABEL_PREFIX,
    wellknown.GPU_TYPE_LABEL_PREFIX,
    wellknown.SWITCH_LABEL_PREFIX,
)

Labelled = Mapping[str, frozenset[str]]  # label -> the hosts that have it


@dataclass(frozen=True, slots=True)
class Selection:
    """The labels that the pod's host must have, and those that it must not have."""

    wanted: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()

    def named(self, prefix: str) -> list[str]:
        """Return what is wanted of one kind, without its prefix."""
        return [label.removeprefix(prefix) for label in self.wanted if label.startswith(prefix)]

    def without(self, *prefixes: str) -> Selection:
        """Return what is left where an option already says what is wanted of these kinds."""
        wanted = tuple(label for label in self.wanted if not label.startswith(prefixes))
        return Selection(wanted, self.unwanted)


def of_pod(pod: Obj) -> Selection:
    """Return the selection of a pod, from its nodeSelector, and from its node affinity as the
    scheduler passed it on.
    """
    selector: Mapping[str, str] = (pod.get("spec") or {}).get("nodeSelector") or {}
    wanted = sorted(label for label in selector if label.startswith(PREFIXES))
    for label in wanted:
        if selector[label] != "true":
            message = f'nodeSelector {label}: expected "true", the only value it has'
            raise ConfigError(f"{message}, found {selector[label]!r}")
    passed = [word for word in annotations_of(pod).get(wellknown.HOSTS, "").split(",") if word]
    for word in passed:
        if not word.removeprefix("!").startswith(PREFIXES):
            expected = f"expected labels of {', '.join(PREFIXES)}"
            raise ConfigError(f"{wellknown.HOSTS}: {expected}, found {word!r}")
    wanted += [word for word in passed if not word.startswith("!")]
    unwanted = [word[1:] for word in passed if word.startswith("!")]
    return Selection(tuple(dict.fromkeys(wanted)), tuple(dict.fromkeys(unwanted)))


def excluded(selection: Selection, hosts: Iterable[str], labelled: Labelled) -> list[str]:
    """Return hosts that the pod must not be given; raise ConfigError where that would be all of
    them.

    They are excluded because --nodelist would ask for all the others at once.
    """
    known = tuple(hosts)
    left = set(known)
    for label in selection.wanted:
        if label not in labelled:
            prefix = next(one for one in PREFIXES if label.startswith(one))
            there = ", ".join(sorted(one for one in labelled if one.startswith(prefix))) or "none"
            raise ConfigError(f"no host of the partition has {label}; there are: {there}")
        left &= labelled[label]
    for label in selection.unwanted:
        left -= labelled.get(label, frozenset())
    if known and not left:
        words = ", ".join([*selection.wanted, *(f"not {one}" for one in selection.unwanted)])
        raise ConfigError(f"no host of the partition has all of this at once: {words}")
    return [host for host in known if host not in left]
