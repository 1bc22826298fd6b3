"""MPIJobs as the MPI operator documents them, on a real Slurm with real MPIs and no ssh."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster import openmpi
from tests.cluster.fixtures import StartRegistry
from tests.e2e.mpi_images import mpich_image, openmpi_image
from tests.e2e.site import NotYet, Obj, Site, eventually

IMAGES = {
    "OpenMPI": ("mpirun-openmpi:latest", openmpi_image),
    "MPICH": ("mpirun-mpich:latest", mpich_image),
}
Image = Callable[[str], str]
TRIES = 3
# Again where ranks have ended by their own alarm in MPI_Finalize (mpi_images), and nowhere else:
# Hydra's exit code is that signal, or it and those of its TERM and KILL to others, one number.
UNLESS_FINALIZE_HANGS = 'until mpirun "$@"; do code=$?; [ $((code & 14)) = 14 ] || exit $code; done'
RESUME = '{"spec":{"runPolicy":{"suspend":false}}}'


@pytest.fixture
def image(site: Site, registry_on: StartRegistry) -> Image:
    """Brings a flavour's image into the site's registry, once."""

    def bring(flavour: str) -> str:
        registry = registry_on(site.cluster)
        name, make = IMAGES[flavour]
        try:
            registry.digest(name)
        except LookupError:
            registry.push(name, make())
        return name

    return bring


def mpi_job(image: str, flavour: str, *args: str, **policy: Any) -> Obj:
    """As the operator's own example, which has sshd in its workers and runs as a user."""
    context = {"runAsUser": 1000}
    limits = {"limits": {"cpu": "1", "memory": "128Mi"}}
    common = {
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "securityContext": context,
        "resources": limits,
    }
    launcher = {**common, "name": "mpi-launcher", "command": ["mpirun"], "args": list(args)}
    sshd = {"command": ["/usr/sbin/sshd"], "args": ["-De", "-f", "/home/mpiuser/.sshd_config"]}
    worker = {**common, "name": "mpi-worker", **sshd}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "pi"},
        "spec": {
            "slotsPerWorker": 2,
            "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 0, **policy},
            "sshAuthMountPath": "/home/mpiuser/.ssh",
            "mpiImplementation": flavour,
            "mpiReplicaSpecs": {
                "Launcher": {
                    "replicas": 1,
                    "restartPolicy": "Never",
                    "template": {"spec": {"containers": [launcher]}},
                },
                "Worker": {"replicas": 2, "template": {"spec": {"containers": [worker]}}},
            },
        },
    }


def conditions(site: Site) -> dict[str, str]:
    found = site.get("mpijob", "pi").get("status", {}).get("conditions", [])
    return {one["type"]: one["status"] for one in found}


def wait_for(site: Site, *wanted: str, timeout: float = 90.0) -> Obj:
    def is_so() -> bool:
        now = conditions(site)
        assert not (now.get("Failed") == "True" and "Failed" not in wanted), story(site)
        return any(now.get(one) == "True" for one in wanted)

    try:
        eventually(is_so, f"the MPIJob is {' or '.join(wanted)}", timeout)
    except NotYet as late:
        raise NotYet(f"{late}\n{story(site)}") from None
    return site.get("mpijob", "pi")


def story(site: Site) -> str:
    said = [site.kubectl("get", "mpijob,job,pod,cm,svc", "-o", "wide")]
    for pod in site.pods():
        name = pod["metadata"]["name"]
        log = site.run("kubectl", "-n", site.namespace, "logs", name, check=False)
        said += [f"--- {name}", log.stdout, log.stderr, site.story(name)]
    return "\n".join(said)


def ranks(site: Site) -> list[str]:
    """What the launcher has said that has not failed."""
    launchers = site.pods("training.kubeflow.org/job-role=launcher")
    names = [one["metadata"]["name"] for one in launchers if one["status"]["phase"] != "Failed"]
    lines = [line for name in names for line in site.kubectl("logs", name).splitlines()]
    return sorted(line for line in lines if line.startswith("rank "))


ANSWER = [f"rank {rank} of 4 on pi-worker-{rank // 2}: sum 10" for rank in range(4)]


def test_an_mpijob_runs_unchanged_without_ssh_once_it_is_resumed(site: Site, image: Image) -> None:
    policy = {"suspend": True, "backoffLimit": TRIES}
    site.apply(mpi_job(image("OpenMPI"), "OpenMPI", "-n", "4", "/home/mpiuser/sum", **policy))
    wait_for(site, "Suspended")
    assert site.pods() == []
    site.kubectl("patch", "mpijob", "pi", "--type=merge", "-p", RESUME)
    job = wait_for(site, "Succeeded")
    assert ranks(site) == ANSWER, story(site)
    assert job["status"]["replicaStatuses"]["Launcher"]["succeeded"] == 1
    eventually(lambda: len(site.pods()) == 1, "the workers are cleaned up", 60)
    eventually(lambda: not site.squeue("%i"), "and hold nothing of Slurm's", 60)


@pytest.mark.timeout(300)
def test_an_mpijob_of_mpich_runs_by_hydra_in_its_launcher_too(site: Site, image: Image) -> None:
    job = mpi_job(image("MPICH"), "MPICH", "-n", "4", "/home/mpiuser/sum")
    launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    launcher["command"] = ["sh", "-c", UNLESS_FINALIZE_HANGS, "mpirun"]
    job["spec"]["runLauncherAsWorker"] = True
    job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = 1
    site.apply(job)
    wait_for(site, "Succeeded", timeout=240)
    hosts = ("pi-launcher", "pi-worker-0")
    answer = [f"rank {rank} of 4 on {hosts[rank // 2]}: sum 10" for rank in range(4)]
    assert sorted(set(ranks(site))) == answer, story(site)


def test_an_mpijob_of_intel_mpi_runs_by_hydra_and_fails_with_a_worker(site: Site) -> None:
    """What is to stay when it has succeeded runs until it is deleted."""
    site.apply(mpi_job("intelmpi", "Intel", "-n", "4", "pi", cleanPodPolicy="None"))
    wait_for(site, "Succeeded")
    assert ranks(site) == [line.partition(":")[0] for line in ANSWER], story(site)
    workers = site.pods("training.kubeflow.org/job-role=worker")
    assert [one["status"]["phase"] for one in workers] == ["Running", "Running"]
    site.kubectl("delete", "mpijob", "pi")
    eventually(lambda: not site.pods() and not site.squeue("%i"), "nothing is left of it", 60)
    site.apply(mpi_job("intelmpi", "Intel", "-n", "4", "pi", "sleep", "600"))
    wait_for(site, "Running")
    eventually(lambda: len(ranks(site)) == 4, "all ranks have begun")
    site.kubectl("delete", "pod", "pi-worker-1", "--grace-period=0", "--force")
    wait_for(site, "Failed")


@pytest.mark.timeout(300)
def test_without_its_launcher_srun_starts_the_ranks_of_an_mpijob(site: Site, image: Image) -> None:
    """One annotation more, and the manifest is the same."""
    job = mpi_job(image("OpenMPI"), "OpenMPI", "-n", "4", "/home/mpiuser/sum", backoffLimit=TRIES)
    job["metadata"]["annotations"] = {"slurm.orlop.dev/launcher": "srun"}
    site.apply(job)
    wait_for(site, "Succeeded")
    said = [line.partition(" on ")[0] for line in ranks(site)]
    assert said == [f"rank {rank} of 4" for rank in range(4)], story(site)
    assert all(line.endswith("sum 10") for line in ranks(site))
    (pod,) = [one for one in site.pods() if one["status"]["phase"] == "Succeeded"]
    assert pod["metadata"]["annotations"]["slurm.orlop.dev/ntasks"] == "4"


def test_a_killed_worker_fails_an_mpijob_that_may_not_be_tried_again(
    site: Site, image: Image
) -> None:
    site.apply(mpi_job(image("OpenMPI"), "OpenMPI", "-n", "4", "/home/mpiuser/sum", "600"))
    wait_for(site, "Running")
    eventually(lambda: len(ranks(site)) == 4, "all ranks have begun", 60)
    assert len(site.squeue("%i")) == 1, "one Slurm job has all of its pods"
    site.kubectl("delete", "pod", "pi-worker-1", "--grace-period=0", "--force")
    if openmpi.is_release_5():  # whose mpirun says that it has lost a daemon, and ends with 0
        wait_for(site, "Succeeded")
        assert "PRTE has lost communication with a remote daemon" in story(site)
        return
    job = wait_for(site, "Failed")
    failed = job["status"]["conditions"][-1]
    assert (failed["type"], failed["reason"]) == ("Failed", "BackoffLimitExceeded")
