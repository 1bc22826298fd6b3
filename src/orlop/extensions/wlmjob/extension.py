"""Brings the kinds of wlm-operator, which run as SlurmJobs."""

from __future__ import annotations

from ..extension import Extension
from ..slurmjob.adapter import run_adapters
from .controller import WlmJobs, WlmSlurmJobs

EXTENSION = Extension(
    controllers=run_adapters(WlmSlurmJobs, WlmJobs),
    needs_slurm=True,
)
