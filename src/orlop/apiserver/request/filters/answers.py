"""Sees to it that every request has an answer, and that every answer is counted.

Every failure leaves as a metav1.Status; what is not an ApiError is our own mistake, is logged with
its story and shown to nobody.
"""

from __future__ import annotations

import time

from aiohttp import web

from ....errors import ApiError, InternalError
from ....log import logger
from .. import metrics
from ..context import GoOn, RequestContext
from ..http import failure

log = logger(__name__)

_CLIENT_GONE = 499


async def count(context: RequestContext, go_on: GoOn) -> web.StreamResponse:
    counted = metrics.Request(context.info, context.kind, time.monotonic())
    code = _CLIENT_GONE
    try:
        response = await go_on(context)
        code = response.status
        return response
    finally:
        counted.end(code, time.monotonic())


async def answer_failures(context: RequestContext, go_on: GoOn) -> web.StreamResponse:
    request = context.request
    try:
        response = await go_on(context)
        log.debug("request", method=request.method, path=request.path, code=response.status)
        return response
    except ApiError as error:
        log.debug("refused", method=request.method, path=request.path, error=error)
        refused = failure(error)
        if error.status_code == 401:
            refused.force_close()  # strangers may come again, but not stay
        return refused
    except ConnectionResetError:  # who asked is gone, in the middle of our answer
        log.debug("client gone", method=request.method, path=request.path)
        return web.Response(status=_CLIENT_GONE)
    except Exception:
        log.error("a request failed", exc_info=True, method=request.method, path=request.path)
        return failure(InternalError("Internal error occurred: see the control plane's log"))
