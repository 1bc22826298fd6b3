"""Builds the seccomp filter: which of a container's calls are allowed, asked about or refused.

Made once by the agent and installed in every process that becomes a container's or enters one.
Calls that carry data (send, recv, read, write, sendmsg on a TCP socket) pass: only what names an
address is asked about, and who a datagram comes from. A filter cannot look at a socket, only at
numbers; so sockets of datagrams (UDP, unix, routing) are put at descriptors of a range of their own
when they are made (TAGGED), and what is sent and received by them is told by that. A program may
move a socket out of it: what that makes possible must be harmless by the kind of the socket
(docs/decisions/0027).
"""

from __future__ import annotations

import struct

from .syscall_numbers import AUDIT, COMPAT, IO_URING, X32, calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Union

    Jump = Union[int, str]  # instructions to skip, or a label

# Below 1024, which select() and the usual limit of open files end at.
TAGGED = range(896, 1024)
# The last of them: those that cannot send by themselves (agent/netd/udp/send_twins.py): all that
# sends is asked about.
STRICT = range(992, 1024)

ALLOW, NOTIFY, ERRNO = 0x7FFF0000, 0x7FC00000, 0x00050000
EPERM, ENOSYS, EPROTONOSUPPORT, EOPNOTSUPP = 1, 38, 93, 95
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
SOCK_STREAM, SOCK_DGRAM, NETLINK_ROUTE, TCP, MPTCP = 1, 2, 0, 6, 262
# The whole of struct sockaddr_un, as C programs give it for a path: all those that look up a user
# ask nscd so. On the node's network alone: an address of another family may be as long.
UNIX_PATH = 110
MSG_FASTOPEN = 0x20000000  # connects in the course of sending
# Options by which a socket goes elsewhere than it is connected to (routes of its own: IP_OPTIONS,
# IPV6_RTHDR and its older names), or speaks to a group by joining it. By their level.
ROUTES = {0: (4,), 41: (5, 6, 57)}
GROUPS = {0: (35, 39, 42, 46), 41: (20, 27, 42, 46)}
# What lists interfaces and their addresses: SIOCGIFCONF, ADDR, BRDADDR, NETMASK.
INTERFACE_REQUESTS = (0x8912, 0x8915, 0x8919, 0x891B)
# What names the other end, or makes a socket that may have several.
TOWARDS = {"connect", "getpeername", "socket", "sendto", "sendmsg", "sendmmsg"}
TOWARDS |= {"recvfrom", "recvmsg", "recvmmsg"}

_LOAD, _EQUAL, _AT_LEAST, _HAS_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCH = 0, 4  # offsets in struct seccomp_data


def _argument(index: int, high: bool = False) -> int:
    return 16 + 8 * index + (4 if high else 0)


class _Assembler:
    """Assembles instructions with jumps to labels further down."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int, Jump, Jump]] = []
        self._labels: dict[str, int] = {}

    def label(self, name: str) -> None:
        self._labels[name] = len(self._code)

    def add(self, code: int, value: int, then: Jump = 0, otherwise: Jump = 0) -> None:
        self._code.append((code, value, then, otherwise))

    def load(self, offset: int) -> None:
        self.add(_LOAD, offset)

    def if_equal(self, value: int, then: Jump, otherwise: Jump = 0) -> None:
        self.add(_EQUAL, value, then, otherwise)

    def if_at_least(self, value: int, then: Jump, otherwise: Jump = 0) -> None:
        self.add(_AT_LEAST, value, then, otherwise)

    def if_has(self, bit: int, then: Jump, otherwise: Jump = 0) -> None:
        self.add(_HAS_BIT, bit, then, otherwise)

    def if_within(self, numbers: range, then: Jump, otherwise: Jump) -> None:
        self.if_at_least(numbers.start, 0, otherwise)
        self.if_at_least(numbers.stop, otherwise, then)

    def end(self, name: str, value: int) -> None:
        self.label(name)
        self.add(_RETURN, value)

    def _skip(self, at: int, jump: Jump) -> int:
        return self._labels[jump] - at - 1 if isinstance(jump, str) else jump

    def bytes(self) -> bytes:
        return b"".join(
            struct.pack("<HBBI", code, self._skip(at, then), self._skip(at, otherwise), value)
            for at, (code, value, then, otherwise) in enumerate(self._code)
        )


def build(machine: str, is_node: bool = False) -> bytes:
    """Build the filter for one architecture, as the kernel takes it.

    `is_node`: of a pod on its node's network; then only what goes to somebody is asked about, and
    whoever goes past the filter has the node's network, as wanted. Multipath TCP alone is refused
    there, too: when its socket is made nobody knows where it will go, and netd could not lead it to
    a service.
    """
    made = _Assembler()
    made.load(_ARCH)
    made.if_equal(AUDIT[machine], 0, "allow" if is_node else "compat")
    made.load(_NUMBER)
    if machine == "x86_64":
        made.if_at_least(X32, "allow" if is_node else "refuse")
    _by_number(made, calls(machine), is_node)
    _by_address(made, is_node)
    _by_descriptor(made)
    _by_kind(made, is_node)
    if not is_node:
        _by_option(made)
    made.label("compat")
    made.load(_NUMBER)
    for first, last in COMPAT[machine]:
        made.if_at_least(first, 0, 1)
        made.if_at_least(last + 1, 0, "refuse")
    made.end("allow", ALLOW)
    made.end("ask", NOTIFY)
    made.end("refuse", ERRNO | ENOSYS)
    made.end("unsupported", ERRNO | EPROTONOSUPPORT)
    made.end("unfit", ERRNO | EOPNOTSUPP)
    made.end("forbidden", ERRNO | EPERM)
    return made.bytes()


def _by_number(made: _Assembler, number: dict[str, int], is_node: bool) -> None:
    wanted = {
        "read": "tagged",
        "write": "strict",
        "writev": "strict",
        "readv": "tagged",
        "sendto": "sendto",
        "recvfrom": "recvfrom",
        "sendmsg": "sendmsg",
        "recvmsg": "tagged",
        "connect": "address",
        "accept": "ask",
        "accept4": "ask",
        "getsockname": "ask",
        "getpeername": "ask",
        "setsockopt": "setsockopt",
        "ioctl": "ioctl",
        "sendmmsg": "sendmmsg",
        "recvmmsg": "tagged",
        "socket": "socket",
        "bind": "address",
        "listen": "ask",
        "socketpair": "socketpair",
    }
    on_node = {"sendto": "peer", "recvfrom": "peer", "sendmsg": "tagged", "sendmmsg": "tagged"}
    for name, label in wanted.items():
        if not is_node or name in TOWARDS:
            made.if_equal(number[name], on_node.get(name, label) if is_node else label)
    if not is_node:  # it would make these calls past the filter; programs do without
        for found in IO_URING:
            made.if_equal(found, "refuse")
    made.add(_RETURN, ALLOW)


def _by_address(made: _Assembler, is_node: bool) -> None:
    made.label("address")  # every family has names of more than its own two bytes
    made.load(_argument(2))
    if is_node:
        made.if_equal(UNIX_PATH, "allow")
    made.if_at_least(3, "ask", "allow")
    made.label("sendto")
    made.load(_argument(3))
    made.if_has(MSG_FASTOPEN, "unfit")
    _if_address(made, "ask")
    made.label("strict")
    made.load(_argument(0))
    made.if_within(STRICT, "ask", "allow")
    made.label("peer")  # send() and recv() pass no address
    _if_address(made, "ask")
    made.add(_RETURN, ALLOW)


def _if_address(made: _Assembler, then: Jump) -> None:
    """Add the part for sendto and recvfrom: go to `then` where an address is given."""
    for high in (False, True):
        made.load(_argument(4, high))
        made.if_equal(0, 0, then)


def _by_descriptor(made: _Assembler) -> None:
    made.label("sendmsg")
    made.load(_argument(2))
    made.if_has(MSG_FASTOPEN, "unfit", "tagged")
    made.label("sendmmsg")
    made.load(_argument(3))
    made.if_has(MSG_FASTOPEN, "unfit", "tagged")
    made.label("recvfrom")
    _if_address(made, "ask")
    made.label("tagged")
    made.load(_argument(0))
    made.if_within(TAGGED, "ask", "allow")


def _by_kind(made: _Assembler, is_node: bool) -> None:
    """Add the part for sockets that are made.

    Netd makes those of datagrams, and has a say in uncommon ones.
    """
    made.label("socket")
    made.load(_argument(0))
    made.if_equal(AF_NETLINK, "allow" if is_node else "netlink")
    if not is_node:
        made.if_equal(AF_UNIX, "kind")
    made.if_equal(AF_INET, 1)
    made.if_equal(AF_INET6, 0, "allow" if is_node else "ask")
    made.load(_argument(2))
    made.if_equal(MPTCP, "unsupported")  # listeners of Go ask for it, and do with TCP
    if not is_node:
        _if_tcp(made)
    made.label("kind")
    made.load(_argument(1))
    made.add(_AND, 0xF)
    made.if_equal(SOCK_DGRAM, "ask", "allow")
    made.label("netlink")
    made.load(_argument(2))
    made.if_equal(NETLINK_ROUTE, "ask", "allow")
    made.label("socketpair")
    made.load(_argument(0))
    made.if_equal(AF_UNIX, "allow", "unfit")


def _if_tcp(made: _Assembler) -> None:
    """Let a TCP socket be made, by its protocol (loaded) and its kind; ask about others."""
    made.if_equal(0, 1)
    made.if_equal(TCP, 0, "ask")
    made.load(_argument(1))
    made.add(_AND, 0xF)
    made.if_equal(SOCK_STREAM, "allow", "ask")


def _by_option(made: _Assembler) -> None:
    made.label("ioctl")
    made.load(_argument(1))
    for request in INTERFACE_REQUESTS:
        made.if_equal(request, "ask")
    made.add(_RETURN, ALLOW)
    made.label("setsockopt")
    made.load(_argument(1))
    for level in ROUTES:
        made.if_equal(level, f"level {level}")
    made.add(_RETURN, ALLOW)
    for level, options in ROUTES.items():
        made.label(f"level {level}")
        made.load(_argument(2))
        for option in options:
            made.if_equal(option, "forbidden")
        for option in GROUPS[level]:
            made.if_equal(option, "ask")
        made.add(_RETURN, ALLOW)
