"""Keeps what is known of each SlurmJob's job, or of its array's tasks, beyond Slurm's memory.

Used by the controller. Slurm forgets an ended task minutes after its end, while others of its array
may run for days; so their ends are kept in the job's folder. A task that neither knows was
cancelled while it waited, which leaves no trace in Slurm but its absence.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol

from ...api.objects import Obj, uid_of
from ...engine import JobState
from ...files import write_private
from ...slurm.query.user_jobs import UserJob
from ...slurm.submit.user_slurm import Listing
from .plan import Plan

FILE = "tasks.json"
VANISHED_AFTER = 3  # looks in a row in which nobody knows a job


class Accounting(Protocol):
    async def ended(self, numbers: list[str]) -> Listing: ...


class Queued(Protocol):
    listed_at: float

    def get(self, number: str) -> tuple[UserJob, ...]: ...

    def expect(self) -> None: ...


class Tasks:
    def __init__(self, slurm: Accounting, queue: Queued) -> None:
        self._slurm = slurm
        self._queue = queue
        self._known: dict[str, dict[str, UserJob]] = {}  # by the uid of the object, by task
        self._submitted: dict[str, float] = {}
        self._missed: dict[str, int] = {}
        self._missed_at: dict[str, float] = {}  # the listing in which it was missed last
        self._cancelled: dict[str, float] = {}

    def submitted(self, job: Obj, now: float) -> None:
        self._submitted[uid_of(job)] = now

    def cancelled(self, number: str, now: float) -> None:
        self._cancelled.setdefault(number, now)

    def cancelled_at(self, number: str) -> float:
        """Return when Slurm was first told to cancel a job; far ahead if it was not."""
        return self._cancelled.get(number, float("inf"))

    def forget(self, job: Obj) -> None:
        uid = uid_of(job)
        self._known.pop(uid, None)
        self._submitted.pop(uid, None)
        self._found(uid)
        self._cancelled.pop(str((job.get("status") or {}).get("jobId") or ""), None)

    def is_missed(self, job: Obj) -> bool:
        """Return whether to look at Slurm again, because it has lost something of the job."""
        return uid_of(job) in self._missed

    def _found(self, uid: str) -> None:
        self._missed.pop(uid, None)
        self._missed_at.pop(uid, None)

    def known(self, job: Obj, plan: Plan) -> dict[str, UserJob]:
        """Return the last that was heard of each task."""
        uid = uid_of(job)
        if uid not in self._known:
            self._known[uid] = _read(plan.folder / FILE)
        return self._known[uid]

    async def look(self, job: Obj, plan: Plan, now: float) -> list[UserJob] | None:
        """Return all known tasks; none while Slurm has not answered yet, None if it never will.

        1. What squeue lists.
        2. What is not listed and has not ended, from the accounting.
        3. What neither knows: cancelled while it waited, or forgotten.
        """
        number = job["status"]["jobId"]
        known = self.known(job, plan)
        before = dict(known)
        for task in self._queue.get(number):  # 1
            known[task.task] = task
        wanted = [str(task) for task in plan.tasks] or [""]
        listed = {task.task for task in self._queue.get(number)}
        lost = [
            one
            for one in wanted
            if one not in listed and not (one in known and known[one].state.has_ended)
        ]
        is_fresh = self._queue.listed_at > self._submitted.get(uid_of(job), 0.0)
        if lost and is_fresh:
            await self._look_up(job, number, lost, known, now)  # 2, 3
        elif not lost:
            self._found(uid_of(job))
        if plan.tasks and known != before:
            _write(plan.folder / FILE, known)
        found = [known[one] for one in wanted if one in known]
        if not found and self._missed.get(uid_of(job), 0) >= VANISHED_AFTER:
            return None
        return found

    async def _look_up(
        self, job: Obj, number: str, lost: list[str], known: dict[str, UserJob], now: float
    ) -> None:
        uid = uid_of(job)
        accounted = {one.task: one for one in (await self._slurm.ended([number])).get(number, ())}
        known |= {one: accounted[one] for one in lost if _is_end(accounted.get(one))}
        # What the accounting calls alive has ended, and it will hear how.
        still = [one for one in lost if not _is_end(known.get(one)) and one not in accounted]
        if all(_is_end(known.get(one)) for one in lost):
            self._found(uid)
            return
        self._missed.setdefault(uid, 0)
        self._queue.expect()
        if still and self._queue.listed_at > self._missed_at.get(uid, 0.0):
            self._missed_at[uid] = self._queue.listed_at
            self._missed[uid] += 1
        if self._missed[uid] < VANISHED_AFTER:
            return
        for one in still:
            if one in known:
                known[one] = _gone(known[one], now)
            elif known:
                like = next(iter(known.values()))
                known[one] = _gone(replace(like, id=f"{number}_{one}"), now)


def _is_end(task: UserJob | None) -> bool:
    return task is not None and task.state.has_ended


def _gone(last: UserJob, now: float) -> UserJob:
    """Return a lost task with its end: cancelled if it waited, unknown if it ran."""
    has_run = last.state is not JobState.PENDING and not last.state.has_ended
    word = "UNKNOWN" if has_run else "CANCELLED"
    state = JobState.FAILED if has_run else JobState.CANCELLED
    reason = "JobVanished" if has_run else ""
    return replace(last, state=state, word=word, reason=reason, ended=now, exit_code=0, signal=0)


def _read(file: Path) -> dict[str, UserJob]:
    try:
        kept: dict[str, dict[str, Any]] = json.loads(file.read_text())
        return {
            task: UserJob(**{**fields, "state": JobState(fields["state"])})
            for task, fields in kept.items()
        }
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def _write(file: Path, known: dict[str, UserJob]) -> None:
    """Write what has ended: the rest Slurm still knows."""
    ended = {
        task: {**asdict(job), "state": job.state.value}
        for task, job in known.items()
        if job.state.has_ended
    }
    if ended and file.parent.is_dir():
        write_private(file, json.dumps(ended))
