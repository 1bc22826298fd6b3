"""Every way a program may try to reach a destination past its pod's egress policy.

Run inside a pod as `python escapes.py PLACES`, it tries them all, one after the other, and prints
a JSON object: the name of each way -> how it ended, in the kernel's words. What it sends says which
way it came; the test listens at the destination. Standard library of Python 3.9, because it runs
with the node's own. The order of the words in a name: socket and family, how the descriptor came to
be, the call that names the destination.
"""

import array
import contextlib
import ctypes
import errno
import fcntl
import itertools
import json
import mmap
import os
import platform
import resource
import select
import socket
import struct
import subprocess
import sys
import threading

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

FASTOPEN, TCP_FASTOPEN_CONNECT, TCP_ULP = 0x20000000, 30, 31
UNSPEC = 0
WAYS = {}


class Unavailable(Exception):
    """Not on this kernel, or not on this machine."""


def way(name):
    def add(function):
        WAYS[name] = function
        return function

    return add


def check(result):
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


# Addresses, as a system call takes them


def packed(family, host, port, scope=0):
    if family == socket.AF_INET:
        return word(family) + struct.pack(">H4s8x", port, socket.inet_aton(host))
    ip = socket.inet_pton(family, host)
    return word(family) + struct.pack(">HI16s", port, 0, ip) + struct.pack("<I", scope)


def word(number):
    return struct.pack("<H", number)


def padded(raw, length):
    return raw + bytes(length - len(raw))


# The calls that name a destination: (descriptor, address, what to say)


class Header(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("name_length", ctypes.c_uint), ("pieces", ctypes.c_void_p),
        ("count", ctypes.c_size_t), ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t), ("flags", ctypes.c_int),
        ("padding", ctypes.c_int), ("length", ctypes.c_uint), ("padding2", ctypes.c_uint),
    ]  # fmt: skip


class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_char_p), ("length", ctypes.c_size_t)]


def header(raw, said):
    piece = Piece(said, len(said))
    made = Header(raw, len(raw), ctypes.addressof(piece), 1)
    made.keep = piece
    return made


def by_connect(fd, raw, said):
    check(libc.connect(fd, raw, len(raw)))
    check(libc.send(fd, said, len(said), 0))


def by_connect_and_write(fd, raw, said):
    check(libc.connect(fd, raw, len(raw)))
    os.write(fd, said)


def by_connect_110(fd, raw, said):
    by_connect(fd, padded(raw, 110), said)


def by_connect_128(fd, raw, said):
    by_connect(fd, padded(raw, 128), said)


def by_connect_without_waiting(fd, raw, said):
    os.set_blocking(fd, False)
    if libc.connect(fd, raw, len(raw)) and ctypes.get_errno() != errno.EINPROGRESS:
        check(-1)
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    poll.poll(2000)
    check(libc.send(fd, said, len(said), 0))


def by_connect_fast(fd, raw, said):
    on = ctypes.byref(ctypes.c_int(1))
    check(libc.setsockopt(fd, socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, on, 4))
    by_connect(fd, raw, said)


def by_connect_after_disconnect(fd, raw, said):
    libc.connect(fd, bytes(16), 16)
    by_connect(fd, raw, said)


def by_connect_after_bind(fd, raw, said):
    anywhere = packed(raw[0], "0.0.0.0" if raw[0] == socket.AF_INET else "::", 0)
    check(libc.bind(fd, anywhere, len(anywhere)))
    by_connect(fd, raw, said)


def by_sendto(fd, raw, said):
    check(libc.sendto(fd, said, len(said), 0, raw, len(raw)))


def by_sendto_110(fd, raw, said):
    by_sendto(fd, padded(raw, 110), said)


def by_sendto_of_no_family(fd, raw, said):
    by_sendto(fd, word(UNSPEC) + raw[2:], said)


def by_sendto_fast(fd, raw, said):
    check(libc.sendto(fd, said, len(said), FASTOPEN, raw, len(raw)))


def by_sendmsg(fd, raw, said, flags=0):
    check(libc.sendmsg(fd, ctypes.byref(header(raw, said)), flags))


def by_sendmsg_110(fd, raw, said):
    by_sendmsg(fd, padded(raw, 110), said)


def by_sendmsg_of_no_family(fd, raw, said):
    by_sendmsg(fd, word(UNSPEC) + raw[2:], said)


def by_sendmsg_fast(fd, raw, said):
    by_sendmsg(fd, raw, said, FASTOPEN)


def by_sendmmsg(fd, raw, said, flags=0):
    check(libc.sendmmsg(fd, ctypes.byref(header(raw, said)), 1, flags))


def by_sendmmsg_fast(fd, raw, said):
    by_sendmmsg(fd, raw, said, FASTOPEN)


def by_sendmsg_beside_connect(fd, raw, said):
    """Connected to somebody it may speak to, it names another."""
    here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    here.bind(("127.0.0.1", 0))
    host = "127.0.0.1" if raw[0] == 2 else "::ffff:127.0.0.1"
    own = packed(raw[0], host, here.getsockname()[1])
    check(libc.connect(fd, own, len(own)))
    by_sendmsg(fd, raw, said)


STREAM_CALLS = [
    by_connect, by_connect_110, by_connect_128, by_connect_without_waiting, by_connect_fast,
    by_connect_after_disconnect, by_connect_after_bind, by_sendto_fast, by_sendmsg_fast,
    by_sendmmsg_fast,
]  # fmt: skip
DATAGRAM_CALLS = [
    by_connect, by_connect_and_write, by_connect_110, by_connect_after_disconnect, by_sendto,
    by_sendto_110, by_sendto_of_no_family, by_sendmsg, by_sendmsg_110, by_sendmsg_of_no_family,
    by_sendmmsg, by_sendmsg_beside_connect,
]  # fmt: skip


# How the descriptor came to be


def made(make, act):
    with make() as sock:
        act(sock.fileno())


def duplicated(make, act):
    with make() as sock:
        fd = os.dup(sock.fileno())
        act(fd)
        os.close(fd)


def put_at_a_low_number(make, act):
    with make() as sock:
        os.dup2(sock.fileno(), 300)
        act(300)
        os.close(300)


def duplicated_from_a_number(make, act):
    with make() as sock:
        fd = fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, 400)
        act(fd)
        os.close(fd)


def put_at_a_high_number(make, act):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most <= 1500:
        raise Unavailable("no descriptor may be so high")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with make() as sock:
        os.dup2(sock.fileno(), 1500)
        act(1500)
        os.close(1500)


def passed_on(make, act):
    one, two = socket.socketpair()
    with make() as sock:
        rights = array.array("i", [sock.fileno()])
        one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    _, control, _, _ = two.recvmsg(9, socket.CMSG_SPACE(4))
    (fd,) = struct.unpack("i", control[0][2])
    act(fd)
    for end in (one, two):
        end.close()
    os.close(fd)


def taken_from_a_process(make, act):
    with make() as sock:
        process = check(libc.syscall(434, os.getpid(), 0))
        fd = check(libc.syscall(438, process, sock.fileno(), 0))
        act(fd)
        os.close(fd)
        os.close(process)


def made_without_room(make, act):
    """Where no number is free by which the filter would know it."""
    taken = [fd for fd in range(896, 1024) if not os.path.exists(f"/proc/self/fd/{fd}")]
    null = os.open(os.devnull, os.O_RDWR)
    for fd in taken:
        os.dup2(null, fd)
    try:
        made(make, act)
    finally:
        for fd in [*taken, null]:
            os.close(fd)


def made_below_a_limit(make, act):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        made(make, act)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def made_by_a_thread(make, act):
    """And used by another."""
    found = []
    maker = threading.Thread(target=lambda: found.append(make()))
    maker.start()
    maker.join()
    made(lambda: found[0], act)


def inherited(make, act):
    """By a child, at another number."""
    with make() as sock:
        fd = os.dup(sock.fileno())
        pid = os.fork()
        if not pid:
            code = 0
            try:
                act(fd)
            except OSError as error:
                code = error.errno
            os._exit(code)
        os.close(fd)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code:
            raise OSError(code, os.strerror(code))


def kept_by_another_program(make, act):
    """Executed with the descriptor, at another number."""
    with make() as sock:
        fd = os.dup(sock.fileno())
        os.set_inheritable(fd, True)
        words = [sys.executable, __file__, "--with", str(fd), act.call.__name__, act.raw.hex()]
        words.append(act.said.decode())
        ran = subprocess.run(words, close_fds=False, capture_output=True, text=True, timeout=20)
        os.close(fd)
        if ran.returncode:
            raise OSError(ran.returncode, os.strerror(ran.returncode))


HOWS = [
    made, duplicated, put_at_a_low_number, duplicated_from_a_number, put_at_a_high_number,
    passed_on, taken_from_a_process, made_without_room, made_below_a_limit, made_by_a_thread,
    inherited, kept_by_another_program,
]  # fmt: skip


class Act:
    """One call on a descriptor, to a destination."""

    def __init__(self, call, raw, said):
        self.call, self.raw, self.said = call, raw, said

    def __call__(self, fd):
        self.call(fd, self.raw, self.said)


def families(places, protocol):
    """Name -> family of the socket, address."""
    port = places[protocol]
    host, six, link = places["v4"], places.get("v6"), places.get("link")
    found = {
        "ipv4": (socket.AF_INET, packed(socket.AF_INET, host, port)),
        "mapped": (socket.AF_INET6, packed(socket.AF_INET6, "::ffff:" + host, port)),
    }
    if six:
        found["ipv6"] = socket.AF_INET6, packed(socket.AF_INET6, six, places[protocol + "6"])
    if link:
        scope = socket.if_nametoindex(link[1])
        raw = packed(socket.AF_INET6, link[0], places[protocol + "6"], scope)
        found["link-local"] = socket.AF_INET6, raw
    if protocol == "udp":
        found["ipv4 on ipv6"] = socket.AF_INET6, packed(socket.AF_INET, host, port)
    return found


def table(places):
    """Of TCP and UDP: every call by every family, and by every descriptor in one of them."""
    kinds = (("tcp", socket.SOCK_STREAM, STREAM_CALLS), ("udp", socket.SOCK_DGRAM, DATAGRAM_CALLS))
    for protocol, kind, calls in kinds:
        for (name, (family, raw)), call in itertools.product(
            families(places, protocol).items(), calls
        ):
            for how in HOWS if name == "ipv4" else HOWS[:1]:
                label = " ".join([protocol, name, how.__name__, call.__name__]).replace("_", " ")

                def run(label=label, family=family, kind=kind, raw=raw, how=how, call=call):
                    make = lambda: patient(socket.socket(family, kind))  # noqa: E731
                    how(make, Act(call, raw, said_as(label)))

                WAYS[label] = run


def said_as(label):
    return b"<" + label.encode() + b">"


def patient(sock):
    """No call of it waits for ever, and it has the flags of a blocking one."""
    for name in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, name, struct.pack("qq", 3, 0))
    return sock


# Other kinds of sockets


def other(label, family, kind, protocol, raw, call=by_sendto):
    def run():
        with socket.socket(family, kind, protocol) as sock:
            call(sock.fileno(), raw, said_as(label))

    WAYS[label] = run


def others(places):
    v4 = packed(socket.AF_INET, places["v4"], places["udp"])
    tcp = packed(socket.AF_INET, places["v4"], places["tcp"])
    host = packed(socket.AF_INET, places["v4"], 0)
    dgram, stream, seq = socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_SEQPACKET
    raw_kind, inet = socket.SOCK_RAW, socket.AF_INET
    lite = packed(inet, places["v4"], places["udplite"])
    other("udplite sendto", inet, dgram, 136, lite)
    other("udplite connect", inet, dgram, 136, lite, by_connect)
    other("udplite sendmsg", inet, dgram, 136, lite, by_sendmsg)
    other("sctp connect", inet, stream, 132, tcp, by_connect)
    other("sctp sendmsg", inet, seq, 132, tcp, by_sendmsg)
    other("dccp connect", inet, 6, 33, tcp, by_connect)
    other("mptcp connect", inet, stream, 262, tcp, by_connect)
    other("mptcp sendmsg fast", inet, stream, 262, tcp, by_sendmsg_fast)
    other("smc of inet connect", inet, stream, 256, tcp, by_connect)
    other("smc connect", 43, stream, 0, tcp, by_connect)
    other("smc of ipv6 connect", 43, stream, 1, tcp, by_connect)
    other("raw udp sendto", inet, raw_kind, socket.IPPROTO_UDP, host)
    other("raw ip sendto", inet, raw_kind, socket.IPPROTO_RAW, host)
    other("ping sendto", inet, dgram, socket.IPPROTO_ICMP, host)
    other("packet socket of old", inet, 10, 3, host)
    other("packet socket", 17, raw_kind, 0x300, bytes(20))
    other("xdp socket", 44, raw_kind, 0, bytes(16))
    other("vsock connect", 40, stream, 0, struct.pack("<HHIIB3x", 40, 0, 9999, 1, 0), by_connect)
    other("vsock datagram", 40, dgram, 0, struct.pack("<HHIIB3x", 40, 0, 9999, 1, 0))
    other("tipc datagram", 30, 4, 0, bytes(16))
    other("rds", 21, seq, 0, v4)
    other("kcm", 41, dgram, 0, v4)
    other("can", 29, raw_kind, 1, bytes(16))
    other("ieee802154", 36, dgram, 0, bytes(16))
    other("rxrpc", 33, dgram, 2, v4)
    other("l2tp", inet, dgram, 115, v4)
    other("key management", 15, raw_kind, 2, b"")


@way("tipc pair")
def tipc_pair(places):
    socket.socketpair(30, socket.SOCK_SEQPACKET)


@way("tcp with smc above connect")
def smc_above(places):
    with socket.socket() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"smc\0")
        raw = packed(socket.AF_INET, places["v4"], places["tcp"])
        by_connect(sock.fileno(), raw, said_as("tcp with smc above connect"))


def source_routed(level, option, route):
    with socket.socket(socket.AF_INET if level == 0 else socket.AF_INET6) as sock:
        sock.setsockopt(level, option, route)


@way("tcp with a source route")
def source_route(places):
    source_routed(0, 4, b"\x83\x07\x04" + socket.inet_aton(places["v4"]) + b"\0")


@way("tcp with a routing header")
def routing_header(places):
    segments = socket.inet_pton(socket.AF_INET6, "2001:db8::1") * 2
    source_routed(41, 57, struct.pack("BBBBBBH", 0, 4, 4, 1, 1, 0, 0) + segments)


@way("udp with a source route beside the message")
def source_route_beside(places):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        route = b"\x83\x07\x04" + socket.inet_aton(places["v4"]) + b"\0"
        here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        here.bind(("127.0.0.1", 0))
        sock.sendmsg([b"x"], [(0, 7, route)], 0, here.getsockname())


@way("membership of a group")
def membership(places):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        group = socket.inet_aton("239.9.9.9") + socket.inet_aton(places["v4"])
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)


@way("a group that one is no member of")
def to_a_group(places):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"x", ("239.9.9.9", places["udp"]))


# Namespaces


def in_child(act):
    pid = os.fork()
    if not pid:
        code = 0
        try:
            act()
        except OSError as error:
            code = error.errno
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise OSError(code, os.strerror(code))


@way("tcp from a network namespace of its own")
def own_namespace(places):
    def act():
        check(libc.unshare(0x10000000 | 0x40000000))
        raw = packed(socket.AF_INET, places["v4"], places["tcp"])
        with socket.socket() as sock:
            by_connect(sock.fileno(), raw, said_as("tcp from a network namespace of its own"))

    in_child(act)


@way("the network namespace of process 1")
def joined_namespace(places):
    def act():
        with open("/proc/1/ns/net") as file:
            check(libc.setns(file.fileno(), 0x40000000))

    in_child(act)


# Other ways to make a call


def machine_code(code):
    if platform.machine() != "x86_64":
        raise Unavailable("this is " + platform.machine())
    room = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    room.write(code)
    return room, ctypes.addressof(ctypes.c_char.from_buffer(room))


def old_call(number, *args):
    """A call of a 32-bit program, made by one of 64."""
    # Loads eax, ebx, ecx, edx, esi, edi, ebp from the words at rdi, and calls int 0x80.
    code = "53554989f9418b01418b5904418b4908418b510c418b7110418b7914418b6918cd805d5bc3"
    room, at = machine_code(bytes.fromhex(code))
    words = (ctypes.c_uint32 * 7)(number, *[arg & 0xFFFFFFFF for arg in args])
    result = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(at)(ctypes.addressof(words))
    del room
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


def low_memory(*parts):
    """Where 32 bits lead to: addresses of the parts."""
    libc.mmap.restype, libc.mmap.argtypes = (
        ctypes.c_void_p,
        [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long],
    )
    at = libc.mmap(None, 4096, 3, 0x22 | 0x40, -1, 0)  # MAP_32BIT
    found, place = [], at
    for part in parts:
        ctypes.memmove(place, part, len(part))
        found.append(place)
        place += len(part) + -len(part) % 16
    return found


def needs_old_calls():
    try:
        old_call(20)  # getpid
    except OSError as error:
        raise Unavailable("no calls of 32-bit programs: " + os.strerror(error.errno)) from None


@way("32-bit connect")
def old_connect(places):
    needs_old_calls()
    raw = packed(socket.AF_INET, places["v4"], places["tcp"])
    with socket.socket() as sock:
        (at,) = low_memory(raw)
        old_call(362, sock.fileno(), at, len(raw))
        sock.send(said_as("32-bit connect"))


@way("32-bit socketcall connect")
def old_socketcall(places):
    needs_old_calls()
    raw = packed(socket.AF_INET, places["v4"], places["tcp"])
    with socket.socket() as sock:
        (at,) = low_memory(raw)
        (words,) = low_memory(struct.pack("<3I", sock.fileno(), at, len(raw)))
        old_call(102, 3, words)
        sock.send(said_as("32-bit socketcall connect"))


def old_message(places, said):
    raw = packed(socket.AF_INET, places["v4"], places["udp"])
    name, data = low_memory(raw, said)
    (piece,) = low_memory(struct.pack("<2I", data, len(said)))
    head = struct.pack("<7II", name, len(raw), piece, 1, 0, 0, 0, 0)
    return low_memory(head)[0]


@way("32-bit sendmsg")
def old_sendmsg(places):
    needs_old_calls()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        old_call(370, sock.fileno(), old_message(places, said_as("32-bit sendmsg")), 0)


@way("32-bit sendmmsg")
def old_sendmmsg(places):
    needs_old_calls()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        old_call(345, sock.fileno(), old_message(places, said_as("32-bit sendmmsg")), 1, 0)


@way("32-bit io_uring")
def old_ring(places):
    needs_old_calls()
    (parameters,) = low_memory(bytes(120))
    fd = old_call(425, 8, parameters)
    ring(places, fd, parameters, old_call, "32-bit io_uring")


@way("io_uring")
def new_ring(places):
    parameters = ctypes.create_string_buffer(120)
    fd = check(libc.syscall(425, 8, parameters))
    call = lambda number, *args: check(libc.syscall(number, *args))  # noqa: E731
    ring(places, fd, ctypes.addressof(parameters), call, "io_uring")


def ring(places, fd, parameters, call, label):
    """Connects by a ring, which looks the same from a program of 32 bits."""
    told = struct.unpack("<30I", ctypes.string_at(parameters, 120))
    tail, array_at, entries = told[11], told[16], told[0]
    queue = mmap.mmap(fd, 4096, offset=0)
    submissions = mmap.mmap(fd, 64 * entries, offset=0x10000000)
    raw = packed(socket.AF_INET, places["v4"], places["tcp"])
    name = ctypes.create_string_buffer(raw, len(raw))
    with socket.socket() as sock:
        at = ctypes.addressof(name)
        submissions[:64] = struct.pack("<BBHiQQ40x", 16, 0, 0, sock.fileno(), len(raw), at)
        queue[array_at : array_at + 4] = struct.pack("<I", 0)
        queue[tail : tail + 4] = struct.pack("<I", 1)
        call(426, fd, 1, 1, 1, 0, 0)
        sock.send(said_as(label))


@way("x32 connect")
def short_pointers(places):
    if platform.machine() != "x86_64":
        raise Unavailable("this is " + platform.machine())
    raw = packed(socket.AF_INET, places["v4"], places["tcp"])
    with socket.socket() as sock:
        check(libc.syscall(0x40000000 | 42, sock.fileno(), raw, len(raw)))
        sock.send(said_as("x32 connect"))


# Those who are not in the pod


@way("memory of a process outside")
def memory_outside(places):
    needs_pod(places)
    reached = []
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/ns/user") == os.readlink("/proc/self/ns/user"):
                continue
            with open(f"/proc/{pid}/mem", "rb"):
                reached.append(pid)
    if reached:
        raise AssertionError(f"reads {reached}")
    raise OSError(errno.EACCES, "none")


@way("descriptors of the network's own process")
def descriptors_outside(places):
    """Of any process that this filter does not hold, by its number or through /proc."""
    needs_pod(places)
    mine = status(os.getpid()).get("Seccomp_filters")
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
        if status(pid).get("Seccomp_filters") in (mine, None):
            continue
        process = libc.syscall(434, pid, 0)
        for fd in range(64):
            if process >= 0 and libc.syscall(438, process, fd, 0) >= 0:
                raise AssertionError(f"has descriptor {fd} of {pid}")
        if not libc.ptrace(16, pid, 0, 0):  # PTRACE_ATTACH
            raise AssertionError(f"traces {pid}")
    raise OSError(errno.EPERM, "none")


def needs_pod(places):
    if places.get("is_outside"):
        raise Unavailable("there are no others outside of all pods")


def status(pid):
    try:
        with open(f"/proc/{pid}/status") as file:
            return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    except OSError:
        return {}


def attempt(run):
    try:
        run()
    except Unavailable as error:
        return f"unavailable: {error}"
    except AssertionError as error:
        return f"broken: {error}"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    return "done"


def main(places):
    for name, function in list(WAYS.items()):
        WAYS[name] = lambda function=function: function(places)
    table(places)
    others(places)
    print(json.dumps({name: attempt(run) for name, run in WAYS.items()}))


if __name__ == "__main__":
    if sys.argv[1] == "--with":
        fd, call, raw, said = sys.argv[2:]
        try:
            globals()[call](int(fd), bytes.fromhex(raw), said.encode())
        except OSError as error:
            sys.exit(error.errno)
    else:
        main(json.loads(sys.argv[1]))
