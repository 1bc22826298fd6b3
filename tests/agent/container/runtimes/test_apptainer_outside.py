"""Apptainer without the agent's sandbox, as where only a setuid apptainer may make namespaces.

Here it makes them itself; what the agent composes is the same.
"""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from ...pods import APPTAINER, IS_ROOT, PYTHON, container, files

COMPOSE = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from orlop.agent import plan; from orlop.agent.pod import sandbox
from orlop.agent.container.cgroups import Cgroups
from orlop.agent.pod.scratch_dirs import make_places
from orlop.agent.container.run import Run
from orlop.agent.container.container_setup import Workshop
import select
the_plan = plan.read(sys.argv[2])
outside = sandbox.Sandbox(os.getuid(), os.getgid(), False, False, False, "denied")
places = make_places(the_plan, outside)
shop = Workshop(the_plan, outside, places, Cgroups())
poll = select.poll()
run = Run(shop.prepare(the_plan.containers[0], 0), sys.argv[3], poll)
while not run.is_over and run.refusal is None:
    for fd, _ in poll.poll(50):
        if run.owns(fd):
            run.on_readable(fd)
    pid, status = os.waitpid(-1, os.WNOHANG) if run.launcher else (0, 0)
    if pid and pid == run.launcher:
        run.on_launcher_exit(status, 0.0)
print(json.dumps({"refusal": run.refusal, "exit": run.exit() if run.is_over else None}))
"""


@pytest.fixture
def run(stage, make_pod):
    """Runs one container of a plan by apptainer alone; how it ended, and its lines."""

    def run(spec, **options):
        pod = make_pod(spec, runtime="apptainer", **options)
        source = stage.folder / "src"
        if not source.exists():
            subprocess.run(["cp", "-r", "src", source], check=True)
        log = pod.folder / "logs/c/0.log"
        command = [PYTHON, "-c", COMPOSE, str(source), str(pod.folder / "plan.json"), str(log)]
        if IS_ROOT:
            command = ["setpriv", f"--reuid={pod.user}", f"--regid={pod.user}", "--clear-groups",
                       *command]  # fmt: skip
        env = {"PATH": f"{APPTAINER}:{os.environ['PATH']}", "TMPDIR": "/tmp"}
        done = subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), pod

    return run


def test_a_container_runs_with_its_environment_and_exit_code(run):
    env = [("A", "x\ny $HOME 'q'"), ("b.c", "1")]
    ended, pod = run(container(script='printf "%s\\n" "$A"; exit 9', env=env))
    assert ended == {"refusal": None, "exit": [9, 0, False]}
    assert pod.lines() == ["x", "y $HOME 'q'"]


def test_volumes_are_mounted_and_the_image_is_not_changed(run):
    mounts = [{"volume": "v", "path": "/etc/config"}]
    script = "cat /etc/config/key; touch /etc/new && echo wrote"
    _, pod = run(container(script=script, mounts=mounts), volumes=[files("v", key="k\n")])
    assert pod.lines() == ["k", "wrote"]
    assert not (pod.stage.rootfs(pod.user) / "etc/new").exists()


def test_a_wrong_command_is_refused_in_words(run):
    ended, _ = run(container("c", "no-such-program"))
    assert "executable file not found in $PATH" in ended["refusal"]
