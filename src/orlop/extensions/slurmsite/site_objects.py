"""Shows the site's partitions, accounts, QOS and reservations as objects that Orlop writes.

One task of the control plane. Slurm is asked for the first and the last at the pace of an idle
queue and for the rest, which slurmdbd answers, more seldom; only what has changed is written, and
what is gone from Slurm goes here. An answer that does not come changes nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import ClassVar

from ... import errors
from ...api.kinds import Kind
from ...api.objects import Key, Obj, meta, uid_of
from ...client.api import Api
from ...client.clock import Clock, SystemClock, sleep
from ...client.informer import Informers
from ...log import logger
from ...slurm.commands import Commands
from ...slurm.query import site
from ...slurm.query.site import Facts
from .kinds import ACCOUNT, PARTITION, QOS, RESERVATION

log = logger(__name__)

SELDOM = 4  # times as long between two questions to slurmdbd

Ask = Callable[[Commands], Awaitable[Facts]]
ASKED: tuple[tuple[Kind, Ask, int], ...] = (
    (PARTITION, site.partitions, 1),
    (RESERVATION, site.reservations, 1),
    (ACCOUNT, site.accounts, SELDOM),
    (QOS, site.qos, SELDOM),
)


class SiteObjects:
    name: ClassVar[str] = "slurm-site"

    def __init__(
        self,
        api: Api,
        informers: Informers,
        commands: Commands,
        *,
        every: float,
        clock: Clock | None = None,
        asked: tuple[tuple[Kind, Ask, int], ...] = ASKED,
    ) -> None:
        self._api = api
        self._commands = commands
        self._clock = clock or SystemClock()
        self._every, self._asked = every, asked
        self._objects = {kind: informers.informer(kind) for kind, _, _ in asked}
        self._due: dict[Kind, float] = {}

    async def run(self) -> None:
        for informer in self._objects.values():
            await informer.synced()
        while True:
            for kind, ask, times in self._asked:
                if self._due.get(kind, 0.0) <= self._clock.now():
                    self._due[kind] = self._clock.now() + times * self._every
                    await self._renew(kind, ask)
            left = min(self._due.values()) - self._clock.now()
            await sleep(self._clock, max(left, 0.1))

    async def _renew(self, kind: Kind, ask: Ask) -> None:
        try:
            await self.write(kind, await ask(self._commands))
        except errors.Error as error:
            log.debug("not renewed", kind=kind.kind, error=error)

    async def write(self, kind: Kind, facts: Facts) -> None:
        """Make the objects of a kind as Slurm has them."""
        wanted = {object_name(name): status for name, status in facts.items()}
        for name, status in wanted.items():
            found = self._objects[kind].get(Key("", name))
            if found is None:
                body: Obj = {"metadata": {"name": name}, "status": status}
                await self._api.create(kind, body)
            elif found.get("status") != status:
                await self._api.update(kind, {**found, "status": status})
        for found in self._objects[kind].list():
            if meta(found)["name"] not in wanted:
                await self._forget(kind, found)

    async def _forget(self, kind: Kind, found: Obj) -> None:
        try:
            await self._api.delete(kind, Key("", meta(found)["name"]), uid=uid_of(found))
        except errors.NotFound:
            pass


def object_name(name: str) -> str:
    """Return Slurm's name where an object can have it, else a unique one like it."""
    low = re.sub(r"[^a-z0-9.-]+", "-", name.lower()).strip("-.") or "x"
    if low == name:
        return low
    return f"{low[:200]}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"
