"""Brings the kinds of wlm-operator, which run as SlurmJobs."""

from __future__ import annotations

from ..extension import Extension
from ..slurmjob.adapter import run_adapters
from .controller import WLM_JOB, WLM_SLURM_JOB, WlmJobs, WlmSlurmJobs

EXTENSION = Extension(
    controllers=run_adapters(WlmSlurmJobs, WlmJobs),
    needs_slurm=True,
    unconfined=(WLM_SLURM_JOB.resource, WLM_JOB.resource),
)
