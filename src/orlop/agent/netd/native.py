"""Loads the compiled part of netd, where there is one: native/*.c, as a library.

Loaded by the agent before it has threads, and used by netd: calls arrive there first, those it can
answer it answers, and what it learns of places it learns from here. Tables that both sides need are
kept there, behind the same methods as their Python ones. Without it all is done in Python.
"""

from __future__ import annotations

import ctypes
import os
from errno import EAGAIN

from . import layout
from .identity.notices import LENGTH, PROTOCOLS, Notices
from .identity.sock_diag import Owner, Owners
from .layout import ABI, MAX_KEY, MAX_UIDS
from .netd_supervisor import PACKETS
from .sockets.sockaddr import AF_INET, Address, text
from .tcp import connection_table
from .tcp.accept_queue import AcceptQueue
from .udp import udp_peers

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    import socket
    from collections.abc import Callable
    from typing import Any, Optional

    from .identity.notices import Hooks
    from .netd_supervisor import NetdState
    from .pod_addressing import PodAddressing
    from .sockets.sockaddr import Range
    from .tcp.accept_handoff import Room
    from .udp.port_leases import Leases
    from .udp.udp_peers import UdpPeers
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import

CALL_SIZE = layout.NOTIFICATION.size
_ADDRESS, _PLACE, _END = layout.ADDRESS.struct, layout.PLACE.struct, layout.ENDPOINT.struct
_WORLD, _FORWARDED = layout.WORLD.struct, layout.FORWARDED.struct
_NOTHING = bytes(_ADDRESS.size)
_int, _long, _bytes, _pointer = ctypes.c_int, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_void_p
_SHORT: dict[str, tuple[Any, list[Any]]] = {  # they never wait, and keep the interpreter's lock
    "generation": (_long, []),
    "learn_pod": (None, [_long, _bytes, _bytes]),
    "learn_own": (None, [_long, _bytes, _bytes]),
    "learn_service": (_int, [_long, ctypes.c_uint32, _int, ctypes.c_uint32, _bytes]),
    "drop": (None, [ctypes.c_uint32]),
    "drop_own": (None, []),
    "policy": (None, [_int, _int]),
    "bound": (None, [_int, _bytes, _bytes]),
    "not_heard": (None, [_long]),
    "desk": (_pointer, []),
    "leave": (None, [_pointer]),
}
_LONG: dict[str, tuple[Any, list[Any]]] = {
    "start": (_int, [_bytes]),
    "next": (_int, [_pointer, _int, _pointer]),
    "returned": (_int, [_pointer]),
    "sweep": (None, []),
    "is_ours": (_int, [_int, _bytes, _bytes, _pointer]),
    "read_notices": (None, []),
    "child": (_long, [_bytes, _bytes]),
    "holds": (_int, [_int, _bytes]),
    "take": (_int, [_int, _int, _int, _pointer]),
    "keep": (None, [_long, _int, _bytes, _int]),
    "take_kept": (_int, [_int, _pointer, _pointer]),
}


def load(path: str) -> Optional[Quick]:
    """Load the library; None where there is none, or none for this machine."""
    if not path or not os.path.isfile(path):
        return None
    try:
        found = Quick(path)
    except (OSError, AttributeError):  # for another machine or C library; from another time
        return None
    return found if found.abi == ABI else None


class Quick:
    """The library's functions, without their prefix."""

    def __init__(self, path: str) -> None:
        self.functions: dict[str, Callable[..., Any]] = {}
        for library, some in ((ctypes.PyDLL(path), _SHORT), (ctypes.CDLL(path), _LONG)):
            for name, (result, arguments) in some.items():
                function = getattr(library, f"quick_{name}")
                function.restype, function.argtypes = result, arguments
                self.functions[name] = function
        self.abi = int(ctypes.CDLL(path).quick_abi())
        self._call = self.functions.__getitem__
        self.next, self.desk = self._call("next"), self._call("desk")
        self.leave, self.sweep = self._call("leave"), self._call("sweep")
        self.returned, self.generation = self._call("returned"), self._call("generation")
        self.not_heard, self.drop_own = self._call("not_heard"), self._call("drop_own")
        self.policy = self._call("policy")

    def start(
        self,
        addressing: PodAddressing,
        notices: tuple[int, int],
        diagnostics: int,
        uids: list[tuple[int, int]],
        names: mmap.mmap,
        rooms: list[Room],
    ) -> bool:
        """Start serving; return whether the compiled part can be used for this pod.

        `notices`: where they arrive, and where those are passed on that are for Python.
        """
        numbers = [number for pair in uids for number in pair]
        if len(uids) > MAX_UIDS or len(addressing.key) > MAX_KEY:
            return False
        numbers += [0] * (2 * MAX_UIDS - len(numbers))
        memory = ctypes.addressof(ctypes.c_char.from_buffer(names))
        ranges: list[Range] = [addressing.pods, addressing.services]
        packed = _WORLD.pack(
            *(addressing.pod, addressing.node, addressing.loopback),
            *(number for one in ranges for number in (one.first, one.mask)),
            *(
                int(addressing.allows_outside),
                *notices,
                int(not addressing.is_reached_from_outside),
            ),
            *(diagnostics, len(uids)),
            *numbers,
            *(addressing.key, len(addressing.key)),
            *(memory, memory + connection_table.SIZE + udp_peers.SIZE),
            *(end.fileno() for room in rooms for end in room),
        )
        return bool(self._call("start")(packed) == 0)

    # Lessons; each is refused if something was dropped since its generation

    def learn_pod(
        self, generation: int, to: Address, real: Address, notice: Optional[tuple[bytes, int]]
    ) -> None:
        notice_ip, notice_port = notice or (bytes(4), 0)
        if len(real.ip) == 4:
            ends = to.ip, notice_ip, to.port, notice_port, 0
            self._call("learn_pod")(generation, _packed(to), _PLACE.pack(*_words(real), *ends))

    def learn_own(self, generation: int, to: Address, real: Address) -> None:
        place = _PLACE.pack(*_words(real), b"", b"", to.port, 0, 1)
        self._call("learn_own")(generation, _packed(to), place)

    def learn_service(self, generation: int, to: Address, ends: list[tuple[bytes, int]]) -> bool:
        """Tell the compiled part of a service; return whether it is known now."""
        packed = b"".join(_END.pack(ip, port) for ip, port in ends)
        ip = int.from_bytes(to.ip, "little")
        return bool(self._call("learn_service")(generation, ip, to.port, len(ends), packed))

    def drop(self, ip: bytes) -> None:
        """Forget what was known of a pod or a service: it holds no longer."""
        self._call("drop")(int.from_bytes(ip, "little"))

    def bound(self, protocol: str, real: Address, given: Optional[Address]) -> None:
        self.drop_own()
        packed = _packed(given) if given is not None else None
        self._call("bound")(PROTOCOLS[protocol], _packed(real), packed)


class CompiledPart:
    """The compiled part for one pod, and where it passes on the notices that are for Python."""

    def __init__(self, quick: Quick, can_tell: bool) -> None:
        self.quick, self.owners = quick, QuickOwners(quick, can_tell)
        self.passed_on, self.forward = socket.socketpair(socket.AF_UNIX, PACKETS)
        self.passed_on.setblocking(False)

    def close(self) -> None:
        for end in (self.passed_on, self.forward):
            end.close()


def start_compiled(addressing: PodAddressing, inherited: NetdState) -> Optional[CompiledPart]:
    """Start the compiled part; None where there is none, or it cannot be used for this pod."""
    if inherited.quick is None or addressing.is_node:
        return None
    part = CompiledPart(inherited.quick, inherited.diagnostics >= 0)
    ends, users = (inherited.notices.fileno(), part.forward.fileno()), inherited.uids
    names, rooms = inherited.names, inherited.rooms
    if part.quick.start(addressing, ends, inherited.diagnostics, users, names, rooms):
        return part
    part.close()
    return None


class QuickNotices(Notices):
    """Hears what the compiled part passes on: all but what it does with TCP itself."""

    def __init__(
        self,
        part: CompiledPart,
        addressing: PodAddressing,
        sock: socket.socket,
        peers: UdpPeers,
        leases: Leases,
        hooks: Optional[Hooks] = None,
    ) -> None:
        super().__init__(addressing, sock, peers, part.owners, leases, hooks)
        self._read_first = part.quick.functions["read_notices"]
        self._part = part

    @property
    def inbox(self) -> int:
        return self._part.passed_on.fileno()

    def read(self) -> None:
        self._read_first()
        super().read()

    def _receive(self) -> tuple[bytes, tuple[str, int], float]:
        raw = self._part.passed_on.recv(_FORWARDED.size + LENGTH)
        ip, port, arrived = _FORWARDED.unpack_from(raw)
        return raw[_FORWARDED.size :], (text(ip), port), arrived


class QuickOwners(Owners):
    """Asks by the compiled part, since there is one socket to ask by."""

    def __init__(self, quick: Quick, can_tell: bool) -> None:
        super().__init__(-1, [])
        self._functions, self._can_tell = quick.functions, can_tell

    @property
    def can_tell(self) -> bool:
        return self._can_tell

    def look(self, protocol: int, peer: Address, own: Address) -> Owner:
        cookie = ctypes.c_uint64(0)
        ends = _packed(peer), _packed(own)
        found = self._functions["is_ours"](protocol, *ends, ctypes.byref(cookie))
        return Owner(None if found < 0 else bool(found), cookie.value)

    def child(self, server: Address, client: Address) -> int:
        return int(self._functions["child"](_packed(server), _packed(client)))

    def holds(self, protocol: int, server: Address) -> bool:
        return bool(self._functions["holds"](protocol, _packed(server)))


class QuickAcceptQueue(AcceptQueue):
    def __init__(self, quick: Quick) -> None:
        super().__init__()
        self._functions = quick.functions

    def take(self, fd: int, flags: int, blocking: bool) -> tuple[int, Optional[Address]]:
        peer = ctypes.create_string_buffer(_ADDRESS.size)
        found = self._functions["take"](fd, flags, blocking, peer)
        if found < 0:
            raise BlockingIOError() if found == -EAGAIN else OSError(-found, os.strerror(-found))
        return found, _unpacked(peer.raw) if peer.raw != _NOTHING else None

    def kept(self, fd: int) -> Optional[tuple[int, Optional[Address], int]]:
        peer, number = ctypes.create_string_buffer(_ADDRESS.size), _int(-1)
        found = self._functions["take_kept"](fd, peer, ctypes.byref(number))
        who = _unpacked(peer.raw) if peer.raw != _NOTHING else None
        return (found, who, number.value) if found >= 0 else None

    def keep(self, listening: int, connection: int, peer: Optional[Address], number: int) -> None:
        packed = _packed(peer) if peer is not None else _NOTHING
        self._functions["keep"](listening, connection, packed, number)


def _packed(address: Address) -> bytes:
    return _ADDRESS.pack(*_words(address))


def _words(address: Address) -> tuple[int, int, int, bytes]:
    return address.family, address.port, len(address.ip), address.ip


def _unpacked(raw: bytes) -> Address:
    family, port, length, ip = _ADDRESS.unpack(raw)
    return Address(family or AF_INET, ip[:length], port)
