"""Brings the kind of Bridge Operator, which runs as SlurmJobs."""

from __future__ import annotations

from ..extension import Extension
from ..slurmjob.adapter import run_adapters
from .controller import BridgeJobs

EXTENSION = Extension(
    controllers=run_adapters(BridgeJobs),
    needs_slurm=True,
)
