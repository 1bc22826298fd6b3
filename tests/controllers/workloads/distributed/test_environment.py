"""The variables of distributed frameworks, on pods of every kind that has an index."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orlop.api.kinds import JOB, POD, SERVICE
from orlop.api.objects import Obj, annotations_of
from orlop.controllers.workloads.distributed.controller import DistributedNames, needs_names
from orlop.controllers.workloads.distributed.environment import Place, variables, with_variables
from orlop.controllers.workloads.job.controller import Jobs
from orlop.controllers.workloads.job.plan import Slot
from orlop.controllers.workloads.job.plan import pod_for as job_pod
from orlop.controllers.workloads.statefulset.pods import pod_for as stateful_pod
from orlop.extensions.jobset.children import job_for
from orlop.extensions.leaderworkerset.children import pod_for as group_pod
from tests.controllers.world import World, eventually, job
from tests.extensions.jobset.test_controller import job_set
from tests.extensions.leaderworkerset.test_controller import lws

ASKED = {"slurm.orlop.dev/distributed": "torch"}


def env_of(pod: Obj) -> dict[str, str]:
    env = pod["spec"]["containers"][0].get("env") or []
    return {one["name"]: one.get("value", "") for one in env}


FRAMEWORKS: dict[str, dict[str, Any]] = {
    "torch": {
        "MASTER_ADDR": "a.s",
        "MASTER_PORT": "9",
        "WORLD_SIZE": "2",
        "RANK": "1",
        "LOCAL_RANK": "0",
        "PET_NNODES": "2",
        "PET_NODE_RANK": "1",
        "PET_MASTER_ADDR": "a.s",
        "PET_MASTER_PORT": "9",
    },
    "jax": {
        "JAX_COORDINATOR_ADDRESS": "a.s:9",
        "JAX_COORDINATOR_PORT": "9",
        "JAX_NUM_PROCESSES": "2",
        "JAX_PROCESS_ID": "1",
    },
}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_each_framework_reads(framework: str) -> None:
    assert variables(framework, Place(1, ["a.s", "b.s"]), "9") == FRAMEWORKS[framework]


def test_tensorflow_is_told_of_everyone() -> None:
    found = json.loads(variables("tensorflow", Place(1, ["a.s", "b.s"]), "9")["TF_CONFIG"])
    assert found == {
        "cluster": {"worker": ["a.s:9", "b.s:9"]},
        "task": {"type": "worker", "index": 1},
    }


def test_torchrun_starts_a_process_for_each_gpu() -> None:
    assert variables("torch", Place(0, ["a"]), "9", gpus=4)["PET_NPROC_PER_NODE"] == "4"


def test_what_a_container_sets_itself_stays() -> None:
    own = {"name": "main", "env": [{"name": "RANK", "value": "mine"}]}
    pod = {"metadata": {"annotations": ASKED}, "spec": {"containers": [own]}}
    assert env_of(with_variables(pod, Place(0, ["a"])))["RANK"] == "mine"


@pytest.mark.parametrize("value", ["", "caffe"])
def test_nothing_is_set_for_what_is_not_known(value: str) -> None:
    asked = {"slurm.orlop.dev/distributed": value} if value else {}
    pod = {"metadata": {"annotations": asked}, "spec": {"containers": [{"name": "main"}]}}
    assert env_of(with_variables(pod, Place(0, ["a"]))) == {}


def asking(made: Obj) -> Obj:
    made["metadata"]["uid"] = "0123456789"
    made["spec"]["template"]["metadata"] = {"annotations": ASKED}
    return made


def test_an_indexed_job() -> None:
    made = asking(job("j", completions=3, parallelism=3, completionMode="Indexed"))
    pod = job_pod(made, Slot(2))
    assert env_of(pod)["RANK"] == "2"
    assert env_of(pod)["WORLD_SIZE"] == "3"
    assert env_of(pod)["MASTER_ADDR"] == "j-0.j"
    assert pod["spec"]["subdomain"] == "j"


def test_a_stateful_set() -> None:
    made = asking(job("db", replicas=2, serviceName="svc", ordinals={"start": 5}))
    env = env_of(stateful_pod(made, 6, made["spec"]["template"], "r"))
    assert (env["RANK"], env["WORLD_SIZE"], env["MASTER_ADDR"]) == ("1", "2", "db-5.svc")


def test_a_group_of_a_leaderworkerset() -> None:
    made = lws(3)
    made["metadata"]["annotations"] = ASKED
    env = env_of(group_pod(made, 1, 2, {}))
    assert (env["RANK"], env["WORLD_SIZE"], env["MASTER_ADDR"]) == ("2", "3", "s-1.s")


def test_the_ranks_of_a_jobset_go_through_all_of_its_jobs() -> None:
    made = job_set(annotations=ASKED, coordinator={"replicatedJob": "workers"})
    found = {}
    for one in made["spec"]["replicatedJobs"]:
        for index in range(one["replicas"]):
            child = job_for(made, one, index)
            child["metadata"] |= {"namespace": "default", "uid": "u"}
            child |= {"apiVersion": "batch/v1", "kind": "Job"}
            for number in range(one["template"]["spec"]["completions"]):
                pod = job_pod(child, Slot(number))
                found[env_of(pod)["RANK"]] = pod["spec"]["hostname"]
                assert env_of(pod)["MASTER_ADDR"] == "js-workers-0-0.js"
                assert env_of(pod)["WORLD_SIZE"] == "5"
                assert "orlop.dev/distributed-place" not in annotations_of(pod)
    assert found == {
        "0": "js-workers-0-0",
        "1": "js-workers-0-1",
        "2": "js-workers-1-0",
        "3": "js-workers-1-1",
        "4": "js-driver-0-0",
    }


NAMES: list[tuple[dict[str, Any], bool]] = [
    ({"completionMode": "Indexed", "completions": 2}, True),
    ({}, False),
]


@pytest.mark.parametrize(("fields", "wanted"), NAMES)
def test_which_jobs_get_names(fields: dict[str, Any], wanted: bool) -> None:
    assert needs_names(asking(job("j", **fields))) is wanted
    assert needs_names(job("j", **fields)) is False


async def test_a_job_that_asks_gets_a_service_of_its_own_name(cluster: World) -> None:
    made = (
        lambda informers: Jobs(cluster.api, informers),
        lambda informers: DistributedNames(cluster.api, informers),
    )
    async with cluster.running(*made):
        asked = asking(job("j", completions=2, parallelism=2, completionMode="Indexed"))
        del asked["metadata"]["uid"]
        await cluster.create(JOB, asked)

        async def is_named() -> None:
            service = await cluster.get(SERVICE, "j")
            assert service["spec"]["clusterIP"] == "None"
            assert len(await cluster.list(POD)) == 2

        await eventually(is_named)
