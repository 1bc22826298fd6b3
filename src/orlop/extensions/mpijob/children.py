"""Builds what an MPIJob is made of: its Service, ConfigMap, worker pods and the launcher's Job.

Asked by the MPIJob controller. Names, labels, variables and the hostfile are those that the MPI
operator documents; in the place of ssh and its keys stands a script that has the pods' agents
start what mpirun wants started.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...api.objects import Obj, annotations_of, is_terminal, meta, phase_of, uid_of
from ...controllers.workloads.gang_annotations import gang_of, to_come
from ...controllers.workloads.pod_control import deep_copy, pod_from_template
from ...wellknown import GANG_ROOM, GANG_SIZE, GROUP, GROUP_VOLUME
from ..training import run_policy as training
from ..training.run_policy import (
    JOB_NAME,
    JOB_ROLE,
    OPERATOR_NAME,
    REPLICA_INDEX,
    REPLICA_TYPE,
    add_env,
    headless,
    inherited,
    is_suspended,
    run_policy,
    with_priority,
)

OPERATOR = "mpi-operator"
CONFIG_VOLUME, CONFIG_PATH = "mpi-job-config", "/etc/mpi"
GROUP_PATH = "/run/orlop-group"
_SCRIPTS = Path(__file__).parent / "scripts"
RSH, HOLD = f"{CONFIG_PATH}/rsh", f"{CONFIG_PATH}/hold"
_SSHD = re.compile(r"(^|[\s;&|/])sshd(\s|;|&|$)")
# What our own batch system would make an mpirun in the launcher do: start ranks by srun, there.
_NOT_SLURM = {"OMPI_MCA_plm": "rsh", "OMPI_MCA_ras": "^slurm", "PRTE_MCA_ras": "^slurm"}
# OpenMPI 5 and its PRRTE ask the kernel for the way to another pod, but its routes are the node's,
# and it knows none from a pod's address: they shall compare the addresses themselves.
_BY_ADDRESS = {"OMPI_MCA_reachable": "weighted", "PRTE_MCA_prtereachable": "weighted"}


def script(name: str) -> str:
    """Return the text of a shell script that is put into pods."""
    return (_SCRIPTS / name).read_text(encoding="utf-8")


def replicas(job: Obj, role: str) -> int:
    spec = job["spec"]["mpiReplicaSpecs"].get(role)
    return int(spec.get("replicas", 0 if role == "Worker" else 1)) if spec else 0


def slots(job: Obj) -> int:
    return int(job["spec"].get("slotsPerWorker", 1))


def launcher_name(job: Obj) -> str:
    return f"{meta(job)['name']}-launcher"


def worker_name(job: Obj, index: int) -> str:
    return f"{meta(job)['name']}-worker-{index}"


def labels(job: Obj, role: str) -> dict[str, str]:
    return {OPERATOR_NAME: OPERATOR, JOB_NAME: meta(job)["name"], JOB_ROLE: role}


def services(job: Obj) -> list[Obj]:
    """Return one Service under the job's own name, which gives launcher and workers theirs.

    Hydra's proxies ask for the launcher by its host name alone: that has to be a service too.
    """
    name = meta(job)["name"]
    found = [headless(name, job, {OPERATOR_NAME: OPERATOR, JOB_NAME: name})]
    if _implementation(job) != "OpenMPI":
        found.append(headless(launcher_name(job), job, labels(job, "launcher")))
    return found


def config_map(job: Obj, workers: Iterable[Obj]) -> Obj:
    running = sorted(meta(pod)["name"] for pod in workers if phase_of(pod) == "Running")
    hosts = [*_working_launcher(job), *running]
    found = [f"echo {_host(job, name)}:{slots(job)}\n" for name in hosts]
    return {
        "metadata": {"name": config_name(job), "labels": {"app": meta(job)["name"]}},
        "data": {
            "hostfile": hostfile(job),
            "discover_hosts.sh": "".join(["#!/bin/sh\n", *found]),
            "rsh": script("rsh"),
            "hold": script("hold"),
        },
    }


def config_name(job: Obj) -> str:
    return f"{meta(job)['name']}-config"


def hostfile(job: Obj) -> str:
    workers = [worker_name(job, index) for index in range(replicas(job, "Worker"))]
    names = [*_working_launcher(job), *workers]
    form = "{} slots={}\n" if _implementation(job) == "OpenMPI" else "{}:{}\n"
    return "".join(form.format(_host(job, name), slots(job)) for name in names)


def _working_launcher(job: Obj) -> list[str]:
    """Return the launcher where it has ranks of its own; it runs whenever anybody asks."""
    return [launcher_name(job)] if job["spec"].get("runLauncherAsWorker") else []


def _host(job: Obj, name: str) -> str:
    return f"{name}.{meta(job)['name']}.{meta(job)['namespace']}.svc"


def _implementation(job: Obj) -> str:
    return str(job["spec"].get("mpiImplementation") or "OpenMPI")


def worker_pod(job: Obj, index: int) -> Obj:
    """Return a worker as written; one that would run sshd, or nothing, just holds its place."""
    template = _template(job, "Worker", index)
    container = template["spec"]["containers"][0]
    if is_held(container):
        _hold(container)
    add_env(container, {"K_MPI_JOB_ROLE": "worker", **_rsh_env(job)})
    name = worker_name(job, index)
    template["spec"]["hostname"] = name
    pod = pod_from_template(template, job, name)
    place = index + bool(job["spec"].get("runLauncherAsWorker"))  # the launcher is then the first
    pod["metadata"]["labels"] |= {REPLICA_INDEX: str(place), REPLICA_TYPE: "worker"}
    return pod


def is_held(container: Obj) -> bool:
    """Return whether a worker's container has nothing to do of its own."""
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    return not words or any(_SSHD.search(str(word)) for word in words)


def _hold(container: Obj) -> None:
    for field in ("args", "readinessProbe", "livenessProbe", "startupProbe"):
        container.pop(field, None)  # they would ask sshd
    container["command"] = ["/bin/sh", HOLD]


def launcher_job(job: Obj) -> Obj:
    policy = run_policy(job)
    named = ("activeDeadlineSeconds", "backoffLimit")
    spec: Obj = {name: policy[name] for name in named if policy.get(name) is not None}
    if is_suspended(job):
        spec["suspend"] = True
    name = meta(job)["name"]
    return {
        "metadata": {"name": launcher_name(job), "labels": {"app": name}},
        "spec": {**spec, "template": launcher_template(job)},
    }


def launcher_template(job: Obj) -> Obj:
    template = _template(job, "Launcher", 0)
    container = template["spec"]["containers"][0]
    add_env(container, {"K_MPI_JOB_ROLE": "launcher", **_launcher_env(job)})
    if job["spec"].get("runLauncherAsWorker"):
        template["metadata"]["labels"][REPLICA_INDEX] = "0"
    else:
        # No GPU is meant for it, whatever the container technology would give it.
        add_env(container, {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""})
    template["spec"]["hostname"] = launcher_name(job)
    return template


def _template(job: Obj, role: str, index: int) -> Obj:
    """Return a role's pod template with all that both roles get."""
    replica = job["spec"]["mpiReplicaSpecs"][role]
    template = _own(job, role)
    metadata, spec = template.setdefault("metadata", {}), template["spec"]
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels(job, role.lower())}
    metadata["annotations"] = {
        **inherited(job),
        **_gang(job, role),
        **(metadata.get("annotations") or {}),
        GROUP: uid_of(job),
    }
    spec["subdomain"] = meta(job)["name"]
    spec["restartPolicy"] = _restart_policy(replica, role)
    if spec.get("hostNetwork"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    _add_volumes(job, spec)
    return template


def _own(job: Obj, role: str) -> Obj:
    template = deep_copy(job["spec"]["mpiReplicaSpecs"][role]["template"])
    with_priority(job, template["spec"])
    return template


def _gang(job: Obj, role: str) -> dict[str, str]:
    """Return the gang; a waiting launcher has room in it from the start, or workers hold it."""
    if not launcher_waits(job):
        return gang_of(job, members(job))
    if role == "Launcher":
        return gang_of(job, everybody(job))
    later = to_come(1, _own(job, "Launcher"), inherited(job))
    return gang_of(job, members(job), later=[later])


def gang_notes(job: Obj, role: str) -> dict[str, str]:
    """Return what a pod of the role, made now, would say of its gang's size; none without one."""
    own = annotations_of(job["spec"]["mpiReplicaSpecs"][role]["template"])
    found = {**_gang(job, role), **own}
    return {name: found[name] for name in (GANG_SIZE, GANG_ROOM) if name in found}


def _restart_policy(replica: Obj, role: str) -> str:
    asked = replica.get("restartPolicy") or ("OnFailure" if role == "Launcher" else "Never")
    return "Never" if asked == "ExitCode" else str(asked)


def members(job: Obj) -> int:
    """Return how many pods start together; without a launcher that waits for the others."""
    return training.members(job, replicas(job, "Worker") + (0 if launcher_waits(job) else 1))


def everybody(job: Obj) -> int:
    """Return how many pods its gang has, those that come later included."""
    return members(job) + launcher_waits(job)


def launcher_waits(job: Obj) -> bool:
    return bool(job["spec"].get("launcherCreationPolicy") == "WaitForWorkersReady")


def _add_volumes(job: Obj, spec: Obj) -> None:
    modes = {"hostfile": 0o444, "discover_hosts.sh": 0o555, "rsh": 0o555, "hold": 0o555}
    items = [{"key": name, "path": name, "mode": mode} for name, mode in modes.items()]
    spec["volumes"] = [
        *(spec.get("volumes") or []),
        {"name": CONFIG_VOLUME, "configMap": {"name": config_name(job), "items": items}},
        {"name": GROUP_VOLUME, "emptyDir": {"medium": "Memory"}},
    ]
    container = spec["containers"][0]
    container["volumeMounts"] = [
        *(container.get("volumeMounts") or []),
        {"name": CONFIG_VOLUME, "mountPath": CONFIG_PATH},
        {"name": GROUP_VOLUME, "mountPath": GROUP_PATH},
    ]


def _rsh_env(job: Obj) -> dict[str, str]:
    """Return the variables by which mpirun, or its daemons, start what is on another host."""
    if _implementation(job) == "OpenMPI":
        # Both of OpenMPI 4 and of PRRTE, which OpenMPI 5 starts its ranks by.
        return {"OMPI_MCA_plm_rsh_agent": RSH, "PRTE_MCA_plm_ssh_agent": RSH, **_BY_ADDRESS}
    if _implementation(job) == "Intel":
        return {"I_MPI_HYDRA_BOOTSTRAP": "rsh", "I_MPI_HYDRA_BOOTSTRAP_EXEC": RSH}
    return {"HYDRA_LAUNCHER": "rsh", "HYDRA_LAUNCHER_EXEC": RSH}


def _launcher_env(job: Obj) -> dict[str, str]:
    hosts, each = f"{CONFIG_PATH}/hostfile", str(slots(job))
    if _implementation(job) == "Intel":
        named = {"I_MPI_HYDRA_HOST_FILE": hosts, "I_MPI_PERHOST": each, "I_MPI_HYDRA_RMK": "user"}
    elif _implementation(job) == "MPICH":
        named = {"HYDRA_HOST_FILE": hosts, "HYDRA_RMK": "user"}
    else:
        named = {
            "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
            "OMPI_MCA_orte_default_hostfile": hosts,
            "OMPI_MCA_orte_set_default_slots": each,
            "PRTE_MCA_prte_default_hostfile": hosts,
            "PRTE_MCA_prte_keep_fqdn_hostnames": "true",
            **_NOT_SLURM,
        }
    return {**named, **_rsh_env(job)}


def surplus(job: Obj, workers: Sequence[Obj]) -> list[Obj]:
    """Return workers of an index that the job does not have any more."""
    wanted = {worker_name(job, index) for index in range(replicas(job, "Worker"))}
    return [pod for pod in workers if meta(pod)["name"] not in wanted]


def missing(job: Obj, workers: Sequence[Obj]) -> list[int]:
    there = {meta(pod)["name"] for pod in workers}
    every = range(replicas(job, "Worker"))
    return [index for index in every if worker_name(job, index) not in there]


def are_spent(workers: Sequence[Obj], launchers: Sequence[Obj]) -> bool:
    """Return whether all workers have ended, and the launcher's next try waits for new ones.

    Workers made for that try do not count: those that fail by themselves would be made without end.
    """
    waiting = [pod for pod in launchers if not is_terminal(pod)]
    if not waiting or len(waiting) == len(launchers):
        return False
    since = max(_created(pod) for pod in waiting)
    return all(is_terminal(pod) and _created(pod) < since for pod in workers)


def _created(pod: Obj) -> str:
    return str(meta(pod)["creationTimestamp"])
