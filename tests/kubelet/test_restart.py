"""The next control plane takes pods up where the last was killed: none lost, none doubled."""

from __future__ import annotations

import asyncio

import pytest

from orlop.api.kinds import POD
from orlop.api.objects import Key
from orlop.engine import Job, JobState
from orlop.kubelet.pod.folder import PodFolder

from .conftest import eventually
from .fakes import FakeAgent
from .objects import exited, finished, running, started

JOB = "slurm.orlop.dev/job-id"


async def test_a_pod_with_a_job_is_not_submitted_again(site):
    await site.create()
    await site.submitted()
    await site.stop()
    await site.start()
    await asyncio.sleep(0.1)
    assert len(site.engine.submissions) == 1
    assert (await site.pod())["metadata"]["annotations"][JOB] == "17"


async def test_what_happened_meanwhile_is_on_the_pod_afterwards(site):
    await site.create()
    agent = await site.agent()
    await agent.say(started(), running())
    await site.until_phase("Running")
    await agent.hang_up()
    await site.stop()
    agent.write(exited(3), finished("Failed"))
    site.engine.table.clear()  # long ago, for Slurm
    await site.start()
    pod = await site.until_phase("Failed")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert "reason" not in pod["status"]


async def test_an_agent_dials_again_and_goes_on_where_it_was(site):
    await site.create()
    agent = await site.agent()
    await agent.say(started(), running())
    await site.until_phase("Running")
    await agent.hang_up()
    await site.stop()
    await site.start()
    assert await agent.dial(site.authority.client_context()) == "HTTP/1.1 101 Switching Protocols"
    await agent.hello()
    assert agent.acked == 2
    await agent.say(exited(0), finished("Succeeded"))
    await site.until_phase("Succeeded")


async def test_a_job_whose_number_was_never_written_down_is_found_by_its_pod(site):
    """Killed after sbatch, before the status was written."""
    await site.create()
    await site.submitted()
    await site.stop()
    metadata = {"annotations": {JOB: None}}
    await site.api.patch(POD, Key("default", "web"), {"metadata": metadata})
    site.images.missing["busybox"] = "ErrImagePull"  # must not matter any more
    await site.start()
    pod = await site.submitted()
    assert pod["metadata"]["annotations"][JOB] == "17"
    assert len(site.engine.submissions) == 1


async def test_a_submission_that_was_begun_and_not_heard_of_is_asked_for_again(site):
    """Killed inside sbatch: the engine knows whether there is a job, and the plan stays."""
    await site.create()
    await site.submitted()
    await site.stop()
    await site.api.patch(POD, Key("default", "web"), {"metadata": {"annotations": {JOB: None}}})
    listed = dict(site.engine.table)
    site.engine.table.clear()
    before = (site.folder() / "plan.json").stat().st_ino
    await site.start()
    site.engine.table.update(listed)
    pod = await site.submitted()
    assert pod["metadata"]["annotations"][JOB] == "17"
    assert (site.folder() / "plan.json").stat().st_ino == before


async def test_a_deletion_that_was_begun_is_completed(site):
    await site.create()
    agent = await site.agent()
    await agent.say(started(), running())
    site.engine.set("17", JobState.RUNNING)
    await site.until_phase("Running")
    await agent.hang_up()
    await site.stop()
    await site.api.delete(POD, Key("default", "web"))
    await site.start()
    await eventually(lambda: site.engine.terminated == ["17"])
    site.engine.set("17", JobState.COMPLETED)
    await eventually(site.is_gone)


async def test_a_job_without_a_pod_is_cancelled_and_its_folder_goes_after_it(site):
    await site.create()
    await site.submitted()
    site.engine.set("17", JobState.RUNNING)
    folder = site.folder()
    await site.stop()
    await site.api.delete(POD, Key("default", "web"), grace=0)
    cancels, site.engine.cancel = [], None

    async def cancel(job):
        cancels.append(job)

    site.engine.cancel = cancel
    await site.start()
    await eventually(lambda: cancels == ["17"])
    await asyncio.sleep(0.1)
    assert folder.exists(), "its job has not ended yet"
    site.engine.set("17", JobState.CANCELLED)
    await eventually(lambda: not folder.exists())


async def test_jobs_of_other_clusters_are_left_alone(site):
    site.engine.table["99"] = Job("99", JobState.RUNNING, name="mine/by-hand")
    await site.create()
    await site.submitted()
    await asyncio.sleep(0.2)
    assert site.engine.cancelled == []


async def test_no_job_is_ended_because_a_cache_is_wrong(site, monkeypatch):
    """The pod is there, whatever the informer says."""
    await site.create()
    await site.submitted()
    site.engine.set("17", JobState.RUNNING)
    monkeypatch.setattr(site.parts.shared.cache.informer, "get", lambda key: None)
    site.parts.shared.queue.add_after(site.engine.table["17"].pod_uid, 0)
    await asyncio.sleep(0.2)
    assert site.engine.cancelled == []
    assert site.folder().exists()


async def test_folders_that_nobody_owns_are_removed(bare_site):
    site = bare_site
    stray = site.paths.pods / "default_old_0000"
    stray.mkdir()
    other = site.paths.pods / "notes"
    other.mkdir()
    await site.start()
    await eventually(lambda: not stray.exists())
    assert other.exists(), "not a pod's folder"


async def test_a_folder_in_which_somebody_still_submits_is_waited_for(bare_site):
    import fcntl

    site = bare_site
    stray = site.paths.pods / "default_old_0000"
    stray.mkdir()
    for name in ("plan.json", "submit"):
        (stray / name).touch()
    with (stray / "submit.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert PodFolder(stray).is_being_submitted
        await site.start()
        await asyncio.sleep(0.2)
        assert stray.exists()
    await eventually(lambda: not stray.exists())


async def test_folders_are_not_touched_while_the_engine_cannot_be_asked(bare_site):
    site = bare_site
    stray = site.paths.pods / "default_old_0000"
    stray.mkdir()
    site.engine.is_silent = True
    await site.start()
    await asyncio.sleep(0.2)
    assert stray.exists()
    site.engine.is_silent = False
    await eventually(lambda: not stray.exists())


@pytest.mark.parametrize("is_silent", [True, False], ids=["engine down", "engine up"])
async def test_a_pod_that_is_over_stays_so(site, is_silent):
    await site.create()
    agent = await site.agent()
    await agent.say(started(), exited(0), finished("Succeeded"))
    await site.until_phase("Succeeded")
    await agent.hang_up()
    await site.stop()
    site.engine.table.clear()
    site.engine.is_silent = is_silent
    await site.start()
    await asyncio.sleep(0.15)
    pod = await site.pod()
    assert pod["status"]["phase"] == "Succeeded"
    assert len(site.engine.submissions) == 1


async def test_a_pod_bound_by_name_to_a_node_that_is_not_there_yet_runs_when_it_is(bare_site):
    site = bare_site
    await site.create()
    await site.start()
    await site.submitted()


async def test_an_agent_of_an_unknown_job_is_believed(site):
    """The engine has forgotten what the agent knows best: which job it is."""
    await site.create()
    await site.submitted()
    await site.stop()
    await site.api.patch(POD, Key("default", "web"), {"metadata": {"annotations": {JOB: None}}})
    site.engine.is_silent = True
    await site.start()
    agent = FakeAgent(site.folder(), "17")
    await agent.dial(site.authority.client_context())
    await agent.hello()
    pod = await site.submitted()
    assert pod["metadata"]["annotations"][JOB] == "17"
    await agent.hang_up()
