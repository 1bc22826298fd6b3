"""One request on its way to an answer, and the filters that it goes through.

Made by the handler, read and filled in by each filter. A filter does its part and calls `go_on` for
all that comes after it, or answers by itself. The chain is built once, when the server starts. As
apiserver/pkg/server/config.go: DefaultBuildHandlerChain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from aiohttp import web

from ...api.kinds import Kind
from ..aggregation import ExtensionServers
from ..audit import Auditor, Trail
from ..auth.authentication import User
from ..auth.authorization import Authorizer
from ..auth.bearer_tokens import BearerTokens
from ..registry import Registry
from .dispatch import Dispatcher
from .failures import no_such_path
from .health import HealthChecks
from .metrics import is_long_running
from .nonresource import NonResourcePaths
from .priority_and_fairness import FlowControl, Seat
from .requestinfo import RequestInfo

REQUEST_TIMEOUT = 60.0  # seconds; watches, logs and the like have as long as they want
NOBODY = User("")

GoOn = Callable[["RequestContext"], Awaitable[web.StreamResponse]]
Filter = Callable[["RequestContext", GoOn], Awaitable[web.StreamResponse]]


def _know_nobody(transport: asyncio.BaseTransport | None) -> None:
    pass


@dataclass(frozen=True, slots=True)
class HandlerConfig:
    """The parts of the server that filters work with."""

    registry: Registry
    authorizer: Authorizer
    bearer: BearerTokens
    flow_control: FlowControl
    extension_servers: ExtensionServers
    dispatcher: Dispatcher
    nonresource: NonResourcePaths
    health: HealthChecks
    auditor: Auditor | None = None  # without one no records are kept
    # Is told of a connection whose other end has said who it is.
    know: Callable[[asyncio.BaseTransport | None], None] = _know_nobody
    timeout: float = REQUEST_TIMEOUT


@dataclass(slots=True)
class RequestContext:
    """What is known of a request; the fields below `config` are for filters to fill in."""

    request: web.BaseRequest
    info: RequestInfo
    kind: Kind | None  # None: the path names none of ours
    config: HandlerConfig
    caller: User | None = None  # NOBODY as long as it is not known; None where nobody is asked
    user: User = NOBODY  # whom the request is taken for: the caller, or whom they act for
    seat: Seat | None = None
    is_allowed: bool | None = None  # None: that has not been asked yet
    trail: Trail | None = None  # the record of it, where the audit policy wants one
    is_long_running: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_long_running = is_long_running(self.info)


def chain(filters: Sequence[Filter]) -> GoOn:
    """Link filters, the outermost first; what none of them answers is not there."""
    go_on: GoOn = _not_found
    for one in reversed(filters):
        go_on = _linked(one, go_on)
    return go_on


def _linked(run: Filter, go_on: GoOn) -> GoOn:
    def linked(context: RequestContext) -> Awaitable[web.StreamResponse]:
        return run(context, go_on)

    return linked


async def _not_found(context: RequestContext) -> web.StreamResponse:
    raise no_such_path()
