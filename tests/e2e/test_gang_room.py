"""Workloads whose pods come one after the other, several where only one has room: none waits for
ever for what another holds, because each has all of its room from its start.
"""

from __future__ import annotations

import pytest

from tests.e2e.site import Obj, Site, container, eventually

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]
PATIENCE = 180.0  # seconds, on a machine with much else to do
WHOLE_NODE = {"resources": {"requests": {"cpu": "8", "memory": "20Mi"}}}
JOB_ID = "slurm.orlop.dev/job-id"


def numbers(pods: list[Obj]) -> set[str]:
    """Of the Slurm jobs that these pods are members of."""
    notes = [one["metadata"].get("annotations", {}) for one in pods]
    return {note[JOB_ID].partition("+")[0] for note in notes if JOB_ID in note}


def mpi_job(name: str) -> Obj:
    """Three pods of a node each, on four nodes; nothing here needs an MPI."""
    launcher = container("busybox", "echo launched", **WHOLE_NODE)
    worker = container("busybox", "sleep 600", **WHOLE_NODE)
    spec = {"terminationGracePeriodSeconds": 1}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {
            "launcherCreationPolicy": "WaitForWorkersReady",
            "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 0},
            "mpiReplicaSpecs": {
                "Launcher": {"template": {"spec": {**spec, "containers": [launcher]}}},
                "Worker": {"replicas": 2, "template": {"spec": {**spec, "containers": [worker]}}},
            },
        },
    }


def job_set(name: str) -> Obj:
    """The same of Jobs that start in order; the last of them is the set's success."""

    def replicated(name: str, pods: int, script: str) -> Obj:
        spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
        pod = {"spec": {**spec, "containers": [container("busybox", script, **WHOLE_NODE)]}}
        job = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": pod}
        return {"name": name, "template": {"spec": job}}

    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": {"slurm.orlop.dev/gang": "true"}},
        "spec": {
            "startupPolicy": {"startupPolicyOrder": "InOrder"},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": ["last"]},
            "replicatedJobs": [replicated("first", 2, "sleep 600"), replicated("last", 1, "true")],
        },
    }


WORKLOADS = (
    (mpi_job("left"), "training.kubeflow.org/job-name=left", "Succeeded"),
    (mpi_job("right"), "training.kubeflow.org/job-name=right", "Succeeded"),
    (job_set("third"), "jobset.sigs.k8s.io/jobset-name=third", "Completed"),
)


def test_workloads_whose_last_pod_waits_for_the_others_all_succeed(site: Site):
    for made, _, _ in WORKLOADS:
        site.apply(made)
    seen: dict[str, set[str]] = {selector: set() for _, selector, _ in WORKLOADS}

    def is_over(made: Obj, selector: str, end: str) -> bool:
        seen[selector] |= numbers(site.pods(selector))
        status = site.get(made["kind"].lower(), made["metadata"]["name"]).get("status", {})
        told = {one["type"]: one["status"] for one in status.get("conditions", [])}
        assert told.get("Failed") != "True", told
        return told.get(end) == "True"

    def are_over() -> bool:
        ends = [is_over(*one) for one in WORKLOADS]  # each is looked at while its pods are there
        return all(ends)

    eventually(are_over, "all of them have succeeded", PATIENCE)
    assert [len(jobs) for jobs in seen.values()] == [1, 1, 1], "all pods of each are one job"


def leader_worker_set(name: str) -> Obj:
    """Two groups, each of a leader and a worker that have a node each."""
    pod = {
        "terminationGracePeriodSeconds": 1,
        "containers": [container("busybox", "sleep 600", **WHOLE_NODE)],
    }
    template = {"size": 2, "workerTemplate": {"spec": pod}}
    spec = {"replicas": 2, "startupPolicy": "LeaderReady", "leaderWorkerTemplate": template}
    head = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
    return {**head, "metadata": {"name": name}, "spec": spec}


def test_leaders_that_fill_the_cluster_leave_room_for_their_workers(site: Site):
    """Four leaders would fill all four nodes, and none would ever have its worker."""
    for name in ("left", "right"):
        site.apply(leader_worker_set(name))

    def ready() -> dict[str, int]:
        found = site.get("leaderworkersets")["items"]
        return {
            one["metadata"]["name"]: one.get("status", {}).get("readyReplicas", 0) for one in found
        }

    eventually(lambda: sum(ready().values()) == 2, "two groups are whole", PATIENCE)
    running = site.squeue("%i %C", "-t", "RUNNING")
    assert [line.split()[1] for line in running] == ["16", "16"], "each has room for all of it"
    started = [one for one in site.pods() if one["status"]["phase"] == "Running"]
    assert numbers(started) == {line.split()[0] for line in running}
    site.kubectl("delete", "leaderworkerset", "left", "--cascade=foreground")
    eventually(lambda: ready() == {"right": 2}, "the others follow", PATIENCE)
    site.kubectl("delete", "leaderworkerset", "right", "--cascade=foreground")
