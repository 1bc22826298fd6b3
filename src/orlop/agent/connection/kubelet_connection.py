"""Keeps the agent's connection to the kubelet: dials for ever, tells the journal, streams logs.

A thread of its own, started after the first containers; it reads the journal and the log files,
carries sessions (commands, attachments, ports) and hands requests of the kubelet to the supervisor,
so that nothing that happens to the connection can hold up the pod.
"""

from __future__ import annotations

import os
import select
import time

from ... import wellknown
from ..container.logs import LogReader
from ..exec.sessions import Sessions
from ..linux.fast_imports import Flag, loads, start_thread, value
from ..linux.job_output import Sayings
from ..netd.relay import CONNECTED, DISCONNECTED, Carrier
from ..plan import Plan
from ..pod.journal import Journal
from ..pod.lifecycle_events import Terminate
from ..pod.live_updates import KINDS, Updates
from .frames import Broken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..container.stats import Stats
    from ..netd.relay import Relay
    from .upgraded_connection import Link

RETRY_MIN, RETRY_MAX = 0.2, 10.0
SILENCE = 70.0  # the kubelet pings every 20 s
BACKLOG = 256 * 1024  # logs are not read while so much waits to be sent


@value
class Identity:
    """Names this pod's job to the kubelet: its number, its restart, its node."""

    job: str
    restart: int
    node: str


class Uplink:
    def __init__(
        self,
        plan: Plan,
        identity: Identity,
        folder: str,
        journal: Journal,
        post: Callable[[Terminate], None],
        is_log_open: Callable[[str, int], bool],
        sessions: Sessions,
        stats: Stats,
        updates: Updates,
    ) -> None:
        self._stats, self._updates = stats, updates
        self._plan, self._identity, self._folder = plan, identity, folder
        self._journal, self._post, self._is_log_open = journal, post, is_log_open
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._readers: dict[int, LogReader] = {}
        self._sessions = sessions
        sessions.wake = self._wake
        self._carrier = Carrier()
        self._told = self._acked = 0
        self._complaints: set[str] = set()
        self._sayings = Sayings("orlop agent")
        self._is_welcome = False
        self._is_ending = False
        self._done = Flag()

    def start(self) -> None:
        start_thread(self._run)

    def on_records(self) -> None:
        """Note that the journal has grown (called by the supervisor)."""
        self._wake()

    def on_log(self) -> None:
        """Note that a log has grown (called by the supervisor)."""
        if self._readers:
            self._wake()

    def carry(self, relay: Relay) -> None:
        """Carry the messages of this network process from now on, in place of any before it."""
        self._carrier.offer(relay)
        self._wake()

    def finish(self, timeout: float) -> None:
        """Wait until the kubelet knows all of the journal, if it can be reached, but not long."""
        self._is_ending = True
        self._wake()
        self._done.wait(timeout)

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"\0")
        except BlockingIOError:
            pass

    # The thread

    def _run(self) -> None:
        pause = RETRY_MIN
        while not self._done.is_set():
            link = self._dial()
            if link is not None:
                pause = RETRY_MIN
                self._serve(link)
            if self._is_ending:  # unreachable now, and the journal is the truth anyway
                self._done.set()
            self._sleep(pause * (1 + os.urandom(1)[0] / 255) / 2)
            pause = min(2 * pause, RETRY_MAX)

    def _dial(self) -> Link | None:
        from .upgraded_connection import dial_home  # TLS is slow to import: here, in this thread

        return dial_home(self._plan, self._folder, self._complain)

    def _complain(self, words: str) -> None:
        """Write to the job's output, once for each thing that is wrong."""
        if words not in self._complaints:
            if len(self._complaints) < 1000:
                self._complaints.add(words)
            self._sayings.say(f"{words}; trying again")

    def _sleep(self, seconds: float) -> None:
        """Sleep until the time is over, or the pod is."""
        until = time.monotonic() + seconds
        while not self._is_ending and (left := until - time.monotonic()) > 0:
            select.select([self._wake_read], [], [], left)
            self._drain_wakeups()
            self._carrier.adopt(is_connected=False)

    def _serve(self, link: Link) -> None:
        """Speak until the connection breaks."""
        self._is_welcome = False
        identity = self._identity
        hello = {"job": identity.job, "restart": identity.restart, "node": identity.node}
        try:
            self._updates.forget()
            can = {"streams": wellknown.STREAMS_VERSION, "revision": self._updates.revision}
            link.tell({"type": "hello", **hello, "seq": self._journal.seq, **can})
            self._converse(link)
        except Broken:
            pass  # gone: dial again
        except Exception as error:  # whatever it is: without this thread nobody reaches the pod
            self._complain(f"did not understand the kubelet ({error})")
        finally:
            self._is_welcome = False
            self._carrier.tell(DISCONNECTED)
            for reader in self._readers.values():
                reader.close()
            self._readers.clear()
            self._sessions.close()
            link.close()

    def _converse(self, link: Link) -> None:
        heard, has_more = time.monotonic(), False
        while not self._done.is_set():
            can_go_on = has_more and link.backlog < BACKLOG
            self._wait(link, 0.0 if can_go_on else self._sessions.timeout(SILENCE))
            for stream, payload in link.receive():
                heard = time.monotonic()
                if stream == 0:
                    self._on_payload(link, payload)
                else:
                    self._sessions.on_data(stream, payload)
            if time.monotonic() - heard > SILENCE:
                raise Broken("silence")
            self._carrier.adopt(self._is_welcome)
            for payload in self._carrier.take():
                link.send(0, payload)
            self._tell_records(link)
            has_more = self._pump_logs(link)
            self._sessions.turn(link)
            link.flush()
            self._check_done(link)

    def _wait(self, link: Link, timeout: float) -> None:
        """Wait until something can be done; then do all that can be done for sessions."""
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        poll.register(link.fileno(), select.POLLIN | (select.POLLOUT if link.backlog else 0))
        self._carrier.register(poll)
        self._sessions.register(poll, link.backlog < BACKLOG)
        ready = [fd for fd, _ in poll.poll(int(timeout * 1000 + 0.999))]
        if self._wake_read in ready:
            self._drain_wakeups()
        self._sessions.on_ready(ready, lambda: link.backlog < BACKLOG)

    def _drain_wakeups(self) -> None:
        try:
            os.read(self._wake_read, 4096)
        except BlockingIOError:
            pass

    def _on_payload(self, link: Link, payload: bytes) -> None:
        message = loads(payload)
        if str(message.get("type")).startswith("net-"):
            self._carrier.hear(message, payload)
        else:
            self._on_message(link, message)

    def _on_message(self, link: Link, message: dict[str, Any]) -> None:
        """Act on a message; kinds that we do not know are passed over, as versions may differ."""
        kind = message.get("type")
        if kind == "welcome":
            self._is_welcome = True
            self._told = self._acked = min(int(message["acked"]), self._journal.seq)
            self._carrier.tell(CONNECTED)
        elif kind == "ack":
            self._acked = max(self._acked, int(message["seq"]))
        elif kind == "ping":
            link.tell({"type": "pong"})
            if self._carrier.has_any:
                # A pod that lives on: should its network process have to be forked again, at
                # whatever moment, no library is left to be loaded by then.
                from ..netd import netd  # noqa: F401
        elif kind == "terminate":
            self._post(Terminate("deleted", _grace(message["grace"])))
        elif kind == "logs":
            self._open_log(link, message)
        elif kind == "stats":
            link.tell({"type": "stats", "id": message["id"], **self._stats.measure()})
        elif kind in KINDS:
            self._updates.on_message(message)
        elif kind == "close":
            reader = self._readers.pop(int(message["stream"]), None)
            if reader is not None:
                reader.close()
            else:
                self._sessions.on_message(link, message)
        else:
            self._sessions.on_message(link, message)

    def _tell_records(self, link: Link) -> None:
        if self._is_welcome:
            for record in self._journal.since(self._told):
                link.tell({"type": "record", "record": record})
                self._told = record["seq"]

    def _open_log(self, link: Link, message: dict[str, Any]) -> None:
        stream, name, restart = int(message["stream"]), message["container"], message["restart"]
        try:
            if not any(container.name == name for container in self._plan.containers):
                raise OSError(2, f"no container {name!r} in this pod")
            path = os.path.join(self._folder, wellknown.LOGS_DIR, name, f"{int(restart)}.log")
            is_open = (lambda: self._is_log_open(name, restart)) if message["follow"] else None
            reader = LogReader(path, int(message.get("offset") or 0), is_open)
        except OSError as error:
            link.tell({"type": "closed", "stream": stream, "error": error.strerror})
            return
        self._readers[stream] = reader
        link.tell({"type": "opened", "stream": stream, "size": reader.size()})

    def _pump_logs(self, link: Link) -> bool:
        """Send a piece of every log, unless much waits; return whether there may be more."""
        if link.backlog >= BACKLOG:
            return True
        has_more = False
        for stream, reader in list(self._readers.items()):
            error = ""
            try:
                data = reader.read()
            except OSError as gone:
                data, error = None, gone.strerror or str(gone)
            if data:
                link.send(stream, data)
                has_more = True
            elif data is None:
                reader.close()
                del self._readers[stream]
                link.tell({"type": "closed", "stream": stream, "error": error})
        return has_more

    def _check_done(self, link: Link) -> None:
        told_all = self._is_welcome and self._acked >= self._journal.seq
        is_idle = not self._readers and not self._sessions and not link.backlog
        if self._is_ending and told_all and is_idle:
            self._done.set()


def _grace(asked: Any) -> float:
    """Return the seconds of grace; anything but a finite number would be waited for for ever."""
    seconds = float(asked)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"expected seconds of grace, found {asked!r}")
    return seconds
