"""How a workload of ours asks that its pods start together: annotations of the pods it makes.

Asked by the controllers of MPIJobs, JobSets and LeaderWorkerSets. Pure. A gang is one Slurm job for
several pods; the annotations are the whole of the agreement with those who submit it.
"""

from __future__ import annotations

from ..api.objects import Obj, annotations_of, meta, uid_of
from ..wellknown import GANG, GANG_SIZE


def gang_of(owner: Obj, size: int, part: str = "", *, default: bool = True) -> dict[str, str]:
    """The annotations of a pod of the gang of `owner`, or of a part of it; none for a gang of one.

    The user's word on the owner counts: `slurm.orlop.dev/gang: "true"` or `"false"`.
    """
    asked = annotations_of(owner).get(GANG, str(default)).lower()
    if asked == "false" or size < 2:
        return {}
    # With the uid: one that is made anew under the name is no part of what is still ending.
    words = [owner["kind"].lower(), meta(owner)["name"], part, uid_of(owner)[:8]]
    return {GANG: "-".join(word for word in words if word), GANG_SIZE: str(size)}
