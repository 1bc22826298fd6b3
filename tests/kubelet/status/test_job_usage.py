"""What a pod has used is on it in the end: at once by its agent, later by the engine."""

from __future__ import annotations

import pytest

from orlop.api.objects import Key
from orlop.client.clock import SystemClock
from orlop.engine import JobId, JobUsage
from orlop.errors import EngineUnavailable
from orlop.kubelet.agents.journal import Used
from orlop.kubelet.status.job_usage import TRIES, PodAccounts, from_agent

from ..fakes import FakeEngine

KEY = Key("default", "web")
JOB = JobId("17")


class Accounted(FakeEngine):
    """An engine that keeps accounts."""

    def __init__(self):
        super().__init__()
        self.accounts = {}
        self.asked = []

    async def usage(self, ids):
        self._check()
        self.asked.append(list(ids))
        return {job: self.accounts[job] for job in ids if job in self.accounts}


@pytest.fixture
async def scene(bare_site):
    await bare_site.create()
    bare_site.ledger = Accounted()
    bare_site.accounts = PodAccounts(bare_site.api, bare_site.ledger, SystemClock())
    bare_site.uid = (await bare_site.pod())["metadata"]["uid"]
    return bare_site


def notes(pod):
    found = pod["metadata"].get("annotations") or {}
    start = "usage.orlop.dev/"
    return {name.removeprefix(start): text for name, text in found.items() if start in name}


def test_the_agents_figures_are_numbers_with_units_in_their_names():
    assert "usage.orlop.dev/cpu-seconds" not in from_agent(Used(elapsed=62.4))
    assert from_agent(Used(elapsed=62.4, cpu=1.52, memory=13107200)) == {
        "usage.orlop.dev/elapsed-seconds": "62.4",
        "usage.orlop.dev/cpu-seconds": "1.52",
        "usage.orlop.dev/peak-memory-bytes": "13107200",
        "usage.orlop.dev/source": "agent",
    }


async def test_the_engines_accounts_are_written_when_they_are_there(scene):
    scene.accounts.add(KEY, scene.uid, JOB)
    await scene.accounts.look()
    assert notes(await scene.pod()) == {}
    scene.ledger.accounts[JOB] = JobUsage(10.0, 1.5, 4096, 1200)
    await scene.accounts.look()
    assert notes(await scene.pod()) == {
        "elapsed-seconds": "10",
        "cpu-seconds": "1.5",
        "peak-memory-bytes": "4096",
        "energy-joules": "1200",
        "source": "slurm",
    }
    await scene.accounts.look()
    assert scene.ledger.asked[-1] == []


async def test_a_job_that_is_in_no_accounts_is_given_up(scene):
    scene.accounts.add(KEY, scene.uid, JOB)
    for _ in range(TRIES + 1):
        await scene.accounts.look()
    assert scene.ledger.asked == [[JOB]] * TRIES + [[]]


async def test_an_engine_that_is_silent_is_asked_again(scene):
    scene.accounts.add(KEY, scene.uid, JOB)
    scene.ledger.is_silent = True
    with pytest.raises(EngineUnavailable):
        await scene.ledger.usage([JOB])
    await scene.accounts.look()
    scene.ledger.is_silent = False
    scene.ledger.accounts[JOB] = JobUsage(elapsed=1.0)
    await scene.accounts.look()
    assert notes(await scene.pod())["source"] == "slurm"


async def test_another_pod_of_the_same_name_is_left_alone(scene):
    scene.ledger.accounts[JOB] = JobUsage(elapsed=1.0)
    scene.accounts.add(KEY, "of-another", JOB)
    await scene.accounts.look()
    assert notes(await scene.pod()) == {}


@pytest.mark.parametrize(
    ("annotations", "is_asked_for"),
    [
        ({"slurm.orlop.dev/job-id": "17", "usage.orlop.dev/source": "agent"}, True),
        ({"slurm.orlop.dev/job-id": "17"}, True),
        ({"slurm.orlop.dev/job-id": "17", "usage.orlop.dev/source": "slurm"}, False),
        ({}, False),
    ],
    ids=["the agent's", "none", "the engine's", "never submitted"],
)
async def test_what_an_earlier_kubelet_did_not_live_to_write_is_asked_for(
    scene, annotations, is_asked_for
):
    pod = await scene.pod()
    pod["metadata"]["annotations"] = annotations
    scene.accounts.recall([pod])
    scene.ledger.accounts[JOB] = JobUsage(elapsed=1.0)
    await scene.accounts.look()
    assert scene.ledger.asked == [[JOB] if is_asked_for else []]
    assert notes(await scene.pod()).get("source") == ("slurm" if is_asked_for else None)


async def test_an_engine_without_accounts_is_not_asked(scene):
    plain = PodAccounts(scene.api, FakeEngine(), SystemClock())
    plain.add(KEY, scene.uid, JOB)
    assert not plain._waiting
