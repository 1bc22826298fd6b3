"""Brings JobSets: a controller, and no more."""

from __future__ import annotations

from ..extension import Extension, run_while_installed
from .controller import JobSets

EXTENSION = Extension(controllers=run_while_installed(JobSets))
