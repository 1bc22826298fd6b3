"""Writes who asks for a certificate, and checks who may approve or sign one.

An admission plugin, always on, for CertificateSigningRequests. Nobody becomes system:masters by a
request. As plugin/pkg/admission/certificates: approval, signing and subjectrestriction.
"""

from __future__ import annotations

import base64
import binascii

from cryptography import x509
from cryptography.x509.oid import NameOID

from ....api import kinds
from ....api.objects import Obj
from ....api.validation import invalid
from ....api.validation.errors import bad_value
from ....pki import read_request
from ....store import Store
from ...auth.authentication import MASTERS, User
from ...auth.rbac import Attributes as Wanted
from ...auth.rbac import Rbac
from ...request.failures import forbidden
from ..chain import Attributes, Plugin

CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"


class Certificates(Plugin):
    def __init__(self, store: Store) -> None:
        self._rbac = Rbac(store)

    async def admit(self, attributes: Attributes) -> None:
        """Write in the asker's own name, whatever the request says."""
        obj = attributes.obj
        if not _is_request(attributes) or attributes.operation != "CREATE" or obj is None:
            return
        spec, user = obj.setdefault("spec", {}), attributes.user
        for name in ("username", "uid", "groups", "extra"):
            spec.pop(name, None)
        spec |= {"username": user.name, "groups": list(user.groups)}
        spec |= {"uid": user.uid} if user.uid else {}
        spec |= {"extra": dict(user.extra)} if user.extra else {}

    async def validate(self, attributes: Attributes) -> None:
        obj = attributes.obj
        if obj is None or not _is_request(attributes):
            return
        if attributes.operation == "CREATE":
            self._check_subject(attributes, obj)
        elif attributes.subresource == "approval":
            self._check_signer(attributes, obj, "approve")
        elif attributes.subresource == "status" and _said(obj) != _said(attributes.old or {}):
            self._check_signer(attributes, obj, "sign")

    def _check_subject(self, attributes: Attributes, obj: Obj) -> None:
        request = _parsed(obj["spec"].get("request", ""))
        if request is None:
            why = "PEM block type must be CERTIFICATE REQUEST"
            problem = bad_value("spec.request", obj["spec"].get("request", ""), why)
            raise invalid(attributes.kind, attributes.name, [problem])
        groups = request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        is_ours = obj["spec"].get("signerName") == CLIENT_SIGNER
        if is_ours and any(group.value == MASTERS for group in groups):
            why = f"use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"
            raise forbidden(attributes.kind, attributes.name, why)

    def _check_signer(self, attributes: Attributes, obj: Obj, verb: str) -> None:
        signer = obj["spec"]["signerName"]
        if not self._may(attributes.user, verb, signer):
            why = f'user not permitted to {verb} requests with signerName "{signer}"'
            raise forbidden(attributes.kind, attributes.name, why)

    def _may(self, user: User, verb: str, signer: str) -> bool:
        names = (signer, f"{signer.partition('/')[0]}/*")
        group = kinds.CERTIFICATE_SIGNING_REQUEST.group
        wanted = (Wanted(verb, group, "signers", name=name) for name in names)
        return user.is_master or any(self._rbac.allows(user, one) for one in wanted)


def _is_request(attributes: Attributes) -> bool:
    return attributes.kind.resource == kinds.CERTIFICATE_SIGNING_REQUEST.resource


def _said(obj: Obj) -> tuple[str, object]:
    """Return what a signer says: the certificate, or that there will be none."""
    status = obj.get("status") or {}
    return str(status.get("certificate") or ""), status.get("conditions") or []


def _parsed(request: str) -> x509.CertificateSigningRequest | None:
    try:
        return read_request(base64.b64decode(request, validate=True))
    except (ValueError, TypeError, binascii.Error):
        return None
