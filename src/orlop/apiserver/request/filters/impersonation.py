"""Lets a request act for another user, where its caller may."""

from __future__ import annotations

from aiohttp import web

from ...auth.impersonation import effective_user
from ..context import GoOn, RequestContext


async def impersonate(context: RequestContext, go_on: GoOn) -> web.StreamResponse:
    headers, authorizer = context.request.headers, context.config.authorizer
    context.user = effective_user(context.user, headers, authorizer)
    return await go_on(context)
