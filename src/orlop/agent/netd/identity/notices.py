"""Tells the netds of other pods who speaks to them, by signed datagrams, and hears what they tell.

Sent by `proof` and `udp/announcements.py`. A notice of TCP names a connection by both its ends
while its sender holds it; who hears it asks the kernel for its own end, writes down whose that is
(by the socket's cookie, which the kernel gives once), and acknowledges. A notice of UDP names the
sender's socket by its cookie; later its netd is asked whether that socket still has the port. All
are signed with the cluster's key for the one port that they are sent to: so no other user can speak
for a pod, nor repeat elsewhere what came to a port that a netd had before.
"""

from __future__ import annotations

import select
import struct
import threading
import time
from collections import OrderedDict

from ...linux.fast_imports import value
from .. import layout
from ..layout import ACK, ASK, CONFIRM, DENY, MAGIC, NOTICE, OTHERS, SIGNATURE, TCP, UDP
from ..netd_supervisor import SO_TIMESTAMPNS
from ..pod_addressing import PodAddressing
from ..sockets.sockaddr import AF_INET, Address
from ..tcp.decisions import MOST_AT_ONCE, is_of_now, is_read_in_time
from ..udp.port_leases import BELIEVED, Leases
from ..udp.udp_peers import Speaker, UdpPeers
from .sock_diag import Owners

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any, Optional
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import

PROTOCOLS = {"tcp": TCP, "udp": UDP}
ACK_TIME, ASK_TIME = 0.25, 0.05  # seconds for another netd to answer
ASK_AGAIN = 1.0  # seconds after it has not
ACKNOWLEDGED = 1.0  # seconds for which a UDP port that was acknowledged is sent to
MAX_KNOWN = 8192
BODY, LENGTH = layout.DATAGRAM.struct, layout.NOTICE_LENGTH
_KIND_AT, _MORE_AT = layout.DATAGRAM.offset("kind"), layout.DATAGRAM.offset("more")
_TIMESPEC = struct.Struct("<qq")


class Notice:
    """Who a datagram comes from."""

    __slots__ = ("own", "peer")

    def __init__(self, peer: Address, own: Optional[Address] = None) -> None:
        self.peer = peer
        self.own = own  # from this very pod: the name of ours that it asked for


class Said:
    """What a datagram between netds says."""

    __slots__ = (
        "body",
        "cookie",
        "kind",
        "more",
        "peer",
        "pod",
        "port",
        "protocol",
        "real",
        "to",
        "when",
    )

    def __init__(self, body: bytes) -> None:
        found = BODY.unpack(body)
        self.body = body
        self.kind, self.protocol, self.when = found[1:4]
        self.real = Address(AF_INET, found[4], found[5])
        self.peer = Address(AF_INET, found[6], found[7])
        self.pod, self.port, self.to = found[8], found[9], found[10]
        self.cookie, self.more = found[11], found[12]


@value
class Hooks:
    """What is asked and told of what is heard."""

    given: Callable[[str, Address], Optional[Address]]  # what a real port of ours stands for
    identify: Callable[[int, Address], None]  # takes a connection's cookie, and whose it is
    on_ack: Callable[[int], None]  # takes the cookie of a socket whose notice is acknowledged


class Notices:
    """Tells and hears who speaks; `heard` keeps those who speak UDP, also for the next netd."""

    def __init__(
        self,
        world: PodAddressing,
        sock: socket.socket,
        heard: UdpPeers,
        owners: Owners,
        leases: Leases,
        hooks: Optional[Hooks] = None,
    ) -> None:
        self._world, self.socket, self._heard = world, sock, heard
        self._owners, self._leases = owners, leases
        self._lock = threading.Lock()
        self.port: int = sock.getsockname()[1]
        self._acks: OrderedDict[int, bytes] = OrderedDict()  # of TCP, by the cookie of our socket
        # Of UDP, by the pod, its port and the real one: when we asked.
        self._held: OrderedDict[tuple[bytes, int, int], float] = OrderedDict()
        # This pod's own UDP senders: their sockets, names, and the names they asked for.
        self._own: OrderedDict[tuple[bytes, int, int], tuple[int, Notice]] = OrderedDict()
        self._confirms: OrderedDict[bytes, bool] = OrderedDict()  # answers to what we asked
        self._silent: OrderedDict[tuple[bytes, int], float] = OrderedDict()  # until when
        hooks = hooks or Hooks(lambda *port: None, lambda *connection: None, lambda cookie: None)
        self.given, self.identify, self.on_ack = hooks.given, hooks.identify, hooks.on_ack

    # Speaking

    def notice(
        self,
        protocol: str,
        ends: tuple[Address, int],
        to: tuple[bytes, int, int],
        cookie: int,
        more: int = 0,
    ) -> bytes:
        """Make the notice that the socket at a real address is ours, with a port of ours.

        `to`: a pod, its port, the real one of that.
        """
        real, own_port = ends
        words = (real.ip, real.port, self._world.pod, own_port, *to, cookie, more)
        return BODY.pack(MAGIC, NOTICE, PROTOCOLS[protocol], time.time(), *words)

    def send(self, body: bytes, to: tuple[str, int]) -> None:
        try:
            self.socket.sendto(signed(self._world.key, body, to[1]), to)
        except OSError:
            pass  # it is sent again, or nobody acknowledges it

    def is_acknowledged(self, notice: bytes) -> bool:
        """Return whether the receiver of a notice of TCP has said that it knows."""
        self.read()
        return self._acks.get(_cookie_of(notice)) == _as(notice, ACK)

    def await_acknowledgement(self, notice: bytes, seconds: float) -> bool:
        return self._wait_until(lambda: self.is_acknowledged(notice), seconds)

    def is_held(self, pod: bytes, port: int, real: int) -> bool:
        """Return whether a pod's netd has said just now that a UDP port is its own."""
        return self.was_held((pod, port, real), time.time())

    def was_held(self, far: tuple[bytes, int, int], then: float) -> bool:
        """Return whether it has said so not long before, or since."""
        return then - self._held.get(far, 0.0) < ACKNOWLEDGED

    def await_held(self, far: tuple[bytes, int, int], seconds: float = ACK_TIME) -> bool:
        """Wait until a pod's netd has said so, after a notice to it."""
        return self._wait_until(lambda: self.is_held(*far), seconds)

    def expect(self, real: Address, port: int, cookie: int, notice: Notice) -> None:
        """Remember that one of this pod's own UDP sockets speaks to its port."""
        _put(self._own, (real.ip, real.port, port), (cookie, notice))

    # Hearing

    def speaker(self, real: Address, own: Address, port: int, arrived: float) -> Optional[Notice]:
        """Tell who has sent a datagram from a real address to our port; `arrived`: 0 if unknown."""
        known = self._own.get((real.ip, real.port, port))
        if known is not None and self._owners.look(UDP, real, own).cookie == known[0]:
            return known[1]
        self.read()
        found = self._heard.find(real, port)
        if found is None or (arrived and arrived < found.since):
            return None
        if not (arrived and arrived <= found.until) and not self._is_still(real, own, found):
            return None
        return Notice(found.peer)

    def _is_still(self, real: Address, own: Address, found: Speaker) -> bool:
        """Ask its netd whether the announced socket has the port now, so has had it all along."""
        if self.is_silent(real):
            return False
        to = (self._world.pod, found.port, own.port)
        words = (real.ip, real.port, found.peer.ip, found.peer.port, *to, found.cookie, 0)
        asked = BODY.pack(MAGIC, ASK, UDP, time.time(), *words)
        self.send(asked, found.netd)
        question = asked[_KIND_AT + 1 : _MORE_AT]
        if not self._wait_until(lambda: question in self._confirms, ASK_TIME):
            self.fell_silent(real)
            return False
        return self._confirms.pop(question, False)

    def is_silent(self, real: Address) -> bool:
        """Return whether a netd did not answer about an address, so that none should wait again."""
        return self._silent.get((real.ip, real.port), 0.0) > time.monotonic()

    def fell_silent(self, real: Address) -> None:
        _put(self._silent, (real.ip, real.port), time.monotonic() + ASK_AGAIN)

    def _wait_until(self, holds: Callable[[], bool], seconds: float) -> bool:
        until = time.monotonic() + seconds
        poll = select.poll()
        for fd in {self.inbox, self.socket.fileno()}:
            poll.register(fd, select.POLLIN)
        while not holds():
            left = until - time.monotonic()
            if left <= 0:
                return False
            # Not for long at once: another thread may read what we wait for.
            poll.poll(min(left, 0.002) * 1000)
            self.read()
        return True

    @property
    def inbox(self) -> int:
        """Return the descriptor to wait for."""
        return self.socket.fileno()

    def read(self) -> None:
        """Read what has arrived; of a flood a part, the rest the next time."""
        with self._lock:
            for _ in range(MOST_AT_ONCE):
                try:
                    raw, sender, arrived = self._receive()
                except OSError:
                    return
                said = understood(self._world.key, raw, self.port)
                if said is not None:
                    self._take(said, sender, arrived)

    def _receive(self) -> tuple[bytes, tuple[str, int], float]:
        raw, rights, _, sender = self.socket.recvmsg(LENGTH + 1, 64)
        return raw, sender, _arrival(rights)

    def _take(self, said: Said, sender: tuple[str, int], arrived: float) -> None:
        if said.kind in (ACK, ASK):
            if said.peer.ip == self._world.pod:
                (self._on_ack if said.kind == ACK else self._on_ask)(said, sender)
        elif said.pod == self._world.pod:
            if said.kind in (CONFIRM, DENY):
                self._on_confirm(said, arrived)
            elif said.kind == NOTICE and self._is_port(said):
                on_notice = self._on_tcp if said.protocol == TCP else self._on_udp
                on_notice(said, sender, arrived)

    def _on_ack(self, said: Said, sender: tuple[str, int]) -> None:
        if said.protocol == TCP:
            _put(self._acks, said.cookie, said.body)
            self.on_ack(said.cookie)
        else:
            _put(self._held, (said.pod, said.port, said.to), said.when)

    def _on_ask(self, said: Said, sender: tuple[str, int]) -> None:
        is_kept = self._leases.renew(said.cookie)
        is_there = is_kept
        if not is_kept:
            other = Address(AF_INET, socket.inet_aton(sender[0]), said.to)
            is_there = self._owners.look(UDP, said.real, other).cookie == said.cookie
        self._answer(said, CONFIRM if is_there else DENY, sender, int(is_kept))

    def _on_confirm(self, said: Said, arrived: float) -> None:
        found = self._heard.find(said.real, said.port)
        if found is None or found.cookie != said.cookie:
            return
        if said.kind == DENY:
            self._heard.remove(said.real)
        elif said.more:
            found.until = arrived + BELIEVED
            self._heard.put(said.real, found)
        self._silent.pop((said.real.ip, said.real.port), None)
        _put(self._confirms, said.body[_KIND_AT + 1 : _MORE_AT], said.kind == CONFIRM)

    def _is_port(self, said: Said) -> bool:
        """Return whether the real port is, here and now, the one of the pod's that is meant."""
        if self._world.is_node:
            return bool(said.to == said.port)
        name = "tcp" if said.protocol == TCP else "udp"
        given = self.given(name, self._own_end(said))
        return given is not None and given.port == said.port

    def _own_end(self, said: Said) -> Address:
        return Address(AF_INET, self._world.node, said.to)

    def _on_tcp(self, said: Said, sender: tuple[str, int], arrived: float) -> None:
        if said.more:  # its netd has looked itself, on this node
            self.identify(said.more, said.peer)
            return
        child = self._owners.child(self._own_end(said), said.real)
        # Looked at afterwards: what the kernel said was so while the sender held its end.
        if child in (0, OTHERS) or not is_read_in_time(time.time() - arrived):
            return  # its sender says it again as long as it holds the connection
        self.identify(child, said.peer)
        self._answer(said, ACK, sender)

    def _on_udp(self, said: Said, sender: tuple[str, int], arrived: float) -> None:
        until = arrived + BELIEVED if said.more else arrived
        speaker = Speaker(said.peer, said.port, sender, said.cookie, (arrived, until))
        self._heard.put(said.real, speaker)
        if not self._owners.can_tell_udp or self._owners.holds(UDP, self._own_end(said)):
            self._answer(said, ACK, sender, said.more)

    def _answer(self, said: Said, kind: int, to: tuple[str, int], more: int = 0) -> None:
        body = _as(said.body, kind)[:_MORE_AT] + more.to_bytes(8, "big")
        self.send(body, to)


def understood(key: bytes, raw: bytes, port: int) -> Optional[Said]:
    """Read what came to a port of ours; None where it is not of the cluster's, or for that port.

    None, too, for what was said at another time.
    """
    if len(raw) != LENGTH or not raw.startswith(MAGIC):
        return None
    body = raw[:-SIGNATURE]
    if not _is_same(raw, signed(key, body, port)):
        return None
    said = Said(body)
    return said if is_of_now(time.time() - said.when) else None


def _arrival(rights: list[tuple[int, int, Any]]) -> float:
    """Return when the kernel received a datagram."""
    for level, kind, data in rights:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
            seconds, parts = _TIMESPEC.unpack(data[: _TIMESPEC.size])
            return float(seconds + parts / 1e9)
    return time.time()


def _cookie_of(notice: bytes) -> int:
    return int(BODY.unpack_from(notice)[11])


def _as(body: bytes, kind: int) -> bytes:
    """Make the same datagram, of another kind."""
    return body[:_KIND_AT] + bytes([kind]) + body[_KIND_AT + 1 :]


def _put(table: OrderedDict, key: object, found: object) -> None:  # type: ignore[type-arg]
    table[key] = found
    table.move_to_end(key)
    if len(table) > MAX_KNOWN:
        table.popitem(last=False)


def signed(key: bytes, body: bytes, port: int) -> bytes:
    """Make a datagram that is good at one port, whoever has that."""
    import hmac  # slow to import, and not needed before somebody connects

    return body + hmac.digest(key, body + port.to_bytes(2, "big"), "sha256")[:SIGNATURE]


def _is_same(one: bytes, other: bytes) -> bool:
    import hmac

    return hmac.compare_digest(one, other)
