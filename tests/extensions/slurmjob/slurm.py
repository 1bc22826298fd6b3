"""A Slurm for tests of the controllers: jobs in memory, in whatever state a test wants them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from orlop.errors import Error
from orlop.slurm import states
from orlop.slurm.commands import Commands
from orlop.slurm.query.user_jobs import UserJob, grouped
from orlop.slurm.submit.user_slurm import Listing

Now = Callable[[], float]


class FakeSlurm:
    """As slurm.userslurm.UserSlurm, without commands; what was submitted stays known."""

    cluster_uid = "c0ffee"
    commands = Commands({}, through=("false",))  # no Slurm answers

    def __init__(self) -> None:
        self._numbers = itertools.count(101)
        self.jobs: dict[str, UserJob] = {}
        self.accounted: dict[str, UserJob] = {}
        self.of_folder: dict[str, str] = {}
        self.sbatches: list[list[str]] = []
        self.shells: list[Mapping[str, str] | None] = []
        self.scancels: list[str] = []
        self.refuses: Error | None = None
        self.forgets_to_answer = False
        self._hear: Callable[[Listing], None] = lambda listing: None

    def subscribe(self, hear: Callable[[Listing], None]) -> None:
        self._hear = hear

    async def list(self) -> None:
        self._hear(grouped(self.jobs.values()))

    def is_ours(self, job: UserJob) -> bool:
        return bool(job.comment)

    def object_of(self, job: UserJob) -> str:
        return job.comment.rpartition(":")[2]

    async def submitted(self, folder: Path, script: Path, uid: str) -> str:
        return self.of_folder.get(str(folder), "")

    async def submit(
        self,
        folder: Path,
        arguments: Sequence[str],
        script: Path,
        uid: str,
        cwd: Path,
        shell: Mapping[str, str] | None = None,
    ) -> str:
        if self.refuses is not None:
            raise self.refuses
        known = self.of_folder.get(str(folder))
        if known:
            return known
        self.sbatches.append(list(arguments))
        self.shells.append(shell)
        number = self.of_folder[str(folder)] = str(next(self._numbers))
        array = next((one for one in arguments if one.startswith("--array=")), "")
        tasks = range(int(array.rpartition("-")[2]) + 1) if array else [None]
        for task in tasks:
            id = number if task is None else f"{number}_{task}"
            self.jobs[id] = UserJob(
                id,
                states.state_of("PENDING"),
                "PENDING",
                partition="main",
                submitted=1.0,
                comment=f"orlop-job:c0ffee:{uid}",
            )
        if self.forgets_to_answer:
            self.forgets_to_answer = False
            raise ConnectionError("killed before anybody heard")
        return number

    async def cancel(self, number: str) -> None:
        self.scancels.append(number)
        for job in list(self.jobs.values()):
            if job.number == number and not job.state.has_ended:
                self.become(job.id, "CANCELLED")

    async def ended(self, numbers: Collection[str]) -> Listing:
        return grouped(job for job in self.accounted.values() if job.number in numbers)

    def become(self, id: str, word: str, **fields: object) -> None:
        new = replace(self.jobs[id], state=states.state_of(word), word=word, **fields)
        if new.state.has_ended and new.ended is None:
            new = replace(new, ended=2.0)
        self.jobs[id] = new

    def forget(self, id: str, *, is_accounted: bool = False) -> None:
        job = self.jobs.pop(id)
        if is_accounted:
            self.accounted[id] = job
