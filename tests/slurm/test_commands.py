"""How Slurm's commands are started; small stand-ins where the real ones cannot be made to fail."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from orlop.errors import EngineUnavailable
from orlop.slurm.commands import CommandFailed, Commands


@pytest.fixture
def stand_in(tmp_path: Path):
    """A command of Slurm's that does what its script says."""

    def make(script: str, name: str = "squeue", timeout: float = 10.0, **environ: str) -> Commands:
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return Commands({"PATH": f"{tmp_path}:/usr/bin:/bin", **environ}, timeout)

    return make


async def test_it_answers_what_the_command_printed(stand_in):
    assert await stand_in("echo $1 $2").run("squeue", "a b", "c") == "a b c\n"


async def test_a_refusal_carries_the_commands_words(stand_in):
    commands = stand_in("echo 'squeue: error: Invalid user: x' >&2; exit 3")
    with pytest.raises(CommandFailed, match="squeue ended with 3: Invalid user: x") as caught:
        await commands.run("squeue")
    assert caught.value.status == 3


async def test_silence_of_slurmctld_is_its_own_error(stand_in):
    commands = stand_in(
        "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1"
    )
    with pytest.raises(EngineUnavailable, match="slurmctld may be restarting"):
        await commands.run("squeue")


async def test_warnings_of_a_command_that_succeeds_do_not_matter(stand_in):
    commands = stand_in("echo 'squeue: error: Unable to contact slurm controller' >&2; echo 17")
    assert await commands.run("squeue") == "17\n"


async def test_a_command_that_hangs_is_killed_at_its_timeout(stand_in, tmp_path):
    commands = stand_in(f"echo $$ > {tmp_path}/pid; exec sleep 60", timeout=0.3)
    started = time.monotonic()
    with pytest.raises(EngineUnavailable, match=r"squeue did not answer within 0\.3 s"):
        await commands.run("squeue")
    assert time.monotonic() - started < 5
    assert_gone(tmp_path)


async def test_a_command_dies_with_the_coroutine_that_waits_for_it(stand_in, tmp_path):
    commands = stand_in(f"echo $$ > {tmp_path}/pid; exec sleep 60")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await commands.run("squeue")
    assert_gone(tmp_path)


def assert_gone(folder: Path) -> None:
    pid = int((folder / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_output_that_is_no_text_does_not_break_it(stand_in):
    assert "\ufffd" in await stand_in(r"printf '\377\n'").run("squeue")


async def test_a_command_that_is_not_there_is_told_with_the_remedy(stand_in):
    with pytest.raises(EngineUnavailable, match="sinfo is not in PATH"):
        await Commands({"PATH": "/nonexistent"}).run("sinfo")


@pytest.mark.parametrize(
    "name",
    [
        "SQUEUE_FORMAT",
        "SQUEUE_USERS",
        "SACCT_FORMAT",
        "SINFO_FORMAT",
        "SLURM_CLUSTERS",
        "SLURM_JOB_ID",
        "SLURM_MEM_PER_NODE",
        "SBATCH_PARTITION",
        "SBATCH_ACCOUNT",
        "SCANCEL_STATE",
    ],
)
def test_what_users_set_to_change_the_commands_is_scrubbed(name):
    assert name not in Commands({name: "x"}).environment()


@pytest.mark.parametrize("name", ["SLURM_CONF", "SLURM_JWT", "PATH", "HOME", "LD_LIBRARY_PATH"])
def test_what_they_need_to_find_slurm_is_kept(name):
    assert Commands({name: "x"}).environment()[name] == "x"


def test_times_come_as_numbers_and_words_in_english():
    environment = Commands({"SLURM_TIME_FORMAT": "relative", "LC_ALL": "de_DE"}).environment()
    assert environment["SLURM_TIME_FORMAT"] == "%s"
    assert environment["LC_ALL"] == "C.UTF-8"


def test_a_shells_variables_take_the_place_of_ours_but_for_how_slurm_is_found():
    commands = Commands({"SLURM_CONF": "/ours", "OURS": "1"})
    shell = {"SLURM_CONF": "/theirs", "SBATCH_TIMELIMIT": "9", "THEIRS": "2"}
    assert commands.user_environment(shell) == {"SLURM_CONF": "/ours", "THEIRS": "2"}
    assert commands.user_environment() == {"SLURM_CONF": "/ours", "OURS": "1"}


def test_the_users_own_defaults_for_sbatch_are_known():
    environ = {"SBATCH_ACCOUNT": "chem", "SBATCH_QOS": "", "SBATCH_PARTITION": "x"}
    assert Commands(environ).sbatch_defaults() == {"account": "chem"}


def test_commands_may_be_started_through_another():
    commands = Commands({}, through=("ssh", "login1"))
    assert commands.argv("squeue", "-h") == ("ssh", "login1", "squeue", "-h")


@pytest.mark.slurm
async def test_formats_in_the_users_environment_do_not_break_the_engine(rootless):
    odd = {
        **rootless.commands.environ,
        "SQUEUE_FORMAT": "%u",
        "SQUEUE_STATES": "RUNNING",
        "SINFO_FORMAT": "%N",
        "SLURM_TIME_FORMAT": "relative",
        "SBATCH_PARTITION": "nosuch",
        "SBATCH_EXPORT": "ALL",
        "SLURM_CLUSTERS": "nosuch",
    }
    engine = rootless.another_engine(commands=Commands(odd))
    job = await engine.submit(rootless.submission(hold="true"))
    (found,) = (await engine.jobs()).values()
    assert (found.id, found.partition) == (job, "main")
    assert found.submitted is not None
    await engine.cancel(job)
