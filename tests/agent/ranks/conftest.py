"""Doors on this machine, and starters that knock at them as those do that srun starts."""

from __future__ import annotations

import asyncio
import json
import os
import select
import subprocess
import sys
import time

import pytest

from orlop.agent import plan as plans
from orlop.agent.compiling import STARTER, compile_helper, helper_file
from orlop.agent.container.cgroups import Cgroups
from orlop.agent.container.container_setup import Workshop
from orlop.agent.pod.sandbox import Sandbox
from orlop.agent.pod.scratch_dirs import make_places
from orlop.agent.ranks.container_server import ContainerServer
from orlop.agent.ranks.starter import RUN, place_of

OUTSIDE = Sandbox(os.getuid(), os.getgid(), False, False, False, "denied")


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """A door on this machine, for a command on its own root."""
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    made = []

    def opened(argv, ranks=(), more=(), terminal=-1, **container):
        raw = {
            "version": 1,
            "pod": {"namespace": "d", "name": "p", "uid": "u"},
            "containers": [{"name": "c", "argv": argv, **container}],
            "scratch": str(tmp_path),
            "ranks": {"container": "c", "mpi": "", "label": False, "flags": [], **dict(ranks)},
            **dict(more),
        }
        (tmp_path / "plan.json").write_text(json.dumps(raw))
        the_plan = plans.read(str(tmp_path / "plan.json"))
        plans.lead(the_plan, str(tmp_path), "n1")
        shop = Workshop(the_plan, OUTSIDE, make_places(the_plan, OUTSIDE), Cgroups())
        inside = shop.inside(the_plan.containers[0])
        made.append(
            ContainerServer(place_of(str(tmp_path / "m")), *inside, the_plan.ranks, terminal)
        )
        return made[0]

    yield opened
    for door in made:
        door.close()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    target = helper_file(tmp_path_factory.mktemp("compiled"), STARTER)
    assert asyncio.run(compile_helper(target, part=STARTER)) == ""
    return str(target)


@pytest.fixture(params=["python", "compiled"])
def start(request, tmp_path):
    """Starters as srun starts them, told what Slurm tells a task."""

    def start(rank, *command, **more):
        env = {**TOLD, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), **more}
        is_run = command[:1] == (RUN,)
        if request.param == "python" or (command and not is_run):  # beside ranks it is Python's
            words = ["agent.pyz", "rank", str(tmp_path / "m"), str(tmp_path), *command]
            imported = "from orlop.agent.ranks.starter import main"
            argv = [sys.executable, "-c", f"import sys; {imported}; sys.exit(main({words!r}))"]
        else:
            argv = [request.getfixturevalue("compiled"), str(tmp_path / "m"), "0", *command[1:]]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(argv, env=env, **pipes)

    return start


TOLD = {
    "PYTHONPATH": os.pathsep.join(sys.path),
    "SLURMD_NODENAME": "n1",
    "SLURM_STEP_ID": "0",
    "SLURM_JOB_ID": "5",
    "SLURM_TASKS_PER_NODE": "2",
    "PMI_FD": "7",
    "SECRET_OF_THE_JOB": "x",
}


def serve(door, until):
    """Attend to the door until something is so."""
    latest = time.monotonic() + 100
    while not until():
        assert time.monotonic() < latest
        poll = select.poll()
        for fd in door.watched():
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(100):
            door.on_ready(fd)
        door.tick()
