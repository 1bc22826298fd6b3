"""Twenty gangs on a Slurm that holds two, while their control plane is killed again and again.

Run by `make soak`. All complete, none runs with fewer than all its members, and Slurm has seen one
job for each; `ORLOP_SOAK` is how many times as many rounds it takes.
"""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest

from tests.e2e.site import Site, eventually
from tests.e2e.test_gangs import gang_job
from tests.soak.soak_controllers import ROUNDS, SEED, site, storm

__all__ = ["site"]
GANGS = 20
STORM = 60.0  # seconds


@pytest.mark.timeout(7200)
def test_no_gang_is_lost_split_or_doubled_over_many_deaths(site: Site) -> None:
    rng = random.Random(SEED)
    print(f"ORLOP_SOAK_SEED={SEED}")
    deaths = 0
    for number in range(max(1, ROUNDS // 4)):
        inside = site.in_namespace(f"gangs-{number}")
        folder = f"{site.home}/meet-{inside.namespace}"
        site.run("mkdir", "-p", folder)
        jobs = [gang_job(f"g{n}", folder) for n in range(GANGS)]
        inside.apply({"apiVersion": "v1", "kind": "List", "items": jobs})
        with storm(site, rng) as killed:
            time.sleep(STORM)
        deaths += len(killed)
        site.up()
        eventually(lambda inside=inside: completed(inside) == GANGS, "all gangs complete", 600)
        assert jobs_of(inside) == {f"{inside.namespace}/g{n}": 1 for n in range(GANGS)}
        inside.kubectl("delete", "namespace", inside.namespace, "--timeout=120s", timeout=140)
        print(f"round {number}: {len(killed)} deaths, each gang ran once")
    assert deaths > 0, "a storm without deaths shows nothing"


def completed(site: Site) -> int:
    statuses = [job.get("status", {}) for job in site.get("jobs")["items"]]
    assert not any(status.get("failed") for status in statuses), statuses
    return sum(status.get("succeeded") == 4 for status in statuses)


def jobs_of(site: Site) -> Counter[str]:
    """How many jobs Slurm has seen of each name."""
    argv = ["sacct", "-X", "-n", "-P", "-S", "now-1days", "-o", "JobName"]
    names = site.run(*argv).stdout.splitlines()
    return Counter(name for name in names if name.startswith(f"{site.namespace}/"))
