"""One request as the audit log tells it, stage by stage.

Begun by the handler once it knows who is calling, ended when there is an answer. What a policy asks
for is taken from bytes that are there anyway: nothing is read twice, and a request does not wait
for its record. As apiserver/pkg/endpoints/filters/audit.go and pkg/apis/audit/v1.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from typing import Any

from aiohttp import web

from ...api.objects import Obj
from ...api.reading import decode_json
from ...api.times import rfc3339_micro
from ...errors import ApiError
from ..auth.authentication import User, user_info
from ..request.body import decode_object, media_type_of
from ..request.requestinfo import RequestInfo
from .inside import Note
from .policy import AuditDecision, AuditPolicy, Level
from .shape import Sink, reference, without_managed_fields

# What admission notes for the record of a request.
ANNOTATIONS = web.RequestKey("audit annotations", dict[str, str])


class Auditor:
    def __init__(
        self, policy: AuditPolicy, sink: Sink, now: Callable[[], float] = time.time
    ) -> None:
        self._policy = policy
        self._sink = sink
        self._now = now

    def begin(self, request: web.BaseRequest, info: RequestInfo, user: User) -> Trail | None:
        """Begin the trail of a request; None where the policy wants none."""
        decision = self._policy.decide(user, info)
        if decision.level is Level.NONE:
            return None
        trail = Trail(request, info, user, decision, self._sink, self._now)
        trail.tell("RequestReceived")
        return trail

    def note(self, info: RequestInfo, user: User, body: Any = None) -> Note:
        """Make the record of a request in process; it is empty where the policy wants nothing."""
        return Note(info, user, self._policy.decide(user, info), self._sink, self._now, body)


class Trail:
    def __init__(
        self,
        request: web.BaseRequest,
        info: RequestInfo,
        user: User,
        decision: AuditDecision,
        sink: Sink,
        now: Callable[[], float],
    ) -> None:
        self._request = request
        self._decision = decision
        self._sink = sink
        self._now = now
        self._received = now()
        self.id = str(uuid.uuid4())
        self._event: Obj = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": decision.level.word,
            "auditID": self.id,
            "stage": "",
            "requestURI": request.raw_path,
            "verb": info.verb,
            "user": user_info(user),
            "sourceIPs": [request.remote or ""],
            "userAgent": request.headers.get("User-Agent", ""),
        }
        if info.is_resource:
            self._event["objectRef"] = reference(info)

    def impersonates(self, user: User) -> None:
        self._event["impersonatedUser"] = user_info(user)

    def authorized(self, is_allowed: bool) -> None:
        """Annotate with the decision, as `authorization.k8s.io/decision`."""
        decision = "allow" if is_allowed else "forbid"
        notes = {"authorization.k8s.io/decision": decision, "authorization.k8s.io/reason": ""}
        self._event["annotations"] = notes

    def tell(self, stage: str) -> None:
        if stage in self._decision.omitted:
            return
        times = {
            "requestReceivedTimestamp": rfc3339_micro(self._received),
            "stageTimestamp": rfc3339_micro(self._now()),
        }
        self._sink.write({**self._event, "stage": stage, **times})

    async def end(self, response: web.StreamResponse | None) -> None:
        """Write the last stage; `response` is None where the client left before."""
        code = 499 if response is None else response.status
        answer = response if isinstance(response, web.Response) else None
        status: Obj = {"metadata": {}, "code": code}
        if code >= 400 and answer is not None:
            told = _decoded("application/json", answer.body) or {}
            named = ("status", "message", "reason", "details")
            status |= {name: told[name] for name in named if name in told}
        self._event["responseStatus"] = status
        self._annotate(self._request.get(ANNOTATIONS) or {})
        if self._decision.level >= Level.REQUEST and self._request.content.is_eof():
            media_type = media_type_of(self._request.headers.get("Content-Type", ""))
            data = await self._request.read()
            sent = await asyncio.to_thread(_decoded, media_type, data)
            self._keep("requestObject", sent)
        if self._decision.level >= Level.REQUEST_RESPONSE and answer is not None:
            media_type = media_type_of(answer.headers.get("Content-Type", ""))
            self._keep("responseObject", _decoded(media_type, answer.body))
        self.tell("ResponseComplete")

    def _annotate(self, notes: dict[str, str]) -> None:
        """Add what admission noted.

        Patches tell what is in objects, and need the level for that.
        """
        shown = {
            key: text
            for key, text in notes.items()
            if self._decision.level >= Level.REQUEST or not key.startswith("patch.")
        }
        if shown:
            self._event["annotations"] = {**self._event.get("annotations", {}), **shown}

    def _keep(self, name: str, obj: Any) -> None:
        if obj is None:
            return
        if self._decision.omits_managed_fields and isinstance(obj, dict):
            items = obj.get("items")
            obj = without_managed_fields(obj)
            if isinstance(items, list):
                obj["items"] = [without_managed_fields(one) for one in items]
        self._event[name] = obj


def _decoded(media_type: str, data: Any) -> Any:
    """Decode a body; None where it cannot be told."""
    if not isinstance(data, bytes) or not data.strip():
        return None
    try:
        if media_type.endswith(("json", "+json")):
            return decode_json(data)
        return decode_object(media_type, data)
    except (ApiError, ValueError):
        return None
