"""Signs the certificates of clients and kubelets that were asked for and approved.

Called by the controller manager with the key of a CertificateSigningRequest whenever it changes.
These are the three signers of upstream that sign with the cluster's authority; approval is done in
csr_approval.py. As pkg/controller/certificates/signer.
"""

from __future__ import annotations

import base64
from typing import Protocol

from ...api.kinds import CERTIFICATE_SIGNING_REQUEST
from ...api.objects import Key, Obj, condition_of, key_of, meta
from ...api.times import rfc3339
from ...client.api import Api
from ...client.clock import Clock
from ...client.informer import Informers
from ..framework.controller import Controller, Result
from .csr_signers import KUBELET_SERVING, SIGNERS, refusal

_LONGEST = 365 * 24 * 3600


class Sign(Protocol):
    """Turns a request (PEM) and seconds into a certificate (PEM)."""

    def __call__(self, pem: bytes, seconds: float, *, is_server: bool = False) -> bytes: ...


class CsrSigning(Controller):
    name = "certificatesigningrequest-signing-controller"
    kind = CERTIFICATE_SIGNING_REQUEST

    def __init__(
        self, api: Api, informers: Informers, sign: Sign, *, clock: Clock | None = None
    ) -> None:
        super().__init__(api, informers, clock=clock)
        self._sign = sign

    async def reconcile(self, key: Key) -> Result:
        request = self.objects.get(key)
        if request is None or not _awaits_signature(request):
            return Result.done()
        spec = request["spec"]
        try:
            if problem := refusal(spec):
                raise ValueError(problem)
            seconds = min(spec.get("expirationSeconds") or _LONGEST, _LONGEST)
            is_server = spec["signerName"] == KUBELET_SERVING
            pem = base64.b64decode(spec["request"])
            certificate = self._sign(pem, seconds, is_server=is_server)
        except ValueError as error:
            await self._fail(request, str(error))
        else:
            await self._put(request, {"certificate": base64.b64encode(certificate).decode()})
        return Result.done()

    async def _fail(self, request: Obj, message: str) -> None:
        now = rfc3339(self.clock.now())
        condition = {
            "type": "Failed",
            "status": "True",
            "reason": "SignerValidationFailure",
            "message": message,
            "lastUpdateTime": now,
            "lastTransitionTime": now,
        }
        conditions = [*(request["status"].get("conditions") or []), condition]
        await self._put(request, {"conditions": conditions})

    async def _put(self, request: Obj, status: Obj) -> None:
        lock = {"resourceVersion": meta(request)["resourceVersion"]}
        change = {"metadata": lock, "status": status}
        written = await self.api.patch(self.kind, key_of(request), change, subresource="status")
        await self.objects.seen(written)


def _awaits_signature(request: Obj) -> bool:
    return (
        request["spec"].get("signerName") in SIGNERS
        and condition_of(request, "Approved") is not None
        and condition_of(request, "Denied") is None
        and condition_of(request, "Failed") is None
        and not (request.get("status") or {}).get("certificate")
    )
