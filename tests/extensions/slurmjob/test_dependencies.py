"""What a SlurmJob waits for."""

from __future__ import annotations

import pytest

from orlop.api.objects import Key, Obj
from orlop.extensions.slurmjob.dependencies import named, resolve


def job(*wanted: tuple[str, str]) -> Obj:
    dependencies = [{"name": name, "condition": condition} for name, condition in wanted]
    return {"metadata": {"name": "j", "namespace": "ns"}, "spec": {"dependencies": dependencies}}


def others(**statuses: Obj) -> dict[Key, Obj]:
    return {Key("ns", name): {"status": status} for name, status in statuses.items()}


def test_what_is_in_slurm_is_left_to_slurm() -> None:
    known = others(a={"jobId": "7", "phase": "Running"}, b={"jobId": "8"})
    found = resolve(job(("a", "afterok"), ("b", "afterany")), known)
    assert found.option == "afterok:7,afterany:8"


def test_who_ends_before_it_starts_may_leave_it_something() -> None:
    known = others(a={"jobId": "7"}, b={"jobId": "8"}, c={"jobId": "9"}, d={"phase": "Succeeded"})
    wanted = (("a", "afterany"), ("b", "after"), ("c", "aftercorr"), ("d", "afterok"))
    producers = resolve(job(*wanted), known).producers
    numbers = [(other["status"]["jobId"], is_whole) for other, is_whole in producers]
    assert numbers == [("7", True), ("9", False)]


@pytest.mark.parametrize(
    ("known", "words"),
    [({}, "not there yet"), (others(a={}), "not been submitted")],
    ids=["absent", "not submitted"],
)
def test_what_is_not_there_is_waited_for(known: dict[Key, Obj], words: str) -> None:
    assert words in resolve(job(("a", "afterok")), known).missing


@pytest.mark.parametrize(
    ("condition", "phase", "holds"),
    [
        ("afterok", "Succeeded", True),
        ("afterok", "Failed", False),
        ("aftercorr", "Failed", False),
        ("afternotok", "Failed", True),
        ("afternotok", "Succeeded", False),
        ("afterany", "Failed", True),
        ("after", "Failed", True),
    ],
)
def test_what_has_ended_is_judged_here(condition: str, phase: str, holds: bool) -> None:
    known = others(a={"jobId": "7", "phase": phase, "state": "X"})
    found = resolve(job(("a", condition)), known)
    assert bool(found.impossible) is not holds
    assert not found.missing
    assert not found.option


def test_dependents_are_found_by_name() -> None:
    assert list(named(job(("a", "afterok"), ("b", "after")))) == ["ns/a", "ns/b"]
