"""The folder of a gang."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from orlop.slurm.gang import gang_folder
from orlop.slurm.gang.gang_folder import Gang, GangCandidate, Kept, member_id, parts_of
from orlop.slurm.gang.packing import Shape, pack
from orlop.slurm.submit.sbatch import Folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "pods").mkdir()
    return tmp_path


def a_pod(home: Path, name: str) -> Path:
    folder = home / "pods" / f"default_{name}_uid-{name}"
    folder.mkdir()
    return folder


def recruit(folder: Path) -> GangCandidate:
    return GangCandidate(folder, f"default/{folder.name.split('_')[1]}", Shape(2, 100))


def a_gang(home: Path, *names: str, job: str = "17") -> Gang:
    recruits = [recruit(a_pod(home, name)) for name in names]
    packing = pack([one.shape for one in recruits])
    kept = Kept("key", "default/train", len(names), packing.bundle, packing.count)
    gang = Gang.make(home / "gangs", kept)
    gang.enlist(recruits, packing)
    if job:
        (gang.folder / "submit").write_text(f"{job}\n")
    return gang


def test_ids_of_members_are_like_nothing_of_slurms():
    assert member_id("17", 3) == "17+3"
    assert parts_of("17+3") == ("17", 3)
    assert parts_of("17") is None
    assert parts_of("17_3") is None


def test_members_know_their_number_once_the_jobs_is_known(home):
    gang = a_gang(home, "a", "b", job="")
    folder = Folder(home / "pods" / "default_b_uid-b")
    assert folder.was_begun
    assert folder.job() is None
    (gang.folder / "submit").write_text("17\n")
    assert folder.job() == "17+1"


def test_members_are_found_again_by_another_process(home):
    made = a_gang(home, "a", "b")
    (gang,) = gang_folder.existing(home / "gangs")
    assert gang.kept == made.kept
    assert [(m.number, m.uid, str(m.key)) for m in gang.members()] == [
        (0, "uid-a", "default/a"),
        (1, "uid-b", "default/b"),
    ]
    assert all(member.is_active for member in gang.members())


def test_a_member_ends_as_the_leader_says(home):
    gang = a_gang(home, "a", "b")
    (gang.folder / "0.end").write_text(json.dumps({"state": "FAILED", "code": 3, "time": 5.0}))
    first, second = gang.members()
    assert first.end is not None
    assert (first.end.state, first.end.code, first.is_active) == ("FAILED", 3, False)
    assert second.is_active


def test_a_replacement_has_a_number_of_its_own(home):
    gang = a_gang(home, "a", "b")
    new = a_pod(home, "c")
    assert gang.join(recruit(new), 1) == 2
    assert Folder(new).job() == "17+2"
    given = json.loads((new / "member").read_text())
    assert (given["bundle"], given["cpus"], given["memory_mib"]) == (1, 2, 100)
    assert (new / "job.sh").is_symlink()


def test_nobody_joins_a_gang_that_is_closed(home):
    gang = a_gang(home, "a", "b")
    (gang.folder / "2").touch()  # as the leader does
    new = a_pod(home, "c")
    assert gang.join(recruit(new), 1) is None
    assert not Folder(new).was_begun


def test_of_leader_and_kubelet_one_has_the_next_number(home):
    gang = a_gang(home, "a", "b")
    (gang.folder / "2").touch()  # between the kubelet's look and its link
    new = a_pod(home, "c")
    assert gang.join_as(2, recruit(new), 1) is None
    assert not Folder(new).was_begun


def test_a_gang_that_runs_again_has_those_who_want_to_and_their_limit_is_no_end(home):
    gang = a_gang(home, "a", "b", "c", "d")
    for number, name in enumerate("abcd"):
        again = replace(recruit(home / "pods" / f"default_{name}_uid-{name}"), requeues=name != "d")
        gang._give(again.folder, again.given(gang.id, number, number))
    for number, state in ((0, "TIMEOUT"), (1, "COMPLETED")):
        (gang.folder / f"{number}.end").write_text(json.dumps({"state": state, "time": 5.0}))
    (gang.folder / "4").touch()  # closed by its leader
    gang.members()  # it has seen how they ended
    gang.reopen(9.0)
    ends = [member.end and member.end.state for member in gang.members()]
    assert ends == [None, "COMPLETED", None, "TIMEOUT"]
    assert gang.join(recruit(a_pod(home, "e")), 0) == 4


def test_pods_of_a_gang_that_was_refused_have_asked_for_nothing(home):
    gang = a_gang(home, "a", "b", job="")
    pods = [home / "pods" / f"default_{name}_uid-{name}" for name in "ab"]
    gang.dissolve(pods)
    assert not gang.folder.exists()
    assert [sorted(entry.name for entry in pod.iterdir()) for pod in pods] == [[], []]


def test_a_gang_goes_with_the_last_of_its_pods(home):
    gang = a_gang(home, "a")
    gang_folder.sweep(home / "gangs")
    assert gang.folder.exists()
    for entry in (home / "pods" / "default_a_uid-a").iterdir():
        entry.unlink()
    (home / "pods" / "default_a_uid-a").rmdir()
    gang_folder.sweep(home / "gangs")
    assert not gang.folder.exists()


def test_the_step_of_a_member_is_the_one_that_claimed_its_pod(home):
    folder = a_pod(home, "a")
    assert gang_folder.step_of(folder) == ""
    (folder / "claim").write_text('{"job":"17+0","restart":0,"node":"n1","step":"4"}')
    assert gang_folder.step_of(folder) == "4"
