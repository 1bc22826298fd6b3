"""Gives names to the pods of Jobs that ask for the variables of a distributed framework.

Called by the controller manager with the key of a Job whenever it changes. An Indexed Job with the
annotation `slurm.orlop.dev/distributed` and no subdomain of its own gets a headless Service under
its own name, so that MASTER_ADDR and its like can be resolved; other Jobs stay as they are.
"""

from __future__ import annotations

from ....api.kinds import JOB, SERVICE
from ....api.objects import Key, Obj, is_deleting, meta, uid_of
from ....client.api import Api
from ....client.clock import Clock
from ....client.informer import Informers
from ...framework.controller import Controller, Result
from ..job.view import is_finished
from ..owned_objects import OwnedObjects
from .environment import is_wanted

JOB_UID = "batch.kubernetes.io/controller-uid"


class DistributedNames(Controller):
    name = "distributed-names-controller"
    kind = JOB

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self._services = OwnedObjects(api, informers, self.recorder, SERVICE)

    async def reconcile(self, key: Key) -> Result:
        job = self.objects.get(key)
        if job is not None and not is_deleting(job) and not is_finished(job) and needs_names(job):
            await self._services.keep(job, service(job))
        return Result.done()


def needs_names(job: Obj) -> bool:
    template = job["spec"]["template"]
    is_indexed = job["spec"].get("completionMode") == "Indexed"
    return is_indexed and is_wanted(template) and not template["spec"].get("subdomain")


def service(job: Obj) -> Obj:
    return {
        "metadata": {"name": meta(job)["name"]},
        "spec": {
            "clusterIP": "None",
            "selector": {JOB_UID: uid_of(job)},
            "publishNotReadyAddresses": True,
        },
    }
