"""Compiles the webhooks of all configurations, in the order of their names: who is to be asked.

Read by the plugins for every request. The store tells with a number whether any configuration has
changed; only then are they read again, so that a new one holds for the very next request. As
apiserver/pkg/admission/configuration and plugin/webhook/accessors.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....api.cel import CelSyntaxError
from ....api.kinds import Kind
from ....api.objects import Obj
from ....log import logger
from ....store import Store
from ...proxy.webhook_client import WebhookTarget, target_of
from ..expressions import Condition, conditions
from ..matching import Matcher, matcher
from .review import VERSIONS

log = logger(__name__)
_NO_SIDE_EFFECTS = ("None", "NoneOnDryRun")


@dataclass(frozen=True, slots=True)
class Webhook:
    configuration: str
    name: str
    index: int
    target: WebhookTarget
    matcher: Matcher
    conditions: Sequence[Condition]
    version: str  # of the review; empty where it knows none of ours
    fails_closed: bool
    timeout: float
    may_dry_run: bool
    may_be_asked_again: bool

    @property
    def uid(self) -> str:
        return f"{self.configuration}/{self.name}/{self.index}"


class Configurations:
    """The webhooks of one of the two kinds of configuration."""

    def __init__(self, store: Store, kind: Kind) -> None:
        self._store = store
        self._bucket = kind.resource
        self._seen = -1
        self._webhooks: list[Webhook] = []

    def webhooks(self) -> list[Webhook]:
        newest = self._store.changed(self._bucket)
        if newest != self._seen:
            self._webhooks = self._read()
            self._seen = newest
        return self._webhooks

    def _read(self) -> list[Webhook]:
        found: list[Webhook] = []
        records = sorted(self._store.list_newest(self._bucket), key=lambda one: one.key.name)
        for record in records:
            for index, raw in enumerate(record.decode().get("webhooks") or ()):
                try:
                    found.append(_webhook(record.key.name, index, raw))
                except CelSyntaxError as error:
                    # It was valid when it was stored; it must not be silently passed over.
                    log.error("a webhook's condition is none", webhook=raw["name"], error=error)
                    found.append(_webhook(record.key.name, index, {**raw, "matchConditions": []}))
        return found


def _webhook(configuration: str, index: int, raw: Obj) -> Webhook:
    known = raw.get("admissionReviewVersions") or ()
    return Webhook(
        configuration,
        raw["name"],
        index,
        target_of(raw.get("clientConfig") or {}),
        matcher(raw),
        conditions(raw.get("matchConditions") or ()),
        next((one for one in known if one in VERSIONS), ""),
        raw.get("failurePolicy") != "Ignore",
        float(raw.get("timeoutSeconds") or 10),
        raw.get("sideEffects") in _NO_SIDE_EFFECTS,
        raw.get("reinvocationPolicy") == "IfNeeded",
    )
