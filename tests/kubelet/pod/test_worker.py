"""What keeps a pod from its start, and pods that nobody thought of."""

from __future__ import annotations

import json

import pytest

from orlop.api.kinds import CONFIG_MAP, POD
from orlop.api.objects import Key
from orlop.client.workqueue import Backoff
from orlop.engine import JobState
from orlop.errors import EngineError, SubmitDeferred, SubmitRejected

from ..conftest import condition, eventually, waiting
from ..objects import a_container

JOB, NODES = "slurm.orlop.dev/job-id", "slurm.orlop.dev/node-list"


async def test_a_manifest_copied_from_another_pod_gets_a_job_of_its_own(site):
    """`kubectl get -o yaml`, another name, `kubectl apply`: the old annotations come along."""
    await site.create("first")
    theirs = (await site.submitted("first"))["metadata"]["annotations"][JOB]
    await site.create("second", metadata={"annotations": {JOB: theirs, NODES: "n9"}})
    pod = await site.until(lambda pod: pod["metadata"]["annotations"].get(JOB) != theirs, "second")
    assert len(site.engine.submissions) == 2
    assert NODES not in pod["metadata"]["annotations"]
    await site.api.delete(POD, Key("default", "second"), grace=0)
    await eventually(lambda: site.engine.cancelled)
    assert theirs not in site.engine.cancelled


async def test_a_copied_manifest_that_is_refused_has_no_job(site):
    site.engine.refusal = SubmitRejected("no")
    await site.create(metadata={"annotations": {JOB: "99"}})
    pod = await site.until(lambda pod: waiting(pod).get("reason") == "SubmitRejected")
    assert JOB not in pod["metadata"].get("annotations", {})


async def test_a_rejected_pod_says_why_and_is_tried_again_when_its_annotations_change(site):
    site.engine.refusal = SubmitRejected("sbatch: error: Invalid account; use one of: a, b")
    await site.create()
    pod = await site.until(lambda pod: waiting(pod).get("reason") == "SubmitRejected")
    assert waiting(pod)["message"] == "sbatch: error: Invalid account; use one of: a, b"
    allocated = condition(pod, "orlop.dev/Allocated")
    assert (allocated["status"], allocated["reason"]) == ("False", "SubmitRejected")
    assert pod["status"]["phase"] == "Pending"
    [event] = await eventually(lambda: site.told("SubmitRejected"))
    assert event[0] == "Warning"
    site.engine.refusal = None
    patch = {"metadata": {"annotations": {"slurm.orlop.dev/account": "a"}}}
    await site.api.patch(POD, Key("default", "web"), patch)
    pod = await site.submitted()
    assert (
        site.engine.submissions[0].pod["metadata"]["annotations"]["slurm.orlop.dev/account"] == "a"
    )


@pytest.mark.parametrize(
    "refusal",
    [
        SubmitDeferred("QOSMaxSubmitJobPerUserLimit"),
        EngineError("scontrol ended with 1: Access/permission denied"),
    ],
    ids=["by sbatch", "by another command"],
)
async def test_a_deferred_pod_is_tried_again_by_itself(site, refusal):

    await site.restart(deferred=Backoff(0.2, 0.2))
    site.engine.refusal = refusal
    await site.create()
    pod = await site.until(lambda pod: waiting(pod).get("reason") == "SubmitDeferred")
    assert waiting(pod)["message"] == str(refusal)
    site.engine.refusal = None
    pod = await site.submitted()
    assert "containerStatuses" not in pod["status"]


async def test_an_image_that_cannot_be_had_is_named_and_takes_no_job(site):

    await site.restart(image=Backoff(0.2, 0.2))
    site.images.missing["nosuch:1"] = "ErrImagePull"
    await site.create("web", a_container(image="nosuch:1"), a_container("ok"))
    pod = await site.until(lambda pod: waiting(pod).get("reason") == "ErrImagePull")
    assert (
        pod["status"]["containerStatuses"][1]["state"]["waiting"]["reason"] == "ContainerCreating"
    )
    pod = await site.until(lambda pod: waiting(pod).get("reason") == "ImagePullBackOff")
    assert waiting(pod)["message"] == (
        'Back-off pulling image "nosuch:1": ErrImagePull: nosuch:1: no such image'
    )
    assert site.engine.submissions == []
    messages = [message for _, _, message in await site.told("Failed")]
    assert 'Failed to pull image "nosuch:1": nosuch:1: no such image' in messages
    assert "Error: ErrImagePull" in messages
    del site.images.missing["nosuch:1"]
    await site.submitted()


async def test_a_long_pull_is_shown_and_ends_when_the_pod_is_deleted(site):
    site.images.gate.clear()
    await site.create()
    pod = await site.until(lambda pod: waiting(pod).get("reason") == "ContainerCreating")
    await eventually(lambda: site.told("Pulling"))
    await site.api.delete(POD, Key("default", "web"))
    await eventually(site.is_gone)
    assert site.engine.submissions == []
    assert pod["status"]["phase"] == "Pending"


async def test_a_pull_that_took_place_is_told(site):
    site.images.gate.clear()
    await site.create()
    await eventually(lambda: site.told("Pulling"))
    site.images.gate.set()
    [(_, _, message)] = await eventually(lambda: site.told("Pulled"))
    assert message.startswith('Successfully pulled image "busybox" in ')


async def test_a_missing_config_map_is_named_until_it_is_there(site):

    await site.restart(config=Backoff(0.2, 0.2))
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "a"}}}]
    await site.create("web", a_container(command=["true"], env=env))
    pod = await site.until(lambda pod: waiting(pod).get("reason") == "CreateContainerConfigError")
    assert waiting(pod)["message"] == 'configmap "late" not found'
    late = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "late"},
        "data": {"a": "1"},
    }
    await site.api.create(CONFIG_MAP, late, namespace="default")
    await site.submitted()
    plan = json.loads((site.folder() / "plan.json").read_text())
    assert ["A", "1"] in plan["containers"][0]["env"]


async def test_what_cannot_be_run_is_refused_and_what_is_not_done_is_named(site):
    await site.create("bad", a_container(securityContext={"privileged": True}))
    pod = await site.until(
        lambda pod: waiting(pod).get("reason") == "CreateContainerConfigError", "bad"
    )
    assert "privileged containers cannot be had" in waiting(pod)["message"]
    context = {"seLinuxOptions": {"level": "s0"}}
    await site.create("labelled", a_container(command=["true"], securityContext=context))
    await site.submitted("labelled")
    [event] = await eventually(lambda: site.told("Unsupported", "labelled"))
    assert 'spec.containers["main"].securityContext.seLinuxOptions' in event[2]


async def test_mpi_flags_of_earlier_systems_start_the_container_by_mpiexec(site):
    notes = {"slurm-job.hpk.io/mpi-flags": "--bind-to none", "slurm.orlop.dev/ntasks": "4"}
    await site.create(metadata={"annotations": notes})
    await site.submitted()
    plan = json.loads((site.folder() / "plan.json").read_text())
    assert plan["containers"][0]["argv"] == ["mpiexec", "-np", "4", "--bind-to", "none", "true"]


async def test_flags_that_cannot_be_read_are_named(site):
    await site.create(metadata={"annotations": {"slurm.orlop.dev/flags": "--comment='open"}})
    pod = await site.until(lambda pod: waiting(pod))
    assert waiting(pod)["reason"] in ("CreateContainerConfigError", "SubmitRejected")
    assert "flags" in waiting(pod)["message"]


@pytest.mark.parametrize(
    ("where", "what"),
    [("prepare", KeyError("surprise")), ("prepare", ValueError("odd"))],
    ids=["a bug", "a value"],
)
async def test_a_pod_that_nobody_thought_of_troubles_itself_alone(site, monkeypatch, where, what):
    from orlop.kubelet.start import preparation

    original = preparation.make_plan

    def fail(pod, *rest):
        if pod["metadata"]["name"] == "odd":
            raise what
        return original(pod, *rest)

    monkeypatch.setattr(preparation, "make_plan", fail)
    await site.create("odd")
    pod = await site.until(lambda pod: waiting(pod).get("reason") == "CreateContainerError", "odd")
    assert type(what).__name__ in waiting(pod)["message"]
    await site.create("fine")
    await site.submitted("fine")


async def test_an_answer_of_the_engine_that_makes_no_sense_ends_nothing(site):
    await site.create()
    await site.submitted()
    table, site.engine.table = site.engine.table, {"17": None}
    site.parts.engine.poller.ask()
    calls = site.engine.calls
    await eventually(lambda: site.engine.calls > calls + 1, timeout=2)
    site.engine.table = table
    site.engine.set("17", JobState.CANCELLED)
    await site.until_phase("Failed")


async def test_a_folder_that_cannot_be_written_is_told(site):
    site.paths.pods.rmdir()
    site.paths.pods.write_text("in the way")
    await site.create()
    pod = await site.until(lambda pod: waiting(pod).get("reason") == "CreateContainerError")
    assert "check space, quota and rights" in waiting(pod)["message"]
    site.paths.pods.unlink()
    site.paths.pods.mkdir()
