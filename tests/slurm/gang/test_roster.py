"""Who is in a gang's job, and who has which place in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orlop.api.gangs import LaterMembers, room_for
from orlop.api.objects import Key
from orlop.engine import Gang, Submission
from orlop.slurm.gang.gang_folder import GangCandidate, Kept, Member, Seat
from orlop.slurm.gang.packing import Shape, pack
from orlop.slurm.gang.roster import call, place_in
from orlop.slurm.translate.job import JobSpec

from ..pods import container, pod, spec_of


def member(name: str, cpu: str, size: int, room: str = "") -> Submission:
    made = pod(container({"cpu": cpu} if cpu else {}))
    made["metadata"] |= {"name": name, "uid": name}
    gang = Gang("g", "default/g", size, frozenset(), room)
    return Submission(made, Path("/pods") / name, (), "main", gang)


def room(count: int, cpu: str, **notes: str) -> str:
    asked: dict[str, Any] = {"name": "c0"}
    if cpu:
        asked["resources"] = {"requests": {"cpu": cpu}}
    annotations = {f"slurm.orlop.dev/{name}": value for name, value in notes.items()}
    template = {"metadata": {"annotations": annotations}, "spec": {"containers": [asked]}}
    return room_for([LaterMembers(count, template)])


async def as_alone(submission: Submission) -> JobSpec:
    return spec_of(submission.pod)


async def test_what_is_to_come_is_asked_for_like_what_is_there():
    later = room(3, "4", time="2:00:00", licenses="matlab:1")
    roster = await call([member("leader", "1", 1, later)], as_alone)
    assert roster.shapes == [Shape(1), *[Shape(4)] * 3]
    assert (roster.size, len(roster.specs), roster.limits) == (1, 4, ["", *["2:00:00"] * 3])
    packing = pack(roster.shapes)
    assert [seat.shape for seat in roster.seats(packing)] == [Shape(4)] * 3
    assert [seat.bundle for seat in roster.seats(packing)] == list(packing.places[1:])


async def test_who_is_there_already_needs_no_seat():
    later = room(2, "4")
    members = [member("w-0", "2", 2, later), member("w-1", "2", 2, later), member("l", "3", 9)]
    roster = await call(members, as_alone)
    assert roster.later == [Shape(4)]
    assert roster.size == 3, "it does not start without who is there"


@pytest.mark.parametrize(
    ("launcher", "later"), [("", Shape(0)), ("1", Shape(1))], ids=["asks for none", "for one"]
)
async def test_a_launcher_that_asks_for_no_cpu_needs_none(launcher, later):
    members = [member(f"w-{n}", "8", 2, room(1, launcher)) for n in range(2)]
    roster = await call(members, as_alone)
    assert (roster.least, roster.later) == (0, [later])


async def test_members_that_all_ask_for_nothing_have_a_cpu_each():
    roster = await call([member(f"w-{n}", "", 2, room(2, "")) for n in range(2)], as_alone)
    assert (roster.least, roster.shapes) == (1, [Shape(1)] * 4)


def a_member(number: int, cpus: int, bundle: int, seat: int = -1) -> Member:
    folder = Path(f"/pods/default_m{number}_u{number}")
    given = GangCandidate(folder, f"default/m{number}", Shape(cpus)).given(
        "g", number, bundle, seat
    )
    return Member(number, f"u{number}", Key("default", f"m{number}"), folder, given, None, False)


# Two bundles of four CPUs: a member of four has the first, a seat of two is in the second.
KEPT = Kept("g", "default/g", 1, Shape(4), 2, later=(Seat(1, Shape(2)),))
FIRST, TAKEN = a_member(0, 4, 0), a_member(1, 2, 1, 0)


@pytest.mark.parametrize(
    ("active", "cpus", "is_one_going", "place"),
    [
        ([FIRST], 2, False, (1, -1)),
        ([FIRST], 3, False, None),
        ([FIRST, a_member(1, 2, 1)], 2, False, (1, 0)),
        ([FIRST, a_member(1, 2, 1)], 1, False, (1, 0)),
        ([FIRST, a_member(1, 2, 1)], 1, True, None),
        ([FIRST, a_member(1, 2, 1)], 2, True, (1, 0)),
        ([FIRST, TAKEN], 2, False, (1, -1)),
        ([FIRST, TAKEN], 4, False, None),
        ([TAKEN], 4, False, (0, -1)),
    ],
    ids=[
        "what nobody was promised first",
        "a seat is not given away in part",
        "its seat",
        "one that shrank has its seat",
        "a successor leaves it to who needs it",
        "or takes one of its own size",
        "beside who has taken it",
        "nowhere",
        "the place of one that ended",
    ],
)
def test_where_a_newcomer_goes(active, cpus, is_one_going, place):
    assert place_in(KEPT, active, Shape(cpus), is_one_going=is_one_going) == place
