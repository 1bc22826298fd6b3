"""The kubelet's side of sessions with an agent: opens them, keeps their windows, hears them end."""

from __future__ import annotations

import time
from typing import Any

from orlop import wellknown

from .kubelet_double import Connection


class Remote:
    """One agent's sessions, as a kubelet drives them; all output is read as fast as it comes."""

    def __init__(self, agent: Connection) -> None:
        self.agent = agent
        self._last = 100
        self._seen: list[dict[str, Any]] = []
        self._credited: dict[int, int] = {}
        self.credit: dict[int, int] = {}

    def open(self, kind: str, **fields: Any) -> int:
        self._last += 2
        self.credit[self._last] = wellknown.STREAM_WINDOW
        self.agent.tell(type=kind, stream=self._last, **fields)
        return self._last

    def exec(self, *argv: str, stdin: bool = False, tty: bool = False, name: str = "c") -> int:
        return self.open("exec", container=name, argv=list(argv), stdin=stdin, tty=tty)

    def run(self, *argv: str, **options: Any) -> tuple[int, str, str]:
        """A command to its end: exit code, what it printed, what it complained."""
        number = self.exec(*argv, **options)
        closed = self.closed(number)
        assert not closed["error"], closed
        return closed["code"], self.text(number), self.text(number + 1)

    def text(self, number: int) -> str:
        return self.agent.streams.get(number, b"").decode()

    def hear(self, kind: str, number: int, timeout: float = 10.0) -> dict[str, Any]:
        """The next message of a kind about a stream."""
        until = time.monotonic() + timeout
        while True:
            for message in self._seen:
                if (message["type"], message.get("stream")) == (kind, number):
                    self._seen.remove(message)
                    return message
            assert time.monotonic() < until, (kind, number, self._seen, self.agent.streams)
            self.pump()

    def closed(self, number: int, timeout: float = 10.0) -> dict[str, Any]:
        return self.hear("closed", number, timeout)

    def hear_record(self, kind: str, timeout: float = 10.0) -> dict[str, Any]:
        """The next record of the journal of a type."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            records = [m["record"] for m in self._seen if m["type"] == "record"]
            for record in records:
                if record["type"] == kind:
                    return record
            self.pump()
        raise AssertionError((kind, self._seen))

    def pump(self) -> None:
        """Give credit for what has come, and take what is said."""
        for number, data in list(self.agent.streams.items()):
            new = len(data) - self._credited.get(number, 0)
            if new:
                self.agent.tell(type="credit", stream=number, bytes=new)
                self._credited[number] = len(data)
        try:
            message = self.agent.messages.get(timeout=0.02)
        except Exception:
            return
        if message["type"] == "credit":
            self.credit[message["stream"]] += message["bytes"]
        else:
            self._seen.append(message)

    def send(self, number: int, data: bytes) -> None:
        """All of it, as fast as the agent gives credit."""
        while data:
            piece = data[: min(65536, self.credit[number])]
            if piece:
                self.agent.send(number, piece)
                self.credit[number] -= len(piece)
                data = data[len(piece) :]
            else:
                self.pump()

    def end(self, number: int) -> None:
        self.agent.tell(type="eof", stream=number)

    def wait_for(self, number: int, text: str, timeout: float = 10.0) -> None:
        until = time.monotonic() + timeout
        while text not in self.text(number):
            assert time.monotonic() < until, (text, self.text(number))
            self.pump()
