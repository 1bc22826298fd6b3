"""Set-up: what it finds missing, what it says, and the environment it keeps for the users."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path

import pytest

from tools import __main__ as setup
from tools import environment, kubectl, packages, users, wheel
from tools.devroot import DevRoot, dev_root
from tools.extent import Extent
from tools.private_apt import mirror
from tools.steps import Lacking, Outcome, Step, run_in_order, run_together, worse


def fails() -> str:
    raise subprocess.CalledProcessError(2, ["apt-get"], stderr="E: no space left\n")


def lacks() -> str:
    raise Lacking("root must install it")


def step(name: str, do: str = "done") -> Step:
    acts = {"done": lambda: "made it", "fails": fails, "lacks": lacks}
    return Step(name, lambda: False, acts[do])


@pytest.mark.parametrize(
    ("do", "outcome", "said"),
    [
        ("done", Outcome.DONE, "made it"),
        ("lacks", Outcome.LACKING, "left out: root must install it"),
        ("fails", Outcome.FAILED, "E: no space left"),
    ],
)
def test_a_step_says_in_one_line_what_became_of_it(
    do: str, outcome: Outcome, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert step("one", do).run() is outcome
    assert said in capsys.readouterr().out


def test_a_step_that_is_done_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    assert Step("one", lambda: True, fails).run() is Outcome.DONE
    assert capsys.readouterr().out == ""


def test_steps_in_order_go_on_after_a_lack_but_not_after_a_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_in_order([step("a", "lacks"), step("b")]) is Outcome.LACKING
    assert run_in_order([step("c", "fails"), step("d")]) is Outcome.FAILED
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()][:3] == ["a", "b", "c"]


def test_steps_together_end_with_the_worst_outcome() -> None:
    assert run_together([step("a"), step("b", "fails"), step("c", "lacks")]) is Outcome.FAILED
    assert worse(Outcome.DONE, Outcome.LACKING) is Outcome.LACKING


def test_an_unknown_package_is_missing_and_dpkg_itself_is_not() -> None:
    assert packages.missing(("dpkg", "no-such-package")) == ["no-such-package"]


def test_the_demo_has_a_part_of_the_packages_and_each_is_listed_once() -> None:
    demo, everything = (packages.packages_for(extent) for extent in (Extent.DEMO, Extent.ALL))
    assert len(everything) == len(demo) + len(packages.TESTS)
    assert {"slurmctld", "crun"} <= set(demo)
    assert not {"mariadb-server", "openmpi-bin", "postgresql"} & set(demo)


@pytest.mark.skipif(os.geteuid() != 0, reason="what only root may install may be missing")
def test_all_that_set_up_would_install_is_installed_where_the_tests_run() -> None:
    """By the very names: one that only leads to another package would be missing for ever."""
    assert packages.missing(tuple(packages.packages_for(Extent.ALL))) == []


def names_of(steps: list[Step]) -> list[str]:
    return [one.name for one in steps]


def test_the_demo_needs_none_of_the_tests_clients(tmp_path: Path) -> None:
    dev = DevRoot(tmp_path)
    assert names_of(setup.dev_root_steps(dev, Extent.DEMO)) == [
        "apptainer", "kubectl", "orlop", "images",
    ]  # fmt: skip
    assert {"etcd", "clients", "old kubectl", "node client"} < set(
        names_of(setup.dev_root_steps(dev, Extent.ALL))
    )


def test_users_are_those_that_are_wanted() -> None:
    assert users.missing(("root", "no-such-user")) == ["no-such-user"]


@pytest.mark.parametrize(
    ("synced", "wanted", "enough"),
    [
        ("", Extent.DEMO, False),
        (Extent.DEMO, Extent.DEMO, True),
        (Extent.DEMO, Extent.ALL, False),
        (Extent.ALL, Extent.DEMO, True),
        (Extent.ALL, Extent.ALL, True),
    ],
)
def test_an_environment_for_the_tests_is_enough_for_the_demo(
    synced: str, wanted: Extent, enough: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "SYNCED", tmp_path / "synced")
    if synced:
        (tmp_path / "synced").write_text(environment.mark(Extent(synced)))
    assert environment.is_synced(wanted) is enough


@pytest.mark.parametrize("words", [["setup", "more"], ["nothing"], [], ["build", "demo"]])
def test_words_that_set_up_does_not_know_are_answered_by_those_it_does(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert setup.main(["tools", *words]) == 2
    assert "setup|machine|devroot} [demo|all]" in capsys.readouterr().err


def test_packages_are_listed_with_what_they_are_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert setup.main(["tools", "packages"]) is Outcome.DONE
    said = capsys.readouterr().out
    assert re.search(r"^for the demo:\n(  .*\n)*  slurmctld +Slurm's controller\n", said, re.M)
    assert re.search(r"^for the tests, too:\n(  .*\n)*  skopeo +\w", said, re.M)


@pytest.mark.parametrize(
    ("service", "expected"),
    [("nginx", True), ("mariadb", True), ("redis-server", True), ("slurmd", False)],
)
def test_services_are_known_by_the_packages_that_bring_them(service: str, expected: bool) -> None:
    wanted = ["nginx-light", "mariadb-server", "redis-server", "slurmdbd"]
    assert packages.is_brought_by(wanted, service) is expected


def test_daemons_of_new_packages_do_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "policy-rc.d"
    monkeypatch.setattr(packages, "POLICY", policy)
    with packages.no_daemon_starts():
        assert subprocess.run([policy], check=False).returncode == 101
    assert not policy.exists()
    policy.write_text("the machine's own")
    with packages.no_daemon_starts():
        assert policy.read_text() == "the machine's own"
    assert policy.exists()


@pytest.mark.parametrize(
    ("answer", "minor"),
    [
        ('{"clientVersion": {"minor": "32", "gitVersion": "v1.32.3"}}', 32),
        ('{"clientVersion": {"minor": "27+", "gitVersion": "v1.27.1"}}', 27),
        ('{"clientVersion": {"minor": "32", "gitVersion": "v1.32.4-dispatcher"}}', 0),
        ("error: unknown flag", 0),
    ],
)
def test_a_kubectl_is_asked_for_its_version(tmp_path: Path, answer: str, minor: int) -> None:
    program = tmp_path / "kubectl"
    program.write_text(f"#!/bin/sh\necho '{answer}'\n")
    program.chmod(0o755)
    assert kubectl.minor_version(str(program)) == minor
    assert kubectl.minor_version(str(tmp_path / "nosuch")) == 0


def test_the_mirror_is_the_machines_own() -> None:
    assert mirror().rstrip("/").endswith("/debian")


def test_the_dev_root_is_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ORLOP_DEV_ROOT", str(tmp_path / "here"))
    assert dev_root().path == tmp_path / "here"
    monkeypatch.delenv("ORLOP_DEV_ROOT")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert dev_root().path == Path("/cache/orlop-dev")


def test_the_dev_root_is_open_to_all_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        setup.open_dev_root(DevRoot(tmp_path / "dev"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "dev").stat().st_mode) == 0o755


@pytest.fixture
def small_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of one module with a command, in place of ours."""
    project = tmp_path / "project"
    (project / "src" / "orlop").mkdir(parents=True)
    (project / "src" / "orlop" / "__init__.py").write_text("def main(): print('first')\n")
    (project / "pyproject.toml").write_text(
        "[build-system]\nrequires = ['hatchling']\nbuild-backend = 'hatchling.build'\n"
        "[project]\nname = 'orlop'\nversion = '0'\n[project.scripts]\norlop = 'orlop:main'\n"
    )
    monkeypatch.setattr(wheel, "PROJECT", project)
    monkeypatch.setattr("tools.environment.PROJECT", project)
    return project


def test_the_users_environment_follows_the_sources(tmp_path: Path, small_project: Path) -> None:
    dev = DevRoot(tmp_path / "dev")
    assert not wheel.is_fresh(dev)
    first = wheel.refresh(dev)
    assert wheel.is_fresh(dev)
    assert subprocess.check_output([dev.venv / "bin" / "orlop"], text=True) == "first\n"
    (small_project / "src" / "orlop" / "__init__.py").write_text("def main(): print('second')\n")
    assert not wheel.is_fresh(dev)
    wheel.refresh(dev)
    assert subprocess.check_output([dev.venv / "bin" / "orlop"], text=True) == "second\n"
    assert subprocess.check_output([first / "bin" / "orlop"], text=True) == "first\n"
