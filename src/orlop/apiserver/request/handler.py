"""One HTTP request, from its first byte to its answer: who, what, may they, then do it.

Called by the HTTP server for every request, which goes through `FILTERS` from the first to the last
and comes back with an answer the other way. What has no readable path goes through none of them.
"""

from __future__ import annotations

from aiohttp import web

from ...errors import BadRequest
from . import requestinfo
from .context import Filter, HandlerConfig, RequestContext, chain
from .filters import audit
from .filters.answers import answer_failures, count
from .filters.authentication import authenticate
from .filters.authorization import authorize
from .filters.impersonation import impersonate
from .filters.open_paths import serve_open_paths
from .filters.serving import dispatch, serve_by_extension_server, serve_nonresource
from .filters.turns import limit_time, receive_body, take_seat
from .http import failure

FILTERS: tuple[Filter, ...] = (
    audit.response_complete,  # the record of the request ends with its answer
    count,  # the metrics
    answer_failures,  # every failure is an answer
    serve_open_paths,  # paths open to all
    authenticate,  # who is it
    audit.request_received,  # the record begins
    impersonate,  # for whom do they act
    receive_body,  # the whole body is here
    take_seat,  # is it their turn
    authorize,  # may they
    limit_time,  # do it in time, or for long without a seat
    audit.response_started,  # the record of what takes long
    serve_by_extension_server,
    serve_nonresource,
    dispatch,
)


class Handler:
    def __init__(self, config: HandlerConfig) -> None:
        self._config = config
        self._kinds = config.registry.kinds
        is_audited = config.auditor is not None
        self._serve = chain([one for one in FILTERS if is_audited or one not in audit.STAGES])

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            info = requestinfo.parse(request.method, request.rel_url.raw_path, request.query)
        except BadRequest as error:
            refused = failure(error)
            refused.force_close()  # nobody has asked who it is
            return refused
        kind = self._kinds.by_resource(info.group, info.version, info.resource)
        return await self._serve(RequestContext(request, info, kind, self._config))
