"""Work is in proportion to what changes, counted in reconciles and writes, never in seconds."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks.controllers import Bench, cluster, running
from orlop.api.kinds import DEPLOYMENT, EVENT, POD, REPLICA_SET
from orlop.api.objects import key_of

HEARTBEAT = "lease-garbage-collector"  # sees the node's lease renewed every ten seconds


def calls(bench: Bench) -> dict[str, int]:
    meters = bench.meters.items()
    return {name: meter.calls for name, meter in meters if meter.calls and name != HEARTBEAT}


def more(bench: Bench, before: dict[str, int]) -> dict[str, int]:
    """Reconciles since then, of those who had any."""
    now = calls(bench)
    return {
        name: now[name] - before.get(name, 0) for name in now if now[name] > before.get(name, 0)
    }


async def settled(bench: Bench) -> None:
    """Until nobody has had anything to do for a while; objects rest a quarter second at most."""
    quiet, last = 0, calls(bench)
    async with asyncio.timeout(60):
        while quiet < 12:
            await asyncio.sleep(0.1)
            quiet = quiet + 1 if calls(bench) == last else 0
            last = calls(bench)


async def one_change(bench: Bench) -> dict[str, int]:
    await settled(bench)
    before = calls(bench)
    pod = (await bench.api.list(POD, "bench")).items[0]
    status = running("10.9.9.9", ready=False)
    await bench.api.patch(POD, key_of(pod), {"status": status}, subresource="status")
    await settled(bench)
    return more(bench, before)


async def test_at_rest_nobody_does_anything(tmp_path: Path) -> None:
    async with cluster(tmp_path) as bench:
        await bench.bring_up(10, 10)
        await settled(bench)
        before, written = calls(bench), await _written(bench)
        await asyncio.sleep(1.5)
        assert more(bench, before) == {}
        assert await _written(bench) == written


async def _written(bench: Bench) -> int:
    """The last revision of anything but the node's lease."""
    kinds = (POD, REPLICA_SET, DEPLOYMENT, EVENT)
    listed = [one for kind in kinds for one in (await bench.api.list(kind)).items]
    return max(int(one["metadata"]["resourceVersion"]) for one in listed)


async def _revision(bench: Bench) -> str:
    return (await bench.api.list(POD, "bench")).resource_version


@pytest.mark.parametrize("deployments", [2, 20], ids=["few", "ten times as many"])
async def test_a_changed_pod_costs_its_owners_a_look_however_many_there_are(
    tmp_path: Path, deployments: int
) -> None:
    async with cluster(tmp_path) as bench:
        await bench.bring_up(deployments, 5)
        found = await one_change(bench)
    assert {"replicaset-controller", "deployment-controller"} <= found.keys()
    # One for the pod, one for the status that was written of it; never one for each that exists.
    assert all(count <= 3 for count in found.values()), found
    assert "scheduler" not in found


@pytest.mark.parametrize("replicas", [40, 160], ids=["some", "four times as many"])
async def test_a_pod_is_as_many_writes_however_many_come_up(tmp_path: Path, replicas: int) -> None:
    async with cluster(tmp_path) as bench:
        await settled(bench)
        first = int(await _revision(bench))
        await bench.bring_up(1, replicas)
        await settled(bench)
        writes = int(await _revision(bench)) - first
        found = calls(bench)
    # Created, bound, running, and the events of the first two; a few more for the whole.
    assert 3 * replicas <= writes <= 5 * replicas + 60
    assert found["scheduler"] == replicas
    assert found["replicaset-controller"] <= replicas / 2 + 10
    assert found["deployment-controller"] <= replicas / 2 + 10
