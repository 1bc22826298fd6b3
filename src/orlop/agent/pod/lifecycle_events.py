"""Lifecycle events and actions, as values: what the pod lifecycle is told, and what it answers.

Made by the supervisor and by `pod_lifecycle`: events are interpreted there, actions are carried out
by the supervisor.
"""

from __future__ import annotations

from ..container.container_state import Spec
from ..linux.fast_imports import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Union


@value
class Begin:
    """The sandbox is ready."""


@value
class Add:
    """A container that was not known when the pod began: an ephemeral one."""

    spec: Spec


@value
class Started:
    container: str


@value
class NotStarted:
    """The runtime refused; the words are its own."""

    container: str
    message: str


@value
class Exited:
    container: str
    code: int  # 128 + signal if a signal ended it
    signal: int = 0
    is_oom: bool = False
    message: str = ""


@value
class Probed:
    """A probe has been failing, or succeeding, as often as its threshold says."""

    container: str
    restart: int
    probe: str
    is_good: bool


@value
class Hooked:
    """A hook has ended, or could not be run."""

    container: str
    restart: int
    hook: str
    error: str = ""


@value
class Warn:
    """The engine's early signal: the time limit is near."""


@value
class Terminate:
    """Ends the pod; `why` is deleted, signal, deadline or evicted, which has words of its own.

    May come again with less grace.
    """

    why: str
    grace: float
    message: str = ""


@value
class Tick:
    """Time has passed."""


@value
class Start:
    container: str
    restart: int


@value
class Watch:
    """Begin to probe a container; the probes end with its run."""

    container: str
    restart: int
    since: float  # when it started


@value
class RunHook:
    container: str
    restart: int
    hook: str


@value
class Signal:
    container: str
    number: int


@value
class Record:
    """A record to be written to the journal."""

    fields: dict[str, Any]


@value
class Finish:
    """The pod is over; the agent exits with `code`."""

    code: int


if TYPE_CHECKING:
    Event = Union[Begin, Add, Started, NotStarted, Exited, Probed, Hooked, Warn, Terminate, Tick]
    Action = Union[Start, Watch, RunHook, Signal, Record, Finish]
