"""A thousand queued pods cost one squeue a tick and next to no CPU."""

from __future__ import annotations

import time

import pytest

from tests.e2e.site import Site, eventually

PODS = 1000


def job(site: Site) -> str:
    return f"""
        apiVersion: batch/v1
        kind: Job
        metadata: {{name: crowd, namespace: {site.namespace}}}
        spec:
          completions: {PODS}
          parallelism: {PODS}
          template:
            metadata:
              annotations: {{slurm.orlop.dev/hold: ""}}
            spec:
              restartPolicy: Never
              containers:
              - {{name: main, image: busybox, command: ["true"]}}
    """


def cpu_seconds(site: Site) -> float:
    """User and system time of the control plane and of all it started so far, from /proc."""
    pid = site.control_plane()["pid"]
    fields = site.run("cat", f"/proc/{pid}/stat").stdout.rsplit(")", 1)[1].split()
    return sum(int(field) for field in fields[11:15]) / 100


def squeue_calls(site: Site) -> int:
    """How often the stand-in in front of the real squeue was called by the control plane."""
    return len(site.run("cat", str(site.cluster.home / "squeue.calls")).stdout.splitlines())


@pytest.mark.timeout(400)
def test_a_thousand_queued_pods_cost_one_squeue_a_tick(crowded_site: Site) -> None:
    site = crowded_site
    site.apply(job(site))
    eventually(lambda: len(site.squeue("%i")) == PODS, "all pods are in the queue", timeout=180)
    eventually(
        lambda: (
            sum(
                1
                for pod in site.pods()
                if "slurm.orlop.dev/job-id" in pod["metadata"].get("annotations", {})
            )
            == PODS
        ),
        "every pod knows its job",
        timeout=60,
    )
    time.sleep(10)  # let the last status writes pass
    began, calls, cpu = time.monotonic(), squeue_calls(site), cpu_seconds(site)
    time.sleep(20)
    cpu, calls = cpu_seconds(site) - cpu, squeue_calls(site) - calls
    passed = time.monotonic() - began
    assert calls <= passed + 3, "busy_tick is 1 s here"
    assert cpu / passed < 0.10
    sees_another_reason(site)
    site.kubectl("delete", "job", "crowd", "--wait=false")
    eventually(lambda: not site.squeue("%i"), "the queue is empty again", timeout=120)


def sees_another_reason(site: Site) -> None:
    """However quiet it was, what only Slurm knows is on the pod."""
    pod = site.pods()[0]["metadata"]
    job = pod["annotations"]["slurm.orlop.dev/job-id"]
    site.run("scontrol", "update", f"jobid={job}", "starttime=now+1hour")
    site.run("scontrol", "release", job)

    def waits() -> bool:
        conditions = site.pod(pod["name"])["status"]["conditions"]
        return any(found.get("reason") == "BeginTime" for found in conditions)

    eventually(waits, "the pod says that its time has not come")
