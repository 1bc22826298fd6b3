"""Each kind that needs Slurm, left out where it was installed: nothing of it runs, others go on."""

from __future__ import annotations

import asyncio

import pytest

from orlop.extensions.registry import ENTRIES, Extensions
from tests.controllers.world import eventually, stays
from tests.extensions.slurmjob.conftest import Site, Together

TASKS = {
    "slurmjob": {"slurm-queue", "slurm-job", "slurm-queue-objects"},
    "slurmsite": {"slurm-site"},
    "wlmjob": {"wlm-slurm-job", "wlm-job"},
    "bridgejob": {"bridge-job"},
}
ALL = set().union(*TASKS.values())


def running() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks()} & ALL


@pytest.mark.parametrize(
    ("folder", "gone"),
    [
        ("slurmjob", ["slurmjob", "wlmjob", "bridgejob"]),  # these run as SlurmJobs
        ("slurmsite", ["slurmsite"]),
        ("wlmjob", ["wlmjob"]),
        ("bridgejob", ["bridgejob"]),
    ],
)
async def test_others_go_on(site: Site, folder: str, gone: list[str]) -> None:
    entries = [entry for entry in ENTRIES if entry.package.endswith(tuple(TASKS))]
    left_out = next(entry for entry in entries if entry.package.endswith(folder)).definitions()
    expected = ALL.difference(*(TASKS[name] for name in gone))

    async def all_run() -> bool:
        return running() == ALL

    async def others_run() -> bool:
        return running() == expected

    every, less = Extensions(entries=entries), Extensions(left_out, entries)
    async with site.cluster.running(lambda one: Together(every.controllers(site.host(one)))):
        await eventually(all_run, within=60)
    async with site.cluster.running(lambda one: Together(less.controllers(site.host(one)))):
        await eventually(others_run, within=60)
        await stays(others_run)
