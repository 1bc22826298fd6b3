"""Says what each signer of the cluster's authority may be asked for.

Used by the controllers that approve and sign; pure. As pkg/controller/certificates/signer and
pkg/apis/certificates: ValidateKubeletClientCSR and ValidateKubeletServingCSR.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from cryptography import x509
from cryptography.x509.oid import NameOID

from ...api.objects import Obj
from ...pki import names_in, read_request

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
# signer -> the usage that it is for
SIGNERS = {CLIENT: "client auth", KUBELET_CLIENT: "client auth", KUBELET_SERVING: "server auth"}
_BESIDE = {"digital signature", "key encipherment"}
_NODES, _NODE = "system:nodes", "system:node:"


def refusal(spec: Obj) -> str:
    """Return why the signer cannot give what is asked for; empty where it can."""
    signer, usages = spec["signerName"], spec.get("usages") or []
    return _usages(SIGNERS[signer], usages) or (
        "" if signer == CLIENT else _of_kubelet(signer, parsed(spec))
    )


def parsed(spec: Obj) -> x509.CertificateSigningRequest | None:
    try:
        return read_request(base64.b64decode(spec.get("request", "")))
    except (ValueError, binascii.Error):
        return None


def common_name(request: x509.CertificateSigningRequest) -> str:
    found = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def _usages(wanted: str, usages: Sequence[str]) -> str:
    if wanted not in usages:
        return f'usages: "{wanted}" is required'
    others = sorted(set(usages) - _BESIDE - {wanted})
    return f"usages: {', '.join(others)} cannot be had from this signer" if others else ""


def _of_kubelet(signer: str, request: x509.CertificateSigningRequest | None) -> str:
    if request is None:
        return "the request cannot be read"
    groups = request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    if [group.value for group in groups] != [_NODES]:
        return "subject organization is not system:nodes"
    if not common_name(request).startswith(_NODE):
        return "subject common name does not begin with system:node:"
    try:
        names = names_in(request)
    except ValueError:
        return "the request cannot be read"
    if names is None:
        return "DNS or IP subjectAltName is required" if signer == KUBELET_SERVING else ""
    if signer == KUBELET_CLIENT:
        return "subjectAltNames are not allowed"
    odd = [one for one in names if not isinstance(one, x509.DNSName | x509.IPAddress)]
    return "only DNS and IP subjectAltNames are allowed" if odd else ""
