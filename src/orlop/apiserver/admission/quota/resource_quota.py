"""Charges what a namespace uses to its quotas, and refuses what would be more than they allow.

An admission plugin, always on, and the last of all: what is charged is made, unless the disk or a
taken name forbids. A charge is a write to the quota's status upon its newest revision, so that no
two requests can spend the same. What goes away is given back by the quota controller, which counts
anew. As plugin/pkg/admission/resourcequota/controller.go.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from ....api import kinds, quota
from ....api.objects import Key, Obj, meta
from ....api.pod_resources import Amounts, added, parsed
from ....api.quantity import ZERO
from ....errors import Conflict
from ....store import Record, RevisionConflict, Store
from ...request.failures import forbidden
from ..chain import Attributes, Plugin
from ..reading import Objects

_TRIES = 8  # charges that others came before


class ResourceQuota(Plugin):
    def __init__(self, store: Store, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._quotas = Objects(store, kinds.RESOURCE_QUOTA)
        self._now = now

    async def validate(self, attributes: Attributes) -> None:
        if not _may_use_more(attributes) or attributes.obj is None:
            return
        names = [meta(one)["name"] for one in self._quotas.in_namespace(attributes.namespace)]
        if not names:
            return
        used = self._more_used(attributes, attributes.obj)
        self._check(attributes, names, used)  # all before one is charged
        if attributes.dry_run or not used:
            return
        for name in names:
            await self._charge(attributes, name, used)

    def _more_used(self, attributes: Attributes, obj: Obj) -> Amounts:
        kind, now = attributes.kind, self._now()
        used = quota.usage(kind, obj, now)
        negative = sorted(name for name, amount in used.items() if amount < ZERO)
        if negative:
            why = f"quota usage is negative for resource(s): {', '.join(negative)}"
            raise forbidden(kind, attributes.name, why)
        if attributes.old is not None:
            before = quota.usage(kind, attributes.old, now)
            used = {name: amount - before.get(name, ZERO) for name, amount in used.items()}
        return {name: amount for name, amount in used.items() if amount > ZERO}

    def _check(self, attributes: Attributes, names: Iterable[str], used: Amounts) -> None:
        for name in names:
            record = self._newest(attributes, name)
            if record is not None:
                _charged(attributes, record.decode(), used)

    async def _charge(self, attributes: Attributes, name: str, used: Amounts) -> None:
        """Charge the object to the quotas.

        Reading, deciding and handing to the store happen without a pause between them.
        """
        for _ in range(_TRIES):
            record = self._newest(attributes, name)
            if record is None:
                return
            charged = _charged(attributes, record.decode(), used)
            if charged is None:
                return
            bucket = kinds.RESOURCE_QUOTA.resource
            try:
                await self._store.update(bucket, record.key, charged, expected=record.revision)
            except RevisionConflict:
                continue
            return
        raise Conflict(f"the quota {name} changes too often to be charged; try again")

    def _newest(self, attributes: Attributes, name: str) -> Record | None:
        key = Key(attributes.namespace, name)
        return self._store.newest(kinds.RESOURCE_QUOTA.resource, key)


def _may_use_more(attributes: Attributes) -> bool:
    kind = attributes.kind
    if not kind.namespaced or attributes.subresource:
        return False
    if attributes.operation == "UPDATE":
        return quota.charged_on_update(kind)
    return attributes.operation == "CREATE"


def _charged(attributes: Attributes, found: Obj, used: Amounts) -> Obj | None:
    """Return the quota with the object charged to it; None where there is nothing to charge."""
    kind, obj, name = attributes.kind, attributes.obj or {}, meta(found)["name"]
    status = found.get("status") or {}
    known = parsed(status.get("hard"))  # as the controller has seen it; before that, nothing
    limited = quota.resources_of(kind, known)
    if not limited or not quota.matches(found, kind, obj):
        return None
    problem = quota.constraint(kind, obj, limited)
    if problem:
        raise forbidden(kind, attributes.name, f"failed quota: {name}: {problem}")
    had = parsed(status.get("used"))
    if any(one not in had for one in limited):
        why = f"status unknown for quota: {name}, resources: {','.join(sorted(limited))}"
        raise forbidden(kind, attributes.name, why)
    asked = {one: used[one] for one in known if one in used}
    if not asked:
        return None
    total = added(had, asked)
    exceeded = sorted(one for one in asked if total[one] > known[one])
    if exceeded:
        why = (
            f"exceeded quota: {name}, requested: {_shown(asked, exceeded)}, "
            f"used: {_shown(had, exceeded)}, limited: {_shown(known, exceeded)}"
        )
        raise forbidden(kind, attributes.name, why)
    status["used"] = {one: str(amount) for one, amount in total.items()}
    return {**found, "status": status}


def _shown(amounts: Amounts, names: Sequence[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in names)
