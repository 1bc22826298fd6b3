"""The rank set of an MPIJob without a launcher."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api.objects import Obj, annotations_of
from orlop.extensions.mpijob.mpirun_arguments import NotStripped, strip
from orlop.extensions.mpijob.srun_launcher import rank_set_job, shape
from tests.extensions.mpijob.test_children import mpi_job

BY_SRUN = {"slurm.orlop.dev/launcher": "srun"}

SHAPES = [
    (2, 1, ["mpirun", "pi"], ("2", "2", "1")),
    (2, 4, ["mpirun", "pi"], ("8", "2", "4")),
    (4, 2, ["mpirun", "-n", "3", "pi"], ("3", "2", "2")),
    (2, 2, ["mpirun", "-ppn", "1", "pi"], ("2", "2", "1")),
    (0, 4, ["mpirun", "pi"], ("4", "1", "4")),
    (2, 1, ["mpirun", "--map-by", "ppr:2:node", "pi"], ("4", "2", "2")),
]


@pytest.mark.parametrize(("workers", "slots", "words", "wanted"), SHAPES)
def test_the_shape_of_a_rank_set(
    workers: int, slots: int, words: list[str], wanted: tuple[str, str, str]
) -> None:
    found = shape(mpi_job(workers=workers, slotsPerWorker=slots), strip(words))
    names = ("ntasks", "nodes", "ntasks-per-node")
    assert tuple(found[f"slurm.orlop.dev/{name}"] for name in names) == wanted
    assert found["slurm.orlop.dev/mpi"] == "pmix"


def test_a_rank_set_is_a_worker_with_the_ranks_command() -> None:
    context = {"runAsUser": 1000, "runAsNonRoot": True, "readOnlyRootFilesystem": True}
    worker = {"name": "w", "image": "worker", "command": ["/usr/sbin/sshd"], "args": ["-De"]}
    worker["securityContext"] = context
    job = mpi_job(worker=worker, annotations={"slurm.orlop.dev/launcher": "srun"})
    spec = rank_set_job(job)["spec"]["template"]["spec"]
    assert spec["containers"][0] == {
        "name": "w",
        "image": "worker",
        "command": ["/pi"],
        "securityContext": {"readOnlyRootFilesystem": True},  # PMIx answers its job's owner alone
    }
    assert spec["restartPolicy"] == "OnFailure"


def test_a_launcher_that_is_a_worker_adds_its_ranks() -> None:
    job = mpi_job(workers=2, slotsPerWorker=2, runLauncherAsWorker=True)
    assert shape(job, strip(["mpirun", "pi"]))["slurm.orlop.dev/ntasks"] == "6"


def launched(job: Obj, line: str, **fields: Any) -> Obj:
    launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    launcher["containers"][0] |= {"command": ["mpirun", *line.split()], "args": []}
    launcher["containers"][0] |= fields
    return job


def with_resources(slots: int, **resources: str) -> Obj:
    worker = {"name": "w", "image": "worker", "resources": {"limits": resources}}
    return launched(mpi_job(worker=worker, slotsPerWorker=slots, annotations=BY_SRUN), "/pi")


SHARES = [
    (1, {"cpu": "2", "memory": "4Gi"}, {"cpu": "2", "memory": "4Gi"}),
    (8, {"cpu": "8", "memory": "4Gi"}, {"cpu": "1", "memory": "512Mi"}),
    (3, {"cpu": "8", "memory": "1000"}, {"cpu": "2666m", "memory": "333"}),
    (2, {"nvidia.com/gpu": "4"}, {"nvidia.com/gpu": "2"}),
]


@pytest.mark.parametrize(("slots", "worker", "rank"), SHARES)
def test_ranks_share_what_their_worker_asks_for(
    slots: int, worker: dict[str, str], rank: dict[str, str]
) -> None:
    spec = rank_set_job(with_resources(slots, **worker))["spec"]["template"]["spec"]
    assert spec["containers"][0]["resources"]["limits"] == rank


def test_what_cannot_be_shared_is_said() -> None:
    with pytest.raises(NotStripped, match=r"cannot divide 3 nvidia.com/gpu of a worker"):
        rank_set_job(with_resources(2, **{"nvidia.com/gpu": "3"}))


def test_what_mpirun_was_told_of_its_ranks_is_told_to_srun() -> None:
    line = "--bind-to core --map-by node --tag-output -wdir /w /pi"
    job = launched(mpi_job(annotations=BY_SRUN), line)
    template = rank_set_job(job)["spec"]["template"]
    given = annotations_of(template)
    assert given["slurm.orlop.dev/srun-flags"] == "--cpu-bind=cores --distribution=cyclic"
    assert given["slurm.orlop.dev/label"] == "true"
    assert template["spec"]["containers"][0]["workingDir"] == "/w"


def test_ranks_have_what_only_the_launcher_was_given() -> None:
    mounts = [{"name": "in", "mountPath": "/in"}, {"name": "out", "mountPath": "/out"}]
    sources = [{"configMapRef": {"name": "settings"}}]
    worker = {"name": "w", "image": "worker", "volumeMounts": [mounts[1]], "workingDir": "/w"}
    job = launched(
        mpi_job(worker=worker, annotations=BY_SRUN),
        "/pi",
        volumeMounts=mounts,
        envFrom=sources,
        workingDir="/in",
    )
    roles = job["spec"]["mpiReplicaSpecs"]
    roles["Launcher"]["template"]["spec"]["volumes"] = [{"name": "in"}, {"name": "out", "a": 1}]
    roles["Worker"]["template"]["spec"]["volumes"] = [{"name": "out"}]
    spec = rank_set_job(job)["spec"]["template"]["spec"]
    container = spec["containers"][0]
    assert [one["mountPath"] for one in container["volumeMounts"]] == ["/out", "/in"]
    assert spec["volumes"] == [{"name": "out"}, {"name": "in"}]
    assert (container["envFrom"], container["workingDir"]) == (sources, "/in")
