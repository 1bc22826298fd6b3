"""kill -9 the control plane at a bad moment: every pod goes on, none is started twice."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from tests.e2e.site import Obj, Site, eventually, pod, terminated

RUNNING, QUEUED = 10, 5
SHORT, LONG = 12, 18  # seconds: some end while nobody looks


def counting(name: str, seconds: int, code: int) -> Obj:
    script = f"for i in $(seq {seconds * 5}); do echo {name} $i; sleep 0.2; done; exit {code}"
    return pod(name, "busybox", script)


def queued(manifest: Obj) -> Obj:
    manifest["metadata"]["annotations"] = {"slurm.orlop.dev/begin": "now+30"}
    return manifest


def accounted(site: Site, prefix: str) -> Counter[str]:
    """How often Slurm's accounts know each job of the namespace."""
    names = site.run("sacct", "-X", "-n", "-P", "-o", "JobName%100").stdout.split()
    return Counter(name for name in names if name.startswith(f"{site.namespace}/{prefix}"))


def accounted_jobs(site: Site, prefix: str) -> list[str]:
    """Every job, or task of an array, that Slurm's accounts know by such a name."""
    rows = site.run("sacct", "-X", "-n", "-P", "-o", "JobID,JobName%100").stdout.splitlines()
    named = (row.split("|") for row in rows)
    return sorted(job for job, name in named if name.startswith(f"{site.namespace}/{prefix}"))


@pytest.mark.timeout(300)
def test_kill_9_with_ten_pods_running_and_five_queued(accounted_site: Site) -> None:
    site = accounted_site
    names = [f"p{n}" for n in range(RUNNING + QUEUED)]
    seconds = [SHORT if n < 4 else LONG for n in range(len(names))]
    pods = [counting(name, seconds[n], n) for n, name in enumerate(names)]
    pods[RUNNING:] = [queued(manifest) for manifest in pods[RUNNING:]]
    site.apply({"apiVersion": "v1", "kind": "List", "items": pods})
    eventually(lambda: len(site.squeue("%i", "-t", "running")) == RUNNING, "ten jobs run")
    eventually(lambda: len(site.squeue("%i", "-t", "pending")) == QUEUED, "five jobs wait")

    site.kill()
    eventually(lambda: len(site.squeue("%i")) < len(names), "some end meanwhile", timeout=60)
    time.sleep(2)
    site.up()

    for number, name in enumerate(names):
        ended = site.wait_phase(name, "Succeeded" if number == 0 else "Failed", timeout=120)
        assert terminated(ended)["exitCode"] == number, name
        lines = site.kubectl("logs", name).splitlines()
        assert lines == [f"{name} {i}" for i in range(1, seconds[number] * 5 + 1)], name
    eventually(lambda: len(accounted(site, "p")) == len(names), "the accounts, which come late")
    assert set(accounted(site, "p").values()) == {1}


@pytest.mark.timeout(300)
def test_kill_9_while_pods_are_being_submitted_doubles_none(accounted_site: Site) -> None:
    site = accounted_site
    site.apply(f"""
        apiVersion: batch/v1
        kind: Job
        metadata: {{name: burst, namespace: {site.namespace}}}
        spec:
          completions: 40
          parallelism: 40
          template:
            spec:
              restartPolicy: Never
              containers:
              - {{name: main, image: busybox, command: ["true"]}}
    """)
    for pause in (0.3, 0.6, 0.2):
        time.sleep(pause)
        site.kill()
        site.up()
    site.kubectl("wait", "--for=condition=complete", "job/burst", "--timeout=150s", timeout=160)
    assert site.get("job", "burst")["status"]["succeeded"] == 40
    pods = site.pods("job-name=burst")
    jobs = sorted(pod["metadata"]["annotations"]["slurm.orlop.dev/job-id"] for pod in pods)
    assert len(set(jobs)) == 40
    assert any("_" in job for job in jobs), "some went as an array"
    eventually(lambda: len(accounted_jobs(site, "burst")) >= 40, "the accounts, which come late")
    assert accounted_jobs(site, "burst") == jobs
