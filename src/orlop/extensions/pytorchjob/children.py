"""Builds what a PyTorchJob is made of: its pods, a headless Service for each, its autoscaler.

Asked by the PyTorchJob controller. Pure. Names, labels, ports and variables are those that the
training operator documents, so that a program finds its master, its rank and torchrun its
rendezvous; all pods start together, or as many as are enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...api.objects import Obj, annotations_of, labels_of, meta
from ...controllers.workloads.gang_annotations import gang_of
from ...controllers.workloads.pod_control import deep_copy, pod_from_template
from ..training import run_policy
from ..training.run_policy import (
    JOB_NAME,
    JOB_ROLE,
    OPERATOR_NAME,
    REPLICA_INDEX,
    REPLICA_TYPE,
    add_env,
    headless,
    inherited,
    with_priority,
)

OPERATOR = "pytorchjob-controller"
MASTER, WORKER = "Master", "Worker"
CONTAINER, PORT_NAME, PORT = "pytorch", "pytorchjob-port", 23456
ATTEMPT = "orlop.dev/attempt"  # of a pod: how often pods had been made again before it
_NPROC = "auto"


def specs(job: Obj) -> dict[str, Obj]:
    """Return the specs of its roles, the master first."""
    found = job["spec"]["pytorchReplicaSpecs"]
    return {role: found[role] for role in (MASTER, WORKER) if found.get(role)}


def replicas(job: Obj, role: str) -> int:
    spec = specs(job).get(role)
    return int(spec.get("replicas", 1)) if spec else 0


def every(job: Obj) -> int:
    return sum(replicas(job, role) for role in specs(job))


def restart_policy(job: Obj, role: str) -> str:
    return str(specs(job)[role].get("restartPolicy") or "OnFailure")


def elastic(job: Obj) -> Obj | None:
    found: Obj | None = job["spec"].get("elasticPolicy")
    return found


def members(job: Obj) -> int:
    """Return how many pods must start together: for an elastic job its least number."""
    policy = elastic(job) or {}
    least = policy.get("minReplicas")
    if least is None:
        return run_policy.members(job, every(job))
    workers = min(max(int(least), 1), replicas(job, WORKER))
    return run_policy.members(job, replicas(job, MASTER) + workers)


def rounds(job: Obj) -> int:
    """Return how often pods were made again.

    A node that fails takes a gang along: that is one reason to begin again, not one for each pod.
    """
    return int((job.get("status") or {}).get("restarts") or 0)


def is_new_round(job: Obj, failed: Iterable[Obj]) -> bool:
    """Return whether one has failed since pods were last made again."""
    attempts = [int(annotations_of(pod).get(ATTEMPT, "0")) for pod in failed]
    return any(attempt >= rounds(job) for attempt in attempts)


def name_of(job: Obj, role: str, index: int) -> str:
    return f"{meta(job)['name']}-{role.lower()}-{index}"


def names(job: Obj) -> dict[str, tuple[str, int]]:
    """Return every pod that it should have: its role and its index."""
    return {
        name_of(job, role, index): (role, index)
        for role in specs(job)
        for index in range(replicas(job, role))
    }


def selector(job: Obj, role: str) -> dict[str, str]:
    return {
        JOB_NAME: meta(job)["name"],
        OPERATOR_NAME: OPERATOR,
        REPLICA_TYPE: role.lower(),
    }


def labels(job: Obj, role: str, index: int) -> dict[str, str]:
    found = {**selector(job, role), REPLICA_INDEX: str(index)}
    # Who has the job's role of the master is asked for by programs that follow it.
    return {**found, JOB_ROLE: "master"} if role == MASTER else found


def role_of(pod: Obj) -> str:
    return labels_of(pod).get(REPLICA_TYPE, "").capitalize()


def service(job: Obj, role: str, index: int) -> Obj:
    """Return a pod's Service, of the same name: the pod is reached by its own name."""
    wanted = {**selector(job, role), REPLICA_INDEX: str(index)}
    port = {"name": PORT_NAME, "port": port_of(job, role)}
    return headless(name_of(job, role, index), job, wanted, [port])


def port_of(job: Obj, role: str) -> int:
    for container in specs(job)[role]["template"]["spec"]["containers"]:
        for port in container.get("ports") or []:
            if container["name"] == CONTAINER and port.get("name") == PORT_NAME:
                return int(port["containerPort"])
    return PORT


def pod_for(job: Obj, role: str, index: int) -> Obj:
    template = deep_copy(specs(job)[role]["template"])
    metadata, spec = template.setdefault("metadata", {}), template["spec"]
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels(job, role, index)}
    metadata["annotations"] = {
        **inherited(job),
        **gang_of(job, members(job)),
        **(metadata.get("annotations") or {}),
        ATTEMPT: str(rounds(job)),
    }
    asked = restart_policy(job, role)
    spec["restartPolicy"] = "Never" if asked == "ExitCode" else asked
    with_priority(job, spec)
    if spec.get("hostNetwork"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    found = variables(job, role, index)
    for container in spec["containers"]:
        add_env(container, found)
        if container["name"] == CONTAINER:
            _add_port(container)
    return pod_from_template(template, job, name_of(job, role, index))


def _add_port(container: Obj) -> None:
    ports = container.get("ports") or []
    if not any(port.get("name") == PORT_NAME for port in ports):
        container["ports"] = [*ports, {"name": PORT_NAME, "containerPort": PORT}]


def variables(job: Obj, role: str, index: int) -> dict[str, str]:
    """Return where the master is and which rank this is, also as torchrun reads it (PET_*)."""
    policy = elastic(job)
    each = nproc_per_node(job)
    found = {"PYTHONUNBUFFERED": "1", "PET_NPROC_PER_NODE": each}
    if MASTER in specs(job) or policy is None:
        found |= _static(job, role, index, int(each) if each.isdecimal() else 1)
    return found | (_rendezvous(job, policy) if policy is not None else {})


def nproc_per_node(job: Obj) -> str:
    asked = job["spec"].get("nprocPerNode") or (elastic(job) or {}).get("nProcPerNode")
    return str(asked or _NPROC)


def _static(job: Obj, role: str, index: int, each: int) -> dict[str, str]:
    """Return ranks where a rank is a pod: first the master, or without one the first worker."""
    first = MASTER if MASTER in specs(job) else WORKER
    rank = index + (replicas(job, MASTER) if role == WORKER else 0)
    address, port = name_of(job, first, 0), str(port_of(job, first))
    return {
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": port,
        "WORLD_SIZE": str(every(job) * each),
        "RANK": str(rank),
        "PET_NODE_RANK": str(rank),
        "PET_NNODES": str(every(job)),
    }


def _rendezvous(job: Obj, policy: Obj) -> dict[str, str]:
    port = policy.get("rdzvPort") or port_of(job, WORKER if WORKER in specs(job) else MASTER)
    host = policy.get("rdzvHost") or name_of(job, WORKER, 0)
    least, most = (policy.get(name) for name in ("minReplicas", "maxReplicas"))
    workers = str(replicas(job, WORKER))
    found = {
        "PET_RDZV_ENDPOINT": f"{host}:{port}",
        "PET_RDZV_BACKEND": str(policy.get("rdzvBackend") or "c10d"),
        "PET_NNODES": f"{least or 1}:{most or workers}" if least or most else workers,
    }
    if policy.get("maxRestarts") is not None:
        found["PET_MAX_RESTARTS"] = str(policy["maxRestarts"])
    if policy.get("rdzvId") is not None:
        found["PET_RDZV_ID"] = str(policy["rdzvId"])
    pairs = [f"{one.get('key', '')}={one.get('value', '')}" for one in policy.get("rdzvConf") or ()]
    if pairs:
        found["PET_RDZV_CONF"] = ",".join(pairs)
    if policy.get("standalone"):
        found["PET_STANDALONE"] = ""
    return found


def autoscaler(job: Obj) -> Obj | None:
    """Return an autoscaler for an elastic job that says by which measures; None for all others."""
    policy = elastic(job) or {}
    if not policy.get("metrics") or not policy.get("maxReplicas"):
        return None
    target = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": meta(job)["name"]}
    spec = {
        "scaleTargetRef": target,
        "minReplicas": policy.get("minReplicas") or 1,
        "maxReplicas": policy["maxReplicas"],
        "metrics": policy["metrics"],
    }
    return {"metadata": {"name": meta(job)["name"]}, "spec": spec}


def missing(job: Obj, pods: Iterable[Obj]) -> list[tuple[str, int]]:
    there = {meta(pod)["name"] for pod in pods}
    return [place for name, place in names(job).items() if name not in there]


def surplus(job: Obj, pods: Sequence[Obj]) -> list[Obj]:
    """Return pods of an index that the job does not have any more."""
    wanted = names(job)
    return [pod for pod in pods if meta(pod)["name"] not in wanted]
