"""The kinds of what a site has, as their bundled definitions have them."""

from __future__ import annotations

from ..bundled import bundled_kind

GROUP = "slurm.orlop.dev"
PARTITION = bundled_kind(GROUP, "v1", "SlurmPartition", "slurmpartitions", namespaced=False)
ACCOUNT = bundled_kind(GROUP, "v1", "SlurmAccount", "slurmaccounts", namespaced=False)
QOS = bundled_kind(GROUP, "v1", "SlurmQOS", "slurmqos", namespaced=False)
RESERVATION = bundled_kind(GROUP, "v1", "SlurmReservation", "slurmreservations", namespaced=False)
SITE_KINDS = (PARTITION, ACCOUNT, QOS, RESERVATION)
