"""Containers with whole CPUs have cores of their own where Slurm binds jobs to cores."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.cluster.fixtures import StartRegistry, StartSlurm
from tests.cluster.spec import Spec
from tests.e2e.conftest import open_site
from tests.e2e.site import container, pod

BINDS = Spec(nodes=1, cpus=2, features={}, settings={"TaskPlugin": "task/affinity"})
LOOK = "sed -n 's/Cpus_allowed_list:\\t//p' /proc/self/status"


@pytest.mark.timeout(300)
def test_a_guaranteed_pod_has_a_core_for_each_of_its_containers(
    new_slurm: StartSlurm, registry_on: StartRegistry, installed_orlop: object
) -> None:
    whole = {"resources": {"limits": {"cpu": "1", "memory": "64Mi"}}}
    made = pod("cores", "busybox", "")
    made["spec"]["containers"] = [
        {**container("busybox", LOOK, **whole), "name": name} for name in ("one", "two")
    ]
    with ExitStack() as stack:
        site = open_site(new_slurm(BINDS), registry_on, stack)
        site.apply(made)
        site.wait_phase("cores", "Succeeded")
        given = [site.kubectl("logs", "cores", "-c", name).strip() for name in ("one", "two")]
        site.kubectl("delete", "pod", "cores")
    assert all(cores.isdigit() for cores in given), given
    assert given[0] != given[1]
