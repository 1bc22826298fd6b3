"""The world of controllers, for extensions as well; and an S3 server, of which there is one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orlop.extensions.bridgejob.s3 import Server
from tests.controllers.conftest import cluster, schema

__all__ = ["cluster", "s3", "schema"]


@pytest.fixture(scope="session")
def s3() -> Iterator[Server]:
    # Slow to import, for those who need it.
    from tests.extensions.bridgejob.s3_server import serving

    with serving() as server:
        yield server
