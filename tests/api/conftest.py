"""What the tests of the API's types share: the schema, and upstream's own OpenAPI definitions."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from orlop.api.schema import Schema, build

# The release that the installed model package describes; the oracle has one file per release.
RELEASE = ".".join(metadata.version("lightkube-models").split(".")[:2])


@pytest.fixture(scope="session")
def schema() -> Schema:
    return build()


@pytest.fixture(scope="session")
def upstream() -> dict[str, Any]:
    """Upstream's definitions of the same release, by their OpenAPI names."""
    folder = f"kubernetes_validate/kubernetes-json-schema/v{RELEASE}.0-local"
    distribution = metadata.distribution("kubernetes-validate")
    path = Path(str(distribution.locate_file(f"{folder}/_definitions.json")))
    definitions: dict[str, Any] = json.loads(path.read_text())["$defs"]
    return definitions
