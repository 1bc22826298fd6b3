"""Elects a leader: lets a component that may run twice do its work in one process at a time.

Whoever runs a scheduler, controllers or a kubelet outside of the control plane gives it a
`LeaderElection`, and its work to `lead`. A Lease names the leader; who has not renewed it in time
has lost it, and stops before anybody else may begin. As client-go's tools/leaderelection, with its
semantics: clocks of two processes are not compared; what counts is how long a record stays the
same.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from .. import errors
from ..api.kinds import LEASE
from ..api.objects import Key, Obj, meta
from ..api.times import rfc3339_micro
from ..log import logger
from .api import Api
from .clock import Clock, SystemClock, sleep, timeout
from .recorder import Recorder

SYSTEM = "kube-system"  # where the Leases of components are
_JITTER = 1.2

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of an election, in seconds; the defaults are upstream's."""

    lease: float = 15.0  # how long others respect a leader that they do not hear of
    renew: float = 10.0  # how long a leader tries to renew before it gives up
    retry: float = 2.0  # between two attempts

    def __post_init__(self) -> None:
        if not self.lease > self.renew > self.retry * _JITTER:
            raise ValueError(
                f"expected lease > renew > retry * {_JITTER}, found {self.lease:g}, "
                f"{self.renew:g} and {self.retry:g} seconds"
            )


def identity() -> str:
    """Make a name for this process, unlike all others', with the host's in front for people."""
    return f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4()}"


class LeaderElection:
    """The candidacy of this process for one Lease."""

    def __init__(
        self,
        api: Api,
        name: str,
        *,
        namespace: str = SYSTEM,
        identity: str,
        timing: Timing | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._api = api
        self._key = Key(namespace, name)
        self.identity = identity
        self._timing = timing or Timing()
        self._clock = clock or SystemClock()
        self._recorder = Recorder(api, name, clock=self._clock)
        self._observed: Obj | None = None  # the last spec that we saw
        self._observed_at = 0.0  # by our own clock
        self._version = ""

    @property
    def leader(self) -> str:
        """Return the leader, as far as we know; empty where there is none."""
        return str((self._observed or {}).get("holderIdentity") or "")

    @property
    def is_leader(self) -> bool:
        return self.leader == self.identity

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait to be the leader, then work; return when the work ends.

        Raises errors.LeadershipLost when the Lease could not be kept: the work has then been
        cancelled, and the process should end or begin anew. Cancelled, it lets go of the Lease.
        """
        await self._acquire()
        await self._tell("became leader")
        try:
            async with asyncio.TaskGroup() as tasks:
                keeping = tasks.create_task(self._keep(), name=f"lease {self._key}")
                await work()
                keeping.cancel()
        except BaseExceptionGroup as group:
            lost = [one for one in group.exceptions if isinstance(one, errors.LeadershipLost)]
            if lost:
                await self._say_goodbye()
                raise lost[0] from None
            raise
        finally:
            if self.is_leader:
                await self._release()

    async def _acquire(self) -> None:
        log.debug("waiting to lead", lease=self._key, identity=self.identity)
        while not await self._try(self._timing.renew):
            await sleep(self._clock, self._timing.retry * random.uniform(1.0, _JITTER))

    async def _keep(self) -> None:
        """Renew for ever; raise LeadershipLost at the end.

        All attempts since the last that went well share one time: also one that hangs must be over
        before others may begin.
        """
        renewed = self._clock.now()
        while True:
            await sleep(self._clock, self._timing.retry)
            began = self._clock.now()
            if await self._try(renewed + self._timing.renew - began):
                renewed = began
            elif not self.is_leader or self._clock.now() - renewed >= self._timing.renew:
                holder = self.leader if not self.is_leader else "nobody else yet"
                self._observed = None
                raise errors.LeadershipLost(
                    f"the Lease {self._key} could not be kept; its holder: {holder}"
                )

    async def _try(self, patience: float) -> bool:
        """Take or renew the Lease, within that many seconds; return whether it is ours now."""
        try:
            async with timeout(self._clock, patience):
                return await self._take()
        except (errors.ApiError, TimeoutError) as error:
            log.debug("lease not had", lease=self._key, error=error)
            return False

    async def _take(self) -> bool:
        now = self._clock.now()
        try:
            lease = await self._api.get(LEASE, self._key)
        except errors.NotFound:
            created = await self._api.create(LEASE, self._new(now), namespace=self._key.namespace)
            self._see(created, now)
            return True
        spec = lease.get("spec") or {}
        if self._observed is None or lease["metadata"]["resourceVersion"] != self._version:
            self._see(lease, now)
        # A record counts from when we first saw it: its own times are of another clock.
        lasts = float(spec.get("leaseDurationSeconds") or self._timing.lease)
        is_taken = bool(self.leader) and self._observed_at + lasts > now
        if is_taken and not self.is_leader:
            return False
        wanted = {**lease, "spec": {**spec, **self._claim(spec, now)}}
        self._see(await self._api.update(LEASE, wanted), now)
        return True

    def _claim(self, spec: Obj, now: float) -> Obj:
        claim = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": int(self._timing.lease),
            "renewTime": rfc3339_micro(now),
        }
        if spec.get("holderIdentity") == self.identity:
            return claim
        transitions = int(spec.get("leaseTransitions") or 0)
        return {**claim, "acquireTime": rfc3339_micro(now), "leaseTransitions": transitions + 1}

    def _new(self, now: float) -> Obj:
        first = {**self._claim({}, now), "leaseTransitions": 0}
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": self._key.name, "namespace": self._key.namespace},
            "spec": first,
        }

    def _see(self, lease: Obj, now: float) -> None:
        self._observed, self._observed_at = lease.get("spec") or {}, now
        self._version = meta(lease)["resourceVersion"]

    async def _release(self) -> None:
        """Let the next one begin at once; whoever cannot be told will see it by the time."""
        change = {
            "metadata": {"resourceVersion": self._version},
            "spec": {
                "holderIdentity": None,
                "leaseDurationSeconds": 1,
                "renewTime": rfc3339_micro(self._clock.now()),
            },
        }
        self._observed = None
        try:
            async with asyncio.timeout(self._timing.retry):
                await self._api.patch(LEASE, self._key, change)
        except (errors.ApiError, TimeoutError) as error:
            log.debug("lease not let go", lease=self._key, error=error)

    async def _say_goodbye(self) -> None:
        """Tell that we stopped leading. Who has lost its Lease may have lost the server too."""
        try:
            async with asyncio.timeout(self._timing.retry):
                await self._tell("stopped leading")
        except TimeoutError:
            log.debug("nobody was told", lease=self._key)

    async def _tell(self, what: str) -> None:
        log.info(what, lease=self._key, identity=self.identity)
        metadata = {"name": self._key.name, "namespace": self._key.namespace}
        about = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata}
        words = f"{self.identity} {what}"
        await self._recorder.event(about, "Normal", "LeaderElection", words)
