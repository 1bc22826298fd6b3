"""A pod that names what it depends on waits for it, and tells sbatch of its Slurm jobs."""

from __future__ import annotations

import pytest

from orlop.api import kinds
from orlop.api.objects import Key
from orlop.errors import ConfigError, DependencyNeverSatisfied, WaitingForDependency
from orlop.kubelet.start.dependencies import Dependencies
from orlop.wellknown import PLAN_FILE, SUBMIT_FILE

from ..conftest import condition
from ..objects import a_container, running, started
from .test_gangs import Objects, a_pod

DEPENDENCY = "slurm.orlop.dev/dependency"


def job(*conditions, **status):
    found = [{"type": one, "status": "True"} for one in conditions]
    return {"kind": "Job", "metadata": {"name": "a"}, "status": {"conditions": found, **status}}


def a_slurm_job(**status):
    return {"kind": "SlurmJob", "metadata": {"name": "a"}, "status": status}


def other(phase="Running", number=""):
    notes = {"slurm.orlop.dev/job-id": number} if number else {}
    return {
        "kind": "Pod",
        "metadata": {"name": "a", "annotations": notes},
        "status": {"phase": phase},
    }


async def met(text, *objects, owner=""):
    pod = a_pod("me", owner, dependency=text)
    found = await Dependencies(Objects(*objects)).met(pod)
    assert pod["metadata"]["annotations"][DEPENDENCY] == text, "the object itself is left as it is"
    return found["metadata"]["annotations"].get(DEPENDENCY)


@pytest.mark.parametrize(
    ("text", "found", "expected"),
    [
        ("afterok:17", None, "afterok:17"),
        ("afterok:pod/a", other(number="17"), "afterok:17"),
        ("after:3,afternotok:pod/a", other(number="8_4"), "after:3,afternotok:8_4"),
        ("afterok:pod/a", other("Succeeded", "17"), None),
        ("afterany:pod/a:5", other("Failed", "17"), "afterany:5"),
        ("afternotok:pod/a", other("Failed", "17"), None),
        ("after:pod/a", other("Running", "17+0"), None),
        ("afterok:pod/a:5", other("Succeeded", "17+0"), "afterok:5"),
        ("afterok:slurmjob/a", a_slurm_job(jobId="9", phase="Running"), "afterok:9"),
        ("afterok:slurmjob/a", a_slurm_job(jobId="9", phase="Succeeded"), None),
        ("afterok:job/a", job("Complete"), None),
        ("afterany:job/a", job("Failed"), None),
        ("after:job/a", job(ready=1), None),
    ],
)
async def test_what_sbatch_is_told(text, found, expected):
    assert await met(text, *([found] if found else [])) == expected


@pytest.mark.parametrize(
    ("text", "found", "words"),
    [
        ("afterok:job/a", None, "Job a is not there yet"),
        ("afterok:job/a", job(active=1), "Job a has not ended yet"),
        ("after:job/a", job(active=1), "Job a has not begun yet"),
        ("afterok:pod/a", other("Pending"), "Pod a has no Slurm job yet"),
        ("afterok:pod/a", other("Running", "17+0"), "Pod a has not ended yet"),
        ("after:pod/a", other("Pending", "17+1"), "Pod a has not begun yet"),
        ("afterok:slurmjob/a", a_slurm_job(), "SlurmJob a has no Slurm job yet"),
    ],
)
async def test_what_is_waited_for(text, found, words):
    with pytest.raises(WaitingForDependency, match=words):
        await met(text, *([found] if found else []))


@pytest.mark.parametrize(
    ("text", "found", "words"),
    [
        ("afterok:job/a", job("Failed"), "afterok cannot come true: Job a has failed"),
        ("afternotok:job/a", job("Complete"), "Job a has succeeded"),
        ("afterok:pod/a", other("Failed", "17"), "Pod a has failed"),
        ("afterok:slurmjob/a", a_slurm_job(phase="Failed"), "SlurmJob a has failed"),
    ],
)
async def test_what_can_never_be(text, found, words):
    with pytest.raises(DependencyNeverSatisfied, match=words):
        await met(text, found)


@pytest.mark.parametrize(("text", "owner"), [("afterok:job/a", "Job/a"), ("afterok:pod/me", "")])
async def test_nobody_waits_for_itself(text, owner):
    with pytest.raises(ConfigError, match="is the pod's own"):
        await met(text, owner=owner)


ENDED = {
    "status": {
        "startTime": "2026-01-01T00:00:00Z",
        "completionTime": "2026-01-01T00:00:01Z",
        "conditions": [
            {"type": "SuccessCriteriaMet", "status": "True"},
            {"type": "Complete", "status": "True"},
        ],
    }
}


def allocated(pod):
    return condition(pod, "orlop.dev/Allocated")


async def test_a_pod_waits_for_another_to_have_a_job_and_says_for_what(site):
    await site.create("later", metadata={"annotations": {DEPENDENCY: "afterok:pod/web"}})
    waiting = await site.until(lambda pod: allocated(pod).get("reason") == "Dependency", "later")
    assert allocated(waiting)["message"] == "Pod web is not there yet"
    assert not site.engine.submissions
    await site.create("web")
    agent = await site.agent("web")
    number = (await site.pod("web"))["metadata"]["annotations"]["slurm.orlop.dev/job-id"]
    await site.submitted("later")
    last = site.engine.submissions[-1].pod["metadata"]
    assert (last["name"], last["annotations"][DEPENDENCY]) == ("later", f"afterok:{number}")
    await agent.hang_up()


async def test_a_pod_whose_dependency_has_failed_says_so(site):
    await site.create("web")
    agent = await site.agent("web")
    await agent.say(started(), running(), {"type": "finished", "phase": "Failed"})
    await site.until_phase("Failed", "web")
    await site.create("later", metadata={"annotations": {DEPENDENCY: "afterok:pod/web"}})
    stuck = await site.until(
        lambda pod: allocated(pod).get("reason") == "DependencyNeverSatisfied", "later"
    )
    assert allocated(stuck)["message"] == "afterok cannot come true: Pod web has failed"
    await agent.hang_up()


async def test_a_pod_is_submitted_once_the_job_has_ended(site):
    await site.create("later", metadata={"annotations": {DEPENDENCY: "afterok:job/first"}})
    await site.until(lambda pod: allocated(pod).get("reason") == "Dependency", "later")
    template = {"spec": {"restartPolicy": "Never", "containers": [a_container()]}}
    metadata = {"name": "first", "namespace": "default"}
    await site.api.create(kinds.JOB, {"metadata": metadata, "spec": {"template": template}})
    await site.api.patch(kinds.JOB, Key(**metadata), ENDED, subresource="status")
    await site.submitted("later")
    assert DEPENDENCY not in site.engine.submissions[-1].pod["metadata"]["annotations"]


async def test_a_job_that_was_begun_is_found_again_whatever_became_of_what_it_waited_for(site):
    metadata = {"annotations": {DEPENDENCY: "afterok:pod/gone,singleton"}}
    uid = await site.create("later", metadata=metadata)
    await site.until(lambda pod: allocated(pod).get("reason") == "Dependency", "later")
    folder = site.paths.pod("default", "later", uid)
    folder.mkdir(parents=True, exist_ok=True)
    for name in (PLAN_FILE, SUBMIT_FILE):
        (folder / name).write_text("{}")
    await site.submitted("later")
    assert site.engine.submissions[-1].pod["metadata"]["annotations"][DEPENDENCY] == "singleton"
