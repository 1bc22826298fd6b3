"""One request of our own components as the audit log tells it: in process, told when it is over.

Made by `Auditor.note` for the in-process Api. Where the policy wants no record it does nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from ...api.objects import Obj
from ...api.times import rfc3339_micro
from ..auth.authentication import User, user_info
from ..request.requestinfo import RequestInfo
from .policy import AuditDecision, Level
from .shape import Sink, reference, without_managed_fields

_AGENT = "orlop/in-process"


class Note:
    def __init__(
        self,
        info: RequestInfo,
        user: User,
        decision: AuditDecision,
        sink: Sink,
        now: Callable[[], float],
        body: Any = None,
    ) -> None:
        self._info, self._user, self._decision = info, user, decision
        self._sink, self._now, self._received = sink, now, now()
        self._body = body
        self._answer: Any = None

    def answer(self, obj: Obj) -> Obj:
        """Keep the answer, if the policy wants it; it stays the caller's."""
        if self._decision.level >= Level.REQUEST_RESPONSE:
            self._answer = {**obj}
        return obj

    def end(self, code: int, status: Obj | None = None) -> None:
        level = self._decision.level
        if level is Level.NONE or "ResponseComplete" in self._decision.omitted:
            return
        event: Obj = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": level.word,
            "auditID": str(uuid.uuid4()),
            "stage": "ResponseComplete",
            "requestURI": self._info.path,
            "verb": self._info.verb,
            "user": user_info(self._user),
            "sourceIPs": ["127.0.0.1"],
            "userAgent": _AGENT,
            "objectRef": reference(self._info),
            "responseStatus": {"metadata": {}, **(status or {}), "code": code},
            "requestReceivedTimestamp": rfc3339_micro(self._received),
            "stageTimestamp": rfc3339_micro(self._now()),
        }
        bodies = {"requestObject": self._body if level >= Level.REQUEST else None,
                  "responseObject": self._answer}  # fmt: skip
        for name, obj in bodies.items():
            if obj is not None:
                omits = self._decision.omits_managed_fields
                event[name] = without_managed_fields(obj) if omits else obj
        self._sink.write(event)
