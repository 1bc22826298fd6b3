"""The world of controllers, for extensions as well."""

from __future__ import annotations

from tests.controllers.conftest import cluster, schema

__all__ = ["cluster", "schema"]
