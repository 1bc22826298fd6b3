"""A real Slurm of several nodes on one machine, for tests and for the demo; see README.md here."""

from __future__ import annotations

from .cluster import SlurmCluster
from .commands import CommandFailed, Commands
from .rootless import RootlessSlurm
from .spec import Partition, Spec

__all__ = ["CommandFailed", "Commands", "Partition", "RootlessSlurm", "SlurmCluster", "Spec"]
