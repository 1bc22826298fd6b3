"""Lists who is in a gang's one job, and for whom it keeps room: members that come once others run.

Used by `gang_submission`. Members that are there say what is still to come, as templates of pods;
room for it is asked for with their own, so that who comes later never waits for what another gang
holds. It reads and counts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from ...api.gangs import later_of
from ...api.objects import Obj, key_of
from ...engine import Gang, Submission
from ...engine.gang_barrier import first_room
from ..translate.job import REQUEUE, JobSpec, on_timeout, requested
from . import packing
from .gang_folder import GangCandidate, Kept, Member, Seat
from .gang_spec import early_signal, own_environment
from .packing import Packing, Shape, least_cpus, shape_of


@dataclass(frozen=True, slots=True)
class Roster:
    recruits: list[GangCandidate]
    later: list[Shape]  # of each member that is still to come
    specs: list[JobSpec]  # of all of these
    limits: list[str]  # the time limits that they ask for themselves
    size: int  # without so many it does not start
    least: int  # CPUs of a member that asks for none

    @property
    def shapes(self) -> list[Shape]:
        return [*(one.shape for one in self.recruits), *self.later]

    def seats(self, packing: Packing) -> list[Seat]:
        places = packing.places[len(self.recruits) :]
        return [Seat(place, shape) for place, shape in zip(places, self.later, strict=True)]


def recruit(submission: Submission, spec: JobSpec, least: int = 0) -> GangCandidate:
    name = str(key_of(submission.pod))
    shape, early = shape_of(dict(spec.options), name).with_least(least), early_signal(spec)
    told = (early.number, early.lead) if early is not None else (0, 0)
    requeues = on_timeout(submission.pod) == REQUEUE
    return GangCandidate(submission.folder, name, shape, *told, own_environment(spec), requeues)


async def call(
    members: Sequence[Submission], spec_of: Callable[[Submission], Awaitable[JobSpec]]
) -> Roster:
    """Return the roster of members that are all there; some may be such as could have come
    later.
    """
    room = first_room(members)
    specs = [await spec_of(member) for member in members]
    recruits = [recruit(one, spec) for one, spec in zip(members, specs, strict=True)]
    early = [one for one in members if _gang(one).room == room]
    there = [r.shape for r, one in zip(recruits, members, strict=True) if _gang(one).room != room]
    limits = [requested(member.pod, "time") for member in members]
    later: list[Shape] = []
    for one in later_of(room):
        absent = replace(members[0], pod=_absent(members[0], one.template))
        spec = await spec_of(absent)
        shape = shape_of(dict(spec.options), str(key_of(absent.pod)))
        missing = [shape] * one.count
        for come in [come for come in there if come.fits(shape)][: one.count]:
            there.remove(come)
            missing.pop()
        later += missing
        specs += [spec] * len(missing)
        limits += [requested(absent.pod, "time")] * len(missing)
    least = least_cpus([*(one.shape for one in recruits), *later])
    return Roster(
        [replace(one, shape=one.shape.with_least(least)) for one in recruits],
        [shape.with_least(least) for shape in later],
        specs,
        limits,
        max(_gang(one).size for one in early) + len(members) - len(early),
        least,
    )


def place_in(
    kept: Kept, active: Sequence[Member], shape: Shape, *, is_one_going: bool
) -> tuple[int, int] | None:
    """Return bundle and seat of a newcomer (seat -1: not one of those kept for others); None:
    nowhere.

    While a member is on its way out, its successor waits for that one's place rather than take a
    seat that is not exactly its size: the member for whom that seat is kept would not fit
    elsewhere.
    """
    given = [member.given for member in active if member.given is not None]
    taken: dict[int, list[Shape]] = {number: [] for number in range(kept.bundles)}
    for one in given:
        taken[one.bundle].append(one.shape)
    occupied = {one.seat for one in given}
    free = {n: seat for n, seat in enumerate(kept.later) if n not in occupied}
    for seat in free.values():
        taken[seat.bundle].append(seat.shape)
    place = packing.place_in(kept.bundle, taken, shape)
    if place is not None:
        return place, -1
    fitting = [n for n, seat in free.items() if shape.fits(seat.shape)]
    if is_one_going:
        fitting = [n for n in fitting if free[n].shape == shape]
    if not fitting:
        return None
    number = min(fitting, key=lambda n: (free[n].shape.cpus, free[n].shape.memory_mib, n))
    return free[number].bundle, number


def _gang(submission: Submission) -> Gang:
    assert submission.gang is not None, "only members of a gang come here"
    return submission.gang


def _absent(like: Submission, template: Obj) -> Obj:
    """Return a pod that is not there yet, as far as it is known."""
    metadata = {"namespace": key_of(like.pod).namespace, "name": "to-come", "uid": "to-come"}
    return {**template, "metadata": {**(template.get("metadata") or {}), **metadata}}
