"""The Slurm in memory of SlurmJobs, for what shows a site as well."""

from __future__ import annotations

from tests.extensions.slurmjob.conftest import schema, site

__all__ = ["schema", "site"]
