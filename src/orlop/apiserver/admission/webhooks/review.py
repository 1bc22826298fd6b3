"""The AdmissionReview: what a webhook is asked, and what it may answer.

Called by the dispatch with a request that a webhook matches. Pure; an answer that breaks the rules
of the review is a CallFailed, to which the webhook's failure policy applies. As
apiserver/pkg/admission/plugin/webhook/request/admissionreview.go, in its words.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any

from ....api.kinds import Kind, subresource
from ....api.objects import Obj
from ....api.reading import decode_json
from ....errors import ApiError
from ...auth.authentication import user_info
from ...proxy.webhook_client import CallFailed
from ..chain import Attributes

GROUP = "admission.k8s.io"
VERSIONS = ("v1", "v1beta1")
_LONGEST = 10_000  # characters of its words that are passed on


def request_of(attributes: Attributes, kind: Kind, obj: Obj | None, old: Obj | None) -> Obj:
    """Make the AdmissionRequest.

    The request is shown as one of `kind`, which has made `obj` and `old` of its objects.
    """
    shown = _kind_of(attributes, kind)
    request: Obj = {
        "kind": shown,
        "resource": _resource_of(kind),
        "requestKind": _kind_of(attributes, attributes.kind),
        "requestResource": _resource_of(attributes.kind),
        "name": attributes.name,
        "namespace": namespace_of(attributes),
        "operation": attributes.operation,
        "userInfo": user_info(attributes.user),
        "object": obj,
        "oldObject": old,
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }
    if attributes.subresource:
        request |= {
            "subResource": attributes.subresource,
            "requestSubResource": attributes.subresource,
        }
    return {name: value for name, value in request.items() if value != ""}


def _kind_of(attributes: Attributes, kind: Kind) -> Obj:
    """Return the type of the object: of a subresource it can be another than the resource's."""
    group, version, name = kind.group, kind.version, kind.kind
    if attributes.object_kind is not None:
        group, version, name = attributes.object_kind
    elif attributes.subresource:
        facts = subresource(kind, attributes.subresource)
        if facts is not None:
            group, version, name = facts.group, facts.version, facts.kind
    return {"group": group, "version": version, "kind": name}


def _resource_of(kind: Kind) -> Obj:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}


def namespace_of(attributes: Attributes) -> str:
    """Return the request's namespace. A request on a namespace is in it, as upstream has it."""
    is_namespace = attributes.kind.group == "" and attributes.kind.plural == "namespaces"
    return attributes.name if is_namespace else attributes.namespace


def review_of(request: Obj, uid: str, version: str) -> Obj:
    return {
        "kind": "AdmissionReview",
        "apiVersion": f"{GROUP}/{version}",
        "request": {"uid": uid, **request},
    }


@dataclass(frozen=True, slots=True)
class Verdict:
    allowed: bool
    patch: list[Any] = field(default_factory=list)
    status: Obj = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)


def verdict_of(answer: Obj, uid: str, version: str, *, is_mutating: bool) -> Verdict:
    """Read the verdict from an answer; CallFailed where it is none."""
    response = answer.get("response")
    if not isinstance(response, dict):
        raise _invalid("webhook response was absent")
    if version == "v1":
        _check_v1(answer, response, uid, is_mutating=is_mutating)
    status = response.get("status")
    for name, kind in (("warnings", list), ("auditAnnotations", dict)):
        if response.get(name) and not isinstance(response[name], kind):
            raise _invalid(f"response.{name} is of another type")
    return Verdict(
        response.get("allowed") is True,
        _patch(response) if is_mutating else [],
        status if isinstance(status, dict) else {},
        [text for text in response.get("warnings") or () if isinstance(text, str)],
        {str(k): str(v) for k, v in (response.get("auditAnnotations") or {}).items()},
    )


def _check_v1(answer: Obj, response: Obj, uid: str, *, is_mutating: bool) -> None:
    found_uid = response.get("uid", "")
    if found_uid != uid:
        raise _invalid(f'expected response.uid="{uid}", got "{found_uid}"')
    wanted, found = f"{GROUP}/v1, Kind=AdmissionReview", _type_of(answer)
    if found != wanted:
        raise _invalid(f"expected webhook response of {wanted}, got {found}")
    patch, kind = response.get("patch"), response.get("patchType")
    if not is_mutating and patch:
        raise _invalid("validating webhook may not return response.patch")
    if not is_mutating and kind is not None:
        raise _invalid("validating webhook may not return response.patchType")
    if patch and kind is None:
        raise _invalid("webhook returned response.patch but not response.patchType")
    if kind is not None and not patch:
        raise _invalid("webhook returned response.patchType but not response.patch")
    if kind == "":
        raise _invalid('webhook returned invalid response.patchType of ""')


def _type_of(answer: Obj) -> str:
    version = str(answer.get("apiVersion") or "")
    return f"{version if '/' in version else '/' + version}, Kind={answer.get('kind') or ''}"


def _patch(response: Obj) -> list[Any]:
    if not response.get("patch"):
        return []
    kind = response.get("patchType") or "JSONPatch"
    if kind != "JSONPatch":
        raise CallFailed(f'unsupported patch type "{kind}"')
    try:
        patch = decode_json(base64.b64decode(response["patch"], validate=True))
    except (binascii.Error, TypeError, ValueError) as error:
        raise _invalid(f"response.patch is no JSON patch in base64: {error}") from error
    if not isinstance(patch, list):
        raise _invalid("response.patch is no list of operations")
    return patch


def _invalid(why: str) -> CallFailed:
    return CallFailed(f"received invalid webhook response: {why}")


def refusal(name: str, status: Obj) -> ApiError:
    """Make the answer to a client whose request was denied. As webhook/errors: ToStatusErr."""
    denied = f'admission webhook "{name}" denied the request'
    code = status.get("code")
    code = code if type(code) is int and 400 <= code < 600 else 400
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    why = f": {message or reason}" if message or reason else " without explanation"
    details = status.get("details")
    known = details if isinstance(details, dict) and details else None
    return ApiError(denied + why[:_LONGEST], reason=reason[:_LONGEST], code=code, details=known)
