"""Moves bytes between descriptors of this node and the kubelet, no faster than either's reader.

Used by the sessions, in the thread of the kubelet connection. A stream is sent as far as the
kubelet has given it credit, and gives credit for what its descriptor has taken; so neither side
holds more than a window of it. Nothing here blocks.
"""

from __future__ import annotations

import os
import select

from ... import wellknown
from ..connection.frames import Broken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..connection.upgraded_connection import Link

CHUNK = 32768
WINDOW = wellknown.STREAM_WINDOW


class Stream:
    """One stream number, both ways; a descriptor of -1 is a way that is closed."""

    def __init__(
        self,
        link: Link,
        number: int,
        source: int = -1,
        sink: int = -1,
        close_sink: Callable[[int], None] = os.close,
    ) -> None:
        self._link, self.number = link, number
        self.source, self.sink = source, sink
        self._close_sink = close_sink
        self._credit = WINDOW  # what we may send
        self._waiting = bytearray()  # what the sink is still to take
        self._taken = 0  # and has taken, but the kubelet does not know yet
        self._has_ended = False
        for fd in (source, sink):
            if fd >= 0:
                os.set_blocking(fd, False)

    @property
    def is_open(self) -> bool:
        return self.source >= 0 or self.sink >= 0

    @property
    def has_waiting(self) -> bool:
        """Return whether the sink is still to take something."""
        return bool(self._waiting)

    def register(self, poll: select.poll, has_room: bool) -> list[int]:
        """Ask poll() for what can be done now; return the descriptors asked for."""
        asked = []
        if self.source >= 0 and has_room and self._credit > 0:
            poll.register(self.source, select.POLLIN)
            asked.append(self.source)
        if self.sink >= 0 and self._waiting:
            poll.register(self.sink, select.POLLOUT)
            asked.append(self.sink)
        return asked

    def on_ready(self, fd: int) -> None:
        if fd == self.source:
            self.pump()
        elif fd == self.sink:
            self._drain()

    # To the kubelet

    def pump(self) -> bool:
        """Send a piece of what the source has; return False when there is nothing now."""
        if self.source < 0 or self._credit <= 0:
            return True
        try:
            data = os.read(self.source, min(CHUNK, self._credit))
        except BlockingIOError:
            return False
        except OSError:  # EIO: the last process has closed its terminal; or a connection reset
            data = b""
        if data:
            self._credit -= len(data)
            self._link.send(self.number, data)
        else:
            self.end_source()
        return True

    def allow(self, count: int) -> None:
        self._credit += count

    def end_source(self) -> None:
        if self.source >= 0:
            os.close(self.source)
            self.source = -1
            self._link.tell({"type": "eof", "stream": self.number})

    # From the kubelet

    def take(self, data: bytes) -> None:
        if len(self._waiting) + len(data) > WINDOW:
            raise Broken(f"more than {WINDOW} bytes on stream {self.number} without credit")
        self._waiting += data
        self._drain()

    def end(self) -> None:
        """Note that nothing more will come."""
        self._has_ended = True
        self._drain()

    def _drain(self) -> None:
        """Write what the sink takes; one that is gone takes everything."""
        try:
            count = len(self._waiting)
            if self.sink >= 0 and count:
                count = os.write(self.sink, self._waiting[:CHUNK])
        except BlockingIOError:
            count = 0
        except OSError:
            self.drop_sink()
        del self._waiting[:count]
        self._taken += count
        if self._taken and (not self._waiting or self._taken >= WINDOW // 4):
            self._link.tell({"type": "credit", "stream": self.number, "bytes": self._taken})
            self._taken = 0
        if self._has_ended and not self._waiting:
            self.drop_sink()

    def drop_sink(self) -> None:
        if self.sink >= 0:
            fd, self.sink = self.sink, -1
            self._close_sink(fd)

    def close(self) -> None:
        self.drop_sink()
        if self.source >= 0:
            os.close(self.source)
            self.source = -1
