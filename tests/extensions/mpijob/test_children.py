"""What an MPIJob is made of, by tables: names, hosts, variables, and workers that hold."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api.gangs import later_of
from orlop.api.objects import Obj
from orlop.extensions.mpijob import children as parts


def mpi_job(
    *,
    workers: int = 2,
    worker: Obj | None = None,
    launcher: Obj | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Obj:
    launched = {"name": "l", "image": "mpi", "command": ["mpirun", "-n", "2", "/pi"]}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {
            "name": "pi",
            "namespace": "ns",
            "uid": "0123456789abcdef",
            "annotations": annotations or {},
        },
        "spec": {
            "mpiReplicaSpecs": {
                "Launcher": {"template": {"spec": {"containers": [launcher or launched]}}},
                "Worker": {
                    "replicas": workers,
                    "template": {
                        "metadata": {"labels": {"mine": "too"}, "annotations": {"a": "b"}},
                        "spec": {"containers": [worker or {"name": "w", "image": "mpi"}]},
                    },
                },
            },
            **spec,
        },
    }


def env_of(container: Obj) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container.get("env") or []}


HOSTFILES = {
    "OpenMPI": "pi-worker-0.pi.ns.svc slots=3\npi-worker-1.pi.ns.svc slots=3\n",
    "Intel": "pi-worker-0.pi.ns.svc:3\npi-worker-1.pi.ns.svc:3\n",
    "MPICH": "pi-worker-0.pi.ns.svc:3\npi-worker-1.pi.ns.svc:3\n",
}


@pytest.mark.parametrize("flavour", HOSTFILES)
def test_the_hostfile_is_what_each_flavour_reads(flavour: str) -> None:
    job = mpi_job(mpiImplementation=flavour, slotsPerWorker=3)
    assert parts.hostfile(job) == HOSTFILES[flavour]


def test_a_launcher_that_works_too_is_the_first_host() -> None:
    hosts = parts.hostfile(mpi_job(workers=1, runLauncherAsWorker=True)).splitlines()
    assert hosts == ["pi-launcher.pi.ns.svc slots=1", "pi-worker-0.pi.ns.svc slots=1"]


def test_a_launcher_that_works_too_is_discovered_first() -> None:
    pods: list[Obj] = [{"metadata": {"name": "pi-worker-0"}, "status": {"phase": "Running"}}]
    said = parts.config_map(mpi_job(runLauncherAsWorker=True), pods)["data"]["discover_hosts.sh"]
    first, last = "echo pi-launcher.pi.ns.svc:1", "echo pi-worker-0.pi.ns.svc:1"
    assert said == f"#!/bin/sh\n{first}\n{last}\n"


def test_only_running_workers_are_discovered() -> None:
    pods: list[Obj] = [
        {"metadata": {"name": f"pi-worker-{i}"}, "status": {"phase": phase}}
        for i, phase in enumerate(["Running", "Pending", "Running"])
    ]
    said = parts.config_map(mpi_job(), reversed(pods))["data"]["discover_hosts.sh"]
    first, last = "echo pi-worker-0.pi.ns.svc:1", "echo pi-worker-2.pi.ns.svc:1"
    assert said == f"#!/bin/sh\n{first}\n{last}\n"


WORKERS: dict[str, tuple[Obj, bool]] = {
    "nothing": ({}, True),
    "sshd": ({"command": ["/usr/sbin/sshd"], "args": ["-De", "-f", "/x"]}, True),
    "sshd as an argument": ({"args": ["/usr/sbin/sshd", "-De"]}, True),
    "sshd at the end of a line": ({"command": ["sh", "-c", "mkdir /x; exec sshd -De"]}, True),
    "its own": ({"command": ["sleep", "infinity"]}, False),
    "a name like it": ({"command": ["/opt/mysshdx"]}, False),
}


@pytest.mark.parametrize(("fields", "is_held"), WORKERS.values(), ids=WORKERS)
def test_a_worker_with_nothing_but_sshd_to_run_only_holds(fields: Obj, is_held: bool) -> None:
    worker = {"name": "w", "image": "mpi", "readinessProbe": {"tcpSocket": {"port": 22}}, **fields}
    made = parts.worker_pod(mpi_job(worker=worker), 1)["spec"]["containers"][0]
    assert (made.get("command") == ["/bin/sh", parts.HOLD]) is is_held
    assert ("readinessProbe" in made) is not is_held
    assert is_held or made["command"] == fields["command"]


def test_a_worker_has_the_names_and_labels_that_are_documented() -> None:
    pod = parts.worker_pod(mpi_job(), 1)
    assert pod["metadata"]["name"] == pod["spec"]["hostname"] == "pi-worker-1"
    assert pod["spec"]["subdomain"] == "pi"
    assert pod["metadata"]["labels"] == {
        "mine": "too",
        "training.kubeflow.org/operator-name": "mpi-operator",
        "training.kubeflow.org/job-name": "pi",
        "training.kubeflow.org/job-role": "worker",
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": "1",
    }
    assert pod["metadata"]["annotations"] == {
        "a": "b",
        "orlop.dev/group": "0123456789abcdef",
        "slurm.orlop.dev/gang": "mpijob-pi-01234567",
        "slurm.orlop.dev/gang-size": "3",
    }


POLICIES = [
    ("Worker", None, "Never"),
    ("Launcher", None, "OnFailure"),
    ("Worker", "ExitCode", "Never"),
    ("Worker", "Always", "Always"),
]


@pytest.mark.parametrize(("role", "asked", "found"), POLICIES)
def test_restart_policies(role: str, asked: str | None, found: str) -> None:
    job = mpi_job()
    if asked:
        job["spec"]["mpiReplicaSpecs"][role]["restartPolicy"] = asked
    pod = parts.worker_pod(job, 0) if role == "Worker" else parts.launcher_template(job)
    assert pod["spec"]["restartPolicy"] == found


LAUNCHERS = {
    "OpenMPI": {
        "OMPI_MCA_plm_rsh_agent": "/etc/mpi/rsh",
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_set_default_slots": "2",
    },
    "Intel": {
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": "/etc/mpi/rsh",
        "I_MPI_HYDRA_BOOTSTRAP": "rsh",
        "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile",
        "I_MPI_PERHOST": "2",
    },
    "MPICH": {
        "HYDRA_LAUNCHER": "rsh",
        "HYDRA_LAUNCHER_EXEC": "/etc/mpi/rsh",
        "HYDRA_HOST_FILE": "/etc/mpi/hostfile",
    },
}


@pytest.mark.parametrize("flavour", LAUNCHERS)
def test_the_launcher_is_told_where_the_hosts_are_and_how_to_start_there(flavour: str) -> None:
    template = parts.launcher_template(mpi_job(mpiImplementation=flavour, slotsPerWorker=2))
    env = env_of(template["spec"]["containers"][0])
    assert LAUNCHERS[flavour].items() <= env.items()
    assert env["K_MPI_JOB_ROLE"] == "launcher"


def test_what_the_user_sets_stays_as_it_is() -> None:
    own = {"name": "l", "image": "i", "env": [{"name": "OMPI_MCA_plm_rsh_agent", "value": "ssh"}]}
    template = parts.launcher_template(mpi_job(launcher=own))
    names = [one["name"] for one in template["spec"]["containers"][0]["env"]]
    assert env_of(template["spec"]["containers"][0])["OMPI_MCA_plm_rsh_agent"] == "ssh"
    assert len(names) == len(set(names))


GANGS: dict[str, tuple[dict[str, Any], str | None]] = {
    "the launcher and all workers": ({}, "3"),
    "without a launcher that waits": ({"launcherCreationPolicy": "WaitForWorkersReady"}, "2"),
    "as many as are asked for": ({"runPolicy": {"schedulingPolicy": {"minAvailable": 2}}}, "2"),
    "no more than there are": ({"runPolicy": {"schedulingPolicy": {"minAvailable": 9}}}, "3"),
    "not at all": ({"annotations": {"slurm.orlop.dev/gang": "false"}}, None),
}


@pytest.mark.parametrize(("fields", "size"), GANGS.values(), ids=GANGS)
def test_how_many_start_together(fields: dict[str, Any], size: str | None) -> None:
    pod = parts.worker_pod(mpi_job(**fields), 0)
    assert pod["metadata"]["annotations"].get("slurm.orlop.dev/gang-size") == size


def test_room_for_a_launcher_that_waits_is_asked_for_with_the_workers() -> None:
    launcher = {"name": "l", "image": "mpi", "resources": {"requests": {"cpu": "2"}}}
    job = mpi_job(
        launcher=launcher,
        launcherCreationPolicy="WaitForWorkersReady",
        annotations={"slurm.orlop.dev/time": "5"},
    )
    worker = parts.worker_pod(job, 0)["metadata"]["annotations"]
    (later,) = later_of(worker["slurm.orlop.dev/gang-room"])
    assert later.count == 1
    assert later.template["spec"]["containers"] == [
        {"name": "l", "resources": {"requests": {"cpu": "2"}}}
    ]
    assert later.template["metadata"]["annotations"] == {"slurm.orlop.dev/time": "5"}
    found = parts.launcher_template(job)["metadata"]["annotations"]
    assert found["slurm.orlop.dev/gang"] == worker["slurm.orlop.dev/gang"]
    assert found["slurm.orlop.dev/gang-size"] == "3", "without its workers it starts nothing"
    assert "slurm.orlop.dev/gang-room" not in found


def test_what_is_asked_of_slurm_on_the_job_is_asked_for_its_pods() -> None:
    asked = {"slurm.orlop.dev/time": "5", "slurm.orlop.dev/launcher": "mpirun", "other": "x"}
    policy = {"schedulingPolicy": {"queue": "fat", "priorityClass": "high"}}
    pod = parts.worker_pod(mpi_job(annotations=asked, runPolicy=policy), 0)
    found = pod["metadata"]["annotations"]
    assert found["slurm.orlop.dev/time"] == "5"
    assert found["slurm.orlop.dev/partition"] == "fat"
    assert "slurm.orlop.dev/launcher" not in found
    assert "other" not in found
    assert pod["spec"]["priorityClassName"] == "high"


def test_the_run_policy_is_that_of_the_launchers_job() -> None:
    policy = {"backoffLimit": 3, "activeDeadlineSeconds": 60, "suspend": True}
    spec = parts.launcher_job(mpi_job(runPolicy=policy))["spec"]
    assert (spec["backoffLimit"], spec["activeDeadlineSeconds"], spec["suspend"]) == (3, 60, True)


def test_a_launcher_that_is_a_worker_is_the_first_of_them() -> None:
    label = "training.kubeflow.org/replica-index"
    job = mpi_job(runLauncherAsWorker=True)
    launcher = parts.launcher_template(job)["metadata"]["labels"]
    workers = [parts.worker_pod(job, index)["metadata"]["labels"] for index in range(2)]
    assert [one[label] for one in (launcher, *workers)] == ["0", "1", "2"]
    assert label not in parts.launcher_template(mpi_job())["metadata"]["labels"]


def pod_of(told: str) -> Obj:
    """By its phase and the second in which it was made."""
    phase, second = told.split("@")
    metadata = {"creationTimestamp": f"2026-01-01T00:00:{int(second):02}Z"}
    return {"metadata": metadata, "status": {"phase": phase}}


TRIES = [
    # workers, launchers, whether the workers are of no use to the next try
    (["Failed@0", "Succeeded@0"], ["Failed@0", "Pending@10"], True),
    (["Failed@0", "Running@0"], ["Failed@0", "Pending@10"], False),
    (["Failed@0", "Failed@0"], [], False),  # none has been tried
    (["Failed@0", "Failed@0"], ["Pending@1"], False),  # nor has this one
    (["Succeeded@0", "Succeeded@0"], ["Succeeded@0"], False),  # there may be no other
    (["Failed@10", "Failed@11"], ["Failed@0", "Pending@10"], False),  # made for this very one
    (["Failed@10", "Failed@11"], ["Failed@0", "Failed@10", "Pending@30"], True),
]


@pytest.mark.parametrize(("workers", "launchers", "wanted"), TRIES)
def test_which_workers_are_made_again_for_the_next_try(
    workers: list[str], launchers: list[str], wanted: bool
) -> None:
    assert parts.are_spent([*map(pod_of, workers)], [*map(pod_of, launchers)]) is wanted
