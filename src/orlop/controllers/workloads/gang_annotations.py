"""Writes the annotations by which a workload of ours asks that its pods start together.

Asked by the controllers of MPIJobs, JobSets and LeaderWorkerSets. Pure. A gang is one Slurm job for
several pods; these annotations are all that those who submit it go by. Pods that are made when
others are ready are announced by those: the job has room for them from its start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...api.gangs import LaterMembers, room_for
from ...api.objects import Obj, annotations_of, meta, uid_of
from ...wellknown import (
    DISTRIBUTED,
    DISTRIBUTED_PORT,
    GANG,
    GANG_ROOM,
    GANG_SIZE,
    SLURM_PREFIX,
)

_OWN = frozenset({GANG, GANG_SIZE, GANG_ROOM})
# What of a pod's spec is asked of Slurm, beside what its containers say.
_ASKED = (
    "activeDeadlineSeconds", "nodeSelector", "overhead", "priorityClassName", "resources",
    "terminationGracePeriodSeconds",
)  # fmt: skip


def gang_of(
    owner: Obj,
    size: int,
    part: str = "",
    *,
    default: bool = True,
    earlier: int = 0,
    later: Sequence[LaterMembers] = (),
) -> dict[str, str]:
    """Return the annotations of a pod of `owner`'s gang, or a part of it; none for one pod.

    `size` are those that start with it, `later` those that come once these run, `earlier` those
    after which it comes itself. The user's annotation on the owner counts: `slurm.orlop.dev/gang:
    "true"` or `"false"`.
    """
    asked = annotations_of(owner).get(GANG, str(default)).lower()
    if asked == "false" or earlier + size + sum(one.count for one in later) < 2:
        return {}
    # With the uid: one that is made anew under the name is no part of what is still ending.
    words = [owner["kind"].lower(), meta(owner)["name"], part, uid_of(owner)[:8]]
    found = {GANG: "-".join(word for word in words if word), GANG_SIZE: str(size)}
    return {**found, GANG_ROOM: room_for(later)} if later else found


def inherited_by_pods(owner: Obj) -> dict[str, str]:
    """Return the annotations of a workload that ask something of Slurm for all of its pods."""
    own = {*_OWN, DISTRIBUTED, DISTRIBUTED_PORT, SLURM_PREFIX + "launcher"}
    given = annotations_of(owner).items()
    return {name: v for name, v in given if name.startswith(SLURM_PREFIX) and name not in own}


def to_come(count: int, template: Obj, inherited: Mapping[str, str]) -> LaterMembers:
    """Return the pods of a template, as far as it says what they ask of Slurm.

    `inherited` are the annotations of their owner, which the template's own overrule.
    """
    own = annotations_of(template)
    notes = {n: v for n, v in {**inherited, **own}.items() if "slurm" in n and n not in _OWN}
    spec = template.get("spec") or {}
    asked: Obj = {name: spec[name] for name in _ASKED if spec.get(name) is not None}
    asked["containers"] = [_asked(one) for one in spec.get("containers") or []]
    if spec.get("initContainers"):
        asked["initContainers"] = [_asked(one) for one in spec["initContainers"]]
    return LaterMembers(count, {"metadata": {"annotations": notes}, "spec": asked})


def _asked(container: Obj) -> Obj:
    names = ("name", "resources", "restartPolicy")
    return {name: container[name] for name in names if container.get(name)}
