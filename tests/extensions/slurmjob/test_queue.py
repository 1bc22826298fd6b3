"""When Slurm is asked for its queue, and who hears of what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

import pytest

from orlop.client.clock import ManualClock
from orlop.engine import JobState
from orlop.errors import EngineUnavailable
from orlop.extensions.slurmjob.queue import SOON, Queue
from orlop.slurm.query.user_jobs import UserJob
from orlop.slurm.submit.user_slurm import Listing

OURS = "of a SlurmJob"


class Slurm:
    """Says what a test tells it to, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.jobs: Listing = {}
        self.hear: Callable[[Listing], None] = lambda listing: None

    def subscribe(self, hear: Callable[[Listing], None]) -> None:
        self.hear = hear

    async def list(self) -> None:
        self.asked += 1
        self.hear(dict(self.jobs))

    def is_ours(self, job: UserJob) -> bool:
        return job.comment == OURS


def job(number: str, state: JobState = JobState.RUNNING, comment: str = "") -> tuple[UserJob, ...]:
    return (UserJob(number, state, state.value, comment=comment),)


def test_who_subscribed_hears_what_changed_came_and_went() -> None:
    slurm = Slurm()
    queue = Queue(slurm, busy=1.0, idle=10.0, clock=ManualClock())
    heard: list[Collection[str]] = []
    queue.subscribe(heard.append)
    slurm.hear({"1": job("1"), "2": job("2")})
    slurm.hear({"1": job("1"), "2": job("2", JobState.COMPLETED)})
    slurm.hear({"2": job("2", JobState.COMPLETED)})
    slurm.hear({"2": job("2", JobState.COMPLETED)})
    assert heard == [{"1", "2"}, {"2"}, {"1"}]
    assert queue.get("2")[0].state is JobState.COMPLETED
    assert queue.get("1") == ()


@pytest.mark.parametrize(
    ("jobs", "interval"),
    [
        ({"1": job("1", comment=OURS)}, 1.0),
        ({"1": job("1", JobState.PENDING, OURS) + job("1", JobState.COMPLETED, OURS)}, 1.0),
        ({"1": job("1", JobState.COMPLETED, OURS)}, 8.0),
        ({"1": job("1")}, 8.0),
        ({}, 8.0),
    ],
    ids=["a SlurmJob's", "an array's", "over", "somebody else's", "none"],
)
async def test_slurm_is_asked_often_only_while_a_slurm_job_has_a_job(
    jobs: Listing, interval: float
) -> None:
    slurm, clock = Slurm(), ManualClock()
    slurm.jobs = jobs
    queue = Queue(slurm, busy=1.0, idle=8.0, clock=clock)
    for _ in range(10):
        await queue._list()
    assert queue._due - clock.now() == interval
    queue.ask()
    assert queue._due - clock.now() < 1.0


def test_what_the_kubelet_asks_puts_our_question_off() -> None:
    slurm, clock = Slurm(), ManualClock()
    queue = Queue(slurm, busy=1.0, idle=8.0, clock=clock)
    due = queue._due
    slurm.hear({})
    assert queue._due > due
    assert slurm.asked == 0


@pytest.mark.parametrize("is_answered", [True, False])
async def test_who_asks_while_slurm_answers_is_not_forgotten(is_answered: bool) -> None:
    slurm, clock = Slurm(), ManualClock()
    queue = Queue(slurm, busy=100.0, idle=100.0, clock=clock)
    answer = slurm.list

    async def asked_meanwhile() -> None:
        clock.advance(0.1)
        queue.ask()
        if not is_answered:
            raise EngineUnavailable("slurmctld does not answer")
        await answer()

    slurm.list = asked_meanwhile  # type: ignore[method-assign]
    await queue._list()
    assert queue._due - clock.now() < 1.0


def test_the_kubelets_answer_is_none_to_who_asked_after_its_question() -> None:
    slurm, clock = Slurm(), ManualClock()
    queue = Queue(slurm, busy=100.0, idle=100.0, clock=clock)
    slurm.hear({})
    queue.ask()
    clock.advance(SOON / 2)
    slurm.hear({})
    assert queue._due - clock.now() < SOON
    clock.advance(SOON)
    slurm.hear({})
    assert queue._due - clock.now() > SOON


async def test_asking_wakes_it() -> None:
    slurm = Slurm()
    queue = Queue(slurm, busy=100.0, idle=100.0)
    task = asyncio.ensure_future(queue.run())
    try:
        async with asyncio.timeout(60):
            while slurm.asked < 1:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            queue.ask()
            while slurm.asked < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        task.cancel()
