"""Gangs on a real Slurm: one job for all members, a step for each, all or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.site import Obj, Site, container, eventually, pod

pytestmark = pytest.mark.slurm

GANG, SIZE = "slurm.orlop.dev/gang", "slurm.orlop.dev/gang-size"


def member(name: str, gang: str, size: int, script: str, **spec: Any) -> Obj:
    annotations = {GANG: gang, SIZE: str(size), **spec.pop("annotations", {})}
    return pod(name, "busybox", script, metadata={"annotations": annotations}, **spec)


def cpus(number: int, memory: str = "50Mi") -> Obj:
    return {"resources": {"requests": {"cpu": str(number), "memory": memory}}}


def test_a_gang_is_one_job_with_a_step_for_each_pod(site: Site):
    """And nothing is asked of Slurm before the last member is there."""
    members = [
        member(f"w{n}", "train", 3, "hostname; sleep 3", container=cpus(5)) for n in range(3)
    ]
    for one in members[:2]:
        site.apply(one)

    def waits() -> bool:
        conditions = site.pod("w1")["status"].get("conditions", [])
        found = {c["type"]: c for c in conditions}.get("orlop.dev/Allocated", {})
        return found.get("reason") == "WaitingForGang" and "2 of 3" in found["message"]

    eventually(waits, "w1 says that it waits for its gang")
    assert site.squeue("%i") == []
    site.apply(members[2])
    for one in members:
        site.wait_phase(one["metadata"]["name"], "Running", "Succeeded")
    assert len(site.squeue("%i")) == 1
    for one in members:
        site.wait_phase(one["metadata"]["name"], "Succeeded")
    found = [site.pod(f"w{n}") for n in range(3)]
    hosts = {one["metadata"]["annotations"]["slurm.orlop.dev/node-list"] for one in found}
    assert len(hosts) == 3


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
        site.wait_phase(f"ring-{n}", "Running")
    (job,) = site.squeue("%i")

    def ask(of: str) -> str:
        argv = ["kubectl", "-n", site.namespace, "exec", "ring-0", "--", "nc", "-w", "2"]
        return site.run(*argv, f"{of}.ring", "7000", check=False).stdout.strip()

    for name in ("ring-1", "ring-2"):
        eventually(lambda name=name: ask(name) == f"here is {name}", f"{name} answers by its name")
    former = site.pod("ring-2")["metadata"]
    site.kubectl("delete", "pod", "ring-2", "--wait=false")

    def is_replaced() -> bool:
        found = site.get("pods", "-l", "app=ring")["items"]
        new = [one for one in found if one["metadata"]["name"] == "ring-2"]
        return bool(new) and new[0]["metadata"]["uid"] != former["uid"]

    eventually(is_replaced, "ring-2 has a successor")
    new = site.wait_phase("ring-2", "Running")
    assert new["metadata"]["annotations"]["slurm.orlop.dev/job-id"] == f"{job}+3"
    assert site.squeue("%i") == [job]
    eventually(lambda: ask("ring-2") == "here is ring-2", "the successor answers by its name")
    site.kubectl("delete", "statefulset", "ring")
    eventually(lambda: not site.squeue("%i"), "no job is left behind")
