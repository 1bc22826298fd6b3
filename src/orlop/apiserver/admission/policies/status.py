"""Keeps the status of validating policies: which generation was looked at, and what is wrong there.

Run by the server as long as it serves. Level-based: whatever woke it, it writes the status of every
policy whose generation it has not told of. As pkg/controller/validatingadmissionpolicystatus.
"""

from __future__ import annotations

import asyncio

from ....api.kinds import VALIDATING_ADMISSION_POLICY, Kinds
from ....api.managedfields.builtin import Shapes
from ....client.api import Api
from ....errors import ApiError
from ....log import logger
from ....store import Expired, Store
from .typechecking import warnings

log = logger(__name__)
_BUCKET = VALIDATING_ADMISSION_POLICY.resource


class PolicyStatus:
    def __init__(self, store: Store, api: Api, served: Kinds, shapes: Shapes) -> None:
        self._store = store
        self._api = api
        self._served = served
        self._shapes = shapes

    async def run(self) -> None:
        """Keep the status of policies up to date until cancelled."""
        while True:
            snapshot = self._store.list(_BUCKET)
            watch = self._store.watch(_BUCKET, after=snapshot.revision)
            try:
                while not watch.is_closed:
                    await self._tell_all()
                    await watch.wait()
                    watch.pending()
            except Expired:
                pass
            finally:
                watch.close()
            await asyncio.sleep(0)

    async def _tell_all(self) -> None:
        for record in self._store.list(_BUCKET).records:
            policy = record.decode()
            generation = policy["metadata"].get("generation")
            if (policy.get("status") or {}).get("observedGeneration") == generation:
                continue
            found = warnings(policy, self._served, self._shapes)
            checked = {"expressionWarnings": found} if found else {}
            policy["status"] = {"observedGeneration": generation, "typeChecking": checked}
            try:
                await self._api.update(VALIDATING_ADMISSION_POLICY, policy, subresource="status")
            except ApiError as error:
                log.debug("a policy's status was not written", policy=record.key, error=error)
