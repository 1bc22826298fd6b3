"""Reports on a pod: tells what its agent wrote as Events, and has its status written.

Used by the pod's worker and by what starts pods. A status that could not be written is tried again
soon; one of a job whose agent has not had its last word waits for that a moment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...api.objects import Obj, is_terminal
from ...client.clock import Clock
from ...client.recorder import EventType
from ...client.workqueue import WorkQueue
from ...engine import JobState
from ..status.status_writer import StatusWriter
from .events import Events
from .pods import PodState

LAST_WORD = 1.0  # seconds in which the end of a journal may still arrive over a shared file system
OLD = 5.0  # seconds; nodes' clocks may not agree with ours about less


@dataclass(frozen=True, slots=True)
class PodReporter:
    writer: StatusWriter
    events: Events
    queue: WorkQueue[str]
    clock: Clock

    def catch_up(self, pod: Obj, state: PodState) -> None:
        """Read the journal file where no agent speaks, or has just ceased to: there the file
        counts.
        """
        if state.connection is None or state.has_ended:
            state.read_journal()
        for record in state.take_untold():
            kind: EventType = "Warning" if record.kind == "Warning" else "Normal"
            then = _remember_told(state, record.seq)
            is_old = self.clock.now() - record.time > OLD  # of while no kubelet was there
            when = record.time if is_old else None
            self.events.tell(pod, kind, record.reason, record.message, then, when)

    def awaits_last_word(self, state: PodState) -> bool:
        """Return whether the job is over, as the engine says, and the journal's end is not here
        yet.
        """
        journal, job = state.journal, state.job
        if job is None or job.state not in (JobState.COMPLETED, JobState.FAILED):
            return False
        left = state.ended_seen + LAST_WORD - self.clock.now()
        if journal.finished is not None or left <= 0:
            return False
        self.later(state, min(left, 0.25))
        return True

    async def write(self, pod: Obj, state: PodState) -> None:
        """Write the status where it differs."""
        written = await self.writer.write(pod, state)
        if written is None:
            self.later(state, 1.0)
        elif is_terminal(written):
            self.later(state, 0.0)

    def later(self, state: PodState, delay: float) -> None:
        """Have the pod looked at again."""
        self.queue.add_after(state.uid, delay)


def _remember_told(state: PodState, seq: int) -> Callable[[], None]:
    return lambda: state.folder.remember_told(seq)
