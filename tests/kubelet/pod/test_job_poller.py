"""One question for all pods, at a pace that is kind to the engine, and none while nobody waits."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from ipaddress import IPv4Network

import pytest

from orlop.api.objects import Key
from orlop.client.clock import ManualClock, SystemClock
from orlop.engine import JobId, JobState
from orlop.engine.pace import KINDNESS, RECENT, Pace
from orlop.kubelet.node.health import EngineHealth
from orlop.kubelet.pod import job_poller as module
from orlop.kubelet.pod.job_poller import JobPoller
from orlop.kubelet.pod.pods import Pods
from orlop.kubelet.status.pod_status import PendingReason
from orlop.network.addresses import PodAddresses
from orlop.settings import Paths, Settings, SlurmSettings

from ..conftest import eventually
from ..fakes import FakeEngine
from ..objects import a_job


class SlowEngine(FakeEngine):
    """Takes its time to answer."""

    def __init__(self, clock):
        super().__init__()
        self.clock, self.takes = clock, 0.0

    async def jobs(self):
        if self.takes:
            self.clock.advance(self.takes)
        return await super().jobs()


class Scene:
    """A poller over pods that a test makes up."""

    def __init__(self, tmp_path, clock=None, busy=2.0):
        self.clock = clock or ManualClock()
        self.engine = SlowEngine(self.clock)
        self.pods = Pods(Paths(tmp_path), PodAddresses(IPv4Network("10.244.0.0/16")))
        self.health = EngineHealth(self.clock)
        self.changed = []
        self.pace = Pace(busy, 30.0)
        self.poller = JobPoller(self.engine, self.pods, self.health, self.pace, self, self.clock)

    def on_change(self, uid):
        self.changed.append(uid)

    def on_listing(self, listed):
        pass

    def pod(self, uid="a", job="17", **fields):
        state = self.pods.orphan(uid, Key("default", uid))
        state.job_id = JobId(job) if job else None
        if job:
            known = replace(a_job(), id=JobId(job), pod_uid=uid, **fields)
            self.engine.table[JobId(job)] = known
        return state

    async def tick(self):
        self.changed.clear()
        self.clock.advance(1)
        await self.poller.tick()
        return self.changed


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path)


async def test_all_pods_are_asked_for_in_one_call(scene):
    for number in range(100):
        scene.pod(f"p{number}", str(number))
    changed = await scene.tick()
    assert scene.engine.calls == 1
    assert len(changed) == 100
    assert await scene.tick() == []


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED])
async def test_while_a_pod_has_a_job_the_engine_is_asked_however_quiet_it_is(scene, state):
    """What only the engine knows, a job held or suspended, no agent can tell."""
    scene.pod(state=state).connection = object()
    for _ in range(100):
        await scene.tick()
    assert scene.pace.interval == 2.0


async def test_a_slow_engine_is_asked_less_and_never_less_than_is_set(scene):
    scene.pod()
    for seconds, interval in ((0.25, 0.25 * KINDNESS), (60.0, 30.0)):
        scene.engine.takes = seconds
        for _ in range(RECENT):
            await scene.tick()
        assert scene.pace.interval == interval


async def test_once_no_pod_has_a_job_the_engine_is_asked_less_and_less(scene):
    state = scene.pod()
    await scene.tick()
    scene.pods.forget(state.uid)
    for _ in range(12):
        await scene.tick()
    assert scene.pace.interval == 30.0


async def test_a_pod_whose_agent_cannot_reach_us_is_looked_at_however_slow_the_engine(scene):
    scene.engine.takes = 10.0
    scene.pod(state=JobState.RUNNING)
    assert set(await scene.tick()) == {"a"}
    assert scene.pace.interval == 30.0
    assert set(await scene.tick()) == {"a"}, "its journal is read each time"
    scene.changed.clear()
    scene.poller._read_files()
    assert scene.changed == ["a"]


async def test_an_answer_from_before_the_submission_is_no_news(scene):
    state = scene.pod()
    scene.engine.table.clear()
    state.submitted = scene.clock.now() + 100
    for _ in range(5):
        assert await scene.tick() == []
    assert not state.has_vanished


async def test_jobs_no_longer_listed_are_looked_up_and_twice_unknown_is_gone(scene):
    ended, gone = scene.pod("a", "17"), scene.pod("b", "18")
    scene.engine.forgotten[JobId("17")] = replace(a_job(JobState.COMPLETED), pod_uid="a")
    scene.engine.table.clear()
    assert await scene.tick() == ["a"]
    assert ended.job.state is JobState.COMPLETED
    assert not gone.has_vanished
    assert await scene.tick() == ["b"]
    assert gone.has_vanished


async def test_a_job_listed_again_has_not_vanished(scene):
    state = scene.pod()
    listed = dict(scene.engine.table)
    scene.engine.table.clear()
    await scene.tick()
    scene.engine.table.update(listed)
    await scene.tick()
    scene.engine.table.clear()
    await scene.tick()
    assert not state.has_vanished


async def test_an_unknown_state_changes_nothing(scene):
    state = scene.pod(state=JobState.RUNNING)
    state.connection = object()
    await scene.tick()
    scene.engine.set("17", JobState.UNKNOWN)
    assert await scene.tick() == []
    assert state.job.state is JobState.RUNNING


async def test_a_silent_engine_changes_nothing_and_is_told_after_a_while(scene):
    state = scene.pod(state=JobState.RUNNING)
    await scene.tick()
    scene.engine.is_silent = True
    scene.engine.table.clear()
    assert await scene.tick() == []
    for _ in range(4):
        await scene.tick()
        assert (scene.health.is_down, scene.health.error) == (True, "")
    await scene.tick()
    assert scene.health.error == "slurmctld does not answer"
    assert state.job.state is JobState.RUNNING
    assert state.missing == 0
    scene.engine.is_silent = False
    await scene.tick()
    assert not scene.health.is_down


async def test_sentences_that_change_are_passed_on_a_few_at_a_time_and_in_turn(scene):
    states = [scene.pod(f"p{n}", str(n), reason="Priority") for n in range(50)]
    await scene.tick()

    def reword(round_number):
        for n in range(50):
            scene.engine.set(JobId(str(n)), JobState.PENDING, reason="Priority",
                             message=f"place {round_number}")  # fmt: skip

    heard = set()
    for round_number in range(3):
        reword(round_number)
        scene.clock.advance(module.MESSAGES_EVERY)
        changed = set(await scene.tick())
        assert len(changed) == module.MESSAGES
        assert await scene.tick() == []
        heard |= changed
    assert heard == {state.uid for state in states}


async def test_a_new_reason_is_told_of_every_pod_at_once(scene):
    for n in range(50):
        scene.pod(f"p{n}", str(n), reason="Priority")
    await scene.tick()
    for n in range(50):
        scene.engine.set(JobId(str(n)), JobState.PENDING, reason="Resources")
    assert len(await scene.tick()) == 50


@pytest.mark.parametrize(
    ("make", "is_needed"),
    [
        (lambda scene: None, False),
        (lambda scene: scene.pod(), True),
        (lambda scene: scene.pod(job=""), False),
        (lambda scene: setattr(scene.pod(), "is_settled", True), False),
        (
            lambda scene: setattr(
                scene.pod(job=""), "trouble", PendingReason("EngineUnavailable", "", by_engine=True)
            ),
            True,
        ),
        (
            lambda scene: setattr(scene.pod(job=""), "trouble", PendingReason("ErrImagePull", "")),
            False,
        ),
        (lambda scene: scene.health.silent(Exception("x")), True),
    ],
    ids=["no pods", "a job", "no job yet", "over", "waits for the engine", "no image", "silence"],
)
async def test_the_engine_is_asked_only_while_somebody_waits_for_its_answer(scene, make, is_needed):
    make(scene)
    scene.clock.advance(module.LINGER + 1)
    assert scene.poller._is_needed() is is_needed


async def test_after_the_last_pod_it_looks_on_for_a_while(scene):
    scene.pod()
    assert scene.poller._is_needed()
    scene.pods.forget("a")
    scene.clock.advance(module.LINGER / 2)
    assert scene.poller._is_needed()
    scene.clock.advance(module.LINGER)
    assert not scene.poller._is_needed()


async def test_who_asks_while_the_engine_answers_is_not_forgotten(tmp_path):
    scene = Scene(tmp_path, SystemClock(), busy=3600.0)
    scene.pod()
    answer = scene.engine.jobs

    async def asked_meanwhile():
        if not scene.engine.calls:
            scene.poller.ask()
        return await answer()

    scene.engine.jobs = asked_meanwhile
    running = asyncio.ensure_future(scene.poller.run())
    try:
        await eventually(lambda: scene.engine.calls == 2, "it is asked again", timeout=60)
    finally:
        running.cancel()


async def test_many_who_ask_get_one_answer(bare_site):
    site = bare_site
    await site.start()
    await asyncio.gather(*(site.create(f"p{n}") for n in range(30)))
    for n in range(30):
        await site.submitted(f"p{n}")
    before = site.engine.calls
    for _ in range(1000):
        site.parts.engine.poller.ask()
    await asyncio.sleep(0.1)
    assert site.engine.calls - before <= 5


async def test_a_burst_of_submissions_is_one_question_a_tick(bare_site):
    site = bare_site
    site.settings = Settings(listen="127.0.0.1", slurm=SlurmSettings(busy_tick=0.5, idle_tick=5))
    await site.start()
    before, began = site.engine.calls, asyncio.get_running_loop().time()
    for n in range(40):
        await site.create(f"p{n}")
        await site.submitted(f"p{n}")
    await asyncio.sleep(0.3)
    seconds = asyncio.get_running_loop().time() - began
    assert site.engine.calls - before <= seconds / 0.5 + 2


async def test_without_pods_the_engine_is_never_asked(bare_site, monkeypatch):
    monkeypatch.setattr(module, "LINGER", 0.0)
    await bare_site.start()
    await asyncio.sleep(0.3)
    assert bare_site.engine.calls == 0
