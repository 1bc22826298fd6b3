"""Jobs of wlm-operator and Bridge Operator, in their own words."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from orlop.api.kinds import SECRET, Kind
from orlop.api.objects import Key, Obj, controller_of
from orlop.errors import ConfigError
from orlop.extensions.bridgejob.controller import BRIDGE_JOB, BridgeJobs
from orlop.extensions.bridgejob.s3 import Server
from orlop.extensions.slurmjob import adapter
from orlop.extensions.slurmjob.kinds import SLURM_JOB
from orlop.extensions.wlmjob.controller import (
    WLM_JOB,
    WLM_SLURM_JOB,
    WlmJobs,
    container_script,
)
from tests.controllers.world import eventually, stays
from tests.extensions.slurmjob.answers import Answer, answering
from tests.extensions.slurmjob.conftest import Site

BATCH = "#!/bin/sh\n#SBATCH --nodes=1\n#SBATCH --output cow.out\nsrun echo moo\n"
PROPERTIES = {
    "NodesNumber": "2",
    "Queue": "V100",
    "Tasks": "4",
    "slurmJobName": "test",
    "currentWorkingDir": "/home/ann",
    "envPath": "/bin:/usr/bin",
    "envLibPath": "/lib",
}


async def made(site: Site, kind: Kind, name: str, spec: Obj) -> Obj:
    async def created() -> Obj:
        return await site.cluster.create(kind, {"metadata": {"name": name}, "spec": spec})

    return await eventually(created, within=60)


async def test_annotations_ask_sbatch_for_what_a_kind_has_no_field_for(site: Site) -> None:
    marks = {"slurm.orlop.dev/no-requeue": "true", "slurm.orlop.dev/partition": "long"}
    async with site.running():

        async def created() -> Obj:
            metadata = {"name": "image", "annotations": marks}
            spec = {"image": "/cow.sif", "resources": {"nodes": 2}}
            return await site.cluster.create(WLM_JOB, {"metadata": metadata, "spec": spec})

        await eventually(created, within=60)
        await site.reach("image", jobId="101")
    wanted = {"--no-requeue", "--partition=long", "--nodes=2"}
    assert wanted <= set(site.slurm.sbatches[0])


async def says(site: Site, kind: Kind, name: str, **fields: Any) -> Obj:
    async def so() -> Obj:
        status = (await site.cluster.get(kind, name)).get("status") or {}
        for field, value in fields.items():
            assert status.get(field) == value
        return status

    return await eventually(so, within=60)


def bridge(script: str = "#!/bin/sh\ntrue\n", where: str = "inline", **spec: Any) -> Obj:
    return {
        "image": "quay.io/ibmdpdev/slurm-pod:v0.0.1",
        "resourceURL": "http://login:6820/slurm/v0.0.36/",
        "resourcesecret": "mysecret",
        "jobdata": {"jobscript": script, "scriptlocation": where},
        **spec,
    }


async def test_a_script_of_wlm_operator_runs_to_its_end(site: Site, tmp_path: Path) -> None:
    kept = tmp_path / "results"
    mount = {"name": "data", "hostPath": {"path": str(kept), "type": "DirectoryOrCreate"}}
    spec = {
        "batch": BATCH,
        "nodeSelector": {"wlm.sylabs.io/containers": "singularity"},
        "results": {"from": "cow.out", "mount": mount},
    }
    async with site.running():
        owner = await made(site, WLM_SLURM_JOB, "cow", spec)
        await says(site, WLM_SLURM_JOB, "cow", status="Pending")
        found = await site.reach("cow", jobId="101", partition="main")
        job = await site.cluster.get(SLURM_JOB, "cow")
        assert controller_of(job)["uid"] == owner["metadata"]["uid"]
        site.slurm.become("101", "RUNNING")
        await says(site, WLM_SLURM_JOB, "cow", status="Running")
        (Path(found["workingDirectory"]) / "cow.out").write_text("moo\n")
        site.slurm.become("101", "COMPLETED")
        await says(site, WLM_SLURM_JOB, "cow", status="Succeeded")
    assert (kept / "cow.out").read_text() == "moo\n"


@pytest.mark.parametrize("word", ["FAILED", "TIMEOUT", "NODE_FAIL", "CANCELLED"])
async def test_every_bad_end_is_failed_to_wlm_operator(site: Site, word: str) -> None:
    async with site.running():
        await made(site, WLM_SLURM_JOB, "cow", {"batch": BATCH})
        await site.reach("cow", jobId="101")
        site.slurm.become("101", word)
        await says(site, WLM_SLURM_JOB, "cow", status="Failed")


async def test_another_job_of_that_name_is_not_taken(site: Site) -> None:
    async with site.running():
        await site.create("cow")
        await made(site, WLM_SLURM_JOB, "cow", {"batch": BATCH})
        await says(site, WLM_SLURM_JOB, "cow", status="Failed")
        await site.reach("cow", jobId="101")


async def spec_of_wlm_job(site: Site, **spec: Any) -> Obj:
    class Informers:
        def informer(self, kind: Kind) -> Any:
            class Informer:
                def __getattr__(self, name: str) -> Any:
                    return lambda *_: None

            return Informer()

    adapter = WlmJobs(site.cluster.api, Informers())  # type: ignore[arg-type]
    return await adapter.spec_of({"metadata": {"name": "j"}, "spec": spec})


async def test_an_image_of_wlm_operator_is_run_on_every_node(site: Site) -> None:
    resources = {"nodes": 2, "cpuPerNode": 4, "memPerNode": 1024, "wallTime": 90}
    selector = {"slurm.orlop.dev/partition": "long", "feature.slurm.orlop.dev/ib": "true"}
    asked = {"image": "/images/a.sif", "resources": resources, "nodeSelector": selector}
    found = await spec_of_wlm_job(site, **asked)
    assert found["options"] == {
        "nodes": 2,
        "ntasks-per-node": 1,
        "cpus-per-task": 4,
        "mem": "1024M",
        "time": 2,
        "partition": "long",
        "constraint": "ib",
    }


def test_the_options_of_an_image() -> None:
    options = {"cleanEnv": True, "fakeRoot": True, "app": "x", "binds": ["/a:/b", "/c d"]}
    text = container_script({"image": "docker://busybox", "options": options})
    assert text.endswith(
        'exec srun --ntasks-per-node=1 "$runtime" run --cleanenv --fakeroot --app=x '
        "--bind=/a:/b '--bind=/c d' docker://busybox\n"
    )


def test_an_unsigned_image_is_pulled_first() -> None:
    options = {"allowUnsigned": True}
    text = container_script({"image": "library://sylabsed/lolcow", "options": options})
    assert "pull --force --allow-unsigned image.sif library://sylabsed/lolcow" in text
    assert text.endswith("run image.sif\n")


async def test_a_bridge_job_runs_to_its_end(site: Site) -> None:
    spec = bridge(jobproperties=json.dumps(PROPERTIES))
    async with site.running():
        await made(site, BRIDGE_JOB, "b", spec)
        await says(site, BRIDGE_JOB, "b", jobstatus="PENDING")
        await site.reach("b", jobId="101")
        site.slurm.become("101", "RUNNING", started=1.0)
        await says(site, BRIDGE_JOB, "b", jobstatus="RUNNING")
        site.slurm.become("101", "COMPLETED")
        found = await says(site, BRIDGE_JOB, "b", jobstatus="DONE")
        assert found["starttime"] < found["completiontime"]
        job = await site.cluster.get(SLURM_JOB, "b")
    options = {"nodes": "2", "partition": "V100", "ntasks": "4", "job-name": "test"}
    assert job["spec"]["options"] == options
    assert job["spec"]["workingDirectory"] == "/home/ann"
    assert {one["name"] for one in job["spec"]["env"]} == {"PATH", "LD_LIBRARY_PATH"}


@pytest.mark.parametrize(
    ("word", "expected"),
    [("FAILED", "FAILED"), ("TIMEOUT", "FAILED"), ("NODE_FAIL", "FAILED"), ("CANCELLED", "KILLED")],
)
async def test_the_ends_of_bridge_jobs(site: Site, word: str, expected: str) -> None:
    async with site.running():
        await made(site, BRIDGE_JOB, "b", bridge())
        await site.reach("b", jobId="101")
        site.slurm.become("101", word)
        await says(site, BRIDGE_JOB, "b", jobstatus=expected)


async def test_kill_cancels_the_job_of_a_bridge_job(site: Site) -> None:
    async with site.running():
        await made(site, BRIDGE_JOB, "b", bridge())
        await site.reach("b", jobId="101")
        await site.cluster.patch(BRIDGE_JOB, "b", {"spec": {"kill": True}})
        await says(site, BRIDGE_JOB, "b", jobstatus="KILLED")
    assert site.slurm.scancels[0] == "101"


async def test_deleting_a_bridge_job_is_left_to_the_garbage_collector(site: Site) -> None:
    async with site.running():
        await made(site, BRIDGE_JOB, "b", bridge())
        await site.reach("b", jobId="101")
        await site.cluster.api.delete(BRIDGE_JOB, Key("default", "b"))
        assert controller_of(await site.cluster.get(SLURM_JOB, "b"))["kind"] == "BridgeJob"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (bridge(image="", resourceURL="http://lsf:8080"), "expected an image or a resourceURL"),
        (bridge(where="s3", script="bucket:x"), "s3storage.s3secret is needed"),
        (bridge(where="s3", script="x"), "expected bucket:object"),
        (bridge(where="ftp"), "expected inline, remote or s3"),
        (bridge(where="remote", script="/no/such"), "cannot be read"),
        (bridge(jobproperties="{"), "expected an object in JSON"),
        (bridge(s3upload={"bucket": "b"}), "s3storage.s3secret is needed"),
    ],
    ids=["lsf", "s3", "no object", "elsewhere", "no file", "no json", "upload"],
)
async def test_what_bridge_jobs_cannot_ask_for(spec: Obj, words: str) -> None:
    adapter = BridgeJobs.__new__(BridgeJobs)
    with pytest.raises(ConfigError, match=words):
        await adapter.spec_of({"metadata": {"name": "b"}, "spec": spec})


async def test_a_script_of_this_cluster_is_read(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\necho remote\n")
    adapter = BridgeJobs.__new__(BridgeJobs)
    found = await adapter.spec_of({"spec": bridge(str(script), "remote")})
    assert found["script"] == "#!/bin/sh\necho remote\n"


def keys(server: Server) -> Obj:
    given = {"accesskey": server.access_key, "secretkey": server.secret_key}
    return {"metadata": {"name": "keys"}, "stringData": given}


async def test_a_script_comes_from_s3_and_what_it_leaves_goes_there(
    site: Site, s3: Server, tmp_path: Path
) -> None:
    script = "#!/bin/sh\n#SBATCH -o out.txt -e err.txt\necho from s3\n"
    s3.write("scripts", "deep/job.sh", script.encode())
    (tmp_path / "out.txt").write_text("printed")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.csv").write_text("1,2")
    storage = {"s3secret": "keys", "endpoint": s3.endpoint, "secure": False}
    upload = {"bucket": "results", "files": "sub/a.csv, lost.csv"}
    properties = json.dumps({"currentWorkingDir": str(tmp_path)})
    spec = bridge("scripts:deep/job.sh", "s3", s3storage=storage, jobproperties=properties)
    async with site.running():
        await made(site, BRIDGE_JOB, "b", {**spec, "s3upload": upload})
        words = 'secrets "keys" not found'  # it may come, and does
        await says(site, BRIDGE_JOB, "b", jobstatus="PENDING", message=words)
        await site.cluster.create(SECRET, keys(s3))
        await site.reach("b", jobId="101", partition="main")
        site.slurm.become("101", "COMPLETED")
        found = await says(site, BRIDGE_JOB, "b", jobstatus="DONE")
    lost = "but lost.csv, err.txt is not there"
    assert found["message"] == f"what it left is in S3 at results:b/, {lost}"
    for name, text in {"script": script, "out.txt": "printed", "sub/a.csv": "1,2"}.items():
        assert s3.read("results", f"b/{name}", most=100).decode() == text


async def test_what_s3_does_not_take_is_told(site: Site, s3: Server) -> None:
    storage = {"s3secret": "keys", "endpoint": s3.endpoint, "secure": False}
    async with site.running():
        await site.cluster.create(SECRET, keys(replace(s3, secret_key="wrong")))
        upload = {"bucket": "results"}
        await made(site, BRIDGE_JOB, "b", bridge(s3storage=storage, s3upload=upload))
        await site.reach("b", jobId="101", partition="main")
        site.slurm.become("101", "COMPLETED")
        found = await says(site, BRIDGE_JOB, "b", jobstatus="DONE")
    assert found["message"].startswith("not all is in S3: ")


async def test_keys_may_end_with_a_line_as_echo_ends_them(site: Site, s3: Server) -> None:
    s3.write("scripts", "job.sh", b"#!/bin/sh\n")
    storage = {"s3secret": "keys", "endpoint": s3.endpoint, "secure": False}
    async with site.running():
        lines = replace(s3, access_key=f"{s3.access_key}\n", secret_key=f"{s3.secret_key}\n")
        await site.cluster.create(SECRET, keys(lines))
        await made(site, BRIDGE_JOB, "b", bridge("scripts:job.sh", "s3", s3storage=storage))
        await site.reach("b", jobId="101")


async def test_keys_that_are_no_text_are_refused(site: Site) -> None:
    data = dict.fromkeys(("accesskey", "secretkey"), base64.b64encode(b"\xff").decode())
    storage = {"s3secret": "keys", "endpoint": "127.0.0.1:1"}
    async with site.running():
        await site.cluster.create(SECRET, {"metadata": {"name": "keys"}, "data": data})
        await made(site, BRIDGE_JOB, "b", bridge("scripts:job.sh", "s3", s3storage=storage))
        words = "s3storage: expected text as accesskey of the Secret keys"
        await says(site, BRIDGE_JOB, "b", jobstatus="FAILED", message=words)


async def test_a_server_that_is_away_at_the_end_is_asked_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "AGAIN", 0.05)
    asked: list[str] = []

    def restarting(request: BaseHTTPRequestHandler) -> Answer:
        asked.append(request.path)
        return (200, b"") if len(asked) > 2 else (503, b"<Message>starting</Message>")

    with answering(restarting) as endpoint:
        server = Server(endpoint, "a", "b", is_secure=False)
        storage = {"s3secret": "keys", "endpoint": endpoint, "secure": False}
        async with site.running():
            await site.cluster.create(SECRET, keys(server))
            spec = bridge(s3storage=storage, s3upload={"bucket": "results"})
            await made(site, BRIDGE_JOB, "b", spec)
            await site.reach("b", jobId="101", partition="main")
            site.slurm.become("101", "COMPLETED")
            found = await says(site, BRIDGE_JOB, "b", jobstatus="DONE")
    assert found["message"].startswith("what it left is in S3 at results:b/")
    assert asked[:3] == ["/results/b/script"] * 3


async def test_a_server_that_stays_away_is_given_up(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orlop.extensions.bridgejob.controller.UNTIL_GIVEN_UP", 0.0)
    storage = {"s3secret": "keys", "endpoint": "127.0.0.1:1", "secure": False}
    async with site.running():
        await site.cluster.create(SECRET, keys(Server("", "a", "b")))
        spec = bridge(s3storage=storage, s3upload={"bucket": "results"})
        await made(site, BRIDGE_JOB, "b", spec)
        await site.reach("b", jobId="101", partition="main")
        site.slurm.become("101", "COMPLETED")
        found = await says(site, BRIDGE_JOB, "b", jobstatus="DONE")
    assert found["message"].startswith("not all is in S3: the S3 server 127.0.0.1:1")


async def test_what_has_failed_does_not_run_on_a_later_day(site: Site, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    async with site.running():
        await made(site, BRIDGE_JOB, "b", bridge(str(script), "remote"))
        await says(site, BRIDGE_JOB, "b", jobstatus="FAILED")
    script.write_text("#!/bin/sh\n")
    async with site.running():
        # Whoever is looked at later has been looked at after it.
        await made(site, BRIDGE_JOB, "later", bridge())
        await site.reach("later", jobId="101")
        assert await site.cluster.find(SLURM_JOB, "b") is None


@pytest.mark.parametrize(
    ("kind", "spec", "end"),
    [
        (BRIDGE_JOB, bridge(), {"jobstatus": "DONE"}),
        (WLM_SLURM_JOB, {"batch": BATCH}, {"status": "Succeeded"}),
    ],
    ids=["bridge", "wlm"],
)
async def test_what_has_run_does_not_run_again(
    site: Site, kind: Kind, spec: Obj, end: dict[str, str]
) -> None:
    async with site.running():
        await made(site, kind, "b", spec)
        await site.reach("b", jobId="101", partition="main")
        site.slurm.become("101", "COMPLETED")
        await says(site, kind, "b", **end)
        await site.cluster.api.delete(SLURM_JOB, Key("default", "b"))

        async def is_gone() -> bool:
            return await site.cluster.find(SLURM_JOB, "b") is None

        await eventually(is_gone, within=60)
        await stays(is_gone)
