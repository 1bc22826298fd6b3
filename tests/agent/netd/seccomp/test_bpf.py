"""The filter, run by a small machine of its own kind: what passes, is asked about, is refused."""

from __future__ import annotations

import pytest

from orlop.agent.netd.seccomp.bpf import (
    ALLOW,
    ENOSYS,
    EOPNOTSUPP,
    EPERM,
    EPROTONOSUPPORT,
    ERRNO,
    MSG_FASTOPEN,
    NOTIFY,
    STRICT,
    TAGGED,
    build,
)
from orlop.agent.netd.seccomp.syscall_numbers import AUDIT, X32, calls
from tests.agent.bpf_machine import run

MACHINES = ("x86_64", "aarch64")
POINTER = 0x7F00_0000_0000  # its lower half is zero
UDP, TCP = (2, 2, 0), (2, 1, 0)
UNFIT, FORBIDDEN = ERRNO | EOPNOTSUPP, ERRNO | EPERM


CASES = {
    "connect to an address": ("connect", (3, POINTER, 16), NOTIFY),
    "bind to a short unix name": ("bind", (3, POINTER, 9), NOTIFY),
    "connect to a unix path, as C does": ("connect", (3, POINTER, 110), NOTIFY),
    "no name at all": ("bind", (3, POINTER, 2), ALLOW),
    "listen": ("listen", (3, 5), NOTIFY),
    "accept without wanting the address": ("accept4", (3, 0, 0, 0), NOTIFY),
    "send": ("sendto", (3, POINTER, 9, 0, 0, 0), ALLOW),
    "send with flags": ("sendto", (3, POINTER, 9, 0x4040, 0, 0), ALLOW),
    "send that connects": ("sendto", (3, POINTER, 9, MSG_FASTOPEN, 0, 0), UNFIT),
    "sendto that connects": ("sendto", (3, POINTER, 9, MSG_FASTOPEN | 1, POINTER, 16), UNFIT),
    "send on a silent socket": ("sendto", (STRICT.start, POINTER, 9, 0, 0, 0), NOTIFY),
    "write": ("write", (3, POINTER, 9), ALLOW),
    "write to any other UDP socket": ("write", (STRICT.start - 1, POINTER, 9), ALLOW),
    "write to a silent socket": ("write", (STRICT.start, POINTER, 9), NOTIFY),
    "writev to the last silent socket": ("writev", (STRICT.stop - 1, POINTER, 9), NOTIFY),
    "write beyond": ("writev", (STRICT.stop, POINTER, 9), ALLOW),
    "sendto": ("sendto", (3, POINTER, 9, 0, POINTER, 16), NOTIFY),
    "recv": ("recvfrom", (3, POINTER, 9, 0, 0, 0), ALLOW),
    "recv on a UDP socket": ("recvfrom", (TAGGED.start, POINTER, 9, 0, 0, 0), NOTIFY),
    "read": ("read", (TAGGED.start - 1, POINTER, 9), ALLOW),
    "read from a UDP socket": ("read", (TAGGED.start, POINTER, 9), NOTIFY),
    "readv from the last UDP socket": ("readv", (TAGGED.stop - 1, POINTER, 9), NOTIFY),
    "recvfrom": ("recvfrom", (3, POINTER, 9, 0, 0x1000, 8), NOTIFY),
    "sendmsg on a connection": ("sendmsg", (7, POINTER, 0), ALLOW),
    "sendmsg on a UDP socket": ("sendmsg", (TAGGED.start, POINTER, 0), NOTIFY),
    "sendmsg that connects": ("sendmsg", (7, POINTER, MSG_FASTOPEN), UNFIT),
    "sendmmsg that connects": ("sendmmsg", (7, POINTER, 1, MSG_FASTOPEN), UNFIT),
    "sendmmsg on a connection": ("sendmmsg", (7, POINTER, 1, 0x4000), ALLOW),
    "sendmmsg on a UDP socket": ("sendmmsg", (TAGGED.start, POINTER, 1, 0), NOTIFY),
    "recvmmsg on the last UDP socket": ("recvmmsg", (TAGGED.stop - 1, POINTER, 9), NOTIFY),
    "sendmsg beyond": ("sendmsg", (TAGGED.stop, POINTER, 0), ALLOW),
    "a TCP socket": ("socket", TCP, ALLOW),
    "a TCP socket by its number": ("socket", (10, 1, 6), ALLOW),
    "several ways at once": ("socket", (2, 1 | 0o4000, 262), ERRNO | EPROTONOSUPPORT),
    "a UDP socket": ("socket", UDP, NOTIFY),
    "a raw socket": ("socket", (2, 3, 17), NOTIFY),
    "a socket of SCTP": ("socket", (10, 1, 132), NOTIFY),
    "a socket of SMC": ("socket", (2, 1 | 0o4000, 256), NOTIFY),
    "messages in order, of no protocol": ("socket", (2, 5, 0), NOTIFY),
    "a socket of another family": ("socket", (40, 1, 0), NOTIFY),
    "a pair of unix sockets": ("socketpair", (1, 1, 0), ALLOW),
    "a pair of another family": ("socketpair", (30, 1, 0), UNFIT),
    "a route of one's own": ("setsockopt", (3, 0, 4, POINTER, 8), FORBIDDEN),
    "a routing header": ("setsockopt", (3, 41, 57, POINTER, 8), FORBIDDEN),
    "one's place in a group": ("setsockopt", (3, 0, 35, POINTER, 8), NOTIFY),
    "one's place in a group of IPv6": ("setsockopt", (3, 41, 20, POINTER, 8), NOTIFY),
    "a time to live": ("setsockopt", (3, 0, 2, POINTER, 4), ALLOW),
    "no delay": ("setsockopt", (3, 6, 1, POINTER, 4), ALLOW),
    "a UDP socket that does not block": ("socket", (10, 2 | 0o4000 | 0o2000000, 17), NOTIFY),
    "a unix socket": ("socket", (1, 1, 0), ALLOW),
    "a unix socket of datagrams": ("socket", (1, 2 | 0o2000000, 0), NOTIFY),
    "a routing socket": ("socket", (16, 3, 0), NOTIFY),
    "another netlink socket": ("socket", (16, 3, 9), ALLOW),
    "the list of interfaces": ("ioctl", (3, 0x8912, POINTER), NOTIFY),
    "a terminal's size": ("ioctl", (0, 0x5413, POINTER), ALLOW),
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("name", "args", "wanted"), CASES.values(), ids=CASES)
def test_only_what_names_an_address_is_asked_about(machine, name, args, wanted):
    assert run(build(machine), calls(machine)[name], args, AUDIT[machine]) == wanted


TOWARDS = ("connect", "getpeername", "sendto", "recvfrom", "sendmsg", "sendmmsg", "recvmmsg")
TOWARDS += ("socket",)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("name", "args", "wanted"), CASES.values(), ids=CASES)
def test_on_the_nodes_network_only_what_goes_to_somebody_is_asked_about(
    machine, name, args, wanted
):
    known = args[0] in (2, 10) and (args[1] & 0xF == 2 or args[2] == 262)
    is_nodes = name not in TOWARDS or (name == "socket" and not known)
    is_nodes |= name == "connect" and args[2] == 110  # as C programs give a path
    is_nodes |= name in ("sendto", "recvfrom") and not args[4]
    is_nodes |= name in ("sendmsg", "sendmmsg") and args[0] not in TAGGED
    expected = ALLOW if is_nodes else NOTIFY if wanted == UNFIT else wanted
    assert run(build(machine, True), calls(machine)[name], args, AUDIT[machine]) == expected


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("number", [425, 426, 427, X32 | 42])
def test_on_the_nodes_network_other_ways_to_make_calls_are_open(machine, number):
    for audit in (AUDIT[machine], 0x40000003):
        assert run(build(machine, True), number, (3, POINTER, 16), audit) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("number", [0, 1, 3, 56, 59, 202, 231, 232, 281, 435, 449])
def test_everything_else_passes(machine, number):
    known = calls(machine).values()
    wanted = NOTIFY if number in known and number != calls(machine)["write"] else ALLOW
    args = (TAGGED.start, POINTER, 16, 0, POINTER)
    assert run(build(machine), number, args, AUDIT[machine]) == wanted


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("number", [425, 426, 427])
def test_io_uring_is_refused_also_by_the_calls_of_32_bits(machine, number):
    for audit in (AUDIT[machine], 0x40000003):
        assert run(build(machine), number, (), audit) == ERRNO | ENOSYS


def test_the_calls_of_programs_with_short_pointers_are_refused():
    x86 = build("x86_64")
    assert run(x86, X32 | 42, (3, POINTER, 16), AUDIT["x86_64"]) == ERRNO | ENOSYS
    i386, arm = 0x40000003, 0x40000028
    for number, wanted in [(n, ERRNO | ENOSYS) for n in (102, 337, 345, 362, 417)] + [
        (5, ALLOW),
        (400, ALLOW),
    ]:
        assert run(x86, number, (), i386) == wanted
    for number, wanted in ((283, ERRNO | ENOSYS), (366, ERRNO | ENOSYS), (5, ALLOW), (300, ALLOW)):
        assert run(build("aarch64"), number, (), arm) == wanted


def test_other_machines_are_told_that_they_are_not_known():
    with pytest.raises(OSError, match=r"x86_64, aarch64.*riscv64"):
        calls("riscv64")
