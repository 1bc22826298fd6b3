"""The controllers' world, for the scheduler too."""

from tests.controllers.conftest import cluster, schema

__all__ = ["cluster", "schema"]
