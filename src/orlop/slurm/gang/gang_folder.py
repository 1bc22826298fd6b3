"""Keeps the folder of a gang: which step of its one job is which pod, and what became of each.

Used by `gang_folders` and `gang_submission`; read by the leader in the job. `gangs/<id>/` holds
job.sh, the submit file and lock of the one sbatch, and for each member a link from its number to
its pod's folder. Numbers are given once: whoever takes an ended member's place has a number of its
own. The leader closes a gang by taking the next number itself, so that nobody joins a gang that is
over.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ... import wellknown
from ...api.objects import Key
from ...engine import JobId
from ...files import write_private
from ..numbers import whole
from ..submit import job_arrays
from ..submit.sbatch import LOCK_FILE, TASK_FILE, Folder, job_id
from .packing import Packing, Shape

_TIMEOUT = "TIMEOUT"
_END, _LEFT = wellknown.END_SUFFIX, wellknown.LEFT_SUFFIX


class Seat(msgspec.Struct, frozen=True):
    """Room in one of the bundles for a member that is still to come."""

    bundle: int
    shape: Shape


class Kept(msgspec.Struct, frozen=True):
    """The content of gang.json: what the gang is."""

    key: str
    name: str
    size: int
    bundle: Shape
    bundles: int
    lead: int = 0  # seconds before the time limit at which Slurm wakes the leader
    least: int = 1  # CPUs of a member that asks for none
    later: tuple[Seat, ...] = ()  # for members that come once others run


class Given(msgspec.Struct, frozen=True):
    """The member file in a pod's folder: what its step is given."""

    gang: str
    number: int
    bundle: int
    name: str
    cpus: int
    memory_mib: int
    gres: str
    shape: Shape
    signal: int = 0  # what it wants to hear ahead of the time limit, and so many seconds
    lead: int = 0
    environment: dict[str, str] = {}
    seat: int = -1  # which of those it has that were kept for members to come
    requeues: bool = False  # its time limit is no end: it wants to run again


class End(msgspec.Struct, frozen=True):
    """The end of a step, as the leader saw it."""

    state: str
    code: int = 0
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class GangCandidate:
    """A pod on its way into a gang, and what its step is to be given."""

    folder: Path
    name: str
    shape: Shape
    signal: int = 0
    lead: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    requeues: bool = False

    def given(self, gang: str, number: int, bundle: int, seat: int = -1) -> Given:
        shape = self.shape
        return Given(
            gang,
            number,
            bundle,
            self.name,
            shape.cpus,
            shape.memory_mib,
            shape.gres_words,
            shape,
            self.signal,
            self.lead,
            dict(self.environment),
            seat,
            self.requeues,
        )


@dataclass(frozen=True, slots=True)
class Member:
    number: int
    uid: str
    key: Key
    folder: Path
    given: Given | None  # None once its pod's folder is gone
    end: End | None
    has_left: bool

    @property
    def is_active(self) -> bool:
        return self.end is None and not self.has_left


def member_id(job: str, number: int) -> JobId:
    """Return the id of a member; it looks like no id of Slurm's, as a step's number is unknown
    before it runs.
    """
    return JobId(f"{job}+{number}")


def parts_of(job: str) -> tuple[str, int] | None:
    """Return job and member of a member's id; None for any other."""
    base, plus, number = job.partition("+")
    member = whole(number)
    return (base, member) if plus and member is not None else None


class Gang:
    """One folder of `gangs/`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._kept: Kept | None = None
        self._job = ""
        self._ends: dict[int, End] = {}
        self._given: dict[int, Given] = {}

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def kept(self) -> Kept:
        if self._kept is None:
            text = (self.folder / wellknown.GANG_FILE).read_bytes()
            self._kept = msgspec.json.decode(text, type=Kept)
        return self._kept

    @classmethod
    def make(cls, root: Path, kept: Kept) -> Gang:
        """Make a gang without members: whoever has its lock may `enlist` them."""
        gang = cls(root / uuid.uuid4().hex[:12])
        gang.folder.mkdir(mode=0o700, parents=True)
        write_private(gang.folder / wellknown.GANG_FILE, msgspec.json.encode(kept))
        for file in (wellknown.SUBMIT_FILE, LOCK_FILE):
            (gang.folder / file).touch(mode=0o600)
        return gang

    def enlist(self, recruits: Sequence[GangCandidate], packing: Packing) -> None:
        """Make the recruits members of the gang; from now on their pods' submit files lead here."""
        for number, one in enumerate(recruits):
            self._give(one.folder, one.given(self.id, number, packing.places[number]))
            (self.folder / str(number)).symlink_to(one.folder)
            job_arrays.follow(one.folder, self.folder)

    def _give(self, pod: Path, given: Given) -> None:
        write_private(pod / wellknown.MEMBER_FILE, msgspec.json.encode(given))
        (pod / TASK_FILE).write_text(f"+{given.number}")

    def dissolve(self, pods: Sequence[Path]) -> None:
        """Dissolve the gang that Slurm has refused: its pods have asked for nothing."""
        for pod in pods:
            leave(Folder(pod))
        shutil.rmtree(self.folder, ignore_errors=True)

    def job(self) -> str:
        """Return the number of its job; empty as long as it is not known."""
        if not self._job:
            try:
                self._job = job_id((self.folder / wellknown.SUBMIT_FILE).read_text()) or ""
            except FileNotFoundError:
                return ""
        return self._job

    def is_of(self, key: str) -> bool:
        try:
            return self.kept.key == key
        except (OSError, msgspec.MsgspecError):
            return False  # on its way out

    # Members

    def members(self) -> list[Member]:
        names = self._names()
        numbers = sorted(int(name) for name in names if name.isdecimal())
        found = (self._member(number, names) for number in numbers)
        return [member for member in found if member is not None]

    def _names(self) -> frozenset[str]:
        try:
            return frozenset(os.listdir(self.folder))
        except FileNotFoundError:
            return frozenset()

    def _member(self, number: int, names: frozenset[str]) -> Member | None:
        try:
            folder = Path(os.readlink(self.folder / str(number)))
        except OSError:
            return None  # the leader's: closed
        namespace, name, uid = folder.name.split("_")
        return Member(
            number,
            uid,
            Key(namespace, name),
            folder,
            self._given_to(number, folder),
            self._end_of(number) if f"{number}{_END}" in names else None,
            f"{number}{_LEFT}" in names,
        )

    def _given_to(self, number: int, folder: Path) -> Given | None:
        if number not in self._given:
            try:
                text = (folder / wellknown.MEMBER_FILE).read_bytes()
                self._given[number] = msgspec.json.decode(text, type=Given)
            except (OSError, msgspec.MsgspecError):
                return None
        return self._given[number]

    def _end_of(self, number: int) -> End | None:
        if number not in self._ends:
            try:
                text = (self.folder / f"{number}{_END}").read_bytes()
                self._ends[number] = msgspec.json.decode(text, type=End)
            except (OSError, msgspec.MsgspecError):
                return None
        return self._ends[number]

    def leave(self, numbers: Sequence[int]) -> None:
        """Mark members as no longer wanted; the leader ends their steps, or does not start them."""
        for number in numbers:
            try:
                (self.folder / f"{number}{_LEFT}").touch(mode=0o600)
            except FileNotFoundError:
                return  # all of the gang is gone

    def reopen(self, now: float) -> None:
        """Reopen a gang whose job met the time limit, to run again with those members that want
        that.
        """
        for member in self.members():
            end = self.folder / f"{member.number}{_END}"
            has_met = member.end is None or member.end.state == _TIMEOUT
            if has_met and member.given is not None and member.given.requeues:
                end.unlink(missing_ok=True)
                self._ends.pop(member.number, None)
            elif member.is_active:
                write_private(end, msgspec.json.encode(End(_TIMEOUT, 1, now)))
        for name in self._names():
            if name.isdecimal() and not (self.folder / name).is_symlink():
                (self.folder / name).unlink(missing_ok=True)  # the leader's: it was closed

    def hosts(self) -> dict[int, str]:
        """Return the host of each bundle, once the job has hosts."""
        try:
            text = (self.folder / wellknown.BUNDLES_FILE).read_bytes()
            return dict(enumerate(msgspec.json.decode(text, type=list[str])))
        except (OSError, msgspec.MsgspecError):
            return {}

    def join(self, recruit: GangCandidate, bundle: int, seat: int = -1) -> int | None:
        """Add a member to a job that exists already; return None where the gang is over.

        A crash in between leaves an empty submit file: then the gang is looked at.
        """
        numbers = [int(name) for name in self._names() if name.isdecimal()]
        if not all((self.folder / str(number)).is_symlink() for number in numbers):
            return None  # the leader has closed it
        return self.join_as(max(numbers, default=-1) + 1, recruit, bundle, seat)

    def join_as(
        self, number: int, recruit: GangCandidate, bundle: int, seat: int = -1
    ) -> int | None:
        """Do so as the next number, which the leader may take first; then the gang is over."""
        pod = recruit.folder
        self._give(pod, recruit.given(self.id, number, bundle, seat))
        (pod / wellknown.SUBMIT_FILE).touch(mode=0o600)
        try:
            (self.folder / str(number)).symlink_to(pod)
        except FileExistsError:
            leave(Folder(pod))
            return None
        Folder(pod).record(member_id(self.job(), number))
        (pod / wellknown.SCRIPT_FILE).unlink(missing_ok=True)
        (pod / wellknown.SCRIPT_FILE).symlink_to(self.folder / wellknown.SCRIPT_FILE)
        return number

    @property
    def is_over(self) -> bool:
        """Return whether no pod is left that is a member of it."""
        return not any(
            member.given is not None and member.given.gang == self.id for member in self.members()
        )


def leave(folder: Folder) -> None:
    """Take the pod out of its gang: it has asked for nothing any more."""
    job_arrays.leave(folder)
    (folder.folder / wellknown.MEMBER_FILE).unlink(missing_ok=True)


def existing(root: Path) -> Iterator[Gang]:
    try:
        folders = list(root.iterdir())
    except FileNotFoundError:
        return
    for folder in folders:
        if (folder / wellknown.GANG_FILE).exists():
            yield Gang(folder)


def sweep(root: Path) -> None:
    """Remove the gangs of which no pod is left."""
    for gang in existing(root):
        if gang.is_over:
            shutil.rmtree(gang.folder, ignore_errors=True)


def step_of(folder: Path) -> str:
    """Return the step that a pod's agent claimed it from; empty if none has."""
    try:
        claim = msgspec.json.decode((folder / wellknown.CLAIM_FILE).read_bytes())
        return str(claim.get("step") or "")
    except (OSError, msgspec.MsgspecError):
        return ""
