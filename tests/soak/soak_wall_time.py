"""A service on a real Slurm whose pods may run for two minutes only, asked without a pause for six.

Run by `make soak`. Not one request fails: each pod is followed before its time limit by another
that is ready first. `ORLOP_SOAK` is how many times as long it takes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster.fixtures import StartRegistry, StartSlurm
from tests.cluster.spec import Spec
from tests.e2e.conftest import open_site
from tests.e2e.site import Obj, Site, eventually, pod
from tests.e2e.test_wall_time import CLIENT, SERVICE, SLURM, deployment, ready

MINUTES = 6 * int(os.environ.get("ORLOP_SOAK", "1"))


@pytest.fixture
def site(
    new_slurm: StartSlurm, registry_on: StartRegistry, installed_orlop: Path
) -> Iterator[Site]:
    with ExitStack() as stack:
        yield open_site(new_slurm(Spec()), registry_on, stack)


def two_minutes(kind: str) -> Obj:
    """A StatefulSet needs a second pod, since none has a successor before it has gone."""
    made = deployment()
    made["kind"] = kind
    made["spec"]["template"]["metadata"]["annotations"] = {SLURM + "time": "2"}
    if kind == "StatefulSet":
        made["spec"] |= {"replicas": 2, "serviceName": "web"}
    return made


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_service_of_two_minute_pods_serves_without_one_failed_request(
    site: Site, kind: str
) -> None:
    for one in (SERVICE, two_minutes(kind)):
        site.apply(one)
    eventually(lambda: ready(site), "the server is ready", 90)
    client = pod("client", "python", "", terminationGracePeriodSeconds=0)
    client["spec"]["containers"][0]["command"] = ["python", "-c", CLIENT]
    site.apply(client)
    site.wait_phase("client", "Running", timeout=90)
    served: set[str] = set()
    end = time.monotonic() + 60 * MINUTES
    while time.monotonic() < end:
        served |= {one["metadata"]["uid"] for one in ready(site)}
        time.sleep(1.0)
    said = site.kubectl("logs", "client").splitlines()
    failed = [line for line in said if line != "ok"]
    print(f"{len(said)} requests, {len(failed)} failed, {len(served)} pods in {MINUTES} minutes")
    assert not failed, failed[:20]
    assert len(served) >= MINUTES // 2
