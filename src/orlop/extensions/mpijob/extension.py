"""Brings MPIJobs: a controller, and no more."""

from __future__ import annotations

from ..extension import Extension, controllers_of
from .controller import MpiJobs

EXTENSION = Extension(controllers=controllers_of(MpiJobs))
