"""kill -9 the control plane at a bad moment: every pod goes on, none is started twice."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from tests.e2e.site import Obj, Site, eventually, pod, terminated

CPUS = 8
RUNNING, QUEUED = 10, 5


def counting(name: str, seconds: int, code: int) -> Obj:
    script = f"for i in $(seq {seconds * 5}); do echo {name} $i; sleep 0.2; done; exit {code}"
    return pod(name, "busybox", script, container={"resources": {"requests": {"cpu": "3"}}})


@pytest.mark.timeout(300)
def test_kill_9_with_ten_pods_running_and_five_queued(accounted_site: Site) -> None:
    site = accounted_site  # 4 nodes of 8 CPUs: two pods of 3 CPUs each fit on a node, and some wait
    names = [f"p{n}" for n in range(RUNNING + QUEUED)]
    pods = [counting(name, 6 if n < 4 else 15, n) for n, name in enumerate(names)]
    site.apply({"apiVersion": "v1", "kind": "List", "items": pods})
    eventually(lambda: len(site.squeue("%i")) == len(names), "15 jobs")
    eventually(lambda: len(site.squeue("%i", "-t", "running")) >= 8, "most of them run")

    site.kill()
    eventually(lambda: len(site.squeue("%i")) < len(names), "some end meanwhile", timeout=60)
    time.sleep(2)
    site.up()

    for number, name in enumerate(names):
        ended = site.wait_phase(name, "Succeeded" if number == 0 else "Failed", timeout=120)
        assert terminated(ended)["exitCode"] == number, name
        lines = site.kubectl("logs", name).splitlines()
        rounds = (6 if number < 4 else 15) * 5
        assert lines == [f"{name} {i}" for i in range(1, rounds + 1)], name
    counts = Counter(site.run("sacct", "-X", "-n", "-P", "-o", "JobName").stdout.split())
    assert [counts[f"{site.namespace}/{name}"] for name in names] == [1] * len(names)


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
    assert len(pods) == 40

    def accounted() -> Counter[str]:
        names = site.run("sacct", "-X", "-n", "-P", "-o", "JobName%100").stdout.split()
        return Counter(name for name in names if name.startswith(f"{site.namespace}/burst-"))

    eventually(lambda: len(accounted()) == 40, "the accounts, which come late, know all of them")
    assert set(accounted().values()) == {1}
