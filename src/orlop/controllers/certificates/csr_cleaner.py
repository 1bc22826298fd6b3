"""Removes CertificateSigningRequests that have served, or that were not answered in time.

Called by the controller manager with the key of a request when it changes and when its time is
over: an hour after it was approved, denied or failed, a day while it waits, and when the
certificate it got has run out. As pkg/controller/certificates/cleaner.
"""

from __future__ import annotations

import base64

from cryptography import x509

from ... import errors
from ...api import times
from ...api.kinds import CERTIFICATE_SIGNING_REQUEST
from ...api.objects import Key, Obj, meta, uid_of
from ...pki import UNREADABLE
from ..framework.controller import Controller, Result

_ANSWERED = 3600.0
_WAITING = 24 * 3600.0


class CsrCleaner(Controller):
    name = "csrcleaner"
    kind = CERTIFICATE_SIGNING_REQUEST
    workers = 1

    async def reconcile(self, key: Key) -> Result:
        request = self.objects.get(key)
        if request is None:
            return Result.done()
        left = _ends(request) - self.clock.now()
        if left > 0:
            return Result.again(left)
        try:
            await self.api.delete(self.kind, key, uid=uid_of(request))
        except (errors.NotFound, errors.Conflict):
            pass
        return Result.done()


def _ends(request: Obj) -> float:
    """Return when the request may go."""
    status = request.get("status") or {}
    ends = [times.parse(meta(request)["creationTimestamp"]) + _WAITING]
    answers = [one for one in status.get("conditions") or () if one.get("status") != "False"]
    for answer in answers:
        told = answer.get("lastUpdateTime") or answer.get("lastTransitionTime")
        if told:
            ends = [times.parse(told) + _ANSWERED]
            break
    expires = _expiry(status.get("certificate"))
    return min([*ends, *([expires] if expires is not None else [])])


def _expiry(certificate: str | None) -> float | None:
    if not certificate:
        return None
    try:
        found = x509.load_pem_x509_certificate(base64.b64decode(certificate))
        return found.not_valid_after_utc.timestamp()
    except UNREADABLE:
        return None
