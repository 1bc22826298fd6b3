"""Gangs on a real Slurm: one job for all members, a step for each, all or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.site import Obj, Site, eventually, pod

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
