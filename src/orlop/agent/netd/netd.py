"""Answers the socket calls of one pod's containers, in a process of its own: netd.

Forked by the agent, which keeps every listener and every port that netd has made, so that one that
dies is followed by another that goes on. A thread for each listener receives and answers; what must
wait is left with `pending_calls`, in the first thread. Messages to and from the kubelet go by the
agent.
"""

from __future__ import annotations

import os
import threading
from ctypes import create_string_buffer
from errno import EFAULT, ENOSYS
from resource import RLIMIT_NOFILE, getrlimit, setrlimit

from ..connection.frames import Broken
from ..linux.fast_imports import dumps, loads
from ..linux.job_output import Sayings
from .endpoint_cache import EndpointCache
from .identity.names import Identities
from .identity.notices import PROTOCOLS, Notices
from .identity.proof import Proof
from .identity.sock_diag import Owners
from .native import CALL_SIZE, Quick, QuickArrivals, QuickNotices, QuickOwners
from .netd_supervisor import receive, send
from .pod_addressing import NodeWorld, PodAddressing
from .relay import Line
from .routes import Routes
from .seccomp.caller_process import Target
from .seccomp.notify import Call, Listener
from .seccomp.syscall_numbers import calls
from .sockets import sockaddr
from .sockets.abstract_unix import Abstract
from .sockets.bind import Bindings
from .sockets.getsockname import Naming
from .sockets.sockaddr import AF_INET, Address
from .sockets.socket_calls import LATER
from .tcp import connection_table
from .tcp.accept import Accepting
from .tcp.accept_handoff import Handover
from .tcp.accept_queue import Arrivals
from .tcp.connect import Connecting
from .tcp.connection_table import Register
from .tcp.nonblocking_journal import Lent
from .tcp.pending_calls import Pending
from .udp import udp_peers
from .udp.datagrams import Datagrams
from .udp.port_leases import Leases

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Optional

    from .netd_supervisor import NetdState

    Handler = Callable[[Call, Target], Optional[int]]
else:
    pass  # without the enums of `socket`, which are slow to import

MAX_ASIDE = 64  # threads that wait for the endpoint cache while others take their post
IDLE = 60.0
DNS = 53


class Netd:
    def __init__(self, network: dict[str, Any], node: str, heirloom: NetdState) -> None:
        self._porch, self._control = heirloom.porch, heirloom.control
        self._line = Line(heirloom.line)
        self._pending = Pending()
        world = (NodeWorld if network.get("onNode") else PodAddressing)(network, heirloom.address)
        self._directory = EndpointCache(network, self._line.send, node)
        self._directory.before_waiting = self._step_aside
        self._bindings = Bindings(world, self._tell, heirloom.host_ports)
        self._leases = Leases()
        self._leases.on_first = self._pending.wake
        self._quick, self._notices, owners, arrivals = _parts(world, heirloom, self._leases)
        identities = Identities(world, self._bindings, Register(heirloom.names))
        routes = Routes(world, self._bindings, self._directory)
        lent = Lent(heirloom.names, connection_table.SIZE + udp_peers.SIZE)
        lent.mend()
        self._abstract = Abstract(world, self._pending, lent)
        self._naming = Naming(identities, self._abstract)
        self._datagrams = Datagrams(
            world,
            self._bindings,
            routes,
            self._directory,
            self._notices,
            identities,
            self._pending,
            self._abstract,
            owners,
            self._leases,
        )
        self._datagrams.step_aside = self._step_aside
        self._datagrams.twins.on_first = self._pending.wake
        self._notices.given = self._bindings.given
        self._notices.identify = identities.connected
        self._notices.on_ack = self._pending.nudge
        proof = Proof(world, self._notices, identities, owners)
        self._connecting = Connecting(
            world, routes, proof, identities, self._pending, self._datagrams, lent
        )
        handover = Handover(heirloom.rooms)
        for listening, connection, number in handover.left():
            arrivals.keep(listening, connection, None, number)
        self._accepting = Accepting(
            world,
            self._directory,
            self._notices,
            owners,
            identities,
            self._pending,
            arrivals,
            handover,
        )
        self._connecting.step_aside = self._step_aside
        self._bindings.before_conflict = self._let_go_of
        self._bindings.on_lost = self._tell_lost
        self._listeners: dict[int, Listener] = {}
        if self._quick is not None:
            self._teach(self._quick, routes)
        self._handlers = self._by_number()
        self._naming_lock = threading.Lock()
        self._names: Optional[Address] = None
        self._posts = threading.local()
        self._aside = 0
        nameserver = (network.get("dns") or {}).get("nameserver")
        self._owners = owners
        self._nameserver = sockaddr.number(nameserver or "0.0.0.0")
        if nameserver:
            for protocol in ("tcp", "udp"):
                routes.own_services[(protocol, self._nameserver, DNS)] = self._serve_names
        self._network, self._world = network, world
        self._directory.located(heirloom.address, self._notices.port)
        for message, holder in heirloom.bindings:
            self._bindings.remember(message, holder)
            self._publish(message)

    def _teach(self, quick: Quick, routes: Routes) -> None:
        """Let the compiled part know what changes, and learn what is found."""
        routes.quick = quick
        self._bindings.on_bound = quick.bound
        self._connecting.on_unheard = quick.not_heard
        self._directory.on_policy = quick.policy
        self._directory.on_told = lambda key: _drop(quick, key)

    def _let_go_of(self, port: int) -> None:
        """Close copies of ours at a real port that the pod wants again.

        They may be all that is left there.
        """
        self._sweep()
        self._leases.give_up(port)

    def _sweep(self) -> None:
        """Close copies of sockets whose programs may be done with them."""
        self._pending.sweep()
        self._datagrams.twins.give_up()
        if self._quick is not None:
            self._quick.sweep()

    def _serve_names(self) -> Address:
        """Return where the cluster's name server is for this pod; start it when first asked."""
        with self._naming_lock:
            if self._names is None:
                from .dns.server import DnsServer

                server = DnsServer(self._directory, self._network, self._asks_names)
                port = server.serve(sockaddr.text(self._world.loopback))
                self._names = Address(AF_INET, self._world.loopback, port)
        return self._names

    def _asks_names(self, protocol: str, client: tuple[str, int], own: tuple[str, int]) -> bool:
        """Return whether this pod has sent the socket here, and not another program of the node."""
        peer, here = (Address(AF_INET, sockaddr.number(end[0]), end[1]) for end in (client, own))
        owners = self._owners
        if not (owners.can_tell_udp if protocol == "udp" else owners.can_tell):
            return True  # where the kernel cannot be asked, nobody can be told from our own
        cookie = owners.look(PROTOCOLS[protocol], peer, here).cookie
        return bool(cookie) and self._datagrams.speaks_to(cookie, here, self._nameserver)

    def _by_number(self) -> dict[int, Handler]:
        handlers: dict[str, Handler] = {
            "bind": self._bind,
            "listen": self._listen,
            "connect": self._connect,
            "accept": lambda call, target: self._accepting.accept(call, target, 0),
            "accept4": lambda call, target: self._accepting.accept(call, target, call.args[3]),
            "getsockname": self._naming.own,
            "getpeername": self._naming.peer,
            "socket": self._datagrams.socket,
            "sendto": self._datagrams.sendto,
            "sendmsg": self._datagrams.sendmsg,
            "sendmmsg": self._datagrams.sendmmsg,
            "read": self._datagrams.read,
            "readv": self._datagrams.readv,
            "write": self._datagrams.write,
            "writev": self._datagrams.writev,
            "setsockopt": self._datagrams.setsockopt,
            "recvfrom": self._datagrams.recvfrom,
            "recvmsg": self._datagrams.recvmsg,
            "recvmmsg": self._datagrams.recvmmsg,
            "ioctl": self._datagrams.ioctl,
        }
        numbers = calls()
        return {numbers[name]: handler for name, handler in handlers.items()}

    # Threads

    def run(self, listeners: dict[bytes, int], first: Sequence[tuple[int, bytes]] = ()) -> None:
        """Serve until the agent is gone; `first`: calls already taken, and where they came in."""
        _, most = getrlimit(RLIMIT_NOFILE)  # calls that wait have a descriptor here, too
        setrlimit(RLIMIT_NOFILE, (most, most))
        threading.Thread(target=self._hear, name="line", daemon=True).start()
        self._serials = set(listeners)
        for fd in listeners.values():
            self._start(Listener(fd, self._quick))
        if self._quick is not None:
            threading.Thread(target=self._take_back, args=(self._quick,), daemon=True).start()
        self._pending.watch(self._porch.fileno(), self._on_porch)
        self._pending.watch(self._notices.inbox, self._notices.read)
        send(self._control, dumps({"type": "ready"}).encode(), [])
        for fd, raw in first:
            taken = Listener(fd).call(raw), Target()
            threading.Thread(target=self._answer, args=taken, daemon=True).start()
        while True:
            due = self._leases.sweep(), self._datagrams.twins.sweep()
            self._pending.turn(min((when for when in due if when), default=IDLE))

    def _hear(self) -> None:
        try:
            while True:
                for payload in self._line.receive():
                    self._directory.on_message(loads(payload))
        except Broken:
            pass  # the agent ends, and we with it

    def _start(self, listener: Listener) -> None:
        threading.Thread(target=self._receive, args=(listener,), daemon=True).start()

    def _receive(self, listener: Listener) -> None:
        """Take one call after another, until nobody is left or another has taken this post."""
        target, posts = Target(), self._posts
        posts.listener = self._listeners[listener.fd] = listener
        while posts.listener is not None:
            call = listener.receive()
            if call is None:
                del self._listeners[listener.fd]
                listener.close()
                self._sweep()
                break
            self._answer(call, target)
        target.close()
        if posts.listener is None:
            self._aside -= 1

    def _answer(self, call: Call, target: Target) -> None:
        try:
            result = self._handlers[call.number](call, target)
        except OSError as error:
            result = -(error.errno or EFAULT)
        except Exception as error:
            complain(f"call {call.number}: {error!r}")
            result = -ENOSYS
        if result is None:
            call.go_on()
        elif result != LATER and not call.answer(result):
            self._connecting.not_heard(call, result)

    def _take_back(self, quick: Quick) -> None:
        """Handle calls that turned out to be for Python after a while; each may take another."""
        buffer = create_string_buffer(CALL_SIZE)
        target = Target()
        while True:
            listener = self._listeners.get(quick.returned(buffer))
            if listener is not None:
                self._answer(listener.call(buffer.raw), target)

    def _step_aside(self) -> None:
        """Let another thread take the calls to come: the one at hand will take a while."""
        listener = getattr(self._posts, "listener", None)
        if listener is not None and self._aside < MAX_ASIDE:
            self._aside += 1
            self._posts.listener = None
            self._start(listener)

    # The agent

    def _on_porch(self) -> None:
        """Take a new listener, unless we have it from the netd before us."""
        serial, fds = receive(self._porch)
        for fd in fds:
            if serial in self._serials:
                os.close(fd)
            else:
                self._serials.add(serial)
                self._start(Listener(fd, self._quick))

    def _tell(self, message: dict[str, Any], fds: list[int]) -> None:
        """Tell the agent, which keeps it for whoever comes after us."""
        send(self._control, dumps(message).encode(), fds)
        if message["published"]:
            self._directory.opened()
        self._publish(message)

    def _tell_lost(self, protocol: str, port: int) -> None:
        words = f"hostPort {port} ({protocol.upper()}): another program on this node has it by now"
        send(self._control, dumps({"type": "lost", "words": words}).encode(), [])

    def _publish(self, message: dict[str, Any]) -> None:
        if message["published"]:
            words = (message["protocol"], message["port"], message["real"], message["address"])
            self._directory.published(*words)

    # Calls

    def _bind(self, call: Call, target: Target) -> Optional[int]:
        raw = target.read_address(call, call.args[1], call.args[2] & 0xFFFFFFFF)
        wanted = sockaddr.parse(raw)
        if wanted is None:
            return self._abstract.bind(call, target, raw)
        return self._bindings.bind(call, target, wanted)

    def _listen(self, call: Call, target: Target) -> Optional[int]:
        return self._bindings.listen(call, target)

    def _connect(self, call: Call, target: Target) -> Optional[int]:
        raw = target.read_address(call, call.args[1], call.args[2] & 0xFFFFFFFF)
        to = sockaddr.parse(raw)
        if to is not None:
            return self._connecting.connect(call, target, to, raw)
        result = self._abstract.connect(call, target, raw)
        if result is None and self._connecting.is_held:
            return self._connecting.held.connect_other(call, target, raw)
        return result


def _parts(
    world: PodAddressing, heirloom: NetdState, leases: Leases
) -> tuple[Optional[Quick], Notices, Owners, Arrivals]:
    """Make the parts that the compiled library keeps where it can be used, and Python else."""
    quick, diagnostics, uids = heirloom.quick, heirloom.diagnostics, heirloom.uids
    known = udp_peers.Heard(heirloom.names, connection_table.SIZE)
    if quick is not None and not world.is_node:
        quick_owners = QuickOwners(quick, diagnostics >= 0)
        found = QuickNotices(quick, world, heirloom.notices, known, quick_owners, leases)
        ends = heirloom.notices.fileno(), found.forward.fileno()
        if quick.start(world, ends, diagnostics, uids, heirloom.names, heirloom.rooms):
            return quick, found, quick_owners, QuickArrivals(quick)
    owners = Owners(diagnostics, uids)
    return None, Notices(world, heirloom.notices, known, owners, leases), owners, Arrivals()


def _drop(quick: Quick, key: str) -> None:
    kind, _, ip = key.partition("/")
    if kind in ("svc", "pod"):
        quick.drop(sockaddr.number(ip))


def complain(words: str) -> None:
    """Write into the job's output, and not as often as a program may like."""
    _sayings.say(words)


_sayings = Sayings("orlop netd")
