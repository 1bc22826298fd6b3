"""Hands a request to who answers it: an extension server, the documents, or the dispatcher."""

from __future__ import annotations

from aiohttp import web

from ..context import GoOn, RequestContext
from ..failures import no_such_path


async def serve_by_extension_server(context: RequestContext, go_on: GoOn) -> web.StreamResponse:
    """Pass on what an APIService has taken over, before anything of ours may answer."""
    servers = context.config.extension_servers
    server = servers.of(context.info)
    if server is None:
        return await go_on(context)
    return await servers.serve(context.request, context.info, context.user, server)


async def serve_nonresource(context: RequestContext, go_on: GoOn) -> web.StreamResponse:
    if context.info.is_resource:
        return await go_on(context)
    return await context.config.nonresource.serve(context.request, context.info)


async def dispatch(context: RequestContext, go_on: GoOn) -> web.StreamResponse:
    if context.kind is None:
        raise no_such_path()
    serve = context.config.dispatcher.serve
    return await serve(context.request, context.info, context.user, context.kind)
