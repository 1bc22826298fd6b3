"""ValidatingAdmissionWebhook: webhooks that may refuse a request, all asked at once.

An admission plugin, among the last of those that validate: it sees the object as it would be kept.
Every webhook is asked and heard; of several refusals the client is told the first. As
apiserver/pkg/admission/plugin/webhook/validating/dispatcher.go.
"""

from __future__ import annotations

import asyncio

from ....api import kinds
from ....api.objects import Obj
from ....errors import ApiError
from ....store import Store
from ...proxy.webhook_client import CallFailed
from ..chain import Attributes, Plugin
from .asking import Asker, Invocation, failed
from .configuration import Configurations


class ValidatingWebhooks(Plugin):
    def __init__(self, store: Store, asker: Asker) -> None:
        self._configurations = Configurations(store, kinds.VALIDATING_WEBHOOK_CONFIGURATION)
        self._asker = asker

    async def validate(self, attributes: Attributes) -> None:
        found, namespace = self._asker.matching(self._configurations.webhooks(), attributes)
        wanted = []
        for invocation in found:
            request = await self._asker.request(attributes, invocation.kind)
            if self._asker.is_wanted(invocation.webhook, request, attributes, namespace):
                wanted.append((invocation, request))
        if len(wanted) == 1:
            await self._call(*wanted[0], attributes)
        elif wanted:
            await self._call_all(wanted, attributes)

    async def _call_all(self, wanted: list[tuple[Invocation, Obj]], attributes: Attributes) -> None:
        refusals: list[ApiError] = []

        async def call(invocation: Invocation, request: Obj) -> None:
            try:
                await self._call(invocation, request, attributes)
            except ApiError as error:
                refusals.append(error)

        async with asyncio.TaskGroup() as tasks:
            for invocation, request in wanted:
                tasks.create_task(call(invocation, request), name=invocation.webhook.name)
        if refusals:
            raise refusals[0]

    async def _call(self, invocation: Invocation, request: Obj, attributes: Attributes) -> None:
        try:
            await self._asker.ask(invocation.webhook, request, attributes, is_mutating=False)
        except CallFailed as error:
            failed(invocation, attributes, "validating", error)
