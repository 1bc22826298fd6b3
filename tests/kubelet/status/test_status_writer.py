"""A status is written where it differs, over nobody's head, and never after the end."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from orlop.api.kinds import POD
from orlop.api.objects import Key
from orlop.client.clock import SystemClock
from orlop.client.recorder import Recorder
from orlop.engine import JobId, JobState
from orlop.errors import Conflict
from orlop.kubelet.agents.journal import Used
from orlop.kubelet.node.health import EngineHealth
from orlop.kubelet.pod.events import Events
from orlop.kubelet.pod.pods import Pods
from orlop.kubelet.status.status_writer import StatusWriter
from orlop.network.addresses import PodAddresses

from ..conftest import condition
from ..objects import a_job, a_journal, exited, finished, running, started

KEY = Key("default", "web")


@pytest.fixture
async def scene(bare_site):
    """A pod of a kubelet that does not run."""
    site = bare_site
    await site.create()
    events = Events(Recorder(site.api, "kubelet"))
    site.writer = StatusWriter(site.api, events, EngineHealth(), SystemClock())
    site.state = Pods(site.paths, PodAddresses(IPv4Network("10.244.0.0/16"))).of(await site.pod())
    site.told = events._waiting
    return site


async def test_status_and_annotations_are_one_write(scene):
    pod = await scene.pod()
    scene.state.job_id = JobId("17")
    scene.state.journal = a_journal(started(), running())
    written = await scene.writer.write(pod, scene.state)
    notes = written["metadata"]["annotations"]
    assert notes == {"slurm.orlop.dev/job-id": "17", "slurm.orlop.dev/node-list": "n1"}
    assert written["status"]["phase"] == "Running"
    before, after = (int(p["metadata"]["resourceVersion"]) for p in (pod, written))
    assert after == before + 1


async def test_what_is_so_already_is_not_written(scene):
    written = await scene.writer.write(await scene.pod(), scene.state)
    again = await scene.writer.write(written, scene.state)
    assert again["metadata"]["resourceVersion"] == written["metadata"]["resourceVersion"]


async def test_on_a_conflict_what_others_wrote_is_kept(scene):
    stale = await scene.pod()
    gate = {"type": "example.com/gate", "status": "True"}
    await scene.api.patch(POD, KEY, {"status": {"conditions": [gate]}}, subresource="status")
    await scene.api.patch(POD, KEY, {"metadata": {"labels": {"a": "b"}}})
    written = await scene.writer.write(stale, scene.state)
    assert condition(written, "example.com/gate")["status"] == "True"
    assert condition(written, "Ready")["status"] == "False"
    assert written["metadata"]["labels"] == {"a": "b"}


async def test_a_pod_that_is_over_is_never_written_again(scene):
    scene.state.journal = a_journal(started(), exited(0), finished("Succeeded"))
    over = await scene.writer.write(await scene.pod(), scene.state)
    scene.state.journal = a_journal(started(), exited(1), finished("Failed"))
    again = await scene.writer.write(over, scene.state)
    assert again["status"]["phase"] == "Succeeded"
    assert (await scene.pod())["status"]["phase"] == "Succeeded"


async def test_a_pod_that_is_gone_or_another_of_its_name_is_not_written(scene):
    pod = await scene.pod()
    await scene.api.delete(POD, KEY, grace=0)
    assert await scene.writer.write(pod, scene.state) is None
    await scene.create()
    assert await scene.writer.write(pod, scene.state) is None
    assert "containerStatuses" not in (await scene.pod())["status"]


async def test_it_gives_up_after_some_conflicts(scene, monkeypatch):
    tries = []

    async def refuse(*args, **options):
        tries.append(args)
        raise Conflict("the object has been modified")

    monkeypatch.setattr(scene.api, "patch", refuse)
    assert await scene.writer.write(await scene.pod(), scene.state) is None
    assert len(tries) == 5


async def test_a_new_reason_for_waiting_is_told_once(scene):
    scene.state.job_id = JobId("17")
    pod = await scene.pod()
    for reason in ("Priority", "Priority", "Resources"):
        scene.state.job = a_job(reason=reason, message=f"it waits: {reason}")
        pod = await scene.writer.write(pod, scene.state)
    assert [telling.message for telling in scene.told] == [
        "it waits: Priority",
        "it waits: Resources",
    ]


async def test_an_old_answer_of_the_engine_about_a_running_pod_is_not_told(scene):
    scene.state.job_id = JobId("17")
    scene.state.job = a_job(JobState.PENDING, reason="Priority", message="it waits")
    scene.state.journal = a_journal(started(), running())
    await scene.writer.write(await scene.pod(), scene.state)
    assert not scene.told


END = "slurm.orlop.dev/end-time"


async def test_a_pod_knows_its_end_as_long_as_it_has_one(scene):
    scene.state.job_id = JobId("17")
    scene.state.job = a_job(JobState.RUNNING, ends=1794758610.0)
    written = await scene.writer.write(await scene.pod(), scene.state)
    assert written["metadata"]["annotations"][END] == "2026-11-15T16:03:30Z"
    scene.state.job = a_job(JobState.RUNNING, ends=1794758670.0)
    written = await scene.writer.write(written, scene.state)
    assert written["metadata"]["annotations"][END] == "2026-11-15T16:04:30Z"
    scene.state.job = a_job(JobState.COMPLETING)
    assert await scene.writer.write(written, scene.state)
    assert END in (await scene.pod())["metadata"]["annotations"]
    scene.state.job = a_job(JobState.RUNNING)
    written = await scene.writer.write(await scene.pod(), scene.state)
    assert END not in written["metadata"]["annotations"]


async def test_what_the_pod_has_used_goes_out_with_its_last_status(scene):
    scene.state.job_id = JobId("17")
    usage = Used(elapsed=2.5, cpu=0.5, memory=4096)
    last = {**finished("Succeeded"), "usage": usage}
    scene.state.journal = a_journal(started(), exited(0), last)
    written = await scene.writer.write(await scene.pod(), scene.state)
    notes = written["metadata"]["annotations"]
    assert notes["usage.orlop.dev/cpu-seconds"] == "0.5"
    assert notes["usage.orlop.dev/source"] == "agent"


async def test_what_another_pod_has_used_is_not_kept(scene):
    copied = {"metadata": {"annotations": {"usage.orlop.dev/cpu-seconds": "9"}}}
    pod = await scene.api.patch(POD, KEY, copied)
    scene.state.job_id = JobId("17")
    written = await scene.writer.write(pod, scene.state)
    assert "usage.orlop.dev/cpu-seconds" not in written["metadata"]["annotations"]
