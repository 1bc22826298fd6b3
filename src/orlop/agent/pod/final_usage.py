"""Reports what a pod has used in all, for the last record of its journal.

Asked by the supervisor once, when every container has ended and been waited for. The kernel has
counted all along; nothing is measured while the pod runs. Slurm's own accounts, which know more,
come later, and where the site keeps them.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def used(seconds: float, peak: int, has_ranks: bool = False) -> dict[str, Any]:
    """Make the record: `seconds` since the pod began, and the most memory its job ever had.

    Without a cgroup that counts it the largest process stands for all. Ranks are Slurm's children,
    on many nodes: its accounts know what they have used, and what is not known is left out.
    """
    if has_ranks:
        return {"elapsed": round(seconds, 3), **({"memory": peak} if peak else {})}
    import resource  # not before the pod is over

    times = os.times()
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return {
        "elapsed": round(seconds, 3),
        "cpu": round(times.children_user + times.children_system, 3),
        "memory": peak or largest,
    }
