"""Drains keep to budgets, Jobs count exactly, CronJobs fire: on a real Slurm."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from tests.cluster.cluster import SlurmCluster
from tests.e2e.conftest import OpenSite
from tests.e2e.site import Obj, Site, eventually, pod, terminated

COMPLETIONS = 50
REFUSED = [index for index in range(COMPLETIONS) if index % 10 == 7]  # never tried again
FAULTY = 11  # fails whenever it is tried


@pytest.fixture(scope="module")
def cron(slurm: SlurmCluster, sites: OpenSite) -> Iterator[Site]:
    """A CronJob that fires while the other tests run."""
    site = sites(slurm).in_namespace("cron")
    site.apply("""
        apiVersion: batch/v1
        kind: CronJob
        metadata: {name: tick}
        spec:
          schedule: "* * * * *"
          timeZone: Europe/Athens
          jobTemplate:
            spec:
              template:
                spec:
                  restartPolicy: Never
                  containers:
                  - {name: main, image: busybox, command: [echo, tick]}
    """)
    yield site
    site.kubectl("delete", "namespace", "cron", "--timeout=40s")


@pytest.mark.timeout(300)
def test_an_indexed_job_of_50_counts_exactly(cron: Site, site: Site) -> None:
    refused = "|".join(str(index) for index in REFUSED)
    site.apply(f"""
        apiVersion: batch/v1
        kind: Job
        metadata: {{name: fifty}}
        spec:
          completions: {COMPLETIONS}
          parallelism: 30
          completionMode: Indexed
          backoffLimitPerIndex: 1
          podFailurePolicy:
            rules:
            - {{action: FailIndex, onExitCodes: {{operator: In, values: [42]}}}}
            - {{action: Ignore, onPodConditions: [{{type: DisruptionTarget}}]}}
          template:
            spec:
              restartPolicy: Never
              containers:
              - name: main
                image: busybox
                command:
                - sh
                - -c
                - "case $JOB_COMPLETION_INDEX in {refused}) exit 42;; {FAULTY}) exit 1;; esac"
    """)
    wait = ("wait", "--for=condition=failed", "job/fifty", "--timeout=200s")
    site.kubectl(*wait, timeout=220)
    status = site.get("job", "fifty")["status"]
    failed = sorted([*REFUSED, FAULTY])
    assert status["failedIndexes"] == ",".join(str(index) for index in failed)
    assert status["succeeded"] == COMPLETIONS - len(failed)
    assert status["failed"] == len(REFUSED) + 2  # the faulty one was given a second chance
    assert status["completedIndexes"] == "0-6,8-10,12-16,18-26,28-36,38-46,48,49"
    assert [one["reason"] for one in status["conditions"] if one["type"] == "Failed"] == [
        "FailedIndexes"
    ]
    assert not status.get("active")
    assert not status["uncountedTerminatedPods"]


@pytest.mark.timeout(200)
def test_a_cron_job_fires(cron: Site) -> None:
    def fired() -> str:
        jobs = cron.get("jobs")["items"]
        done = [job for job in jobs if (job.get("status") or {}).get("succeeded")]
        return done[0]["metadata"]["name"] if done else ""

    name = eventually(fired, "a job of the CronJob has succeeded", timeout=120)
    assert re.fullmatch(r"tick-\d+", name)
    minute = int(name.removeprefix("tick-"))
    assert abs(minute * 60 - time.time()) < 600
    assert cron.kubectl("logs", f"job/{name}") == "tick\n"
    assert cron.get("cronjob", "tick")["status"]["lastSuccessfulTime"]


@pytest.mark.timeout(240)
def test_a_drain_keeps_to_the_budget(site: Site) -> None:
    site.apply("""
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: web}
        spec:
          replicas: 3
          selector: {matchLabels: {app: web}}
          template:
            metadata: {labels: {app: web}}
            spec:
              terminationGracePeriodSeconds: 1
              containers:
              - {name: main, image: busybox, command: [sleep, "600"]}
        ---
        apiVersion: policy/v1
        kind: PodDisruptionBudget
        metadata: {name: web}
        spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
    """)
    site.kubectl("rollout", "status", "deployment/web", "--timeout=90s", timeout=100)
    budget = ("get", "pdb", "web", "-o", "jsonpath={.status.disruptionsAllowed}")
    eventually(lambda: site.kubectl(*budget) == "1", "one may be disrupted")
    (node,) = {pod["spec"]["nodeName"] for pod in site.pods("app=web")}
    before = {pod["metadata"]["name"] for pod in site.pods("app=web")}

    ready = "jsonpath={.status.readyReplicas}{'\\n'}"
    seen = site.popen("kubectl", "-n", site.namespace, "get", "deployment", "web", "-w", "-o",
                      ready, stdout=-1, text=True)  # fmt: skip
    try:
        drained = site.run("kubectl", "drain", node, "--timeout=120s", "--force", timeout=150)
        assert f"node/{node} drained" in drained.stdout
        assert "would violate the pod's disruption budget" in drained.stderr
    finally:
        site.kubectl("uncordon", node)
        seen.terminate()
    counts = [int(count or 0) for count in re.findall(r"^(\d*)$", seen.communicate()[0], re.M)]
    assert min(counts[:-1]) >= 2, counts
    after = site.pods("app=web")
    assert not before & {pod["metadata"]["name"] for pod in after}
    assert node not in {pod["spec"].get("nodeName") for pod in after}


@pytest.mark.timeout(400)
def test_a_burst_of_pods_ends_as_each_of_them_did(site: Site) -> None:
    """Each has its own job and its own exit code, however many there are."""
    codes = {f"burst-{number}": (0, 1, 42, 255)[number % 4] for number in range(60)}
    small = {"resources": {"requests": {"cpu": "100m", "memory": "16Mi"}}}
    pods = [pod(name, "busybox", f"exit {code}", container=small) for name, code in codes.items()]
    site.apply({"apiVersion": "v1", "kind": "List", "items": pods})

    def ended() -> list[Obj]:
        found = site.pods()
        phases = [one["status"].get("phase") for one in found]
        return found if all(phase in ("Succeeded", "Failed") for phase in phases) else []

    found = eventually(ended, "all have ended", timeout=240)
    assert {one["metadata"]["name"]: terminated(one)["exitCode"] for one in found} == codes
    for one in found:
        is_good = codes[one["metadata"]["name"]] == 0
        assert one["status"]["phase"] == ("Succeeded" if is_good else "Failed")
    jobs = {one["metadata"]["annotations"]["slurm.orlop.dev/job-id"] for one in found}
    assert len(jobs) == len(codes)
