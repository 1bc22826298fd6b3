"""Asks the webhooks that a request concerns; what both kinds of them share.

Used by the mutating and the validating plugin. It decides which webhooks match, shows each the
request in the version that its rules name, and turns a webhook that cannot be asked into what its
failure policy wants. As apiserver/pkg/admission/plugin/webhook/generic.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ....api import kinds
from ....api.kinds import Kind, Kinds
from ....api.objects import Key, Obj
from ....errors import BadRequest, InternalError
from ....log import logger
from ....store import Store
from ...auth.authorization import Authorizer
from ...objects.conversion import bucket_of, in_version, namespace_fields
from ...proxy.webhook_client import CallFailed, WebhookClient
from ...request.failures import forbidden
from ..chain import Attributes
from ..expressions import evaluate, seen
from ..matching import is_exempt, namespace_labels
from . import instruments
from .configuration import Webhook
from .review import Verdict, refusal, request_of, review_of, verdict_of

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Invocation:
    """One webhook to be asked, and the kind in which it sees the request."""

    webhook: Webhook
    kind: Kind
    index: int


class Asker:
    def __init__(
        self, store: Store, served: Kinds, client: WebhookClient, authorizer: Authorizer
    ) -> None:
        self._store = store
        self._served = served
        self._client = client
        self._authorizer = authorizer

    def namespace(self, attributes: Attributes) -> Obj | None:
        if not attributes.namespace:
            return None
        record = self._store.newest(kinds.NAMESPACE.resource, Key("", attributes.namespace))
        return None if record is None else record.decode()

    def views(self, kind: Kind) -> Iterable[Kind]:
        """Return the other kinds that show objects of the same bucket."""
        bucket = bucket_of(kind)
        same = (one for one in self._served if one.plural == kind.plural and one != kind)
        return [one for one in same if bucket_of(one) == bucket]

    def matching(
        self, webhooks: list[Webhook], attributes: Attributes
    ) -> tuple[list[Invocation], Obj | None]:
        """Return the webhooks whose rules name the request, and its namespace."""
        if not webhooks or is_exempt(attributes):
            return [], None
        namespace = self.namespace(attributes)
        if namespace is None and attributes.namespace:
            return [], None  # it will be refused for that
        labels = namespace_labels(attributes, namespace)
        found = []
        for index, webhook in enumerate(webhooks):
            kind = webhook.matcher.find(attributes, self.views, labels)
            if kind is not None:
                found.append(Invocation(webhook, kind, index))
        return found, namespace

    async def request(self, attributes: Attributes, kind: Kind) -> Obj:
        """Return the request as a webhook of that kind sees it."""
        obj, old = attributes.obj, attributes.old
        if kind != attributes.kind and not _is_other(attributes):
            obj = None if obj is None else await in_version(attributes.kind, obj, kind)
            old = None if old is None else await in_version(attributes.kind, old, kind)
        return request_of(attributes, kind, obj, old)

    def is_wanted(
        self, webhook: Webhook, request: Obj, attributes: Attributes, namespace: Obj | None
    ) -> bool:
        """Return whether its conditions hold.

        Forbidden where one has no value and the webhook fails closed.
        """
        if not webhook.conditions:
            return True
        variables: Mapping[str, Any] = seen(
            request, attributes, self._authorizer, namespace_fields(namespace)
        )
        matched = evaluate(webhook.conditions, variables)
        if matched.error and webhook.fails_closed:
            raise forbidden(attributes.kind, attributes.name, matched.error)
        return matched.holds

    async def ask(
        self, webhook: Webhook, request: Obj, attributes: Attributes, *, is_mutating: bool
    ) -> Verdict:
        """Ask the webhook; CallFailed where it gives no verdict, an ApiError where it denies."""
        if attributes.dry_run and not webhook.may_dry_run:
            raise BadRequest(f'admission webhook "{webhook.name}" does not support dry run')
        if not webhook.version:
            raise CallFailed("could not create admission objects: it knows no version of ours")
        kind = "admit" if is_mutating else "validating"
        uid, began = str(uuid.uuid4()), time.monotonic()
        body = review_of(request, uid, webhook.version)
        try:
            answer = await self._client.ask(webhook.target, body, timeout=webhook.timeout)
        except CallFailed as error:
            raise CallFailed(f"failed to call webhook: {error}") from error
        verdict = verdict_of(answer, uid, webhook.version, is_mutating=is_mutating)
        for key, text in verdict.annotations.items():
            attributes.annotations[f"{webhook.name}/{key}"] = text
        fresh = [text for text in verdict.warnings if text not in attributes.warnings]
        attributes.warnings.extend(fresh)
        refused = None if verdict.allowed else refusal(webhook.name, verdict.status)
        taken = time.monotonic() - began
        instruments.called(webhook.name, kind, attributes.operation, taken, refused)
        if refused is not None:
            raise refused
        return verdict


def failed(invocation: Invocation, attributes: Attributes, kind: str, error: CallFailed) -> None:
    """Handle a webhook that gave no answer: ignore it, or end the request."""
    webhook = invocation.webhook
    words = f'failed calling webhook "{webhook.name}": {error}'
    type_ = "admit" if kind == "mutating" else kind
    operation, is_open = attributes.operation, not webhook.fails_closed
    instruments.failed(webhook.name, type_, operation, is_open=is_open)
    if webhook.fails_closed:
        log.warning("a webhook failed, and so does the request", webhook=webhook.name, error=error)
        raise InternalError(f"Internal error occurred: {words}") from error
    log.warning("a webhook failed, going on without", webhook=webhook.name, error=error)
    place = f"round_{attributes.round.number}_index_{invocation.index}"
    attributes.annotations[f"failed-open.{kind}.webhook.admission.k8s.io/{place}"] = webhook.name


def _is_other(attributes: Attributes) -> bool:
    """Return whether the object is of another type than its resource.

    Such an object has no other version.
    """
    return attributes.object_kind is not None or attributes.operation == "CONNECT"
