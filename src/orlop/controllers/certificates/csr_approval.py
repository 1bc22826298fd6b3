"""Approves the client certificates of kubelets, where RBAC lets the asker have one.

Called by the controller manager with the key of a CertificateSigningRequest whenever it changes. A
kubelet may renew its own (`selfnodeclient`), a bootstrap token may get a first one (`nodeclient`);
everything else is left for people to decide. As pkg/controller/certificates/approver/sarapprove.go.
"""

from __future__ import annotations

from ...api.kinds import CERTIFICATE_SIGNING_REQUEST, SUBJECT_ACCESS_REVIEW
from ...api.objects import Key, Obj, condition_of
from ...api.times import rfc3339
from ..framework.controller import Controller, Result
from ..workloads.pod_control import deep_copy
from .csr_signers import KUBELET_CLIENT, common_name, parsed, refusal

_SELF = "Auto approving self kubelet client certificate after SubjectAccessReview."
_FIRST = "Auto approving kubelet client certificate after SubjectAccessReview."


class CsrApproval(Controller):
    name = "certificatesigningrequest-approving-controller"
    kind = CERTIFICATE_SIGNING_REQUEST
    workers = 1

    async def reconcile(self, key: Key) -> Result:
        request = self.objects.get(key)
        if request is None or not _awaits_approval(request):
            return Result.done()
        spec = request["spec"]
        parsed_request = parsed(spec)
        if parsed_request is None or refusal(spec):
            return Result.done()
        is_own = common_name(parsed_request) == spec.get("username")
        if is_own and await self._may(spec, "selfnodeclient"):
            await self._approve(request, _SELF)
        elif await self._may(spec, "nodeclient"):
            await self._approve(request, _FIRST)
        return Result.done()

    async def _may(self, spec: Obj, subresource: str) -> bool:
        attributes = {
            "group": self.kind.group,
            "resource": self.kind.plural,
            "verb": "create",
            "version": "*",
            "subresource": subresource,
        }
        names = {"username": "user", "uid": "uid", "groups": "groups", "extra": "extra"}
        asker = {new: spec[old] for old, new in names.items() if spec.get(old)}
        review = {"spec": {**asker, "resourceAttributes": attributes}}
        answer = await self.api.create(SUBJECT_ACCESS_REVIEW, review)
        return bool((answer.get("status") or {}).get("allowed"))

    async def _approve(self, request: Obj, why: str) -> None:
        now = rfc3339(self.clock.now())
        approved = {
            "type": "Approved",
            "status": "True",
            "reason": "AutoApproved",
            "message": why,
            "lastUpdateTime": now,
            "lastTransitionTime": now,
        }
        changed = deep_copy(request)
        changed.setdefault("status", {}).setdefault("conditions", []).append(approved)
        written = await self.api.update(self.kind, changed, subresource="approval")
        await self.objects.seen(written)


def _awaits_approval(request: Obj) -> bool:
    return (
        request["spec"].get("signerName") == KUBELET_CLIENT
        and condition_of(request, "Approved") is None
        and condition_of(request, "Denied") is None
        and not (request.get("status") or {}).get("certificate")
    )
