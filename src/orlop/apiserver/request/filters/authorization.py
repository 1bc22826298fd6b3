"""Lets no request on whose user may not do what it asks."""

from __future__ import annotations

from aiohttp import web

from ..context import GoOn, RequestContext


async def authorize(context: RequestContext, go_on: GoOn) -> web.StreamResponse:
    check(context)
    return await go_on(context)


def check(context: RequestContext) -> None:
    """Raise Forbidden unless the user may do what the request asks."""
    context.is_allowed = False
    context.config.authorizer.check(context.user, context.info, context.kind)
    context.is_allowed = True
