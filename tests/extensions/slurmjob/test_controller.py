"""SlurmJobs from their creation to their end, over a Slurm that does what the test says."""

from __future__ import annotations

import asyncio
import base64
import fcntl
import subprocess
from pathlib import Path

import pytest

from orlop import errors
from orlop.api.kinds import CONFIG_MAP, EVENT, POD, SECRET
from orlop.api.objects import Key, annotations_of, meta
from orlop.extensions.slurmjob import preparation
from orlop.extensions.slurmjob.kinds import FINALIZER, SLURM_JOB
from tests.controllers.world import eventually, stays
from tests.extensions.slurmjob.conftest import Site


def folder_of(site: Site, name: str) -> Path:
    return next((site.paths.home / "slurmjobs").glob(f"default_{name}_*"))


async def gone(site: Site, name: str) -> None:
    assert await site.cluster.find(SLURM_JOB, name) is None


async def test_a_job_is_submitted_and_followed_to_its_end(site: Site) -> None:
    async with site.running():
        await site.create("hello", options={"time": 5})
        await site.reach("hello", jobId="101", state="PENDING", phase="Pending", partition="main")
        site.slurm.become("101", "RUNNING", node_list="n1", started=2.0)
        await site.reach("hello", phase="Running", nodeList="n1")
        site.slurm.become("101", "FAILED", exit_code=3)
        found = await site.reach("hello", phase="Failed", state="FAILED", exitCode=3)
    assert [one["type"] for one in found["conditions"]] == ["Submitted", "Failed"]
    assert "--time=5" in site.slurm.sbatches[0]
    reasons = {event["reason"] for event in await site.cluster.list(EVENT)}
    assert {"Submitted", "Started", "Failed"} <= reasons


async def test_its_pod_shows_where_it_prints(site: Site) -> None:
    async with site.running() as output_of:
        await site.create("hello")
        await site.reach("hello", phase="Pending", jobId="101", podName="hello-job")
        site.slurm.become("101", "RUNNING", node_list="n1", started=2.0)

        async def runs() -> None:
            pod = await site.cluster.get(POD, "hello-job")
            assert pod["status"]["phase"] == "Running"
            assert annotations_of(pod)["slurm.orlop.dev/job-id"] == "101"
            expected = folder_of(site, "hello") / "slurm-101.out"
            assert output_of(pod, "job") == expected
            assert output_of(pod, "other") is None

        await eventually(runs, within=60)
        site.slurm.become("101", "TIMEOUT")

        async def ended() -> None:
            pod = await site.cluster.get(POD, "hello-job")
            assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "TIMEOUT")

        await eventually(ended, within=60)


async def test_errors_apart_are_a_container_of_their_own(site: Site) -> None:
    script = "#!/bin/sh\n#SBATCH -D /w -o %N.out -e %j.err\ntrue\n"
    async with site.running() as output_of:
        await site.create("hello", script=script)
        await site.reach("hello", podName="hello-job", stderr="/w/101.err")
        site.slurm.become("101", "RUNNING", node_list="n[3-4]", started=2.0)
        await site.reach("hello", stdout="/w/n3.out")
        pod = await site.cluster.get(POD, "hello-job")
        assert annotations_of(pod)["kubectl.kubernetes.io/default-container"] == "job"
        assert output_of(pod, "job") == Path("/w/n3.out")
        assert output_of(pod, "errors") == Path("/w/101.err")
        site.slurm.become("101", "COMPLETED")
        await site.reach("hello", phase="Succeeded")
        assert output_of(pod, "job") == Path("/w/n3.out")


async def test_each_task_has_its_errors(site: Site) -> None:
    script = "#!/bin/sh\n#SBATCH -D /w -o %A_%a.out -e %j.err\ntrue\n"
    async with site.running() as output_of:
        await site.create("many", script=script, array="0-1")
        await site.reach("many", podName="many-job", stdout="%A_%a.out", stderr="%j.err")
        site.slurm.become("101_1", "RUNNING", own_number="102")
        await site.reach("many", phase="Running")
        pod = await site.cluster.get(POD, "many-job")
        names = [one["name"] for one in pod["spec"]["containers"]]
        assert names == ["task-0", "task-1", "errors-0", "errors-1"]
        assert output_of(pod, "task-1") == Path("/w/101_1.out")
        assert output_of(pod, "errors-1") == Path("/w/102.err")


async def test_a_pod_that_somebody_deletes_is_made_anew(site: Site) -> None:
    async with site.running():
        await site.create("hello")
        await site.reach("hello", podName="hello-job")
        first = await site.cluster.get(POD, "hello-job")
        await site.cluster.api.delete(POD, Key("default", "hello-job"))

        async def new() -> None:
            pod = await site.cluster.get(POD, "hello-job")
            assert meta(pod)["uid"] != meta(first)["uid"]

        await eventually(new, within=60)


async def test_a_pod_of_that_name_that_is_not_ours_is_left_alone(site: Site) -> None:
    spec = {"containers": [{"name": "a", "image": "b"}]}
    mine = await site.cluster.create(POD, {"metadata": {"name": "hello-job"}, "spec": spec})
    async with site.running():
        await site.create("hello")
        await site.reach("hello", jobId="101", partition="main")
        site.slurm.become("101", "COMPLETED")
        await site.reach("hello", phase="Succeeded", podName=None)
    found = await site.cluster.get(POD, "hello-job")
    assert meta(found)["uid"] == meta(mine)["uid"]


async def test_a_control_plane_that_was_killed_submits_nothing_twice(site: Site) -> None:
    site.slurm.forgets_to_answer = True
    async with site.running():
        await site.create("hello")
        await site.reach("hello", jobId="101")
    async with site.running():
        site.slurm.become("101", "COMPLETED")
        await site.reach("hello", phase="Succeeded")
    assert len(site.slurm.sbatches) == 1


async def test_deleting_it_cancels_the_job_and_removes_its_folder(site: Site) -> None:
    async with site.running():
        await site.create("hello")
        await site.reach("hello", jobId="101")
        folder = folder_of(site, "hello")
        found = await site.cluster.get(SLURM_JOB, "hello")
        assert meta(found)["finalizers"] == [FINALIZER]
        await site.cluster.api.delete(SLURM_JOB, Key("default", "hello"))
        await eventually(lambda: gone(site, "hello"), within=60)
    assert site.slurm.jobs["101"].word == "CANCELLED"
    assert not folder.exists()


@pytest.mark.parametrize("end", ["delete", "cancel"])
async def test_a_status_that_names_anothers_job_cancels_nothing_of_theirs(
    site: Site, end: str
) -> None:
    async with site.running():
        await site.create("theirs")
        await site.reach("theirs", jobId="101")
        await site.create("mine")
        await site.reach("mine", jobId="102")
        lie = {"status": {"jobId": "101"}}
        await site.cluster.api.patch(SLURM_JOB, Key("default", "mine"), lie, subresource="status")
        if end == "delete":
            await site.cluster.api.delete(SLURM_JOB, Key("default", "mine"))
            await eventually(lambda: gone(site, "mine"), within=60)
        else:
            await site.cluster.patch(SLURM_JOB, "mine", {"spec": {"cancel": True}})
            await eventually(lambda: told(site, "102"), within=60)
    assert set(site.slurm.scancels) == {"102"}


async def told(site: Site, number: str) -> None:
    assert number in site.slurm.scancels


async def test_a_status_that_names_another_file_shows_none(site: Site) -> None:
    async with site.running() as output_of:
        await site.create("hello", script="#!/bin/sh\n#SBATCH -D /w -o %N.%j.out\ntrue\n")
        await site.reach("hello", podName="hello-job", jobId="101")
        pod = await site.cluster.get(POD, "hello-job")
        key = Key("default", "hello")
        for file in ("/home/you/.orlop/pki/ca.key", "/w/../x.101.out", "/w/x/y.101.out"):
            lie = {"status": {"stdout": file}}
            await site.cluster.api.patch(SLURM_JOB, key, lie, subresource="status")
            for _ in range(20):  # until the controller has put it right, and after
                assert output_of(pod, "job") != Path(file)
                await asyncio.sleep(0.01)


async def test_one_that_has_ended_is_deleted_without_scancel(site: Site) -> None:
    async with site.running():
        await site.create("hello")
        await site.reach("hello", jobId="101")
        site.slurm.become("101", "COMPLETED")
        await site.reach("hello", phase="Succeeded")
        await site.cluster.api.delete(SLURM_JOB, Key("default", "hello"))
        await eventually(lambda: gone(site, "hello"), within=60)
    assert site.slurm.scancels == []


async def test_cancel_keeps_the_object(site: Site) -> None:
    async with site.running():
        await site.create("hello")
        await site.reach("hello", jobId="101")
        await site.cluster.patch(SLURM_JOB, "hello", {"spec": {"cancel": True}})
        await site.reach("hello", phase="Failed", state="CANCELLED")


async def test_one_that_is_suspended_is_not_submitted(site: Site) -> None:
    async with site.running():
        await site.create("hello", suspend=True)
        await site.reach("hello", phase="Pending", reason="Suspended")
        assert site.slurm.sbatches == []
        await site.cluster.patch(SLURM_JOB, "hello", {"spec": {"suspend": False}})
        await site.reach("hello", jobId="101")


async def test_an_array_counts_its_tasks(site: Site) -> None:
    async with site.running():
        await site.create("many", array="0-2")
        await site.reach("many", jobId="101", podName="many-job")
        site.slurm.become("101_0", "COMPLETED")
        site.slurm.become("101_1", "RUNNING")
        counts = {"total": 3, "pending": 1, "running": 1, "succeeded": 1, "failed": 0}
        await site.reach("many", phase="Running", arrayTasks=counts)
        # Slurm forgets the first long before the last has ended.
        site.slurm.forget("101_0")
        site.slurm.become("101_1", "FAILED", exit_code=2)
        site.slurm.become("101_2", "COMPLETED")
        found = await site.reach("many", phase="Failed", exitCode=2)
    assert found["arrayTasks"]["succeeded"] == 2
    pod = await site.cluster.get(POD, "many-job")
    assert [one["name"] for one in pod["spec"]["containers"]] == ["task-0", "task-1", "task-2"]


async def test_the_ends_of_tasks_outlive_the_control_plane(site: Site) -> None:
    async with site.running():
        await site.create("many", array="0-1")
        await site.reach("many", jobId="101", partition="main")
        site.slurm.become("101_0", "COMPLETED")
        site.slurm.become("101_1", "RUNNING")
        await site.reach("many", phase="Running")
    site.slurm.forget("101_0")
    site.slurm.become("101_1", "COMPLETED")
    async with site.running():
        await site.reach("many", phase="Succeeded")


async def test_what_slurm_has_forgotten_is_in_the_accounting(site: Site) -> None:
    async with site.running():
        await site.create("hello")
        await site.reach("hello", jobId="101", partition="main")
        site.slurm.become("101", "OUT_OF_MEMORY", signal=9)
        site.slurm.forget("101", is_accounted=True)
        await site.reach("hello", phase="Failed", state="OUT_OF_MEMORY", signal=9)


async def test_a_waiting_job_that_nobody_knows_was_cancelled(site: Site) -> None:
    async with site.running():
        await site.create("hello")
        await site.reach("hello", jobId="101", partition="main")
        site.slurm.forget("101")
        await site.reach("hello", phase="Failed", state="CANCELLED")


async def test_a_running_job_that_nobody_knows_has_vanished(site: Site) -> None:
    async with site.running():
        await site.create("hello")
        await site.reach("hello", jobId="101")
        site.slurm.become("101", "RUNNING")
        await site.reach("hello", phase="Running")
        site.slurm.forget("101")
        await site.reach("hello", phase="Failed", state="UNKNOWN", reason="JobVanished")


async def test_a_chain_is_submitted_at_once_and_left_to_slurm(site: Site) -> None:
    async with site.running():
        await site.create("second", dependencies=[{"name": "first"}])
        await site.reach("second", phase="Pending", reason="Dependency")
        await site.create("first")
        await site.reach("second", jobId="102")
    assert "--dependency=afterok:101" in site.slurm.sbatches[1]


async def test_a_chain_behind_a_failed_job_fails_without_slurm(site: Site) -> None:
    async with site.running():
        await site.create("first")
        await site.reach("first", jobId="101")
        site.slurm.become("101", "FAILED")
        await site.reach("first", phase="Failed")
        await site.create("second", dependencies=[{"name": "first"}])
        await site.reach("second", phase="Failed", reason="DependencyNeverSatisfied")
    assert len(site.slurm.sbatches) == 1


async def test_variables_and_files_come_from_config_maps_and_secrets(site: Site) -> None:
    reference = {"secretKeyRef": {"name": "pw", "key": "word"}}
    async with site.running():
        await site.create(
            "hello",
            env=[{"name": "WORD", "valueFrom": reference}],
            volumes=[{"name": "conf", "configMap": {"name": "conf"}}],
            inputs=[{"volume": "conf", "path": "in.txt", "to": "here.txt"}],
        )
        # Neither is there: it waits, and says for what.
        found = await site.reach("hello", phase="Pending", reason="NotReady")
        assert "not found" in found["message"]
        await site.cluster.create(
            SECRET, {"metadata": {"name": "pw"}, "stringData": {"word": "x y"}}
        )
        await site.cluster.create(
            CONFIG_MAP, {"metadata": {"name": "conf"}, "data": {"in.txt": "1"}}
        )
        await site.reach("hello", jobId="101")
    folder = folder_of(site, "hello")
    assert "WORD='x y'\n" in (folder / "env").read_text()
    assert (folder / "env").stat().st_mode & 0o777 == 0o600
    # The job itself fetches, when Slurm starts it.
    assert str(folder / "fetch") in (folder / "job.sh").read_text()
    subprocess.run(["bash", folder / "fetch"], check=True)
    assert (folder / "work" / "here.txt").read_text() == "1"
    assert (folder / "volumes" / "conf" / "in.txt").read_text() == "1"
    assert "x y" not in " ".join(site.slurm.sbatches[0]) + (folder / "job.sh").read_text()


async def test_sbatch_may_have_the_variables_of_a_shell(site: Site) -> None:
    reference = {"secretKeyRef": {"name": "shell", "key": "environment"}}
    async with site.running():
        await site.create("plain")
        await site.reach("plain", jobId="101")
        await site.create("hello", submitEnvironment=reference)
        found = await site.reach("hello", phase="Pending", reason="NotReady")
        assert "Secret shell with a key environment not found" in found["message"]
        data = {"environment": base64.b64encode(b"A=1\0B=2").decode()}
        await site.cluster.create(SECRET, {"metadata": {"name": "shell"}, "data": data})
        await site.reach("hello", jobId="102")
    assert site.slurm.shells == [None, {"A": "1", "B": "2"}]


async def test_results_are_kept_before_the_end_is_told(site: Site, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    async with site.running():
        await site.create(
            "hello",
            volumes=[{"name": "out", "hostPath": {"path": str(kept)}}],
            results=[{"name": "answer", "path": "a.txt"}, {"path": "*.txt", "volume": "out"}],
        )
        await site.reach("hello", jobId="101", partition="main")
        more = {"path": "c.dat", "volume": "out", "to": "later"}
        both = [*(await site.cluster.get(SLURM_JOB, "hello"))["spec"]["results"], more]
        await site.cluster.patch(SLURM_JOB, "hello", {"spec": {"results": both}})
        work = folder_of(site, "hello") / "work"
        (work / "a.txt").write_text("42\n")
        (work / "c.dat").write_text("")
        (work / "b.txt").write_text("more")
        site.slurm.become("101", "COMPLETED")
        await site.reach("hello", phase="Succeeded", results={"answer": "42\n"})
    assert sorted(file.name for file in kept.iterdir()) == ["a.txt", "b.txt", "later"]


async def test_a_result_that_is_not_there_is_missed(site: Site) -> None:
    async with site.running():
        await site.create("hello", results=[{"path": "lost.txt"}, {"path": "."}])
        await site.reach("hello", jobId="101", partition="main")
        site.slurm.become("101", "COMPLETED")
        found = await site.reach("hello", phase="Succeeded")
    assert "cannot be kept as text" in found["message"]
    async with site.running():
        await site.create("other", results=[{"path": "lost.txt", "name": "lost"}])
        await site.reach("other", jobId="102", partition="main")
        site.slurm.become("102", "COMPLETED")
        found = await site.reach("other", phase="Succeeded")
    assert found["message"].startswith("no lost.txt in ")
    told = {event["reason"] for event in await site.cluster.list(EVENT)}
    assert {"ResultsNotKept", "ResultNotFound"} <= told


async def test_a_chain_hands_on_its_files_without_the_control_plane(
    site: Site, tmp_path: Path
) -> None:
    claim = tmp_path / "claim"
    claim.mkdir()
    volumes = [{"name": "data", "hostPath": {"path": str(claim)}}]
    async with site.running():
        await site.create("first", volumes=volumes, results=[{"path": "a.csv", "volume": "data"}])
        await site.create(
            "second",
            volumes=volumes,
            dependencies=[{"name": "first"}],
            inputs=[{"volume": "data", "path": "a.csv"}],
        )
        await site.reach("second", jobId="102")  # though there is no such file yet
    (folder_of(site, "first") / "work" / "a.csv").write_text("new")
    subprocess.run(["bash", folder_of(site, "second") / "fetch"], check=True)
    assert (folder_of(site, "second") / "work" / "a.csv").read_text() == "new"
    # The control plane comes back, and leaves alone what somebody has changed since.
    (claim / "a.csv").write_text("newer")
    site.slurm.become("101", "COMPLETED")
    async with site.running():
        await site.reach("first", phase="Succeeded")
    assert (claim / "a.csv").read_text() == "newer"


async def test_an_input_that_nobody_is_to_write_is_waited_for(site: Site, tmp_path: Path) -> None:
    volumes = [{"name": "data", "hostPath": {"path": str(tmp_path)}}]
    async with site.running():
        await site.create("hello", volumes=volumes, inputs=[{"volume": "data", "path": "set"}])
        found = await site.reach("hello", phase="Pending", reason="NotReady")
    assert found["message"].startswith("volume data has no set yet")


async def test_what_kept_a_job_from_its_inputs_is_on_the_object(site: Site) -> None:
    async with site.running():
        await site.create("hello")
        await site.reach("hello", jobId="101", partition="main")
        (folder_of(site, "hello") / "fetch.errors").write_text("cp: disk full\n")
        site.slurm.become("101", "FAILED", exit_code=66)
        words = "inputs could not be fetched: cp: disk full"
        await site.reach("hello", phase="Failed", message=words)


async def test_what_kept_a_job_from_its_inputs_before_it_was_requeued_is_over(site: Site) -> None:
    async with site.running():
        await site.create("hello")
        await site.reach("hello", jobId="101", partition="main")
        (folder_of(site, "hello") / "fetch.errors").write_text("cp: disk full\n")
        site.slurm.become("101", "COMPLETED")
        await site.reach("hello", phase="Succeeded", message=None)


async def test_results_that_cannot_be_copied_in_time_are_given_up(tmp_path: Path) -> None:
    """With all that the script has started, which would keep others out."""
    lock = tmp_path / "lock"
    (tmp_path / "keep").write_text(f"exec 9>> {lock}; flock 9; sleep 600; true")
    with pytest.raises(errors.ConfigError, match=r"copied within 0\.5 s"):
        await preparation.keep(tmp_path / "keep", timeout=0.5)

    async def is_free() -> bool:
        with lock.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    await eventually(is_free, within=60)


@pytest.mark.parametrize(
    ("error", "phase", "reason"),
    [
        (
            errors.SubmitRejected("no `slurm.orlop.dev/qos`"),
            "Failed",
            "SubmitRejected",
        ),
        (errors.SubmitDeferred("too many jobs"), "Pending", "SubmitDeferred"),
        (errors.EngineUnavailable("slurmctld is silent"), "Pending", "SlurmUnavailable"),
    ],
    ids=["rejected", "deferred", "silent"],
)
async def test_what_sbatch_refuses_is_on_the_object(
    site: Site, error: errors.Error, phase: str, reason: str
) -> None:
    site.slurm.refuses = error
    async with site.running():
        await site.create("hello")
        found = await site.reach("hello", phase=phase, reason=reason)
    assert "slurm.orlop.dev/qos" not in found["message"]


async def test_what_cannot_be_asked_of_sbatch_fails_at_once(site: Site) -> None:
    async with site.running():
        await site.create("hello", flags=["--wait"])
        found = await site.reach("hello", phase="Failed", reason="InvalidSpec")
    assert "--wait cannot be used" in found["message"]


async def test_one_goes_when_its_time_is_over(site: Site) -> None:
    async with site.running():
        await site.create("hello", ttlSecondsAfterFinished=0)
        await site.reach("hello", jobId="101")
        site.slurm.become("101", "COMPLETED", ended=None)
        await eventually(lambda: gone(site, "hello"), within=60)


@pytest.mark.parametrize(
    "spec",
    [{"script": "x", "command": ["y"]}, {}, {"script": "x", "jobId": "5"}],
    ids=["both", "none", "a job that is there"],
)
async def test_exactly_one_of_script_and_command(site: Site, spec: dict[str, object]) -> None:
    async with site.running():
        await site.create("other")
        with pytest.raises(errors.Invalid, match="exactly one of"):
            await site.cluster.create(SLURM_JOB, {"metadata": {"name": "x"}, "spec": spec})


async def test_a_script_does_not_change(site: Site) -> None:
    async with site.running():
        await site.create("hello", script="#!/bin/sh\ntrue\n")
        with pytest.raises(errors.Invalid, match="script may not change"):
            await site.cluster.patch(SLURM_JOB, "hello", {"spec": {"script": "false"}})


async def test_at_rest_nothing_is_written(site: Site) -> None:
    async with site.running():
        await site.create("hello")
        await site.reach("hello", jobId="101", podName="hello-job")
        site.slurm.become("101", "RUNNING", node_list="n1", started=2.0)
        await site.reach("hello", phase="Running")

        async def pod_runs() -> None:
            assert (await site.cluster.get(POD, "hello-job"))["status"]["phase"] == "Running"

        await eventually(pod_runs, within=60)
        before = meta(await site.cluster.get(SLURM_JOB, "hello"))["resourceVersion"]

        async def unchanged() -> None:
            now = meta(await site.cluster.get(SLURM_JOB, "hello"))["resourceVersion"]
            assert now == before

        await stays(unchanged)
