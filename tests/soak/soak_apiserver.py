"""The API server over hundreds of deaths and thousands of histories.

Run by `make soak`; `ORLOP_SOAK` is how many times as long as usual it takes.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from orlop.api.schema import Schema, load
from tests.apiserver.test_any_history import ROUNDS, Deed, watchers_agree
from tests.conformance.test_consistency import Server, die_and_recover
from tests.conformance.test_schemathesis import Server as Fuzzed
from tests.conformance.test_schemathesis import fuzz, serving

TIMES = int(os.environ.get("ORLOP_SOAK", "1"))
DEATHS = 50
SCHEMA: Schema = load(None)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    yield server
    server.end(signal.SIGTERM)


@pytest.fixture
def fuzzed(tmp_path: Path) -> Iterator[Fuzzed]:
    yield from serving(tmp_path)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(4 * TIMES))
async def test_nothing_acknowledged_is_lost_over_many_deaths(server: Server, seed: int) -> None:
    acknowledged = await die_and_recover(server, DEATHS, seed)
    print(f"{acknowledged} acknowledged writes over {DEATHS} deaths")


@pytest.mark.timeout(3600)
@settings(max_examples=500 * TIMES, suppress_health_check=list(HealthCheck))
@given(rounds=ROUNDS)
def testwatchers_agree_over_many_histories(rounds: list[list[Deed]]) -> None:
    asyncio.run(watchers_agree(SCHEMA, rounds))


@pytest.mark.timeout(3600)
def test_no_group_of_our_openapi_has_an_error_of_ours(fuzzed: Fuzzed, tmp_path: Path) -> None:
    documents = sorted(fuzzed.get("/openapi/v3")["paths"])
    for document in documents:
        folder = tmp_path / document.replace("/", "_")
        folder.mkdir()
        fuzz(fuzzed, document, 30 * TIMES, folder)
    assert fuzzed.memory() < 300
