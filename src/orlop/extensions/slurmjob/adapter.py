"""The base of controllers for job kinds of earlier operators: each object runs as a SlurmJob.

Called with the key of such an object whenever it, or the SlurmJob of the same name that runs it,
changes. A subclass says what the SlurmJob should be, and what of its status the earlier kind would
have said; submitting, following and cancelling are the SlurmJob's. What the kind has no field for
may be asked of sbatch by annotations, as on a pod.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from functools import partial

from ... import errors
from ...api.objects import (
    Key,
    Obj,
    annotations_of,
    is_controlled_by,
    is_deleting,
    meta,
    owner_reference,
)
from ...client.api import Api
from ...client.clock import Clock
from ...client.informer import Informers
from ...controllers.framework.controller import Controller, Result, Runnable
from ...destinations import Destinations
from ...slurm.translate.annotations import from_annotations
from ..extension import Controllers, Host
from .kinds import ENDED, SLURM_JOB, USER

AGAIN = 5.0  # seconds until what is not there is looked for once more


class Adapter(Controller):
    owns = (SLURM_JOB,)
    destinations = Destinations()  # what it may connect to for the objects

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self._jobs = informers.informer(SLURM_JOB)

    @abc.abstractmethod
    async def spec_of(self, obj: Obj) -> Obj:
        """Return the spec of the SlurmJob; raise ConfigError where the object asks for the
        impossible.

        NotFound and Unavailable are for what may come: it is called again.
        """

    @abc.abstractmethod
    def status_of(self, obj: Obj, job: Obj | None) -> Obj:
        """Return what the earlier operator would say of a job in that state; None before it is."""

    @abc.abstractmethod
    def failed(self, obj: Obj, words: str) -> Obj:
        """Return the status of one that cannot run."""

    @abc.abstractmethod
    def is_over(self, obj: Obj) -> bool:
        """Return whether its own status says that it has ended, or can never run."""

    def waiting(self, obj: Obj, words: str) -> Obj:
        """Return the status of one that cannot run yet."""
        return self.status_of(obj, None)

    async def ended(self, obj: Obj, job: Obj, status: Obj) -> Obj:
        """Do what is to be done once the job has ended; return the status. May be called again.

        Raises Unavailable for what may be possible soon: it is called again.
        """
        return status

    def change_of(self, obj: Obj, job: Obj) -> Obj:
        """Return what of the SlurmJob's spec must change, because the object has changed."""
        return {}

    async def reconcile(self, key: Key) -> Result:
        obj = self.objects.get(key)
        if obj is None or is_deleting(obj):
            return Result.done()  # the SlurmJob goes with its owner, and cancels its job
        job = self._jobs.get(key)
        if job is None and self.is_over(obj):
            return Result.done()  # what has failed for good, or run, does not run on a later day
        if job is not None and not is_controlled_by(job, obj):
            return await self._fail(obj, f"there is another SlurmJob named {key.name} already")
        if job is None:
            try:
                job = await self._create(obj, _with_options(obj, await self.spec_of(obj)))
            except errors.ConfigError as error:
                return await self._fail(obj, error.message)
            except (errors.NotFound, errors.Unavailable) as error:
                return await self._wait(obj, error.message)
        else:
            change = self.change_of(obj, job)
            if change:
                await self.api.patch(SLURM_JOB, key, {"spec": change})
        status = self.status_of(obj, job)
        if job_status(job).get("phase") in ENDED:
            try:
                status = await self.ended(obj, job, status)
            except errors.Unavailable as error:
                await self.recorder.event(obj, "Warning", "NotReady", error.message)
                return Result.again(AGAIN)
        await self.write_status(obj, status)
        return Result.done()

    async def _create(self, obj: Obj, spec: Obj) -> Obj:
        metadata: Obj = {
            "name": meta(obj)["name"],
            "namespace": meta(obj)["namespace"],
            "labels": dict(meta(obj).get("labels") or {}),
            "ownerReferences": [owner_reference(obj)],
        }
        body = {"metadata": metadata, "spec": spec}
        try:
            job = await self.api.create(SLURM_JOB, body, namespace=metadata["namespace"])
        except errors.Invalid as error:
            raise errors.ConfigError(error.message) from error
        await self._jobs.seen(job)
        return job

    async def _wait(self, obj: Obj, words: str) -> Result:
        new = self.waiting(obj, words)
        if (obj.get("status") or {}) != new:
            await self.write_status(obj, new)
            await self.recorder.event(obj, "Warning", "NotReady", words)
        return Result.again(AGAIN)

    async def _fail(self, obj: Obj, words: str) -> Result:
        new = self.failed(obj, words)
        if (obj.get("status") or {}) != new:
            await self.write_status(obj, new)
            await self.recorder.event(obj, "Warning", "Failed", words)
        return Result.done()


def _with_options(obj: Obj, spec: Obj) -> Obj:
    """Add sbatch options from annotations, as on a pod, for what the kind has no field for."""
    asked = from_annotations(annotations_of(obj), [])
    if not asked:
        return spec
    given = {name: "" if value is None else value for name, value in asked.items()}
    return {**spec, "options": {**spec.get("options", {}), **given}}


def job_status(job: Obj | None) -> Obj:
    status: Obj = (job or {}).get("status") or {}
    return status


def run_adapters(*adapters: type[Adapter]) -> Callable[[Host], Sequence[Controllers]]:
    """Return the `controllers` of an extension whose objects run as SlurmJobs."""

    def controllers(host: Host) -> list[Controllers]:
        return [
            Controllers((SLURM_JOB.resource, one.kind.resource), partial(_make, one, host))
            for one in adapters
        ]

    return controllers


def _make(adapter: type[Adapter], host: Host) -> list[Runnable]:
    made = adapter(host.client(USER), host.informers, clock=host.clock)
    made.destinations = Destinations.of(host.settings.network.allow_destinations)
    return [made]
