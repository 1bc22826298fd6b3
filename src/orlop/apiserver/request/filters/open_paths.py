"""Answers the paths that are open to all: health, and what others need to check our tokens."""

from __future__ import annotations

from aiohttp import web

from ...auth.serviceaccount_tokens import Tokens
from ..context import GoOn, RequestContext
from ..failures import no_such_path
from ..health import ENDPOINTS
from ..http import answer
from ..render import encode
from ..requestinfo import flag

ISSUER_PATHS = (".well-known/openid-configuration", "openid/v1/jwks")


async def serve_open_paths(context: RequestContext, go_on: GoOn) -> web.StreamResponse:
    path, tokens = context.info.path.strip("/"), context.config.registry.tokens
    if path in ISSUER_PATHS and tokens is not None:
        return issuer_document(context.request, path, tokens)
    if path.partition("/")[0] in ENDPOINTS:
        return _health(context, path)
    return await go_on(context)


def _health(context: RequestContext, path: str) -> web.Response:
    query = context.request.query
    excluded = tuple(query.getall("exclude", []))
    health = context.config.health.report(path, verbose=flag(query, "verbose"), excluded=excluded)
    if health is None:
        raise no_such_path()
    return answer(health.text.encode(), "text/plain; charset=utf-8", code=health.code)


def issuer_document(request: web.BaseRequest, path: str, tokens: Tokens) -> web.Response:
    """Answer what others need to check our tokens: public keys, and where they are."""
    if request.method not in ("GET", "HEAD"):
        raise no_such_path()
    if path.endswith("/jwks"):
        return answer(encode(tokens.key_set()), "application/jwk-set+json")
    return answer(encode(tokens.configuration(request.host)))
