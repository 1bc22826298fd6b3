"""An engine, images and agents that do as a test says: what the real ones cannot be made to do."""

from __future__ import annotations

import asyncio
import itertools
import json
import struct
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from orlop.api.objects import key_of, uid_of
from orlop.engine import Job, JobId, JobState, Machine, Submission
from orlop.errors import EngineError, EngineUnavailable, ImageError

from .objects import FakeImage

_HEADER = struct.Struct(">II")


class FakeEngine:
    """Jobs wait until the test runs or ends them; `error` is what the next calls raise."""

    name = "slurm"

    def __init__(self) -> None:
        self.table: dict[JobId, Job] = {}
        self.forgotten: dict[JobId, Job] = {}  # not listed any more, but `ended` knows them
        self.submissions: list[Submission] = []
        self.by_folder: dict[Path, JobId] = {}
        self.terminated: list[JobId] = []
        self.cancelled: list[JobId] = []
        self.requeued: list[JobId] = []
        self.refuses_requeue = ""
        self.calls = 0
        self.is_silent = False
        self.refusal: Exception | None = None
        self.warnings: list[str] = []
        self.has_partition = True
        self._numbers = itertools.count(17)

    def _check(self) -> None:
        if self.is_silent:
            raise EngineUnavailable("slurmctld does not answer")

    async def version(self) -> str:
        self._check()
        return "Slurm 22.05.8"

    async def machines(self) -> list[Machine]:
        self._check()
        labels = {"slurm.orlop.dev/partition": "main"}
        others = Machine("Big_Mem", 64, 1 << 20)
        main = Machine("main", 32, 128 << 10, {"nvidia.com/gpu": 4}, labels, is_default=True)
        return [main, others] if self.has_partition else [others]

    async def submit(self, submission: Submission) -> JobId:
        self._check()
        if submission.folder in self.by_folder:
            return self.by_folder[submission.folder]
        if self.refusal is not None:
            raise self.refusal
        (submission.folder / "submit").write_text("")
        self.submissions.append(submission)
        for warning in self.warnings:
            submission.warn(warning)
        job = JobId(str(next(self._numbers)))
        self.by_folder[submission.folder] = job
        self.table[job] = Job(
            job,
            JobState.PENDING,
            pod_uid=uid_of(submission.pod),
            name=str(key_of(submission.pod)),
            reason="Priority",
            message="job waits in partition main",
        )
        return job

    async def jobs(self) -> Mapping[JobId, Job]:
        self.calls += 1
        self._check()
        return dict(self.table)

    async def ended(self, ids: Collection[JobId]) -> Mapping[JobId, Job]:
        self._check()
        return {i: self.forgotten[i] for i in ids if i in self.forgotten}

    async def terminate(self, job: JobId) -> None:
        self._check()
        self.terminated.append(job)

    async def requeue(self, job: JobId) -> None:
        self._check()
        if self.refuses_requeue:
            raise EngineError(self.refuses_requeue)
        self.requeued.append(job)
        restarts = self.table[job].restarts + 1
        self.set(job, JobState.PENDING, reason="BeginTime", restarts=restarts)

    async def cancel(self, job: JobId) -> None:
        self._check()
        self.cancelled.append(job)
        if job in self.table and not self.table[job].state.has_ended:
            self.set(job, JobState.CANCELLED)

    def set(self, job: JobId, state: JobState, **fields: Any) -> None:
        fields = {"reason": "", "message": "", **fields}
        self.table[job] = replace(self.table[job], state=state, **fields)


class FakeImages:
    """Every image is there at once, but for those that `missing` names; `gate` holds all back."""

    def __init__(self) -> None:
        self.missing: dict[str, str] = {}
        self.asked: list[tuple[str, str]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def ensure(self, image, *, policy="", pull_secrets=(), progress=None, holder=None):
        self.asked.append((image, policy))
        if not self.gate.is_set():
            progress(1, 100)
            await self.gate.wait()
        if image in self.missing:
            raise ImageError(self.missing[image], f"{image}: no such image")
        if image == "host":
            return FakeImage("host", "", None, cmd=[])
        return FakeImage(reference=image)


class FakeAgent:
    """Dials the kubelet as an agent does, and says what the test wants said."""

    dialled: ClassVar[list[asyncio.StreamWriter]] = []

    def __init__(self, folder: Path, job: str = "17") -> None:
        self.folder = folder
        self.plan = json.loads((folder / "plan.json").read_text())
        self.job = job
        self.seq = 0
        self.heard: list[dict[str, Any]] = []
        self.acked = -1

    async def dial(self, tls, *, token=None, uid=None, line=""):
        """The answer's first line; 101 means that the conversation has begun.

        With a `line` it is the ranks of that node who dial.
        """
        pod = self.plan["pod"]
        endpoints = json.loads(Path(self.plan["kubelet"]["endpointFile"]).read_text())["endpoints"]
        port = int(endpoints[-1].rpartition(":")[2])
        token = token if token is not None else (self.folder / "token").read_text()
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=tls, server_hostname="orlop-kubelet"
        )
        self.dialled.append(self.writer)
        path = f"/orlop/v1/agents/{pod['namespace']}/{pod['name']}/{uid or pod['uid']}"
        path += f"/lines/{line}" if line else ""
        head = (
            f"GET {path} HTTP/1.1\r\nHost: k\r\nConnection: Upgrade\r\nUpgrade: orlop-agent/1\r\n"
        )
        self.writer.write(f"{head}Authorization: Bearer {token}\r\n\r\n".encode())
        answer = await self.reader.readuntil(b"\r\n\r\n")
        return answer.split(b"\r\n")[0].decode()

    def tell(self, message, stream=0):
        payload = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.writer.write(_HEADER.pack(len(payload), stream) + payload)

    async def hear(self, kind):
        """The next message of that type; the others are kept in `heard`."""
        while True:
            length, stream = _HEADER.unpack(await self.reader.readexactly(_HEADER.size))
            payload = await self.reader.readexactly(length)
            assert stream == 0, "the kubelet sends messages only"
            message = json.loads(payload)
            self.heard.append(message)
            if message["type"] == kind:
                return message

    async def hello(self):
        self.tell({"type": "hello", "job": self.job, "node": "n1", "seq": self.seq})
        self.acked = (await self.hear("welcome"))["acked"]

    def write(self, *records):
        """Into the journal's file, as an agent does first."""
        with (self.folder / "journal").open("a") as file:
            for fields in records:
                self.seq += 1
                file.write(json.dumps(self._record(self.seq, fields)) + "\n")

    async def say(self, *records):
        """Into the journal and over the line, and wait until it is heard."""
        first = self.seq
        self.write(*records)
        for number, fields in enumerate(records, start=first + 1):
            self.tell({"type": "record", "record": self._record(number, fields)})
        while (await self.hear("ack"))["seq"] < self.seq:
            pass

    @staticmethod
    def _record(number, fields):
        return {"seq": number, "time": 1_800_000_000.0 + number, **fields}

    def log(self, container, run, *lines):
        folder = self.folder / "logs" / container
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{run}.log").open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    @classmethod
    def cut_all(cls):
        """The end of a test: Python 3.13 complains of lines that nobody has closed."""
        for writer in cls.dialled:
            if not writer.transport.is_closing():  # asyncio's own may be closed once
                writer.transport.abort()
        cls.dialled.clear()

    async def hang_up(self):
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except OSError:
            pass
