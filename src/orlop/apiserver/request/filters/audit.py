"""Keeps the record of a request that the audit policy wants, one filter for each of its stages.

What the record tells is read from the context. As
apiserver/pkg/endpoints/filters/audit.go.
"""

from __future__ import annotations

from aiohttp import web

from ..context import NOBODY, GoOn, RequestContext


async def response_complete(context: RequestContext, go_on: GoOn) -> web.StreamResponse:
    """End the record with the answer; that of a stranger begins only now."""
    response = None
    try:
        response = await go_on(context)
        return response
    finally:
        if context.caller is NOBODY:
            _begin(context)
        trail = context.trail
        if trail is not None:
            _note(context)
            if response is not None and not response.prepared:
                response.headers["Audit-Id"] = trail.id
            await trail.end(response)


async def request_received(context: RequestContext, go_on: GoOn) -> web.StreamResponse:
    """Begin the record: it is known who calls."""
    _begin(context)
    return await go_on(context)


async def response_started(context: RequestContext, go_on: GoOn) -> web.StreamResponse:
    """Tell of a request that may take long before it has an answer."""
    if context.trail is not None and context.is_long_running:
        _note(context)
        context.trail.tell("ResponseStarted")
    return await go_on(context)


STAGES = (response_complete, request_received, response_started)


def _begin(context: RequestContext) -> None:
    auditor, caller = context.config.auditor, context.caller
    if auditor is not None and caller is not None:
        context.trail = auditor.begin(context.request, context.info, caller)


def _note(context: RequestContext) -> None:
    """Put into the record what has become known since it began."""
    if context.trail is None:
        return
    if context.user is not context.caller:
        context.trail.impersonates(context.user)
    if context.is_allowed is not None:
        context.trail.authorized(context.is_allowed)
