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
    """User and system time of the control plane so far, from /proc."""
    pid = site.control_plane()["pid"]
    fields = site.run("cat", f"/proc/{pid}/stat").stdout.rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


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
    calls, cpu = squeue_calls(site), cpu_seconds(site)
    time.sleep(30)
    # idle_tick is 5 s here: 30 s hold six ticks, one more at the edges
    assert squeue_calls(site) - calls <= 7
    assert (cpu_seconds(site) - cpu) / 30 < 0.10
    site.kubectl("delete", "job", "crowd", "--wait=false")
    eventually(lambda: not site.squeue("%i"), "the queue is empty again", timeout=120)
