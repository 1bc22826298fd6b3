"""What a PyTorchJob is made of, by tables: names, ranks, rendezvous, ports and gangs."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api.objects import Obj, annotations_of, labels_of, meta
from orlop.extensions.pytorchjob import children as parts

LABEL = "training.kubeflow.org/"


def replica(replicas: int, **fields: Any) -> Obj:
    container = {"name": "pytorch", "image": "torch", **fields.pop("container", {})}
    return {"replicas": replicas, "template": {"spec": {"containers": [container]}}, **fields}


def pytorch_job(
    *, master: bool = True, workers: int = 2, annotations: Obj | None = None, **spec: Any
) -> Obj:
    roles = {"Master": replica(1)} if master else {}
    roles |= {"Worker": replica(workers)} if workers else {}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {
            "name": "sgd",
            "namespace": "ns",
            "uid": "0123456789abcdef",
            "annotations": annotations or {},
        },
        "spec": {"pytorchReplicaSpecs": roles, **spec},
    }


def env_of(pod: Obj) -> dict[str, str]:
    return {one["name"]: one["value"] for one in pod["spec"]["containers"][0]["env"]}


def test_ranks_begin_with_the_master() -> None:
    job = pytorch_job()
    pods = [parts.pod_for(job, role, index) for role, index in parts.names(job).values()]
    assert [meta(pod)["name"] for pod in pods] == ["sgd-master-0", "sgd-worker-0", "sgd-worker-1"]
    found = [env_of(pod) for pod in pods]
    assert [one["RANK"] for one in found] == ["0", "1", "2"]
    assert [one["PET_NODE_RANK"] for one in found] == ["0", "1", "2"]
    for one in found:
        assert (one["MASTER_ADDR"], one["MASTER_PORT"]) == ("sgd-master-0", "23456")
        assert (one["PET_MASTER_ADDR"], one["PET_MASTER_PORT"]) == ("sgd-master-0", "23456")
        assert (one["WORLD_SIZE"], one["PET_NNODES"]) == ("3", "3")
        assert (one["PET_NPROC_PER_NODE"], one["PYTHONUNBUFFERED"]) == ("auto", "1")


def test_without_a_master_the_first_worker_is_one() -> None:
    job = pytorch_job(master=False)
    found = [env_of(parts.pod_for(job, "Worker", index)) for index in range(2)]
    assert [one["RANK"] for one in found] == ["0", "1"]
    assert {one["MASTER_ADDR"] for one in found} == {"sgd-worker-0"}


def test_the_world_counts_processes_and_not_pods() -> None:
    found = env_of(parts.pod_for(pytorch_job(nprocPerNode="4"), "Worker", 1))
    assert (found["WORLD_SIZE"], found["PET_NPROC_PER_NODE"], found["RANK"]) == ("12", "4", "2")


ELASTIC = [
    (
        {},
        {"PET_NNODES": "3", "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "sgd-worker-0:23456"},
    ),
    ({"minReplicas": 1, "maxReplicas": 4}, {"PET_NNODES": "1:4"}),
    ({"maxReplicas": 4}, {"PET_NNODES": "1:4"}),
    (
        {"rdzvBackend": "etcd", "rdzvHost": "etcd", "rdzvPort": 2379},
        {"PET_RDZV_BACKEND": "etcd", "PET_RDZV_ENDPOINT": "etcd:2379"},
    ),
    ({"rdzvId": "x", "maxRestarts": 0}, {"PET_RDZV_ID": "x", "PET_MAX_RESTARTS": "0"}),
    (
        {"rdzvConf": [{"key": "timeout", "value": "9"}, {"key": "a", "value": "b"}]},
        {"PET_RDZV_CONF": "timeout=9,a=b"},
    ),
    ({"standalone": True}, {"PET_STANDALONE": ""}),
    ({"nProcPerNode": 2}, {"PET_NPROC_PER_NODE": "2"}),
]


@pytest.mark.parametrize(("policy", "wanted"), ELASTIC)
def test_an_elastic_job_meets_by_torchruns_own_variables(policy: Obj, wanted: Obj) -> None:
    job = pytorch_job(master=False, workers=3, elasticPolicy=policy)
    found = env_of(parts.pod_for(job, "Worker", 1))
    assert wanted.items() <= found.items()
    assert "RANK" not in found, "torchrun numbers them itself"


def test_what_a_container_sets_itself_stays() -> None:
    job = pytorch_job()
    own = {"env": [{"name": "MASTER_PORT", "value": "1"}], "ports": []}
    job["spec"]["pytorchReplicaSpecs"]["Worker"] = replica(1, container=own)
    found = parts.pod_for(job, "Worker", 0)
    assert env_of(found)["MASTER_PORT"] == "1"
    assert found["spec"]["containers"][0]["ports"][0]["containerPort"] == 23456


def test_the_port_is_the_one_that_is_named() -> None:
    job = pytorch_job()
    own = {"ports": [{"name": "pytorchjob-port", "containerPort": 7}]}
    job["spec"]["pytorchReplicaSpecs"]["Master"] = replica(1, container=own)
    assert env_of(parts.pod_for(job, "Worker", 0))["MASTER_PORT"] == "7"
    assert parts.service(job, "Master", 0)["spec"]["ports"][0]["port"] == 7
    assert len(parts.pod_for(job, "Master", 0)["spec"]["containers"][0]["ports"]) == 1


def test_each_pod_is_found_by_a_service_of_its_name() -> None:
    job = pytorch_job()
    made = parts.service(job, "Worker", 1)
    pod = parts.pod_for(job, "Worker", 1)
    assert meta(made)["name"] == meta(pod)["name"]
    assert made["spec"]["selector"].items() <= labels_of(pod).items()
    assert (
        not made["spec"]["selector"].items() <= labels_of(parts.pod_for(job, "Worker", 0)).items()
    )
    assert labels_of(parts.pod_for(job, "Master", 0))[LABEL + "job-role"] == "master"


POLICIES = [
    (None, "OnFailure"),
    ("Always", "Always"),
    ("Never", "Never"),
    ("ExitCode", "Never"),
]


@pytest.mark.parametrize(("asked", "wanted"), POLICIES)
def test_the_pods_restart_policy(asked: str | None, wanted: str) -> None:
    job = pytorch_job()
    if asked:
        job["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = asked
    assert parts.pod_for(job, "Worker", 0)["spec"]["restartPolicy"] == wanted


GANGS = [
    ({}, {}, "3"),
    ({"schedulingPolicy": {"minAvailable": 2}}, {}, "2"),
    ({}, {"minReplicas": 1, "maxReplicas": 4}, "2"),
    ({"schedulingPolicy": {"minAvailable": 9}}, {}, "3"),
]


@pytest.mark.parametrize(("policy", "elastic", "size"), GANGS)
def test_how_many_start_together(policy: Obj, elastic: Obj, size: str) -> None:
    job = pytorch_job(runPolicy=policy, **({"elasticPolicy": elastic} if elastic else {}))
    found = annotations_of(parts.pod_for(job, "Worker", 0))
    assert found["slurm.orlop.dev/gang-size"] == size
    assert found["slurm.orlop.dev/gang"] == "pytorchjob-sgd-01234567"


def test_what_is_said_on_the_job_holds_for_its_pods() -> None:
    policy = {"schedulingPolicy": {"queue": "gpu", "priorityClass": "high"}}
    given = {"slurm.orlop.dev/time": "60", "slurm.orlop.dev/gang": "false", "mine": "x"}
    pod = parts.pod_for(pytorch_job(annotations=given, runPolicy=policy), "Worker", 0)
    assert annotations_of(pod) == {
        "slurm.orlop.dev/time": "60",
        "slurm.orlop.dev/partition": "gpu",
        parts.ATTEMPT: "0",
    }
    assert pod["spec"]["priorityClassName"] == "high"


def test_only_an_elastic_job_with_measures_has_an_autoscaler() -> None:
    assert parts.autoscaler(pytorch_job(elasticPolicy={"maxReplicas": 4})) is None
    metrics = [{"type": "Resource", "resource": {"name": "cpu"}}]
    policy = {"minReplicas": 2, "maxReplicas": 4, "metrics": metrics}
    made = parts.autoscaler(pytorch_job(elasticPolicy=policy))
    assert made is not None
    spec = made["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"], spec["metrics"]) == (2, 4, metrics)
    target = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "sgd"}
    assert spec["scaleTargetRef"] == target
