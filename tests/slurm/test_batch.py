"""Many callers, one command."""

from __future__ import annotations

import asyncio

import pytest

from orlop.errors import EngineUnavailable
from orlop.slurm.batch import Batch


class Command:
    """Counts its runs; each waits until it is let go."""

    def __init__(self) -> None:
        self.runs: list[list[int]] = []
        self.gate = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self, keys: list[int]) -> int:
        self.runs.append(keys)
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return len(self.runs)


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_those_who_ask_together_share_one_run():
    command = Command()
    command.gate.set()
    batch = Batch(command)
    answers = await asyncio.gather(*(batch.ask(n) for n in range(100)))
    assert command.runs == [list(range(100))]
    assert answers == [1] * 100


async def test_who_asks_during_a_run_gets_the_next():
    command = Command()
    batch = Batch(command)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(batch.ask(1))
        await settled()
        later = [group.create_task(batch.ask(n)) for n in (2, 3)]
        await settled()
        command.gate.set()
    assert command.runs == [[1], [2, 3]]
    assert first.result() == 1
    assert [task.result() for task in later] == [2, 2]


async def test_a_batch_is_never_larger_than_allowed():
    command = Command()
    command.gate.set()
    batch = Batch(command, most=40)
    await asyncio.gather(*(batch.ask(n) for n in range(100)))
    assert [len(run) for run in command.runs] == [40, 40, 20]


async def test_a_failure_is_everybodys():
    command = Command()
    command.error = EngineUnavailable("slurmctld is silent")
    command.gate.set()
    batch = Batch(command)
    results = await asyncio.gather(*(batch.ask(n) for n in range(3)), return_exceptions=True)
    assert all(isinstance(result, EngineUnavailable) for result in results)
    assert len(command.runs) == 1


async def test_after_a_failure_the_next_run_is_fresh():
    command = Command()
    command.gate.set()
    command.error = EngineUnavailable("slurmctld is silent")
    batch = Batch(command)
    with pytest.raises(EngineUnavailable):
        await batch.ask(1)
    command.error = None
    assert await batch.ask(2) == 2


async def test_if_the_one_who_runs_it_is_cancelled_another_takes_over():
    command = Command()
    batch = Batch(command)
    async with asyncio.TaskGroup() as group:
        leader = group.create_task(batch.ask(1))
        other = group.create_task(batch.ask(2))
        await settled()
        assert command.runs == [[1, 2]]
        leader.cancel()
        await settled()
        command.gate.set()
    assert leader.cancelled()
    assert other.result() == 2
    assert command.runs[1] == [2]


async def test_who_is_cancelled_while_waiting_is_left_out():
    command = Command()
    batch = Batch(command)
    async with asyncio.TaskGroup() as group:
        group.create_task(batch.ask(1))
        await settled()
        waiting = group.create_task(batch.ask(2))
        group.create_task(batch.ask(3))
        await settled()
        waiting.cancel()
        await settled()
        command.gate.set()
    assert command.runs == [[1], [3]]
