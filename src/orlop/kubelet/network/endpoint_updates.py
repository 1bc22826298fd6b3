"""Tells agents where everything is: what they ask, at once, and again whenever it changes.

Made and run by the kubelet, which hands it what agents say of the network. Each key that somebody
asked about is computed once for all who did, and passed on only where it differs from what was told
last. It decides nothing about pods.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

import msgspec

from ...client.informer import Informers
from ...log import logger
from ...network.ranges import Ranges
from ..pod.pods import Pods, PodState
from .view import UNKNOWN, NetworkView, Token

BREATH = 3.0  # times what the last round took: telling never has more than a quarter of the time
# Of one asker: an agent keeps a quarter of so many answers, and the longest name has 255 bytes.
MOST_KEYS, LONGEST_KEY = 16384, 512
_POLICY = "policy"
Asker = tuple[str, str]  # a pod's uid, and which node's ranks of it; empty: its agent

_encoder = msgspec.json.Encoder()
log = logger(__name__)


@dataclass(slots=True, eq=False)
class _Entry:
    """A key that somebody asked about."""

    key: str
    tokens: list[Token]
    askers: set[Asker] = field(default_factory=set)
    told: bytes = b""


class Network:
    """`on_message` and `on_silence` are the kubelet's; `begin` once all pods are known to it."""

    def __init__(self, informers: Informers, pods: Pods, ranges: Ranges) -> None:
        self._pods = pods
        self.view = NetworkView(informers, pods, ranges, self._on_change)
        self._entries: dict[str, _Entry] = {}
        self._by_token: dict[Token, set[str]] = {}
        self._asked: dict[Asker, set[str]] = {}
        self._dirty: set[Token] = set()
        self._flush: asyncio.Handle | None = None
        self._not_before = 0.0

    async def begin(self) -> None:
        """Answer from now on, also what was asked before."""
        await self.view.begin()
        for entry in list(self._entries.values()):
            self._tell(entry)

    def stop(self) -> None:
        if self._flush is not None:
            self._flush.cancel()

    # What agents say

    def on_message(self, state: PodState, message: dict[str, Any], line: str = "") -> None:
        asker = (state.uid, line)
        match message["type"]:
            case "net-ask":
                self._ask(state, asker, [str(key) for key in message["keys"]])
            case "net-forget":
                self._forget(asker, [_inner(state, str(key)) for key in message["keys"]])
            case "net-state" | "net-listen" | "net-close" if not line:  # of ranks: their node's
                self._place(state, message)

    def on_silence(self, state: PodState, line: str = "") -> None:
        """Forget who asks: it asks again when it is back; its place stays known."""
        asker = (state.uid, line)
        self._forget(asker, list(self._asked.get(asker, ())))

    def _place(self, state: PodState, message: dict[str, Any]) -> None:
        place = self.view.place_of(state)
        address, notice = _address(message.get("address")), _notice(message.get("notice"))
        kind = message["type"]
        if kind == "net-state":
            for protocol in ("tcp", "udp"):
                place.open(protocol, _ports(message.get(protocol)))
        elif kind == "net-listen":
            ports = place.tcp if message["protocol"] == "tcp" else place.udp
            ports |= _ports({message["port"]: message["real"]})
        else:
            place.close(message["protocol"], str(int(message["port"])))
        place.address = address or place.address
        place.notice = notice or place.notice
        self.view.moved(state)

    def _ask(self, state: PodState, asker: Asker, keys: list[str]) -> None:
        known = self._asked.setdefault(asker, set())
        for asked in keys:
            key = _inner(state, asked)
            if len(asked) > LONGEST_KEY or (key not in known and len(known) >= MOST_KEYS):
                continue  # no agent of ours asks so much
            entry = self._entries.get(key)
            if entry is None:
                entry = self._entries[key] = _Entry(key, self.view.tokens(key))
                for token in entry.tokens:
                    self._by_token.setdefault(token, set()).add(key)
            entry.askers.add(asker)
            known.add(key)
            if entry.told and self._dirty.isdisjoint(entry.tokens):
                self._send(asker, entry.told)  # as it is now
                continue
            payload = self._payload(entry)
            if payload and payload != entry.told:
                self._pass_on(entry, payload)
            elif payload:
                self._send(asker, payload)

    def _forget(self, asker: Asker, keys: Iterable[str]) -> None:
        asked = self._asked.get(asker, set())
        for key in keys:
            asked.discard(key)
            entry = self._entries.get(key)
            if entry is None:
                continue
            entry.askers.discard(asker)
            if not entry.askers:
                del self._entries[key]
                for token in entry.tokens:
                    self._by_token[token].discard(key)
                    if not self._by_token[token]:
                        del self._by_token[token]
        if not asked:
            self._asked.pop(asker, None)

    # What changes

    def _on_change(self, tokens: set[Token]) -> None:
        """Tell of a change in this turn of the loop, unless telling has taken much of the time."""
        known = {token for token in tokens if token in self._by_token}
        if not known:
            return
        self._dirty |= known
        if self._flush is None:
            wait = self._not_before - time.monotonic()
            loop = asyncio.get_running_loop()
            self._flush = (
                loop.call_later(wait, self._tell_changes)
                if wait > 0
                else (loop.call_soon(self._tell_changes))
            )

    def _tell_changes(self) -> None:
        began = time.monotonic()
        self._flush = None
        tokens, self._dirty = self._dirty, set()
        keys = {key for token in tokens for key in self._by_token.get(token, ())}
        for key in keys:
            self._tell(self._entries[key])
        ended = time.monotonic()
        self._not_before = ended + BREATH * (ended - began)

    def _tell(self, entry: _Entry) -> None:
        payload = self._payload(entry)
        if payload and payload != entry.told:
            self._pass_on(entry, payload)

    def _payload(self, entry: _Entry) -> bytes:
        """Return the message that tells of a key; empty while nothing can be told."""
        try:
            value = self.view.value(entry.key)
        except Exception:
            # An object that nobody thought of must not silence all others.
            log.error("no answer about the network", key=entry.key, exc_info=True)
            return b""
        if value is UNKNOWN:
            return b""
        outer = _POLICY if entry.key.startswith("policy/") else entry.key
        return _encoder.encode({"type": "net-tell", "key": outer, "value": value})

    def _pass_on(self, entry: _Entry, payload: bytes) -> None:
        entry.told = payload
        for asker in list(entry.askers):
            self._send(asker, payload)

    def _send(self, asker: Asker, payload: bytes) -> None:
        uid, line = asker
        state = self._pods.get(uid)
        if state is None:
            return
        connection = state.lines.get(line) if line else state.connection
        if connection is not None:
            connection.pass_on(payload)


def _inner(state: PodState, key: str) -> str:
    """Return the name under which a key is kept: what differs from pod to pod has the pod's own
    name.
    """
    return f"policy/{state.uid}" if key == _POLICY else key


def _address(told: Any) -> str:
    """Return the address that others, and we, connect to; a name is refused, as all of them would
    look it up.
    """
    return str(ip_address(str(told))) if told else ""


def _notice(told: Any) -> int:
    port = int(told or 0)
    if not 0 <= port < 65536:
        raise ValueError("expected a port from 1 to 65535 for notices")
    return port


def _ports(told: Any) -> dict[str, int]:
    found = {int(port): int(real) for port, real in (told or {}).items()}
    if not all(0 < number < 65536 for pair in found.items() for number in pair):
        raise ValueError("expected ports from 1 to 65535")
    return {str(port): real for port, real in found.items()}
