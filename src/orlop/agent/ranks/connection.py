"""Keeps the kubelet connection of the ranks of one node, over which they ask where things are.

A thread of their rank netd (rank_netd.py). It dials when something of the cluster is first asked
for, and not for programs that speak with each other; it carries questions and answers, and nothing
of the pod.
"""

from __future__ import annotations

import os
import select
import time

from ..connection.frames import Broken
from ..linux.fast_imports import loads, start_thread
from ..netd.relay import CONNECTED, DISCONNECTED, Carrier

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..connection.upgraded_connection import Link
    from ..netd.relay import Relay
    from ..plan import Plan

RETRY_MIN, RETRY_MAX = 0.2, 10.0
SILENCE = 70.0  # the kubelet pings every 20 s


class Line:
    """The connection; `node` is the one whose ranks ask."""

    def __init__(self, plan: Plan, folder: str, node: str) -> None:
        self._plan, self._folder, self._node = plan, folder, node
        self._carrier = Carrier()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._is_asked = False

    def start(self) -> None:
        start_thread(self._run)

    def carry(self, relay: Relay) -> None:
        """Carry what this netd asks from now on, in place of any before it."""
        self._carrier.offer(relay)
        os.write(self._wake_write, b"\0")

    def _run(self) -> None:
        from ..connection.upgraded_connection import dial_home

        pause = RETRY_MIN
        while True:
            while not self._is_asked:
                self._listen(None)
            link = dial_home(self._plan, self._folder, _complain, self._node)
            if link is not None:
                pause = RETRY_MIN
                self._converse(link)
            self._carrier.tell(DISCONNECTED)
            self._listen(pause)
            pause = min(2 * pause, RETRY_MAX)

    def _listen(self, seconds: float | None) -> None:
        """Listen to what netd says while there is no connection.

        It is told that there is one, since it would ask for nothing else; and again later, when it
        asks for all of it once more.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while until is None or time.monotonic() < until:
            self._wait(None, None if until is None else until - time.monotonic())
            self._carrier.adopt(is_connected=not self._is_asked)
            for payload in self._carrier.take():
                self._is_asked = self._is_asked or _is_of_cluster(payload)
            if until is None and self._is_asked:
                return

    def _converse(self, link: Link) -> None:
        try:
            self._carrier.tell(CONNECTED)
            heard = time.monotonic()
            while True:
                self._wait(link, SILENCE)
                for _, payload in link.receive():
                    heard = time.monotonic()
                    self._on_payload(link, payload)
                if time.monotonic() - heard > SILENCE:
                    raise Broken("silence")
                self._carrier.adopt(is_connected=True)
                for payload in self._carrier.take():
                    link.send(0, payload)
                link.flush()
        except (Broken, ValueError):
            pass  # gone, or not to be understood: dial again
        finally:
            link.close()

    def _on_payload(self, link: Link, payload: bytes) -> None:
        message = loads(payload)
        if message.get("type") == "ping":
            link.tell({"type": "pong"})
        elif str(message.get("type")).startswith("net-"):
            self._carrier.hear(message, payload)

    def _wait(self, link: Link | None, seconds: float | None) -> None:
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        if link is not None:
            wants = select.POLLIN | (select.POLLOUT if link.backlog else 0)
            poll.register(link.fileno(), wants)
        self._carrier.register(poll)
        ready = poll.poll(None if seconds is None else max(0, int(seconds * 1000) + 1))
        if any(fd == self._wake_read for fd, _ in ready):
            os.read(self._wake_read, 4096)


def _is_of_cluster(payload: bytes) -> bool:
    """Return whether a message asks for more than everybody does who starts."""
    message = loads(payload)
    return message["type"] == "net-ask" and any(key != "policy" for key in message["keys"])


def _complain(words: str) -> None:
    os.write(2, f"orlop agent: {words}; trying again\n".encode(errors="replace"))
