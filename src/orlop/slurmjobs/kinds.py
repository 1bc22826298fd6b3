"""The kinds of this package, as their bundled definitions have them, and the names it writes.

Used by all of it. Constants only.
"""

from __future__ import annotations

from ..controllers.bundled import bundled_kind
from ..wellknown import SLURM_PREFIX

GROUP = "slurm.orlop.dev"
SLURM_JOB = bundled_kind(GROUP, "v1", "SlurmJob", "slurmjobs")

FINALIZER = SLURM_PREFIX + "job"  # keeps the object until its job is cancelled and forgotten
USER = "system:slurm-jobs"  # as whom Orlop writes here

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
ENDED = (SUCCEEDED, FAILED)
