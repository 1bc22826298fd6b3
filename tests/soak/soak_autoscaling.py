"""An autoscaler on a real Slurm while its control plane is killed again and again.

Run by `make soak`. It follows the load up and down all the same, and there is never a job more than
it may have; `ORLOP_SOAK` is how many times as many rounds it takes.
"""

from __future__ import annotations

import random
import time

import pytest

from tests.e2e.site import Site, eventually
from tests.e2e.test_autoscaling import autoscaled, jobs
from tests.soak.soak_controllers import ROUNDS, SEED, site, storm

__all__ = ["site"]
MOST = 4
STORM = 20.0  # seconds


@pytest.mark.timeout(7200)
def test_an_autoscaler_arrives_over_many_deaths(site: Site) -> None:
    rng = random.Random(SEED)
    print(f"ORLOP_SOAK_SEED={SEED}")
    inside = site.in_namespace("autoscaled")
    load = autoscaled(inside)
    deaths = 0
    for number in range(max(1, ROUNDS // 2)):
        deaths += through_a_storm(site, rng, MOST)
        site.run("rm", str(load))
        deaths += through_a_storm(site, rng, 1)
        site.run("touch", str(load))
        print(f"round {number}: up and down, {deaths} deaths so far")
    assert deaths > 0, "a storm without deaths shows nothing"
    inside.kubectl("delete", "namespace", inside.namespace, "--timeout=120s", timeout=140)


def through_a_storm(site: Site, rng: random.Random, wanted: int) -> int:
    """How often it died until there were as many jobs as the load wants."""
    end = time.monotonic() + STORM
    with storm(site, rng) as killed:
        while time.monotonic() < end:
            assert jobs(site) <= MOST
            time.sleep(0.5)
    site.up()
    eventually(lambda: jobs(site) == wanted, f"{wanted} jobs", 180)
    return len(killed)
