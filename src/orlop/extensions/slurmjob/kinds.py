"""The kind SlurmJob, as its bundled definition has it, and the names that its controllers write.

Used by all of this folder, and by the kinds that run as SlurmJobs. It holds constants.
"""

from __future__ import annotations

from ...wellknown import SLURM_PREFIX, SLURM_USER
from ..bundled import bundled_kind

GROUP = "slurm.orlop.dev"
SLURM_JOB = bundled_kind(GROUP, "v1", "SlurmJob", "slurmjobs")

QUEUE_NAMESPACE = "slurm-queue"  # where jobs that no SlurmJob has asked for are shown

FOLDER = "slurmjobs"  # of the home: a folder for each SlurmJob

FINALIZER = SLURM_PREFIX + "job"  # keeps the object until its job is cancelled and forgotten
USER = SLURM_USER

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
ENDED = (SUCCEEDED, FAILED)
