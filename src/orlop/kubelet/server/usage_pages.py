"""Serves the pages with what pods use, and the process's own metrics.

Called by the kubelet's listener, on upstream's paths. Beside masters, the bearer of a token may
read them who is allowed to; figures are taken by `measurements.py`.
"""

from __future__ import annotations

import socket
import time

from aiohttp import web

from ... import __version__
from ...metrics import MEDIA_TYPE, PROCESS
from . import stats
from .access import Access, Refused, is_master
from .measurements import Measurements

PATHS = ("/stats/summary", "/metrics/resource", "/metrics/cadvisor")


class UsagePages:
    def __init__(self, measurements: Measurements, access: Access) -> None:
        self._measurements = measurements
        self._access = access
        self._started = time.time()

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        refused = await self._refusal(request, "")
        if refused is not None:
            return web.Response(status=refused.code, text=refused.words)
        return web.Response(body=PROCESS.text().encode(), headers={"Content-Type": MEDIA_TYPE})

    async def _refusal(self, request: web.Request, node: str) -> Refused | None:
        return None if is_master(request) else await self._access.refusal(request, node)

    async def usage(self, request: web.Request) -> web.StreamResponse:
        """Return usage of one of our nodes, where the API server's proxy or `?node=` names it, else
        of all.
        """
        node = request.query.get("node") or (_proxied_node(request) if is_master(request) else "")
        refused = await self._refusal(request, node)
        if refused is not None:
            return web.Response(status=refused.code, text=refused.words)
        measured = await self._measurements.current()
        usages = [usage for usage in measured if node in ("", usage.node)]
        now = time.time()
        match request.path:
            case "/stats/summary":
                name = node or socket.gethostname()
                return web.json_response(stats.summary(usages, name, self._started, now))
            case "/metrics/cadvisor":
                page = stats.cadvisor_metrics(usages, __version__)
            case _:
                page = stats.resource_metrics(usages, now)
        return web.Response(body=page.encode(), headers={"Content-Type": MEDIA_TYPE})


def _proxied_node(request: web.Request) -> str:
    """Return the node in `/api/v1/nodes/<node>/proxy/...`, by which a client came; empty if by
    none.
    """
    match request.headers.get("X-Forwarded-Uri", "").split("/"):
        case ["", "api", "v1", "nodes", name, "proxy", *_]:
            return name.partition(":")[0]
    return ""
