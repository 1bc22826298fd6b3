"""Lets users take turns: a request waits for its body, then for a seat, then works in time.

What may take as long as its client wants, a watch for instance, keeps its seat until it is
authorized, and no longer. As apiserver/pkg/server/filters/priority-and-fairness.go and timeout.go.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from ....errors import Timeout
from ..context import GoOn, RequestContext
from ..http import InTime, read
from ..offload import SEAT
from .authorization import check

UPLOAD_TIMEOUT = 20.0  # seconds for a body to come; a megabyte takes ten on a bad line


async def receive_body(context: RequestContext, go_on: GoOn) -> web.StreamResponse:
    """Read the whole body, which may come slowly, of a user who may do what the request asks.

    An extension server reads the body itself.
    """
    request, config = context.request, context.config
    if (
        not context.is_long_running
        and request.body_exists
        and not request.content.is_eof()
        and config.extension_servers.of(context.info) is None
    ):
        check(context)
        async with config.flow_control.uploads.seat(context.user.name):
            await _read(request, min(UPLOAD_TIMEOUT, config.timeout))
    return await go_on(context)


async def _read(request: web.BaseRequest, patience: float) -> None:
    try:
        async with asyncio.timeout(patience):
            await read(request)
    except TimeoutError as error:
        words = f"the body of the request did not come within {patience:g} s"
        raise Timeout(words, details={}) from error


async def take_seat(context: RequestContext, go_on: GoOn) -> web.StreamResponse:
    request, flow_control = context.request, context.config.flow_control
    name = context.user.name
    request[SEAT] = flow_control.large.seat(name)
    context.seat = flow_control.of(request.method).seat(name)
    async with context.seat:
        return await go_on(context)


async def limit_time(context: RequestContext, go_on: GoOn) -> web.StreamResponse:
    """End what takes too long; what may take long gives its seat back."""
    if context.is_long_running:
        if context.seat is not None:
            context.seat.leave()
        return await go_on(context)
    async with InTime(context.request, context.config.timeout):
        return await go_on(context)
