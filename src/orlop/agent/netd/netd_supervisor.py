"""Keeps netd alive: filters processes, holds what netd needs, and forks it again when it dies.

Used by the supervisor, in its thread. Every process that becomes a container's, or enters one,
installs the filter and sends its listener here; this keeps it, and every port that netd has made,
and hands them to netd. A netd that dies is forked again with all of it.
"""

from __future__ import annotations

import mmap
import os
import select
import struct
import time

from ..linux import syscalls
from ..linux.addresses import own_addresses
from ..linux.fast_imports import dumps, loads, signal, value
from .layout import ROOMS
from .seccomp import bpf, notify
from .tcp import connection_table
from .udp import udp_peers

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any, Optional

    from ..plan import Plan
    from ..pod.sandbox import Sandbox
    from .host_ports import HostPorts
    from .identity.sock_diag import Owners
    from .native import Quick
    from .relay import Relay

    Watch = Callable[[int, Callable[[], object], int], None]
    Place = tuple[int, tuple[str, int]]  # family and address
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import

NETLINK_SOCK_DIAG = 4
PACKETS = socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC
POLLIN = 1
MAX_MESSAGE = 4096
START_TIME = 20.0  # for a new netd to say that it is ready, on the slowest of nodes
PAUSE = 0.2  # before the next netd, if the last one ended at once
FAILED = b"!"
NOTICES_BUFFER = 1 << 20
SO_TIMESTAMPNS = 35
CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)


@value
class NetdState:
    """What one netd leaves to the next, and the first has from the agent."""

    names: mmap.mmap  # of connections
    porch: socket.socket  # where new listeners arrive
    control: socket.socket
    line: socket.socket
    address: str  # of this node, for those who would reach the pod
    diagnostics: int  # a socket of sock_diag(7), from outside the sandbox
    uids: list[tuple[int, int]]
    bindings: list[tuple[dict[str, Any], int]]
    quick: Optional[Quick]
    rooms: list[tuple[socket.socket, socket.socket]]  # for connections on their way to a caller
    notices: socket.socket  # where other netds say who comes
    host_ports: dict[int, int]  # what holds a TCP port of the node for the pod, by its number


class NetdSupervisor:
    """The agent's side of netd; `sandbox` is None where processes filter themselves (`take`)."""

    def __init__(
        self, plan: Plan, sandbox: Optional[Sandbox], diagnostics: int, own_diagnostics: int = -1
    ) -> None:
        """Take two sockets of sock_diag(7): one for netd, one for the agent's own questions."""
        assert plan.network is not None, "a pod that wants nothing of the cluster needs no keeper"
        self._plan, self._network, self._sandbox = plan, plan.network, sandbox
        self._diagnostics, self._own_diagnostics = diagnostics, own_diagnostics
        self._owners: Optional[Owners] = None
        # Whether the pod has its node's network, with names and services of the cluster beside.
        self.is_node = bool(self._network.get("onNode"))
        self._filter = bpf.build(os.uname().machine, self.is_node)
        # Now, before there are threads: the loader's lock may be held for ever in a fork.
        self._quick = _load(self._network.get("helper") or "")
        # Each listener is sent twice: to netd, which shall not wait for us, and to us to keep.
        self._door, self._way_in = socket.socketpair(socket.AF_UNIX, PACKETS)
        self._porch, self._way_to_porch = socket.socketpair(socket.AF_UNIX, PACKETS)
        for end in (self._door, self._porch):
            end.setblocking(False)
        self._rooms = [socket.socketpair(socket.AF_UNIX, PACKETS) for _ in range(ROOMS)]
        for room in self._rooms:
            for end in room:
                end.setblocking(False)
        # Of every netd: what arrives while there is none is heard by the next.
        self._notices = open_notices()
        self._control: Optional[socket.socket] = None
        # Shared with every netd.
        self._names = mmap.mmap(
            -1, connection_table.SIZE + udp_peers.SIZE + connection_table.JOURNAL_SIZE
        )
        self._listeners: dict[bytes, int] = {}  # by a number that each is given
        self._bindings: dict[tuple[str, str, int], tuple[dict[str, Any], int]] = {}
        self._watch: Watch = lambda fd, read, events: None
        self._unwatch: Callable[[int], None] = lambda fd: None
        self.pid = self._forks = 0
        self._started = 0.0
        self._now: Callable[[], float] = time.monotonic
        self._ready_by: Optional[float] = None
        self.on_problem: Callable[[str], None] = lambda words: None  # a container is without
        self.on_lost_port: Callable[[str], None] = lambda words: None
        self.elsewhere: Callable[[], list[int]] = list  # filtered processes that are not below us
        self.host_ports = self._take_ports()
        self._relay: Optional[Relay] = None
        self._carry: Optional[Callable[[Relay], None]] = None

    def _take_ports(self) -> Optional[HostPorts]:
        """Take the ports of the node that the pod asks for; None where it asks for none."""
        wanted = self._network.get("hostPorts")
        if not wanted:
            return None
        from .host_ports import HostPorts

        found = HostPorts(wanted, own_addresses(self._plan.kubelet.get("endpointFile", ""))[0])
        self._network["hostPorts"] = found.had
        return found

    # In the processes of containers

    def around(self, body: Callable[[], object]) -> Callable[[], object]:
        """Return the body of a child, behind the filter."""

        def filtered() -> object:
            self._admit()
            return body()

        return filtered

    def _admit(self) -> None:
        assert self._sandbox is not None, "ranks are filtered by their starters"
        try:
            if not self._sandbox.is_isolated:  # with rights over its namespace it is not needed
                syscalls.no_new_privileges()
            listener = notify.install(self._filter)
        except OSError as error:
            self._way_in.send(FAILED + b" " * 8 + str(error).encode(errors="replace"))
            return
        self.take(listener)

    def take(self, listener: int) -> None:
        """Have netd answer a listener's calls; works in any process that inherited this object."""
        serial = os.urandom(8)
        # To us first: what a netd has heard of when it dies, we have to leave to the next.
        send(self._way_in, serial, [listener])
        send(self._way_to_porch, serial, [listener])
        os.close(listener)

    # In the supervisor

    def _forget(self, fd: int) -> None:
        self._unwatch(fd)
        os.close(fd)

    def _ending(self, serial: bytes) -> Callable[[], None]:
        """Return what is done when a listener's last process is gone."""
        return lambda: self._forget(self._listeners.pop(serial))

    def _on_door(self) -> bool:
        """Keep a listener; return whether there was any."""
        serial, fds = receive(self._door)
        if not fds and serial.startswith(FAILED):  # a number may begin with any byte
            self.on_problem(serial[len(FAILED) :].decode(errors="replace").strip())
        for fd in fds:
            self._listeners[serial] = fd
            self._watch(fd, self._ending(serial), 0)
        return bool(serial)

    def _on_control(self) -> None:
        """Take in the ports that netd has made."""
        while self._control is not None:
            words, fds = receive(self._control)
            if not words:
                return
            message = loads(words)
            if message["type"] == "ready":
                self._ready_by = None
                continue
            if message["type"] == "lost":
                self.on_lost_port(message["words"])
                continue
            key = (message["protocol"], message["key"], message["port"])
            _, holder = self._bindings.get(key, ({}, -1))
            if fds:
                if holder >= 0:
                    os.close(holder)
                holder = fds[0]
            self._bindings[key] = (message, holder)

    def reach(self, port: int) -> list[Place]:
        """Return where a port of the pod really is, for the agent itself."""
        own = _text(self._network["podIP"])
        messages = [message for message, _ in list(self._bindings.values())]
        known = [m for m in messages if (m["protocol"], m["port"]) == ("tcp", port)]
        # As one would try them on a host of one's own: localhost, then what others may reach.
        known.sort(key=lambda message: message["key"] == own)
        if not known:
            return []  # nobody of the pod; who is at that port of the node is a stranger
        return [_place(message) for message in known]

    def is_of_pod(self, connection: socket.socket) -> bool:
        """Return whether a connection of the agent's ends at a socket of the pod's user.

        Another user may have the port of a program that is gone, or has not come back yet.
        """
        from .identity.sock_diag import OTHERS, TCP, Owners
        from .sockets import socket_calls

        if self._owners is None:
            self._owners = Owners(self._own_diagnostics, uids())
        if not self._owners.can_tell:
            return True
        own = socket_calls.own_address(connection.fileno())
        peer = socket_calls.peer_address(connection.fileno())
        if own is None or peer is None:
            return False  # it has ended already
        child = self._owners.child(peer, own)
        return child not in (0, OTHERS) or (not child and self._owners.holds(TCP, peer))

    @property
    def address(self) -> str:
        """Return the pod's own address, as all of the cluster knows it."""
        return str(self._network["podIP"])

    @property
    def loopback(self) -> str:
        """Return the pod's private loopback address; who comes from there is of the pod."""
        return "127." + str(self._network["podIP"]).partition(".")[2]

    # The life of netd

    def start(self, watch: Watch, unwatch: Callable[[int], None], now: Callable[[], float]) -> None:
        """Fork the first netd; `watch` is how the supervisor waits for descriptors."""
        self._watch, self._unwatch, self._now = watch, unwatch, now
        watch(self._door.fileno(), self._on_door, POLLIN)
        self._fork()

    def _fork(self) -> None:
        """Fork netd, with all there is."""
        line, their_line = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC
        )
        control, their_control = socket.socketpair(socket.AF_UNIX, PACKETS)
        self._started = time.monotonic()
        self._ready_by = self._now() + START_TIME
        self._forks += 1
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._become(their_control, their_line)
            except BaseException as error:
                os.write(2, f"orlop netd: {error!r}\n".encode(errors="replace"))
            finally:
                os._exit(1)
        for theirs in (their_control, their_line):
            theirs.close()
        control.setblocking(False)
        self._control = control
        self._watch(control.fileno(), self._on_control, POLLIN)
        self._offer(line)

    def _offer(self, ours: socket.socket) -> None:
        from .relay import Relay

        self._relay = Relay(ours)
        if self._carry is not None:
            self._carry(self._relay)

    def carried_by(self, carry: Callable[[Relay], None]) -> None:
        """Let the connection to the kubelet, now that it exists, carry netd's messages."""
        self._carry = carry
        if self._relay is not None:
            carry(self._relay)

    def _become(self, control: socket.socket, line: socket.socket) -> None:
        syscalls.die_with_parent(signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        rooms = [end.fileno() for room in self._rooms for end in room]
        kept = (control, line, self._porch, self._notices)
        host_ports = self.host_ports.tcp if self.host_ports is not None else {}
        self._let_go(*(one.fileno() for one in kept), *rooms, *host_ports.values())
        is_first = self._forks == 1
        listeners, first = self._first_call(control) if is_first else (dict(self._listeners), [])
        if is_first and self._quick is None:
            # It may have been compiled meanwhile; this process has had no threads yet.
            self._quick = _load(self._network.get("helper") or "")
        from .netd import Netd

        address = own_addresses(self._plan.kubelet.get("endpointFile", ""))[0]
        left = NetdState(
            self._names,
            self._porch,
            control,
            line,
            address,
            self._diagnostics,
            uids(),
            list(self._bindings.values()),
            self._quick,
            self._rooms,
            self._notices,
            host_ports,
        )
        Netd(self._network, self._plan.pod.node, left).run(listeners, first)

    def _first_call(
        self, control: socket.socket
    ) -> tuple[dict[bytes, int], list[tuple[int, bytes]]]:
        """Wait for a call of the network; return the listeners there are then, and that call.

        Many pods make none, and shall not pay for a netd. The process is there already because
        later, beside threads, it could not be forked as safely; one that follows another waits for
        nothing, for the same reason.
        """
        from .seccomp.bystander import Bystander

        bystander = Bystander((self._network.get("policy") or {}).get("egress") is not None)
        send(control, dumps({"type": "ready"}).encode(), [])
        found: dict[bytes, int] = {}
        poll = select.poll()
        poll.register(self._porch.fileno(), POLLIN)
        while True:
            for fd, events in poll.poll():
                if fd == self._porch.fileno():
                    serial, fds = receive(self._porch)
                    for listener in fds:
                        found[serial] = listener
                        poll.register(listener, POLLIN)
                elif events & POLLIN:
                    call = bystander.take(fd)
                    if call is not None:
                        return found, [(fd, call)] if call else []
                else:  # all of its processes are gone
                    poll.unregister(fd)
                    found = {serial: kept for serial, kept in found.items() if kept != fd}
                    os.close(fd)

    def _let_go(self, *needed: int) -> None:
        """Close all that the agent holds: a container's standard input would never end otherwise.

        Numbers stay taken, since objects of the agent's that still live here will close them.
        """
        holders = [holder for _, holder in self._bindings.values()]
        kept = {0, 1, 2, self._diagnostics, *needed, *holders, *self._listeners.values()}
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for fd in [int(name) for name in os.listdir("/proc/self/fd")]:
            if fd not in kept and fd != null:
                os.dup2(null, fd, inheritable=False)

    def on_exit(self, pid: int, status: int = 0) -> bool:
        """Fork another netd if the process that has ended was netd; return whether it was."""
        if pid != self.pid:
            return False
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) in CRASHES:
            self._quick = None  # nobody but compiled code ends so
        self._on_control()  # what it still had to say
        while self._on_door():  # whom it may have heard of, and we not yet
            pass
        if self._control is not None:
            self._forget(self._control.detach())
            self._control = None
        time.sleep(0 if time.monotonic() > self._started + PAUSE else PAUSE)
        self._fork()
        from .seccomp.restart_syscalls import ask_again

        ask_again([os.getpid()], self.elsewhere(), self.pid)
        return True

    def next_deadline(self) -> Optional[float]:
        return self._ready_by

    def tick(self, now: float) -> None:
        """End a netd that has not come up, because it was forked at a bad moment."""
        if self._ready_by is not None and now >= self._ready_by:
            self._ready_by = None
            self.stop()

    def stop(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)


def _load(path: str) -> Optional[Quick]:
    """Load the compiled part of netd, if there is one here."""
    if not path:
        return None
    from .native import load

    return load(path)


def open_diagnostics() -> int:
    """Open a socket to ask later whose a socket is, where user numbers are the node's."""
    try:
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
        found = socket.socket(socket.AF_NETLINK, kind, NETLINK_SOCK_DIAG)
        found.settimeout(0.5)
        return int(found.detach())
    except OSError:
        return -1


def open_notices() -> socket.socket:
    """Open where other netds say who comes, with the time of each datagram."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NOTICES_BUFFER)
    made.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    made.bind(("0.0.0.0", 0))
    return made


def uids() -> list[tuple[int, int]]:
    """Return the node's user numbers that this pod's processes may have: first and count."""
    with open("/proc/self/uid_map") as file:
        lines = [[int(word) for word in line.split()] for line in file]
    if lines == [[0, 0, 0xFFFFFFFF]]:  # no namespace of our own
        return [(os.getuid(), 1)]
    return [(outside, count) for _, outside, count in lines]


def send(sock: socket.socket, words: bytes, fds: list[int]) -> None:
    """Send a message with descriptors."""
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))
    sock.sendmsg([words], [rights] if fds else [])


def receive(sock: socket.socket) -> tuple[bytes, list[int]]:
    """Receive a message and its descriptors; empty when there is none."""
    try:
        words, ancillary, _, _ = sock.recvmsg(MAX_MESSAGE, socket.CMSG_SPACE(8 * 4))
    except OSError:
        return b"", []
    fds: list[int] = []
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds += struct.unpack(f"{len(data) // 4}i", data)
    for fd in fds:
        os.set_inheritable(fd, False)
    return words, fds


def _text(ip: str) -> str:
    return socket.inet_aton(ip).hex()


def _place(message: dict[str, Any]) -> Place:
    raw = bytes.fromhex(message["bound"])
    family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6
    return family, (socket.inet_ntop(family, raw), message["real"])
