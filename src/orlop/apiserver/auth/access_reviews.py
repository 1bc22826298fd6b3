"""Questions about access that are answered, not stored: who am I, may I, what may I.

Called for POST on the review kinds; kubectl auth whoami, can-i and can-i --list ask them. They
change nothing and reveal what the asker is allowed to know.
"""

from __future__ import annotations

from typing import Any

from ...api.objects import Obj
from ...errors import Unauthorized
from ..registry import Call
from ..request.failures import bad_request
from .authentication import User, user, user_info
from .authorization import Authorizer
from .bearer_tokens import BearerTokens
from .rbac import Attributes, Rbac


class Reviews:
    def __init__(
        self, authorizer: Authorizer, rbac: Rbac, tokens: BearerTokens | None = None
    ) -> None:
        self._authorizer = authorizer
        self._rbac = rbac
        self._tokens = tokens

    async def answer(self, call: Call, body: Any) -> Obj:
        """Return the review with its status filled in."""
        if not isinstance(body, dict):
            raise bad_request("the body of the request must be a review")
        spec = body.get("spec") or {}
        if not isinstance(spec, dict):
            raise bad_request(f"spec: expected the object of a {call.kind.kind}, found {spec!r}")
        status = await self._status(call, spec)
        return {
            "kind": call.kind.kind,
            "apiVersion": call.kind.api_version,
            "metadata": {"creationTimestamp": None, **(body.get("metadata") or {})},
            **({"spec": spec} if call.kind.kind != "SelfSubjectReview" else {}),
            "status": status,
        }

    async def _status(self, call: Call, spec: Obj) -> Obj:
        match call.kind.kind:
            case "SelfSubjectReview":
                return {"userInfo": user_info(call.user)}
            case "SelfSubjectAccessReview":
                return self._access(call.user, spec)
            case "SubjectAccessReview" | "LocalSubjectAccessReview":
                return self._access(_subject(spec), _in_namespace(call, spec))
            case "SelfSubjectRulesReview":
                return self._rules(call.user, spec)
            case "TokenReview":
                return await self._token(spec)
        raise bad_request(f"{call.kind.kind} cannot be answered here")

    async def _token(self, spec: Obj) -> Obj:
        token, audiences = spec.get("token"), spec.get("audiences") or ()
        if self._tokens is None or not isinstance(token, str) or not token:
            raise bad_request("token is required for TokenReview in authentication")
        try:
            who, meant = await self._tokens.authenticate(token, audiences)
        except Unauthorized as error:
            return {"user": {}, "error": str(error)}
        return {"authenticated": True, "user": user_info(who), "audiences": list(meant)}

    def _access(self, who: User, spec: Obj) -> Obj:
        return {"allowed": self._authorizer.allows(who, _attributes(spec))}

    def _rules(self, who: User, spec: Obj) -> Obj:
        namespace = spec.get("namespace")
        if not namespace:
            raise bad_request("no namespace on request")
        resource_rules, path_rules = [], []
        for rule in self._rbac.rules(who, namespace):
            if rule.get("nonResourceURLs"):
                path_rules.append(
                    {"verbs": rule["verbs"], "nonResourceURLs": rule["nonResourceURLs"]}
                )
            else:
                resource_rules.append(rule)
        return {
            "resourceRules": resource_rules,
            "nonResourceRules": path_rules,
            "incomplete": False,
        }


def _subject(spec: Obj) -> User:
    if not spec.get("user") and not spec.get("groups"):
        raise bad_request("spec.user: Required value: at least one of user or group must be given")
    return user(spec.get("user") or "", spec.get("groups") or ())


def _in_namespace(call: Call, spec: Obj) -> Obj:
    wanted = (spec.get("resourceAttributes") or {}).get("namespace", "")
    if call.kind.namespaced and wanted != call.namespace:
        raise bad_request(
            "spec.resourceAttributes.namespace must be the namespace of the request, "
            f"{call.namespace}"
        )
    return spec


def _attributes(spec: Obj) -> Attributes:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if bool(resource) == bool(path):
        raise bad_request(
            "exactly one of spec.resourceAttributes and spec.nonResourceAttributes must be given"
        )
    if path:
        return Attributes(path.get("verb", ""), path=path.get("path", "") or "/")
    assert resource is not None
    return Attributes(
        verb=resource.get("verb", ""),
        group=resource.get("group", ""),
        resource=resource.get("resource", ""),
        subresource=resource.get("subresource", ""),
        namespace=resource.get("namespace", ""),
        name=resource.get("name", ""),
    )
