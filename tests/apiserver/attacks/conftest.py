"""One server for all attacks of a worker; where one of them ends it, the next has another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.apiserver.attacks.target import Target


class _Kept:
    target: Target | None = None


@pytest.fixture(scope="session")
def _kept() -> Iterator[_Kept]:
    kept = _Kept()
    yield kept
    if kept.target is not None:
        kept.target.stop()


@pytest.fixture
def target(_kept: _Kept, tmp_path_factory: pytest.TempPathFactory) -> Target:
    if _kept.target is None or not _kept.target.is_alive:
        _kept.target = Target(tmp_path_factory.mktemp("target"))
    return _kept.target
