"""token: a new token of a service account, for as long and for whom the caller asks.

Called for POST on `serviceaccounts/<name>/token`, by kubelets, `kubectl create token` and clients
of other services. As registry/core/serviceaccount/storage/token.go; nothing is stored.
"""

from __future__ import annotations

from typing import Any

from ...api import kinds
from ...api.objects import Key, Obj
from ...api.times import rfc3339
from ...api.validation import FieldError, invalid
from ...api.validation.errors import bad_value
from ...errors import MethodNotAllowed
from ..auth.serviceaccount_tokens import Lifetime, Tokens
from ..objects.conversion import bucket_of
from ..registry import Call, Registry
from ..request.failures import bad_request, conflict, not_found
from .admitting import admit

TOKEN_REQUEST = kinds.Kind("authentication.k8s.io", "v1", "TokenRequest", "tokenrequests", True)
_DEFAULT, _SHORTEST, _LONGEST = 3600, 600, 1 << 32
# What kubelets ask for programs that may have been written before tokens could expire: they get a
# year, and are to be warned of after the time they were told. As upstream's ExtendedExpiration.
WARN_ONLY, _EXTENDED = 3607, 365 * 24 * 3600
_BINDABLE = {("v1", "Pod"): "pod", ("v1", "Secret"): "secret", ("v1", "Node"): "node"}


async def request_token(registry: Registry, call: Call, body: Any) -> Obj:
    """Return the TokenRequest with its status."""
    tokens = registry.tokens
    if tokens is None:
        raise MethodNotAllowed("this server has no key to sign tokens with", details={})
    account = registry.find(call).decode()
    spec = _spec(call, body, tokens)
    asked = {"apiVersion": TOKEN_REQUEST.api_version, "kind": TOKEN_REQUEST.kind, "spec": spec}
    named = {"metadata": {"name": call.name, "namespace": call.namespace}}
    of = (TOKEN_REQUEST.group, TOKEN_REQUEST.version, TOKEN_REQUEST.kind)
    await admit(registry, call, asked | named, of)
    bound = _bound(registry, call, account, spec.get("boundObjectRef"))
    expires = registry.now() + spec["expirationSeconds"]
    lifetime = _lifetime(registry, tokens, spec, expires, bound)
    return {
        "kind": TOKEN_REQUEST.kind,
        "apiVersion": TOKEN_REQUEST.api_version,
        "metadata": {
            "name": call.name,
            "namespace": call.namespace,
            "creationTimestamp": registry.timestamp(),
        },
        "spec": spec,
        "status": {
            "token": tokens.issue(account, spec["audiences"], lifetime, bound),
            "expirationTimestamp": rfc3339(expires),
        },
    }


def _spec(call: Call, body: Any, tokens: Tokens) -> Obj:
    if not isinstance(body, dict) or not isinstance(body.get("spec") or {}, dict):
        raise bad_request("the body of the request must be a TokenRequest")
    metadata = body.get("metadata") or {}
    if metadata.get("name") not in (None, "", call.name):
        raise bad_request("service account name in the body does not match that of the URL")
    if metadata.get("namespace") not in (None, "", call.namespace):
        raise bad_request("namespace in the body does not match that of the URL")
    spec: Obj = {"boundObjectRef": None, **(body.get("spec") or {})}
    spec["audiences"] = spec.get("audiences") or list(tokens.audiences)
    seconds = spec.get("expirationSeconds")
    spec["expirationSeconds"] = _DEFAULT if seconds is None else seconds
    problem = _out_of_range(spec["expirationSeconds"])
    if problem is not None:
        raise invalid(TOKEN_REQUEST, call.name, [problem])
    if not all(isinstance(audience, str) for audience in spec["audiences"]):
        raise bad_request("spec.audiences must be strings")
    return spec


def _out_of_range(seconds: Any) -> FieldError | None:
    field = "spec.expirationSeconds"
    if not isinstance(seconds, int) or seconds < _SHORTEST:
        return bad_value(field, seconds, "may not specify a duration less than 10 minutes")
    if seconds > _LONGEST:
        return bad_value(field, seconds, "may not specify a duration larger than 2^32 seconds")
    return None


def _lifetime(
    registry: Registry, tokens: Tokens, spec: Obj, expires: float, bound: dict[str, Obj]
) -> Lifetime:
    is_ours = set(spec["audiences"]) <= set(tokens.audiences)
    if spec["expirationSeconds"] == WARN_ONLY and is_ours and "pod" in bound:
        return Lifetime(registry.now() + _EXTENDED, warn_after=expires)
    return Lifetime(expires)


def _bound(registry: Registry, call: Call, account: Obj, reference: Any) -> dict[str, Obj]:
    """Return the objects whose end is the token's too; a pod's node is told along with it."""
    if not reference:
        return {}
    named = (reference.get("apiVersion"), reference.get("kind"))
    word = _BINDABLE.get(named)
    if word is None:
        what = f"{named[0]}, Kind={named[1]}"
        raise bad_request(f"cannot bind token for serviceaccount {call.name!r} to object of {what}")
    kind = {"pod": kinds.POD, "secret": kinds.SECRET, "node": kinds.NODE}[word]
    found = _find(registry, kind, call.namespace, reference.get("name") or "")
    if found is None:
        raise not_found(kind, reference.get("name") or "")
    metadata = found["metadata"]
    if reference.get("uid") and reference["uid"] != metadata["uid"]:
        why = (
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID "
            f"in record ({metadata['uid']}). The object might have been deleted and then recreated"
        )
        raise conflict(kind, metadata["name"], why)
    if word != "pod":
        return {word: found}
    if found["spec"].get("serviceAccountName") != account["metadata"]["name"]:
        raise bad_request(
            f'cannot bind token for serviceaccount "{call.name}" to pod running with different '
            "serviceaccount name."
        )
    node = _find(registry, kinds.NODE, "", found["spec"].get("nodeName") or "")
    return {"pod": found} | ({"node": node} if node is not None else {})


def _find(registry: Registry, kind: kinds.Kind, namespace: str, name: str) -> Obj | None:
    key = Key(namespace if kind.namespaced else "", name)
    record = registry.store.get(bucket_of(kind), key)
    return None if record is None else record.decode()
