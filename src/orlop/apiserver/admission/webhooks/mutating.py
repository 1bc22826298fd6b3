"""MutatingAdmissionWebhook: webhooks that may change an object, one after the other.

An admission plugin, the last of those that mutate. What a webhook has patched is decoded and
defaulted again before the next one sees it; one that asks for it is called once more when others
changed the object after it. As apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ....api import defaults, kinds
from ....api.kinds import Kind
from ....api.objects import Obj
from ....api.patch import json as json_patch
from ....api.schema import Schema
from ....errors import ApiError, InternalError
from ....store import Store
from ...objects.conversion import in_version
from ...objects.field_validation import within_bounds
from ...proxy.webhook_client import CallFailed
from ..chain import Attributes, Plugin
from .asking import Asker, Invocation, failed
from .configuration import Configurations

_NAME = "webhooks"


class MutatingWebhooks(Plugin):
    def __init__(self, store: Store, asker: Asker, schema: Schema) -> None:
        self._configurations = Configurations(store, kinds.MUTATING_WEBHOOK_CONFIGURATION)
        self._asker = asker
        self._schema = schema

    async def admit(self, attributes: Attributes) -> None:
        found, namespace = self._asker.matching(self._configurations.webhooks(), attributes)
        if not found:
            return
        rounds = attributes.round
        if rounds.number and rounds.last.get(_NAME) != _bytes(attributes.obj):
            rounds.changed(_NAME)  # by other plugins, since we last looked
        for invocation in found:
            if rounds.is_due(_NAME, invocation.webhook.uid):
                await self._call(invocation, attributes, namespace)
        rounds.last[_NAME] = _bytes(attributes.obj)

    async def _call(
        self, invocation: Invocation, attributes: Attributes, namespace: Obj | None
    ) -> None:
        webhook, rounds = invocation.webhook, attributes.round
        request = await self._asker.request(attributes, invocation.kind)
        if not self._asker.is_wanted(webhook, request, attributes, namespace):
            return
        try:
            verdict = await self._asker.ask(webhook, request, attributes, is_mutating=True)
        except CallFailed as error:
            failed(invocation, attributes, "mutating", error)
            return
        is_changed = await self._patch(verdict.patch, invocation, attributes)
        self._annotate(invocation, attributes, verdict.patch, is_changed=is_changed)
        if is_changed:
            rounds.changed(_NAME)
            rounds.is_wanted = True
        if webhook.may_be_asked_again:
            rounds.called.setdefault(_NAME, set()).add(webhook.uid)

    async def _patch(
        self, patch: list[Any], invocation: Invocation, attributes: Attributes
    ) -> bool:
        obj = attributes.obj
        if not patch or obj is None:
            return False
        kind, is_typed = invocation.kind, attributes.object_kind is None
        before = _bytes(obj)
        shown: Obj = msgspec.json.decode(before)
        if kind != attributes.kind and is_typed:
            shown = await in_version(attributes.kind, shown, kind)
        try:
            shown = json_patch.apply(shown, patch)
            within_bounds(shown)
        except ApiError as error:
            raise InternalError(f"Internal error occurred: {error.message}") from error
        if is_typed and attributes.operation != "CONNECT":
            shown = await self._typed(shown, kind, attributes)
        obj.clear()
        obj.update(shown)
        return _bytes(obj) != before

    async def _typed(self, shown: Obj, kind: Kind, attributes: Attributes) -> Obj:
        """Bring the object into the form in which it would have come in.

        That is: of known fields, in the version of the request, complete.
        """
        self._schema.decode(kind, shown)
        if kind != attributes.kind:
            shown = await in_version(kind, shown, attributes.kind)
        defaults.apply_defaults(attributes.kind, shown)
        return shown

    def _annotate(
        self,
        invocation: Invocation,
        attributes: Attributes,
        patch: list[Any],
        *,
        is_changed: bool,
    ) -> None:
        webhook = invocation.webhook
        place = f"round_{attributes.round.number}_index_{invocation.index}"
        named = {"configuration": webhook.configuration, "webhook": webhook.name}
        told = {"mutation": {**named, "mutated": is_changed}}
        if is_changed:
            told["patch"] = {**named, "patch": patch, "patchType": "JSONPatch"}
        for word, note in told.items():
            key = f"{word}.webhook.admission.k8s.io/{place}"
            attributes.annotations[key] = msgspec.json.encode(note).decode()


def _bytes(obj: Obj | None) -> bytes:
    return msgspec.json.encode(obj, order="sorted")
