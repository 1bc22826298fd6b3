"""Sites for the scenarios: one shared by those that only add pods, own ones for those that break.

Each test sees its site from a namespace of its own, which is deleted afterwards with all in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import SlurmCluster
from tests.cluster.fixtures import StartRegistry, StartSlurm
from tests.cluster.spec import HEAD, QUICK_TO_FAIL, Spec
from tests.e2e.site import Site, eventually

OpenSite = Callable[[SlurmCluster], Site]

ACCOUNTED = Spec(accounting=True)
LIMITED = Spec(nodes=2, cgroups=True, gpus=4)


def open_site(
    cluster: SlurmCluster,
    registry_on: StartRegistry,
    stack: ExitStack,
    environment: Mapping[str, str] | None = None,
    slurm: Mapping[str, Any] | None = None,
) -> Site:
    """A registry on the head and Orlop up beside it, as the user; `slurm` is further settings."""
    address = registry_on(cluster).address
    config = {
        "images": {"default_registry": address, "insecure_registries": [address]},
        "slurm": {"busy_tick": 1.0, "idle_tick": 5.0, "command_timeout": 5.0, **(slurm or {})},
        "network": {"node_ports": True, "ingress_port": 8080},
        "agent": {"pod_pids_limit": 1500},
        "autoscaling": {"sync_period": 2.0, "metric_resolution": 1.5},
    }
    site = Site(cluster, cluster.home / "orlop", config, environment or {})
    site.up()
    stack.callback(site.down)
    # Kinds that come with Orlop follow a moment after it is up, the last in the alphabet last.
    last = ("kubectl", "get", "crd", "wlmjobs.wlm.sylabs.io")
    eventually(lambda: not site.run(*last, check=False).returncode, "all kinds are there", 60)
    return site


def own_namespace(site: Site, request: pytest.FixtureRequest) -> Iterator[Site]:
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())
    inside = site.in_namespace(words[:40].strip("-"))
    yield inside
    end(inside)
    eventually(lambda: not site.squeue("%i"), "no job is left behind")


def end(site: Site) -> None:
    """Delete a namespace; who does not listen to TERM shall not take all of its grace there."""
    delete = ("delete", "namespace", site.namespace, "--ignore-not-found")
    if site.run("kubectl", *delete, "--timeout=4s", check=False).returncode:
        site.kubectl("delete", "pods", "--all", "--grace-period=1", "--wait=false")
        site.kubectl(*delete, "--timeout=55s")


@pytest.fixture(scope="session")
def sites(registry_on: StartRegistry, installed_orlop: Path) -> Iterator[OpenSite]:
    """One site per cluster for the whole worker."""
    opened: dict[int, Site] = {}
    with ExitStack() as stack:

        def site_of(cluster: SlurmCluster) -> Site:
            if id(cluster) not in opened:
                opened[id(cluster)] = open_site(cluster, registry_on, stack)
            return opened[id(cluster)]

        yield site_of


@pytest.fixture
def site(slurm: SlurmCluster, sites: OpenSite, request: pytest.FixtureRequest) -> Iterator[Site]:
    """Four nodes, both runtimes."""
    yield from own_namespace(sites(slurm), request)


@pytest.fixture
def limited_site(
    slurm_with: StartSlurm, sites: OpenSite, request: pytest.FixtureRequest
) -> Iterator[Site]:
    """Slurm limits memory by cgroups."""
    yield from own_namespace(sites(slurm_with(LIMITED)), request)


@pytest.fixture
def accounted_site(
    slurm_with: StartSlurm, sites: OpenSite, request: pytest.FixtureRequest
) -> Iterator[Site]:
    """Slurm keeps accounts: sacct answers, and an account must exist."""
    yield from own_namespace(sites(slurm_with(ACCOUNTED)), request)


@pytest.fixture
def own_site(
    new_slurm: StartSlurm, registry_on: StartRegistry, installed_orlop: Path
) -> Iterator[Site]:
    """A site that the test may break."""
    with ExitStack() as stack:
        yield open_site(new_slurm(Spec(settings=QUICK_TO_FAIL)), registry_on, stack)


@pytest.fixture
def crowded_site(
    new_slurm: StartSlurm, registry_on: StartRegistry, installed_orlop: Path
) -> Iterator[Site]:
    """A site whose squeue counts its calls, a line each, before it is the real one."""
    with ExitStack() as stack:
        cluster = new_slurm(Spec(settings={"MaxJobCount": "20000"}))
        folder = cluster.home / "bin"
        real = cluster.run(HEAD, ["which", "squeue"], user=cluster.user).stdout.strip()
        calls = cluster.home / "squeue.calls"
        script = f'#!/bin/sh\n[ -n "$COUNT" ] && echo call >> {calls}\nexec {real} "$@"\n'
        cluster.run(HEAD, ["mkdir", "-p", str(folder)], user=cluster.user)
        cluster.run(HEAD, ["tee", str(folder / "squeue")], user=cluster.user, input=script)
        cluster.run(HEAD, ["chmod", "+x", str(folder / "squeue")], user=cluster.user)
        path = f"{folder}:{cluster.environment(cluster.user)['PATH']}"
        yield open_site(cluster, registry_on, stack, {"PATH": path, "COUNT": "1"})
