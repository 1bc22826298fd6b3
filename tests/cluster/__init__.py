"""A real Slurm of several nodes on one machine, for tests and for the demo; see README.md here."""

from __future__ import annotations

from .cluster import CommandFailed, SlurmCluster
from .spec import Partition, Spec

__all__ = ["CommandFailed", "Partition", "SlurmCluster", "Spec"]
