"""Decides who may read the kubelet's pages of numbers: masters, and whom the API server lets.

Asked by the kubelet's server. A bearer token is shown to the API server in a TokenReview, and its
owner's right to `nodes/metrics` or `nodes/stats` in a SubjectAccessReview, so that a Prometheus or
a metrics-server in a pod reads them as in any cluster. As pkg/kubelet/server/auth.go; it keeps no
rights of its own, and remembers none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from aiohttp import web

from ... import errors
from ...api.kinds import SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW
from ...api.objects import Obj
from ...client.api import Api

MASTERS = "system:masters"


class Refused(NamedTuple):
    code: int
    words: str


UNKNOWN = Refused(401, "Unauthorized")


class Access:
    def __init__(self, api: Api) -> None:
        self._api = api

    async def refusal(self, request: web.Request, node: str) -> Refused | None:
        """Return why the bearer of a token may not read a page of a node, or of all; None if they
        may.
        """
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return UNKNOWN
        try:
            user = await self._user(token.strip())
            if user is None:
                return UNKNOWN
            subresource = "stats" if request.path.startswith("/stats") else "metrics"
            if await self._may(user, subresource, node):
                return None
        except errors.ApiError as error:
            return Refused(500, f"the API server could not be asked: {error.message}")
        words = f"user={user.get('username')}, verb=get, resource=nodes, subresource={subresource}"
        return Refused(403, f"Forbidden ({words})")

    async def _user(self, token: str) -> Obj | None:
        review = await self._api.create(TOKEN_REVIEW, _review(TOKEN_REVIEW.kind, {"token": token}))
        status = review.get("status") or {}
        return (status.get("user") or {}) if status.get("authenticated") else None

    async def _may(self, user: Obj, subresource: str, node: str) -> bool:
        asked = {"verb": "get", "version": "v1", "resource": "nodes", "subresource": subresource}
        spec = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups") or [],
            "resourceAttributes": {**asked, **({"name": node} if node else {})},
        }
        review = _review(SUBJECT_ACCESS_REVIEW.kind, spec)
        answer = await self._api.create(SUBJECT_ACCESS_REVIEW, review)
        return bool((answer.get("status") or {}).get("allowed"))


def _review(kind: str, spec: Obj) -> Obj:
    group = "authentication" if kind == TOKEN_REVIEW.kind else "authorization"
    return {"apiVersion": f"{group}.k8s.io/v1", "kind": kind, "metadata": {}, "spec": spec}


def is_master(request: web.Request) -> bool:
    """Return whether the client's certificate, which TLS has verified, is of the group of
    masters.
    """
    certificate: dict[str, Any] = (
        request.transport and request.transport.get_extra_info("peercert")
    ) or {}
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    return ("organizationName", MASTERS) in subject
