"""Finds out who calls: by the certificate, else by the token."""

from __future__ import annotations

from aiohttp import web

from ....errors import Unauthorized
from ....log import logger
from ...auth.authentication import User, from_certificate
from ...auth.bearer_tokens import BearerTokens, token_of
from ..context import NOBODY, GoOn, RequestContext

log = logger(__name__)


async def authenticate(context: RequestContext, go_on: GoOn) -> web.StreamResponse:
    config, request = context.config, context.request
    context.caller = NOBODY
    context.caller = context.user = await user_of(request, config.bearer)
    config.know(request.transport)
    return await go_on(context)


async def user_of(request: web.BaseRequest, bearer: BearerTokens) -> User:
    """Return who calls. Which of certificate and token was wrong is told to nobody."""
    transport = request.transport
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    token = "" if certificate else token_of(request)
    if not token:
        return from_certificate(certificate)
    try:
        return (await bearer.authenticate(token)).user
    except Unauthorized as error:
        log.debug("token refused", error=error)
        raise Unauthorized("Unauthorized") from error
