"""JobSets, PyTorchJobs and LeaderWorkerSets on a real Slurm: names, variables, one start."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.site import NotYet, Obj, Site, eventually

pytestmark = pytest.mark.timeout(300)
PATIENCE = 180.0  # seconds, on a machine with much else to do

# How each framework's own start-up finds the others.
READS = {
    "torch": """
from os import environ as env
rank, size = int(env["RANK"]), int(env["WORLD_SIZE"])
place = (env["MASTER_ADDR"], int(env["MASTER_PORT"]))
""",
    "jax": """
from os import environ as env
rank, size = int(env["JAX_PROCESS_ID"]), int(env["JAX_NUM_PROCESSES"])
host, _, port = env["JAX_COORDINATOR_ADDRESS"].rpartition(":")
place = (host, int(port))
""",
}
# Every rank says who it is to the first, which knows what it must hear: no torch is needed. On a
# busy machine a line may break before a word is said, or be tried once more.
PROGRAM = """
import socket, time
if rank == 0:
    server = socket.create_server(("0.0.0.0", place[1]))
    heard = set()
    while len(heard) < size - 1:
        with server.accept()[0] as line:
            said = line.makefile().readline()
            if said:
                heard.add(int(said))
                line.sendall(b"heard")
    print("heard", sorted(heard), "of", size)
else:
    while True:
        try:
            with socket.create_connection(place, 30) as line:
                line.sendall(b"%d\\n" % rank)
                if line.recv(9):
                    break
        except OSError:
            pass
        time.sleep(0.2)
"""


def claim(name: str) -> Obj:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Mi"}}}
    return {"metadata": {"name": name}, "spec": spec}


def replicated(name: str, pods: int, program: str) -> Obj:
    mount = {"name": "notes", "mountPath": "/notes"}
    command = {
        "name": "main",
        "image": "python:latest",
        "command": ["python3", "-c", program],
        "volumeMounts": [mount],
    }
    pod = {"spec": {"restartPolicy": "Never", "containers": [command]}}
    job = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": pod}
    return {"name": name, "template": {"spec": job}}


@pytest.mark.parametrize("framework", list(READS))
def test_the_ranks_of_a_jobset_find_the_first_by_its_name(site: Site, framework: str) -> None:
    asked = {"slurm.orlop.dev/gang": "true", "slurm.orlop.dev/distributed": framework}
    program = READS[framework] + PROGRAM + 'open(f"/notes/{rank}", "w").close()\n'
    kept = {"templates": [claim("notes")], "retentionPolicy": {"whenDeleted": "Retain"}}
    jobs = [replicated("driver", 1, program), replicated("workers", 2, program)]
    site.apply(
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "net", "annotations": asked},
            "spec": {"replicatedJobs": jobs, "volumeClaimPolicies": [kept]},
        }
    )
    try:
        eventually(
            lambda: has(site, "jobset", "net", "Completed"), "the JobSet is complete", PATIENCE
        )
    except NotYet as late:
        raise NotYet(f"{late}\n{story(site)}") from None
    assert site.kubectl("logs", "job/net-driver-0").strip() == "heard [1, 2] of 3"
    found = {pod["metadata"]["annotations"]["slurm.orlop.dev/job-id"] for pod in site.pods()}
    assert len({job.partition("+")[0] for job in found}) == 1, f"one Slurm job, found {found}"
    site.kubectl("delete", "jobset", "net")
    volume = site.get("pvc", "notes-net")["spec"]["volumeName"]
    data = Path(site.get("pv", volume)["spec"]["hostPath"]["path"])
    assert sorted(file.name for file in data.iterdir()) == ["0", "1", "2"]


def test_the_ranks_of_a_pytorchjob_find_its_master(site: Site) -> None:
    """As the training operator's own examples; its end takes along what still runs."""
    loop = READS["torch"] + PROGRAM + "while rank == 2: time.sleep(1)\n"
    command = {"name": "pytorch", "image": "python:latest", "command": ["python3", "-c", loop]}
    template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [command]}}
    roles = {
        "Master": {"replicas": 1, "restartPolicy": "OnFailure", "template": template},
        "Worker": {"replicas": 2, "restartPolicy": "OnFailure", "template": template},
    }
    head = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "sgd"}}
    site.apply({**head, "spec": {"pytorchReplicaSpecs": roles}})
    try:
        done = lambda: has(site, "pytorchjob", "sgd", "Succeeded")  # noqa: E731
        eventually(done, "the PyTorchJob has succeeded", PATIENCE)
    except NotYet as late:
        raise NotYet(f"{late}\n{story(site)}") from None
    assert site.kubectl("logs", "sgd-master-0").strip() == "heard [1, 2] of 3"
    job = site.pod("sgd-master-0")["metadata"]["annotations"]["slurm.orlop.dev/job-id"]
    assert job.endswith("+0"), f"a member of one Slurm job, found {job}"
    eventually(lambda: not site.squeue("%i"), "the worker that ran on is gone, too", 60)


def test_groups_of_a_leaderworkerset_start_and_restart_whole(site: Site) -> None:
    say = 'echo "$LWS_WORKER_INDEX of $LWS_GROUP_SIZE" | tee -a /notes/log; '
    say += "until nslookup $LWS_LEADER_ADDRESS; do sleep 1; done"
    command = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", f"{say}; sleep 1000"],
        "volumeMounts": [{"name": "notes", "mountPath": "/notes"}],
    }
    site.apply(
        {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": "serve"},
            "spec": {
                "replicas": 2,
                "leaderWorkerTemplate": {
                    "size": 2,
                    "workerTemplate": {
                        "spec": {"terminationGracePeriodSeconds": 1, "containers": [command]}
                    },
                    "volumeClaimTemplates": [claim("notes")],
                    "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"},
                },
            },
        }
    )
    wait_ready(site, 2)
    before = uids(site)
    assert sorted(before) == ["serve-0", "serve-0-1", "serve-1", "serve-1-1"]
    assert site.kubectl("logs", "serve-1-1").splitlines()[0] == "1 of 2"
    eventually(lambda: notes(site) == ["1 of 2"], "serve-0-1 has written into its claim", 60)
    assert len(site.squeue("%i")) == 2, "a Slurm job for each group"
    site.kubectl("delete", "pod", "serve-0-1", "--grace-period=0", "--force")
    eventually(lambda: not set(before.values()) & set(first(uids(site))), "group 0 is new", 60)
    wait_ready(site, 2)
    after = uids(site)
    assert {name for name in after if after[name] == before[name]} == {"serve-1", "serve-1-1"}
    eventually(lambda: notes(site)[1:], "serve-0-1 has found what it wrote, and adds to it", 60)
    site.kubectl("scale", "lws", "serve", "--replicas=1")
    left = ["notes-serve-0", "notes-serve-0-1"]
    eventually(lambda: claims(site) == left, "claims have gone with their group", PATIENCE)


def first(found: dict[str, str]) -> list[str]:
    """Of the first group; what is not there does not count as new."""
    names = ("serve-0", "serve-0-1")
    return [found[name] for name in names] if set(names) <= set(found) else list(found.values())


def notes(site: Site) -> list[str]:
    return site.kubectl("exec", "serve-0-1", "--", "cat", "/notes/log").splitlines()


def claims(site: Site) -> list[str]:
    return sorted(one["metadata"]["name"] for one in site.get("pvc")["items"])


def uids(site: Site) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in site.pods()}


def wait_ready(site: Site, groups: int) -> None:
    def is_ready() -> bool:
        status = site.get("lws", "serve").get("status", {})
        return bool(status.get("readyReplicas") == groups) and has(
            site, "lws", "serve", "Available"
        )

    try:
        eventually(is_ready, f"{groups} groups are ready", PATIENCE)
    except NotYet as late:
        raise NotYet(f"{late}\n{story(site)}") from None


def has(site: Site, kind: str, name: str, condition: str) -> bool:
    found = site.get(kind, name).get("status", {}).get("conditions", [])
    return any(one["type"] == condition and one["status"] == "True" for one in found)


def story(site: Site) -> str:
    names = [pod["metadata"]["name"] for pod in site.pods()]
    told = [site.kubectl("get", "jobset,lws,job,pod,svc", "-o", "wide")]
    logs = [site.run("kubectl", "-n", site.namespace, "logs", n, check=False).stdout for n in names]
    return "\n".join([*told, *logs, *[site.story(name) for name in names]])
