"""Takes what agents say: into the pod's state, the work queue, and the parts that it concerns.

Called by the connections of agents. It decides nothing about pods: whoever works on a pod looks at
its state afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...client.clock import Clock
from ...client.workqueue import WorkQueue
from ...engine import JobId
from ..network.endpoint_updates import Network
from ..planning.live_updates import LiveSources
from ..pod.pods import PodState
from .group_exec import GroupCommands
from .journal import Record
from .sessions import AgentErrand


@dataclass(frozen=True, slots=True)
class AgentEvents:
    """`ask_engine` has the engine asked soon (connection.AgentEventHandler)."""

    queue: WorkQueue[str]
    live: LiveSources
    network: Network
    commands: GroupCommands
    ask_engine: Callable[[], None]
    clock: Clock

    def on_hello(self, state: PodState, message: dict[str, Any]) -> None:
        if state.job_id is None and message.get("job"):
            state.job_id = JobId(str(message["job"]))
            state.submitted = self.clock.now()
        state.asked_to_end = None  # what was said over another connection may never have arrived
        revision = message.get("revision")
        self.live.on_hello(state, int(revision) if revision is not None else None)
        self.queue.add(state.uid)

    def on_record(self, state: PodState, record: Record) -> None:
        if state.apply(record):
            self.queue.add(state.uid)
            if record.type == "finished":
                self.ask_engine()

    def on_start(self, state: PodState, errand: AgentErrand, message: dict[str, Any]) -> None:
        self.commands.begin(state, errand, message)

    def on_network(self, state: PodState, message: dict[str, Any], line: str) -> None:
        self.network.on_message(state, message, line)

    def on_line_end(self, state: PodState, line: str) -> None:
        self.network.on_silence(state, line)

    def on_silence(self, state: PodState) -> None:
        self.network.on_silence(state)
        self.live.on_silence(state)
        self.queue.add(state.uid)
        self.ask_engine()
