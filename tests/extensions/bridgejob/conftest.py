"""A server of S3, for scripts and results of BridgeJobs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orlop.extensions.bridgejob.s3 import Server


@pytest.fixture(scope="session")
def s3() -> Iterator[Server]:
    # Slow to import, for those who need it.
    from tests.extensions.bridgejob.s3_server import serving

    with serving() as server:
        yield server
