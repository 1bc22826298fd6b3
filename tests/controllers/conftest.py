"""The world, for every test of a controller."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orlop.api.schema import Schema, load
from tests.controllers.world import World, world


@pytest.fixture(scope="session")
def schema() -> Schema:
    return load(None)


@pytest.fixture
async def cluster(tmp_path: Path, schema: Schema) -> AsyncIterator[World]:
    async with world(tmp_path, schema) as made:
        yield made
