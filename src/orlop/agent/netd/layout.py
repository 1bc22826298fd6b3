"""Lays out what netd's parts in Python and in C share: memory, calls of the library, datagrams.

Read by the modules that pack and unpack it, and made into C by `agent/c_header.py` when the library
is compiled. The agent itself loads it for every pod: it imports next to nothing.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Union

    # How C declares a field, and how `struct` packs it.
    Field = tuple[str, str]

U8, U16, U32, U64 = (
    ("uint8_t {}", "B"),
    ("uint16_t {}", "H"),
    ("uint32_t {}", "I"),
    ("uint64_t {}", "Q"),
)
I32, I64, F64 = ("int32_t {}", "i"), ("int64_t {}", "q"), ("double {}", "d")
IP4 = ("uint32_t {}", "4s")  # an address of IPv4 as the kernel has it, in network order
PORT = ("uint16_t {}", "2s")  # in network order, too
POINTER = ("void *{}", "Q")


def _bytes(count: int) -> Field:
    return f"uint8_t {{}}[{count}]", f"{count}s"


def _many(field: Field, count: int) -> Field:
    return f"{field[0]}[{count}]", f"{count}{field[1]}"


class Layout:
    """One struct; what begins with an underscore is room that nobody uses."""

    def __init__(self, order: str = "<", **fields: Field) -> None:
        self.fields, self._order = fields, order
        self.struct = struct.Struct(order + "".join(map(_code, fields.items())))
        self.size = self.struct.size

    def offset(self, name: str) -> int:
        """Return where a field begins."""
        before = list(self.fields.items())[: list(self.fields).index(name)]
        return struct.calcsize(self._order + "".join(map(_code, before)))

    def within(self, tag: str) -> Field:
        """Return it as a field of another; in Python its fields take the place of that."""
        return f"struct {tag} {{}}", "".join(map(_code, self.fields.items()))


def _code(field: tuple[str, Field]) -> str:
    name, (_, code) = field
    return f"{struct.calcsize('<' + code)}x" if name.startswith("_") else code


# The library: a file of another time has another number and is not loaded.
ABI = 9
TRIES = 5  # endpoints handed out for one connection
ROOMS = 8  # sockets for connections on their way to a caller; the first half is the library's
MAX_UIDS = 16  # ranges of user numbers that are the pod's
MAX_KEY = 64
MAX_KEPT = 256  # connections whose caller was interrupted before it had them
NAMES = 1 << 16  # entries of the connection table
LENT = 256  # entries of the journal of sockets set not to block; the first half is the library's
SIGNALLED_FOR = 1.0  # seconds for which an interrupted call tells that signals are about
OTHERS = (1 << 64) - 1  # in place of a socket's cookie: it is another user's
TCP, UDP = 6, 17

# An address: the family is its socket's, and 4 bytes are IPv4 also where they are mapped.
ADDRESS = Layout(family=U16, port=U16, length=U32, ip=_bytes(16))
# One real place of a destination: whose it is, and where its netd hears who comes (0: nowhere).
PLACE = Layout(
    real=ADDRESS.within("address"), pod=IP4, notice=IP4, port=U16, notice_port=U16, is_own=U32
)
ENDPOINT = Layout(ip=IP4, port=U32)  # of a service
# What a pod's netd knows of itself, as pod_addressing.py.
WORLD = Layout(
    pod=IP4,
    node=IP4,
    loopback=IP4,
    pods_first=U32,
    pods_mask=U32,
    services_first=U32,
    services_mask=U32,
    allows_outside=I32,
    notices=I32,  # where they arrive
    forward=I32,  # where those go that are for Python
    needs_proof=I32,  # whether a pod's netd must acknowledge a connection to it
    diagnostics=I32,
    uid_ranges=I32,
    uids=_many(U32, 2 * MAX_UIDS),  # first, count
    key=_bytes(MAX_KEY),
    key_length=U32,
    names=POINTER,  # the connection table
    lent=POINTER,
    rooms=_many(I32, 2 * ROOMS),  # both ends of each
)
# struct seccomp_notif of the kernel; headers of older systems lack parts of it.
NOTIFICATION = Layout(
    id=U64, pid=U32, flags=U32, number=I32, arch=U32, pointer=U64, args=_many(U64, 6)
)
# Of linux/seccomp.h: its requests, an answer, and a descriptor for the caller.
NOTIF_RECV, NOTIF_SEND, NOTIF_ID_VALID, NOTIF_ADDFD = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
NOTIF_CONTINUE = 1  # the kernel does the call
ADDFD_AT, ADDFD_ANSWER = 1, 2  # by a number that is told; as the answer
REPLY = Layout(id=U64, value=I64, error=I32, flags=U32)
DESCRIPTOR = Layout(id=U64, flags=U32, ours=U32, theirs=U32, their_flags=U32)
# Of linux/sock_diag.h: a question, with its header, and where what is told is in the answer.
DIAG_BY_FAMILY, DIAG_REQUEST = 20, 1
QUESTION = Layout(
    length=U32,
    type=U16,
    flags=U16,
    sequence=U32,
    port=U32,
    family=U8,
    protocol=U8,
    extensions=U8,
    _empty=U8,
    states=U32,
    peer_port=PORT,
    own_port=PORT,
    peer=_bytes(16),
    own=_bytes(16),
    interface=U32,
    cookie=_bytes(8),
)
DIAG_STATE_AT, DIAG_COOKIE_AT, DIAG_UID_AT = 16 + 1, 16 + 44, 16 + 64
# The connection table, which the agent made and every netd of the pod writes.
NAME = Layout(length=U8, _empty=U8, port=U16, ip=_bytes(16))
ENTRY = Layout(cookie=U64, peer=NAME.within("name"), own=NAME.within("name"))
# The journal: the socket's cookie (0: a free entry), the thread that called, its descriptor.
LENT_ENTRY = Layout(cookie=U64, pid=U32, fd=I32)
# With a connection on its way: the cookie of the socket it came by, and who called.
TICKET = Layout(listening=U64, pid=U32, _empty=U32)

# Datagrams between netds. What one says: this is me; I know, so go on; do you still have that
# socket; I do; I do not.
NOTICE, ACK, ASK, CONFIRM, DENY = 1, 2, 3, 4, 5
MAGIC = b"orlop\2"
SIGNATURE = 16
# Kind, protocol, time, the real source, the pod and port it is, the pod and port it speaks to and
# the real port of that; the cookie of the sender's socket; of TCP the receiver's where it is known
# already, of UDP whether the sender's is kept open (agent/netd/udp/port_leases.py).
BODY = Layout(
    "!",
    magic=_bytes(len(MAGIC)),
    kind=U8,
    protocol=U8,
    when=F64,
    real=IP4,
    real_port=U16,
    peer=IP4,
    peer_port=U16,
    pod=IP4,
    port=U16,
    to=U16,
    cookie=U64,
    more=U64,
)
NOTICE_LENGTH = BODY.size + SIGNATURE
# Before a notice that the library passes on to Python: its sender and its arrival.
FORWARDED = Layout(ip=IP4, port=U16, _empty=U16, arrived=F64)

# What C knows as a struct, by its tag; of BODY, which is packed, where each field begins.
STRUCTS: dict[str, Layout] = {
    "address": ADDRESS,
    "place": PLACE,
    "end": ENDPOINT,
    "world": WORLD,
    "notification": NOTIFICATION,
    "reply": REPLY,
    "descriptor": DESCRIPTOR,
    "question": QUESTION,
    "name": NAME,
    "entry": ENTRY,
    "lent": LENT_ENTRY,
    "ticket": TICKET,
    "forwarded": FORWARDED,
}
DATAGRAM = BODY


def constants() -> dict[str, Union[int, float, bytes]]:
    """Return the numbers and texts above, by name."""
    found = {name: told for name, told in globals().items() if name.isupper()}
    return {name: told for name, told in found.items() if type(told) in (int, float, bytes)}
