"""Gangs on a real Slurm: one job for all members, a step for each, all or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.site import Obj, Site, container, eventually, pod, terminated

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]
PATIENCE = 120.0  # seconds, on a machine with much else to do

GANG, SIZE = "slurm.orlop.dev/gang", "slurm.orlop.dev/gang-size"
NODES = "slurm.orlop.dev/node-list"


def member(name: str, gang: str, size: int, script: str, **spec: Any) -> Obj:
    annotations = {GANG: gang, SIZE: str(size), **spec.pop("annotations", {})}
    return pod(name, "busybox", script, metadata={"annotations": annotations}, **spec)


def cpus(number: int, memory: str = "50Mi") -> Obj:
    return {"resources": {"requests": {"cpu": str(number), "memory": memory}}}


def test_a_gang_of_unlike_members_is_one_job_with_a_step_for_each(site: Site):
    """Nothing is asked of Slurm before the last is there, and nothing is left behind the last."""
    members = [
        member(
            f"w{n}", "train", 3, "sleep 600",
            container=cpus(size, f"{size * 20}Mi"), terminationGracePeriodSeconds=1,
        )
        for n, size in enumerate((1, 5, 5))
    ]  # fmt: skip
    for one in members[:2]:
        site.apply(one)

    def waits() -> bool:
        conditions = site.pod("w1")["status"].get("conditions", [])
        found = {c["type"]: c for c in conditions}.get("orlop.dev/Allocated", {})
        return found.get("reason") == "WaitingForGang" and "2 of 3" in found["message"]

    eventually(waits, "w1 says that it waits for its gang", PATIENCE)
    assert site.squeue("%i") == []
    site.apply(members[2])
    for one in members:
        site.wait_phase(one["metadata"]["name"], "Running", timeout=PATIENCE)
    (job,) = site.squeue("%i %C")
    assert job.split()[1] == "12", "two bundles, each for a large one and a small one"

    def hosts() -> list[str]:
        notes = [site.pod(f"w{n}")["metadata"].get("annotations", {}) for n in range(3)]
        return [found[NODES] for found in notes if NODES in found]

    eventually(lambda: len(hosts()) == 3, "each member says on which host it is", PATIENCE)
    assert len(set(hosts())) == 2
    site.kubectl("delete", "pod", "w0", "w1", "w2")
    eventually(lambda: not site.squeue("%i"), "no job is left behind", PATIENCE)


PLUGINS = ("scheduling.x-k8s.io/v1alpha1", {"minMember": 2})
BUILT_IN = ("scheduling.k8s.io/v1alpha2", {"schedulingPolicy": {"gang": {"minCount": 2}}})


@pytest.mark.parametrize("kind", [PLUGINS, BUILT_IN], ids=["of the plugin", "built in"])
def test_the_pods_of_a_podgroup_wait_for_each_other(site: Site, kind: tuple[str, Obj]):
    version, spec = kind
    group = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "pair"}}
    site.apply({**group, "spec": spec})

    def paired(name: str) -> Obj:
        made = pod(name, "busybox", "sleep 600", terminationGracePeriodSeconds=0)
        if kind is BUILT_IN:
            made["spec"]["schedulingGroup"] = {"podGroupName": "pair"}
        else:
            made["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "pair"}
        return made

    site.apply(paired("left"))

    def waits() -> bool:
        conditions = site.pod("left")["status"].get("conditions", [])
        return any(one.get("reason") == "WaitingForGang" for one in conditions)

    eventually(waits, "the first says that it waits", PATIENCE)
    assert site.squeue("%i") == []
    site.apply(paired("right"))
    for name in ("left", "right"):
        site.wait_phase(name, "Running", timeout=PATIENCE)
    assert len(site.squeue("%i")) == 1
    site.kubectl("delete", "pod", "left", "right")


def test_a_statefulset_as_a_gang_finds_itself_by_name_across_hosts(site: Site):
    """Its pods are made at once, and one that dies is replaced in the same allocation."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "ring"},
        "spec": {"clusterIP": "None", "selector": {"app": "ring"}, "ports": [{"port": 7000}]},
    }
    serve = "while :; do echo here is $(hostname) | nc -l -p 7000; done"
    template = {
        "metadata": {"labels": {"app": "ring"}, "annotations": {GANG: "true"}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [container("busybox", serve, **cpus(5))],
        },
    }
    spec = {"serviceName": "ring", "replicas": 3, "template": template}
    spec["selector"] = {"matchLabels": {"app": "ring"}}
    ring = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "ring"}}
    site.apply(service)
    site.apply({**ring, "spec": spec})
    for n in range(3):
        site.wait_phase(f"ring-{n}", "Running", timeout=PATIENCE)
    (job,) = site.squeue("%i")

    def ask(of: str) -> str:
        argv = ["kubectl", "-n", site.namespace, "exec", "ring-0", "--", "nc", "-w", "2"]
        return site.run(*argv, f"{of}.ring", "7000", check=False).stdout.strip()

    for name in ("ring-1", "ring-2"):
        answers = f"{name} answers by its name"
        eventually(lambda name=name: ask(name) == f"here is {name}", answers, PATIENCE)
    former = site.pod("ring-2")["metadata"]
    site.kubectl("delete", "pod", "ring-2", "--wait=false")

    def is_replaced() -> bool:
        found = site.get("pods", "-l", "app=ring")["items"]
        new = [one for one in found if one["metadata"]["name"] == "ring-2"]
        return bool(new) and new[0]["metadata"]["uid"] != former["uid"]

    eventually(is_replaced, "ring-2 has a successor", PATIENCE)
    new = site.wait_phase("ring-2", "Running", timeout=PATIENCE)
    assert new["metadata"]["annotations"]["slurm.orlop.dev/job-id"] == f"{job}+3"
    assert site.squeue("%i") == [job]
    answers = "the successor answers by its name"
    eventually(lambda: ask("ring-2") == "here is ring-2", answers, PATIENCE)
    site.kubectl("delete", "statefulset", "ring")
    eventually(lambda: not site.squeue("%i"), "no job is left behind", PATIENCE)


def test_a_member_that_fails_is_replaced_in_the_same_allocation(accounted_site: Site):
    """By its Job, on the way to its end; and sacct has a step for each of its pods."""
    site = accounted_site
    folder = f"{site.home}/once-{site.namespace}"
    site.run("mkdir", "-p", folder)
    script = """
    if [ $JOB_COMPLETION_INDEX = 1 ] && mkdir /once/$JOB_COMPLETION_INDEX; then exit 3; fi
    if [ $JOB_COMPLETION_INDEX = 0 ]; then while [ ! -e /once/go ]; do sleep 0.1; done; fi
    [ $JOB_COMPLETION_INDEX = 1 ] && touch /once/go
    true
    """
    main = container("busybox", script, **cpus(8))
    main["volumeMounts"] = [{"name": "once", "mountPath": "/once"}]
    spec = {
        "restartPolicy": "Never",
        "containers": [main],
        "volumes": [{"name": "once", "hostPath": {"path": folder}}],
    }
    job = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimit": 3}
    job["template"] = {"metadata": {"annotations": {GANG: "true"}}, "spec": spec}
    site.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": job})
    site.kubectl("wait", "--for=condition=complete", "job/j", "--timeout=100s", timeout=120)
    ids = {one["metadata"]["annotations"]["slurm.orlop.dev/job-id"] for one in site.pods()}
    (number,) = {one.partition("+")[0] for one in ids}
    assert ids == {f"{number}+{n}" for n in range(3)}

    def steps() -> list[str]:
        argv = ["sacct", "-j", number, "-n", "-P", "-o", "JobName,State"]
        return site.run(*argv).stdout.splitlines()

    def are_accounted() -> bool:
        names = [f"{site.namespace}/{one['metadata']['name']}" for one in site.pods()]
        found = [line.partition("|")[0] for line in steps()]
        return all(name in found for name in names)

    eventually(are_accounted, "sacct has a step for each pod, by its name", PATIENCE)
    states = sorted(line.partition("|")[2] for line in steps() if f"{site.namespace}/j-" in line)
    assert states == ["COMPLETED", "COMPLETED", "FAILED"]
    usage = site.run("kubectl", "slurm", "usage", "-n", site.namespace).stdout
    used = [line.split() for line in usage.splitlines()[1:]]
    assert sorted(row[2] for row in used) == states
    assert {row[4] for row in used} == {"8"}, "each has its own CPUs"


def test_memory_is_each_members_own_and_the_time_limit_is_the_jobs(limited_site: Site):
    site = limited_site
    eat = ["python3", "-c", "x = bytearray(300 << 20); print(len(x))"]
    hungry = member("hungry", "g", 3, "", container=cpus(2, "80Mi"))
    hungry["spec"]["containers"][0] |= {"image": "python", "command": eat}
    calm = member("calm", "g", 3, "sleep 4; echo alive", container=cpus(2))
    limit = {"slurm.orlop.dev/time": "5"}
    slow = member("slow", "g", 3, "sleep 600", container=cpus(2), annotations=limit)
    for one in (hungry, calm, slow):
        site.apply(one)
    ended = site.wait_phase("hungry", "Failed", timeout=PATIENCE)
    assert (terminated(ended)["reason"], terminated(ended)["exitCode"]) == ("OOMKilled", 137)
    site.wait_phase("calm", "Succeeded", timeout=PATIENCE)
    running = site.wait_phase("slow", "Running", timeout=PATIENCE)
    site.cluster.expire(running["metadata"]["annotations"]["slurm.orlop.dev/job-id"].split("+")[0])
    ended = site.wait_phase("slow", "Failed", timeout=150)
    assert ended["status"]["reason"] == "DeadlineExceeded"


def test_a_warning_reaches_who_wants_it_and_harms_nobody(site: Site):
    """Each member hears its own signal, by its agent: a child that handles none lives on."""
    listen = """
    trap 'echo heard USR2' USR2
    (sleep 600; echo ended) & child=$!
    echo ready
    while kill -0 $child; do sleep 0.1; done
    """
    asked = {"slurm.orlop.dev/signal": "USR2@300"}
    site.apply(member("warned", "g", 2, listen, container=cpus(5), annotations=asked))
    site.apply(member("other", "g", 2, listen, container=cpus(5)))
    for name in ("warned", "other"):
        ready = lambda name=name: site.kubectl("logs", name).startswith("ready")  # noqa: E731
        site.wait_phase(name, "Running", timeout=PATIENCE)
        eventually(ready, f"{name} listens", PATIENCE)
    (job,) = site.squeue("%i")
    site.run("scancel", "--batch", "--signal=USR1", job)  # as Slurm itself does it in time
    log = lambda: site.kubectl("logs", "warned")  # noqa: E731
    eventually(lambda: log() == "ready\nheard USR2\n", "the warning is heard", PATIENCE)
    reasons = lambda: [reason for reason, _ in site.events("warned")]  # noqa: E731
    eventually(lambda: "TimeLimitNear" in reasons(), "the warning is told", PATIENCE)
    assert site.kubectl("logs", "other") == "ready\n"
    assert site.squeue("%i %T") == [f"{job} RUNNING"]
    site.kubectl("delete", "pod", "warned", "other", "--grace-period=0", "--force")


def test_a_gang_that_is_cancelled_ends_whole(site: Site):
    """By scancel, while one waits in the queue and the other runs."""
    later = {"slurm.orlop.dev/begin": "now+1hour"}
    for name, asked in (("waits", later), ("runs", {})):
        for n in range(2):
            site.apply(member(f"{name}-{n}", name, 2, "sleep 600", annotations=asked))
    names = [f"{name}-{n}" for name in ("waits", "runs") for n in range(2)]
    site.wait_phase("runs-0", "Running", timeout=PATIENCE)
    site.wait_phase("runs-1", "Running", timeout=PATIENCE)
    jobs = eventually(lambda: len(found := site.squeue("%i")) == 2 and found, "two jobs", PATIENCE)
    site.run("scancel", *jobs)
    for name in names:
        found = site.wait_phase(name, "Failed", timeout=PATIENCE)
        told = {one["type"]: one for one in found["status"]["conditions"]}
        assert told["DisruptionTarget"]["reason"] == "Cancelled", site.story(name)


# Each member waits for the three others and gives up without them.
MEET = """
mkdir -p /meet/$GANG && touch /meet/$GANG/$HOSTNAME
n=0
while [ $(ls /meet/$GANG | wc -l) -lt 4 ]; do
    n=$((n+1)); [ $n -gt 900 ] && exit 1; sleep 0.1
done
"""


def gang_job(name: str, folder: str) -> Obj:
    """An Indexed Job of four pods with four CPUs each: the cluster holds two of them."""
    main = container("busybox", MEET, **cpus(4))
    main["env"] = [{"name": "GANG", "value": name}]
    main["volumeMounts"] = [{"name": "meet", "mountPath": "/meet"}]
    spec = {
        "restartPolicy": "Never",
        "containers": [main],
        "volumes": [{"name": "meet", "hostPath": {"path": folder}}],
    }
    job = {"completionMode": "Indexed", "completions": 4, "parallelism": 4, "backoffLimit": 0}
    job["template"] = {"metadata": {"annotations": {GANG: "true"}}, "spec": spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": job}


def many_gangs(site: Site, count: int, cancelled: int, timeout: float) -> None:
    """All at once, some deleted while they wait or run: all others complete."""
    folder = f"{site.home}/meet-{site.namespace}"
    site.run("mkdir", "-p", folder)
    names = [f"g{n}" for n in range(count)]
    gangs = {"apiVersion": "v1", "kind": "List", "items": [gang_job(n, folder) for n in names]}
    site.apply(gangs)
    eventually(lambda: site.squeue("%i"), "the first gang is submitted", PATIENCE)
    gone = names[:1] + names[-cancelled + 1 :] if cancelled > 1 else names[-cancelled:]
    site.kubectl("delete", "job", *gone, "--wait=false")
    left = [name for name in names if name not in gone]

    def failures(gangs: list[str]) -> list[Obj]:
        pods = [one for name in gangs for one in site.pods(f"job-name={name}")]
        return [one for one in pods if one["status"]["phase"] == "Failed"]

    def all_complete() -> bool:
        jobs = site.get("jobs")["items"]
        found = {job["metadata"]["name"]: job.get("status", {}) for job in jobs}
        failed = [name for name in left if found[name].get("failed")]
        assert not failed, [site.story(pod["metadata"]["name"]) for pod in failures(failed)]
        return all(found[name].get("succeeded") == 4 for name in left)

    eventually(all_complete, f"the {len(left)} gangs that nobody deleted complete", timeout)
    eventually(lambda: not site.squeue("%i"), "no job is left behind", PATIENCE)


def test_many_gangs_at_once_complete_and_none_runs_with_fewer_than_all(site: Site):
    many_gangs(site, 20, 4, 300.0)
