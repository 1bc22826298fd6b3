"""Brings JobSets: a controller, and no more."""

from __future__ import annotations

from ..extension import Extension, controllers_of
from .controller import JobSets

EXTENSION = Extension(controllers=controllers_of(JobSets))
