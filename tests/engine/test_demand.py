"""What a pod asks of this host, sidecars counted as Kubernetes counts them."""

from __future__ import annotations

import pytest

from orlop.engine.demand import milli_cpus


def one(cpu, **more):
    return {"resources": {"requests": {"cpu": cpu}}, **more}


def side(cpu):
    return one(cpu, restartPolicy="Always")


@pytest.mark.parametrize(
    ("inits", "containers", "expected"),
    [
        ([], [one("1"), one("500m")], 1500),
        ([one("3")], [one("1")], 3000),
        ([side("2")], [one("1")], 3000),
        ([side("2"), one("4")], [one("1")], 6000),
        ([one("4"), side("2")], [one("1")], 4000),
        ([], [{"resources": {"limits": {"cpu": "2"}}}], 2000),
        ([], [{}], 0),
    ],
)
def test_what_runs_at_the_same_time_adds_up(inits, containers, expected):
    assert milli_cpus({"spec": {"initContainers": inits, "containers": containers}}) == expected
