"""Every way in which a real Slurm ends a gang: a node fails, time is up, others come first.

Run by `make soak`. Gangs of every kind on the same two nodes meet the same end: pods of nobody say
it each, a Job that may not try again fails whole, all others are made again whole, once. Nothing
else is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.cluster.fixtures import StartSlurm
from tests.cluster.spec import QUICK_TO_FAIL, Partition, Spec
from tests.e2e.conftest import OpenSite, own_namespace, sites
from tests.e2e.site import Obj, Site, container, eventually
from tests.e2e.test_gangs import GANG, cpus, member

__all__ = ["sites"]
PATIENCE = 240.0
JOB_ID = "slurm.orlop.dev/job-id"
PLACE = {"slurm.orlop.dev/nodelist": "n3,n4"}
SPEC = Spec(
    settings={**QUICK_TO_FAIL, "PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"},
    partitions=(
        Partition("main", settings={"Default": "YES", "MaxTime": "INFINITE", "PriorityTier": "1"}),
        Partition("urgent", settings={"MaxTime": "INFINITE", "PriorityTier": "9"}),
    ),
)


@pytest.fixture
def preempting_site(
    slurm_with: StartSlurm, sites: OpenSite, request: pytest.FixtureRequest
) -> Iterator[Site]:
    """Nodes are quick to fail, and one partition comes before the other."""
    yield from own_namespace(sites(slurm_with(SPEC)), request)


QUICK = {"terminationGracePeriodSeconds": 1}
SLEEP = container("busybox", "sleep 900", **cpus(1))


def of_nobody(annotations: dict[str, str]) -> list[Obj]:
    return [
        member(f"p{n}", "pods", 2, "sleep 900", container=cpus(1), annotations=annotations, **QUICK)
        for n in range(2)
    ]


def template(annotations: dict[str, str], policy: str = "Never") -> Obj:
    asked = {"metadata": {"annotations": {**annotations, GANG: "true"}, "labels": {"app": "set"}}}
    return {**asked, "spec": {"restartPolicy": policy, "containers": [SLEEP], **QUICK}}


def job_spec(annotations: dict[str, str]) -> Obj:
    counts = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimit": 0}
    return {**counts, "template": template(annotations)}


def made_again(annotations: dict[str, str]) -> list[Obj]:
    """One of each kind that goes on after such an end."""
    plain = {"spec": {"containers": [{**SLEEP, "name": "pytorch"}], **QUICK}}
    torch = {"runPolicy": {"backoffLimit": 9}}
    torch["pytorchReplicaSpecs"] = {"Master": {"template": plain}, "Worker": {"template": plain}}
    mpi = {"runPolicy": {"backoffLimit": 9}}
    worker = {"replicas": 1, "template": {"spec": {"containers": [NO_COMMAND], **QUICK}}}
    launcher = {"restartPolicy": "Never", "template": plain}
    mpi["mpiReplicaSpecs"] = {"Launcher": launcher, "Worker": worker}
    stateful = {"serviceName": "set", "replicas": 2, "template": template(annotations, "Always")}
    stateful["selector"] = {"matchLabels": {"app": "set"}}
    own = {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": plain}
    jobs = [{"name": "w", "template": {"spec": own}}]
    kinds = {
        "torch": ("kubeflow.org/v1", "PyTorchJob", torch),
        "mpi": ("kubeflow.org/v2beta1", "MPIJob", mpi),
        "jobset": (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {"replicatedJobs": jobs, "failurePolicy": {"maxRestarts": 9}},
        ),
        "lws": (
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            {"leaderWorkerTemplate": {"size": 2, "workerTemplate": plain}},
        ),
        "set": ("apps/v1", "StatefulSet", stateful),
    }
    return [
        {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": name, "annotations": {**annotations, GANG: "true"}},
            "spec": spec,
        }
        for name, (version, kind, spec) in kinds.items()
    ]


NO_COMMAND = {key: value for key, value in SLEEP.items() if key != "command"}
# The pods of each.
AGAIN = {
    "torch": "training.kubeflow.org/job-name=torch",
    "mpi": "training.kubeflow.org/job-name=mpi",
    "jobset": "jobset.sigs.k8s.io/jobset-name=jobset",
    "lws": "leaderworkerset.sigs.k8s.io/name=lws",
    "set": "app=set,!batch.kubernetes.io/job-name",
}


def living(site: Site, selector: str) -> dict[str, Obj]:
    """Pods by their uids, without those that have ended or are ending."""
    found = [one for one in site.pods(selector) if "deletionTimestamp" not in one["metadata"]]
    ended = ("Failed", "Succeeded")
    return {p["metadata"]["uid"]: p for p in found if p["status"].get("phase") not in ended}


def is_whole(site: Site, name: str, former: dict[str, Obj], phase: str) -> bool:
    """Both pods are new, are so far, and are members of one job."""
    now = living(site, AGAIN[name])
    ids = [one["metadata"].get("annotations", {}).get(JOB_ID, "") for one in now.values()]
    is_new = len(now) == 2 and not set(now) & set(former)
    phases = {one["status"].get("phase") for one in now.values()}
    return is_new and phases == {phase} and all(ids) and len({i.split("+")[0] for i in ids}) == 1


def scancel(site: Site) -> None:
    site.run("scancel", *site.squeue("%i"))


def expire(site: Site) -> None:
    for job in site.squeue("%i"):
        site.cluster.expire(job)


def preempt(site: Site) -> None:
    argv = ["sbatch", "-p", "urgent", "--nodelist=n3,n4", "--exclusive", "-J", "urgent"]
    site.run(*argv, "-o", "/dev/null", "--wrap", "sleep 1")


def fail(site: Site) -> None:
    site.cluster.power_off("n4")


# How to end a gang, what each pod says then, and its condition DisruptionTarget.
ENDS: dict[str, tuple[Callable[[Site], None], str, str]] = {
    "node failure": (fail, "NodeLost", ""),
    "time limit": (expire, "DeadlineExceeded", ""),
    "preemption": (preempt, "PreemptionByScheduler", "PreemptionByScheduler"),
    "cancelled": (scancel, "Cancelled", "Cancelled"),
    "cancelled in the queue": (scancel, "Cancelled", "Cancelled"),
}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("end", ENDS)
def test_a_bad_end_of_a_gang_is_told_and_followed_as_its_controller_says(
    preempting_site: Site, end: str
) -> None:
    site = preempting_site
    break_, reason, disruption = ENDS[end]
    is_queued = end.endswith("queue")
    asked = {**PLACE, **({"slurm.orlop.dev/begin": "now+1hour"} if is_queued else {})}
    phase = "Pending" if is_queued else "Running"
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}}
    for one in (*of_nobody(asked), {**job, "spec": job_spec(asked)}, *made_again(asked)):
        site.apply(one)
    for name in AGAIN:
        eventually(lambda name=name: is_whole(site, name, {}, phase), f"{name} is there", PATIENCE)
    eventually(lambda: len(site.squeue("%i")) == 7, "a Slurm job for each gang", PATIENCE)
    eventually(lambda: are_so(site, phase), f"all pods are {phase}", PATIENCE)
    before = {name: living(site, selector) for name, selector in AGAIN.items()}
    break_(site)
    for n in range(2):
        found = site.wait_phase(f"p{n}", "Failed", timeout=PATIENCE)
        assert found["status"]["reason"] == reason, site.story(f"p{n}")
        told = {one["type"]: one for one in found["status"]["conditions"]}
        assert told.get("DisruptionTarget", {}).get("reason", "") == disruption, found["status"]
    eventually(lambda: has_failed(site), "the Job has failed, without a pod that runs", PATIENCE)
    if end == "node failure":
        site.cluster.power_on("n4")
    for name, former in before.items():

        def is_again(name: str = name, former: dict[str, Obj] = former) -> bool:
            return is_whole(site, name, former, phase)

        eventually(is_again, f"{name} is whole again, in one new job", PATIENCE)
    left = [line for line in site.squeue("%j") if line != "urgent"]
    assert len(left) == len(AGAIN), f"no other job, found {left}"
    assert site.get("pytorchjob", "torch")["status"]["restarts"] == 1, "it ended once"
    assert site.get("jobset", "jobset")["status"]["restarts"] == 1, "it ended once"


def are_so(site: Site, phase: str) -> bool:
    return {one["status"].get("phase") for one in site.pods()} == {phase}


def has_failed(site: Site) -> bool:
    status = site.get("job", "job").get("status", {})
    conditions = {one["type"] for one in status.get("conditions", [])}
    return "Failed" in conditions and not status.get("active")
