"""The kinds of this package, as their bundled definitions have them, and the names it writes.

Used by all of it. It holds constants.
"""

from __future__ import annotations

from ...wellknown import SLURM_PREFIX, SLURM_USER
from ..bundled import bundled_kind

GROUP = "slurm.orlop.dev"
SLURM_JOB = bundled_kind(GROUP, "v1", "SlurmJob", "slurmjobs")
PARTITION = bundled_kind(GROUP, "v1", "SlurmPartition", "slurmpartitions", namespaced=False)
ACCOUNT = bundled_kind(GROUP, "v1", "SlurmAccount", "slurmaccounts", namespaced=False)
QOS = bundled_kind(GROUP, "v1", "SlurmQOS", "slurmqos", namespaced=False)
RESERVATION = bundled_kind(GROUP, "v1", "SlurmReservation", "slurmreservations", namespaced=False)
SITE_KINDS = (PARTITION, ACCOUNT, QOS, RESERVATION)

# As sylabs' wlm-operator and IBM's Bridge Operator define them.
WLM_SLURM_JOB = bundled_kind("wlm.sylabs.io", "v1alpha1", "SlurmJob", "slurmjobs")
WLM_JOB = bundled_kind("wlm.sylabs.io", "v1alpha1", "WlmJob", "wlmjobs")
BRIDGE_JOB = bundled_kind("bridgejob.ibm.com", "v1alpha1", "BridgeJob", "bridgejobs")

QUEUE_NAMESPACE = "slurm-queue"  # where jobs that no SlurmJob has asked for are shown

FINALIZER = SLURM_PREFIX + "job"  # keeps the object until its job is cancelled and forgotten
USER = SLURM_USER

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
ENDED = (SUCCEEDED, FAILED)
