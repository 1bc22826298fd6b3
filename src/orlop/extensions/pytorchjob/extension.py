"""Brings PyTorchJobs: a controller, and no more."""

from __future__ import annotations

from ..extension import Extension, run_while_installed
from .controller import PyTorchJobs

EXTENSION = Extension(controllers=run_while_installed(PyTorchJobs))
