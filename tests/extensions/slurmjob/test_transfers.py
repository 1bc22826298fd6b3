"""Files of volumes to jobs and back, by the very scripts that do it, in a real shell."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orlop.extensions.slurmjob import transfers
from orlop.extensions.slurmjob.transfers import FETCH, KEEP, PROBLEM, Input, Producer, Result


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "some work"
    folder.mkdir()
    return folder


def bash(file: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    file.write_text(text)
    argv = ["bash", str(file), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def fetch(
    tmp_path: Path, work: Path, *inputs: Input, producers: tuple[Producer, ...] = ()
) -> subprocess.CompletedProcess[str]:
    return bash(tmp_path / FETCH, transfers.fetching(tmp_path, work, inputs, producers))


def test_files_and_folders_come_to_where_the_job_starts(tmp_path: Path, work: Path) -> None:
    volume = tmp_path / "a volume"
    (volume / "set" / "deep").mkdir(parents=True)
    (volume / "set" / "deep" / "x").write_text("x")
    (volume / "one file").write_text("1")
    inputs = (Input(volume / "set", "in"), Input(volume / "one file", "there/it is"))
    assert fetch(tmp_path, work, *inputs).returncode == 0
    assert (work / "in" / "deep" / "x").read_text() == "x"
    assert (work / "there" / "it is").read_text() == "1"


def test_a_file_goes_into_a_folder_that_is_named_with_a_slash(tmp_path: Path, work: Path) -> None:
    (tmp_path / "one").write_text("1")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "two").write_text("2")
    inputs = (Input(tmp_path / "one", "a/data/"), Input(tmp_path / "set", "a/data/"))
    assert fetch(tmp_path, work, *inputs).returncode == 0
    assert (work / "a" / "data" / "one").read_text() == "1"
    assert (work / "a" / "data" / "two").read_text() == "2"


def test_what_was_fetched_is_the_jobs_own(tmp_path: Path, work: Path) -> None:
    """Other tasks of the array, and the job once more after a requeue, find it as it is."""
    source = tmp_path / "source"
    source.write_text("new")
    assert fetch(tmp_path, work, Input(source, "in")).returncode == 0
    (work / "in").write_text("changed by the job")
    assert fetch(tmp_path, work, Input(source, "in")).returncode == 0
    assert (work / "in").read_text() == "changed by the job"


def test_what_is_not_there_is_told(tmp_path: Path, work: Path) -> None:
    (tmp_path / FETCH).write_text(
        transfers.fetching(tmp_path, work, [Input(tmp_path / "no such", "in")], [])
    )
    ran = bash(tmp_path / "job.sh", "\n".join([*transfers.starting(tmp_path), "echo ran"]))
    assert ran.returncode == transfers.NOTHING_FETCHED
    assert ran.stdout == ""
    assert "no such" in ran.stderr
    assert (tmp_path / PROBLEM).read_text() == ran.stderr


def test_results_go_to_their_volume_once(tmp_path: Path, work: Path) -> None:
    (work / "a b.csv").write_text("1")
    (work / "run.d").mkdir()
    (work / "run.d" / "log").write_text("2")
    volume = tmp_path / "volume"
    results = [Result("* *.csv", volume / "out"), Result("run.d", volume), Result("no*", volume)]
    text = transfers.keeping(tmp_path, work, results)
    assert bash(tmp_path / KEEP, text).returncode == 0
    assert (volume / "out" / "a b.csv").read_text() == "1"
    assert (volume / "run.d" / "log").read_text() == "2"
    # Who depends on it may have written there since.
    (volume / "out" / "a b.csv").write_text("newer")
    assert bash(tmp_path / KEEP, text).returncode == 0
    assert (volume / "out" / "a b.csv").read_text() == "newer"


def test_a_volume_that_cannot_be_written_is_told(tmp_path: Path, work: Path) -> None:
    (work / "a").write_text("1")
    (tmp_path / "file").write_text("")
    text = transfers.keeping(tmp_path, work, [Result("a", tmp_path / "file" / "below")])
    ran = bash(tmp_path / KEEP, text)
    assert ran.returncode != 0
    assert str(tmp_path / "file") in ran.stderr


def first_job(tmp_path: Path, volume: Path) -> Path:
    """The folder of a job that has left `a`, which nobody has kept yet."""
    folder = tmp_path / "first"
    (folder / "work").mkdir(parents=True)
    (folder / "work" / "a").write_text("of the first")
    text = transfers.keeping(folder, folder / "work", [Result("*", volume)])
    (folder / KEEP).write_text(text)
    return folder


def test_a_job_keeps_what_those_before_it_have_left(tmp_path: Path, work: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "a").write_text("of an earlier run")
    producers = (Producer(first_job(tmp_path, volume), True), Producer(tmp_path / "gone", True))
    assert fetch(tmp_path, work, Input(volume / "a", "a"), producers=producers).returncode == 0
    assert (work / "a").read_text() == "of the first"


def test_an_array_keeps_part_by_part(tmp_path: Path, work: Path) -> None:
    """aftercorr: each task starts when its counterpart has ended, and the others still write."""
    volume = tmp_path / "volume"
    folder = first_job(tmp_path, volume)
    wanted, producers = Input(volume, "in"), (Producer(folder, False),)
    assert fetch(tmp_path, work, wanted, producers=producers).returncode == 0
    (folder / "work" / "b").write_text("later")
    before = (work / "in" / "a").stat().st_ino
    assert fetch(tmp_path, work, wanted, producers=producers).returncode == 0
    assert (work / "in" / "b").read_text() == "later"
    assert (work / "in" / "a").stat().st_ino == before


def test_there_is_no_script_where_there_is_nothing_to_do(tmp_path: Path, work: Path) -> None:
    assert transfers.fetching(tmp_path, work, [], []) == ""
    assert transfers.keeping(tmp_path, work, []) == ""
