"""The controllers' world, for the client too."""

from tests.controllers.conftest import cluster, schema

__all__ = ["cluster", "schema"]
