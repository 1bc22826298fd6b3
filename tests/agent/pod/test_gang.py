"""The leader of a gang, with commands that stand in for Slurm's."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orlop.agent.pod.gang import counts, srun

# Runs what comes after its options, as a step on this host; says what it was given.
SRUN = """#!/bin/sh
echo "$@" > "$STAND_IN/srun.$$"
while [ "${1#--}" != "$1" ]; do shift; done
shift 6  # /bin/sh -c … orlop python …
shift    # the agent
exec "$STAND_IN/agent" "$1"
"""
SCONTROL = """#!/bin/sh
echo n1; echo n2
"""
AGENT = """#!/bin/sh
touch "$1/claim"
echo "$ORLOP_JOB_ID" > "$1/ran"
env > "$1/env"
. "$1/script"
"""
# Keeps what it is told, as numbers.
LISTEN = """
touch "$1/heard"
while n=$(od -An -N1 -tu1) && [ "$n" ]; do echo $n >> "$1/heard"; done
"""


class Scene:
    """A gang's folder and its leader."""

    def __init__(self, root: Path) -> None:
        self.bin = root / "bin"
        self.gang = root / "gang"
        self.pods = root / "pods"
        for folder in (self.bin, self.gang, self.pods):
            folder.mkdir()
        commands = {"srun": SRUN, "scontrol": SCONTROL, "agent": AGENT}
        for name, text in commands.items():
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(stat.S_IRWXU)
        self.leader: subprocess.Popen[bytes] | None = None

    def member(self, number: int, script: str, **given: Any) -> Path:
        folder = self.pods / f"default_p{number}_uid-{number}"
        folder.mkdir()
        defaults = {"number": number, "bundle": number, "name": f"default/p{number}", "cpus": 2}
        found = {**defaults, "memory_mib": 100, "gres": "", **given}
        (folder / "member").write_text(json.dumps(found))
        (folder / "script").write_text(script)
        (self.gang / str(number)).symlink_to(folder)
        return folder

    def start(self, size: int, lead: int = 0) -> None:
        (self.gang / "gang.json").write_text(json.dumps({"size": size, "lead": lead}))
        environment = {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "STAND_IN": str(self.bin),
            "SLURM_JOB_ID": "17",
            "SLURM_JOB_NODELIST": "n[1-2]",
            "SLURM_TASKS_PER_NODE": "1(x2)",
            "SLURM_NTASKS": "2",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        code = "import sys; from orlop.agent.main import main; sys.exit(main(sys.argv))"
        argv = [sys.executable, "-c", code, "gang", str(self.gang)]
        self.leader = subprocess.Popen(argv, env=environment)

    def signal(self, number: int) -> None:
        assert self.leader is not None
        self.leader.send_signal(number)

    def end(self, timeout: float = 60.0) -> int:
        assert self.leader is not None
        return self.leader.wait(timeout)

    def ending(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.gang / f"{number}.end").read_text())
        return found

    def calls(self) -> list[str]:
        return [path.read_text() for path in sorted(self.bin.glob("srun.*"))]


def eventually(is_so: Callable[[], object], timeout: float = 60.0) -> None:
    deadline = time.monotonic() + timeout
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    if made.leader is not None and made.leader.poll() is None:
        made.leader.kill()
        made.leader.wait()


def test_each_member_is_a_step_of_its_own(scene):
    for number in range(2):
        scene.member(number, "exit 0")
    scene.start(2)
    assert scene.end() == 0
    assert [scene.ending(number)["state"] for number in range(2)] == ["COMPLETED"] * 2
    assert sorted((scene.pods / f"default_p{n}_uid-{n}" / "ran").read_text() for n in (0, 1)) == [
        "17+0\n",
        "17+1\n",
    ]
    assert {("--nodelist=n1" in call, "--nodelist=n2" in call) for call in scene.calls()} == {
        (True, False),
        (False, True),
    }
    assert json.loads((scene.gang / "bundles").read_text()) == ["n1", "n2"]


def test_a_gang_that_is_over_is_closed(scene):
    scene.member(0, "exit 0")
    scene.start(1)
    assert scene.end() == 0
    assert (scene.gang / "1").is_file()


def test_a_member_that_fails_leaves_the_others_alone(scene):
    scene.member(0, "exit 3")
    folder = scene.member(1, 'while [ ! -e "$1/go" ]; do sleep 0.05; done')
    scene.start(2)
    eventually(lambda: (scene.gang / "0.end").exists())
    assert (scene.ending(0)["state"], scene.ending(0)["code"]) == ("FAILED", 3)
    assert not (scene.gang / "1.end").exists()
    (folder / "go").touch()
    assert scene.end() == 1
    assert scene.ending(1)["state"] == "COMPLETED"


def test_a_replacement_is_started_and_makes_the_failure_good(scene):
    scene.member(0, "exit 3")
    folder = scene.member(1, 'while [ ! -e "$1/go" ]; do sleep 0.05; done')
    scene.start(2)
    eventually(lambda: (scene.gang / "0.end").exists())
    scene.member(2, "exit 0", bundle=0)
    eventually(lambda: (scene.gang / "2.end").exists())
    (folder / "go").touch()
    assert scene.end() == 0


def test_a_member_that_is_not_wanted_any_more_is_stopped(scene):
    scene.member(0, "sleep 600")
    scene.member(1, "exit 0")
    scene.start(2)
    eventually(lambda: (scene.pods / "default_p0_uid-0" / "ran").exists())
    (scene.gang / "0.left").touch()
    scene.end()
    assert scene.ending(0)["code"] != 0


def test_a_gang_that_lost_all_its_members_does_not_start(scene):
    scene.member(0, "exit 0")
    (scene.gang / "0.left").touch()
    scene.start(1)
    assert scene.end() == 1
    assert scene.calls() == []


def test_the_end_of_the_job_is_not_called_a_members_own(scene):
    """Slurm knows why; the agents may not have heard, and are told."""
    folder = scene.member(0, "[ $(od -An -N1 -tu1) = 15 ] && exit 9")
    scene.start(1)
    eventually((folder / "ran").exists)
    scene.signal(signal.SIGTERM)
    assert scene.end() == 1
    assert not (scene.gang / "0.end").exists()


def test_each_member_is_told_of_the_time_limit_as_it_wished(scene):
    """Woken two hours ahead: who wants to know then is told, the others are not, and live on."""
    early = scene.member(0, LISTEN, signal=int(signal.SIGUSR1), lead=7200)
    more = scene.member(1, LISTEN, signal=int(signal.SIGTERM), lead=9000)
    late = scene.member(2, LISTEN, signal=int(signal.SIGUSR2), lead=60)
    never = scene.member(3, LISTEN)
    scene.start(4, lead=7200)
    for folder in (early, more, late, never):
        eventually((folder / "heard").exists)
    scene.signal(signal.SIGUSR1)
    for folder, number in ((early, signal.SIGUSR1), (more, signal.SIGTERM)):
        eventually(lambda folder=folder: (folder / "heard").read_text())
        assert (folder / "heard").read_text().split() == [str(int(number))]
    scene.signal(signal.SIGUSR1)  # again: nobody is told twice
    new = scene.member(4, LISTEN, bundle=0, signal=int(signal.SIGUSR1), lead=7200)
    eventually(lambda: (new / "heard").exists() and (new / "heard").read_text())
    assert (early / "heard").read_text().split() == [str(int(signal.SIGUSR1))]
    assert [(one / "heard").read_text() for one in (late, never)] == ["", ""]
    assert scene.leader is not None
    assert scene.leader.poll() is None


def test_who_was_told_and_then_fails_has_met_the_limit(scene):
    told = "[ $(od -An -N1 -tu1) ] && exit 3"
    scene.member(0, told, signal=int(signal.SIGUSR1), lead=60)
    scene.member(1, "exit 3")
    scene.start(2, lead=60)
    eventually(lambda: (scene.gang / "1.end").exists())
    scene.signal(signal.SIGUSR1)
    assert scene.end() == 1
    assert [scene.ending(n)["state"] for n in (0, 1)] == ["TIMEOUT", "FAILED"]


def test_a_step_has_the_environment_of_its_own_pod(scene):
    first = scene.member(0, "exit 0", environment={"ORLOP_RESTART_COUNT": "2"})
    second = scene.member(1, "exit 0")
    scene.start(2)
    assert scene.end() == 0
    assert "ORLOP_RESTART_COUNT=2\n" in (first / "env").read_text()
    assert "ORLOP_RESTART_COUNT" not in (second / "env").read_text()


@pytest.mark.parametrize(
    ("said", "state"),
    [
        (
            "slurmstepd: error: *** STEP 17.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***",
            "CANCELLED",
        ),
        ("*** STEP 17.0 ON n1 CANCELLED AT 2026-01-01 DUE TO TIME LIMIT ***", "TIMEOUT"),
        ("*** STEP 17.0 ON n1 CANCELLED AT 2026-01-01 DUE TO NODE FAILURE ***", "NODE_FAIL"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=17.0.", "OUT_OF_MEMORY"),
        ("srun: error: n1: task 0: Out Of Memory", "OUT_OF_MEMORY"),
        ("srun: error: n1: task 0: Exited with exit code 1", "FAILED"),
    ],
)
def test_what_srun_says_of_a_step_is_how_it_ended(scene, said, state):
    scene.member(0, f"echo '{said}' >&2; exit 1")
    scene.start(1)
    assert scene.end() == 1
    assert scene.ending(0)["state"] == state


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("srun: error: Node failure on n1", "NODE_FAIL"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=17.0.", "COMPLETED"),
    ],
)
def test_srun_may_end_well_and_its_node_not(scene, said, state):
    scene.member(0, f"echo '{said}' >&2; exit 0")
    scene.start(1)
    scene.end()
    assert scene.ending(0)["state"] == state


def test_a_step_that_could_not_be_created_is_tried_again(scene):
    text = 'n=$(ls "$STAND_IN" | grep -c ^srun.); [ "$n" -gt 0 ] || { echo > "$STAND_IN/srun.0"; '
    text += 'echo "srun: error: Unable to create step" >&2; exit 1; }'
    script = (scene.bin / "srun").read_text().replace("#!/bin/sh\n", f"#!/bin/sh\n{text}\n")
    (scene.bin / "srun").write_text(script)
    scene.member(0, "exit 0")
    scene.start(1)
    assert scene.end() == 0
    assert scene.ending(0)["state"] == "COMPLETED"


def test_a_step_is_given_its_own_share():
    given = {"cpus": 4, "memory_mib": 512, "gres": "gpu:1", "name": "default/w-0", "bundle": 0}
    argv = srun(given, "n2")
    assert {"--cpus-per-task=4", "--mem=512M", "--gres=gpu:1", "--exact"} <= set(argv)
    assert {"--nodelist=n2", "--job-name=default/w-0", "--export=ALL"} <= set(argv)


def test_a_step_without_cpus_of_its_own_shares_anothers():
    given = {"cpus": 0, "memory_mib": 0, "gres": "", "name": "default/w-0", "bundle": 0}
    assert {"--cpus-per-task=1", "--overlap"} <= set(srun(given, ""))
    assert "--overlap" not in srun({**given, "cpus": 1}, "")


def test_a_step_without_requests_keeps_nothing_from_the_others():
    given = {"cpus": 1, "memory_mib": 0, "gres": "", "name": "default/w-0", "bundle": 0}
    assert {"--mem=0", "--gres=none"} <= set(srun(given, ""))


@pytest.mark.parametrize(
    ("text", "found"), [("2(x3),1", [2, 2, 2, 1]), ("4", [4]), ("1,2", [1, 2]), ("", [])]
)
def test_tasks_per_node_are_read_as_slurm_writes_them(text, found):
    assert counts(text) == found


@pytest.mark.parametrize(
    "text", ["2(x65537)", "2(x-9223372036854775809)", "2(x65536),1", "1(x40000),1(x40000)"]
)
def test_more_nodes_than_there_can_be_are_refused(text):
    with pytest.raises(ValueError, match="nodes at most"):
        counts(text)
