"""The doctor on sites that are not well, with small stand-ins for Slurm's commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from orlop.cli.commands import doctor
from orlop.cli.doctor_checks import site as checks_site
from orlop.cli.doctor_checks.findings import Finding, note, ok, problem
from orlop.cli.doctor_checks.site import NEEDED
from orlop.cli.doctor_checks.survey import Survey, described
from orlop.cli.home import record
from orlop.cli.main import orlop
from orlop.engine import Machine
from orlop.runtime.detect import Runtime
from orlop.settings import AgentSettings, Paths, Settings

CONFIG = "SLURM_VERSION = 23.11.1\\nClusterName = big\\nMinJobAge = 300 sec"
SILENT = "echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A PATH with stand-ins for all of Slurm's commands; given ones by their script."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def install(**scripts: str) -> None:
        for name in NEEDED:
            program = folder / name
            program.write_text(f"#!/bin/sh\n{scripts.get(name, 'true')}\n")
            program.chmod(0o755)

    return install


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """A home that has used Slurm."""
    paths = Paths(tmp_path / "home")
    paths.run.mkdir(parents=True)
    record.write(paths, record.mine(engine="slurm").stopped())
    return paths


def by_subject(findings: list[Finding], subject: str) -> list[Finding]:
    return [finding for finding in findings if finding.subject == subject]


async def test_a_silent_slurmctld_is_a_problem_in_its_own_words(site, paths):
    site(scontrol=SILENT)
    (found,) = await checks_site.engine(paths, Settings())
    assert (found.subject, found.level) == ("slurmctld", "problem")
    assert "Unable to contact slurm controller" in found.found
    assert found.remedy


async def test_without_accounting_it_says_what_that_means(site, paths):
    site(scontrol=f"printf '{CONFIG}\\n'")
    findings = await checks_site.engine(paths, Settings())
    (found,) = by_subject(findings, "accounting")
    assert found.level == "note"
    assert "300 s" in found.found
    assert "23.11.1, cluster big" in by_subject(findings, "slurm")[0].found


async def test_a_site_that_demands_an_account_and_gives_none_is_a_problem(site, paths):
    storage = "AccountingStorageType = accounting_storage/slurmdbd"
    enforced = "AccountingStorageEnforce = associations,limits"
    site(scontrol=f"printf '{CONFIG}\\n{storage}\\n{enforced}\\n'")
    (found,) = by_subject(await checks_site.engine(paths, Settings()), "accounting")
    assert found.level == "problem"


async def test_missing_commands_are_named(site, paths, tmp_path, monkeypatch):
    site()
    (tmp_path / "bin" / "sbatch").unlink()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (found,) = await checks_site.engine(paths, Settings())
    assert found.level == "problem"
    assert "sbatch" in found.found


async def test_the_local_engine_is_a_note_that_it_is_this_very_host(paths):
    (found,) = await checks_site.engine(paths, Settings(engine="local"))
    assert (found.subject, found.level) == ("engine", "note")


@pytest.mark.parametrize(
    ("ready", "schedulable", "level"),
    [(True, True, "ok"), (False, True, "note"), (True, False, "note")],
)
def test_a_partition_that_takes_no_pods_is_told(ready, schedulable, level):
    machine = Machine("gpu", 8, 1024, is_ready=ready, is_schedulable=schedulable, message="drained")
    assert checks_site._partition(machine).level == level


def test_runtimes_are_found_on_the_jobs_path(tmp_path):
    program = tmp_path / "crun"
    program.write_text("#!/bin/sh\necho crun version 1.8.1\n")
    program.chmod(0o755)
    (found,) = checks_site.runtimes(Settings(agent=AgentSettings(path=str(tmp_path))))
    assert (found.level, found.found) == ("ok", "crun 1.8.1")


def test_no_runtime_is_a_note_with_what_happens_then(tmp_path):
    (found,) = checks_site.runtimes(Settings(agent=AgentSettings(path=str(tmp_path))))
    assert found.level == "note"
    assert "prologue" in found.remedy


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (
            Machine("main", 32, 32000, is_default=True, hosts=("a", "b")),
            "main* (2 hosts, 32 CPUs, 31 GiB)",
        ),
        (Machine("one", 8, 512, hosts=("a",)), "one (1 host, 8 CPUs, 512 MiB)"),
        (
            Machine("gpu", 8, 2048, {"nvidia.com/gpu": 4}, message="is down", hosts=("a",)),
            "gpu (1 host, 8 CPUs, 2.0 GiB, 4 nvidia.com/gpu): is down",
        ),
    ],
    ids=["default", "single", "gpus and trouble"],
)
def test_a_partition_is_described_in_a_line(machine, words):
    assert described(machine) == words


def test_the_survey_has_a_line_a_fact():
    machine = Machine("main", 8, 8192, hosts=("a",))
    runtime = Runtime("crun", "/usr/bin/crun", "1.8.1")
    found = Survey("Slurm 22.05.8", [machine], [runtime], "/home/me/.orlop (nfs4, …)")
    assert [subject for subject, _ in found.lines()] == ["engine", "", "runtimes", "home"]
    assert dict(found.lines())["runtimes"] == "crun 1.8.1"
    without = Survey("x", [], [], "x")
    assert "none on this host" in dict(without.lines())["runtimes"]


def test_findings_are_shown_with_their_remedies_below(capsys):
    doctor.show([ok("a", "well"), note("b", "less", "do this"), problem("c", "bad", "do that")])
    lines = capsys.readouterr().out.splitlines()
    assert [line[0] for line in lines] == ["✓", "!", " ", "✗", " "]
    assert lines[2].split() == ["→", "do", "this"]


@pytest.mark.parametrize(("findings", "code"), [([ok("a", "b")], 0), ([problem("a", "b", "c")], 1)])
def test_the_exit_code_says_whether_something_stands_in_the_way(
    findings, code, empty_home, runner, monkeypatch
):
    monkeypatch.setattr(doctor, "examine", lambda *_: findings)
    assert runner.invoke(orlop, ["doctor"]).exit_code == code


def test_the_doctor_examines_an_empty_home_without_making_it(empty_home, runner):
    said = runner.invoke(orlop, ["doctor"])
    assert "python" in said.output
    assert not empty_home.home.exists()
