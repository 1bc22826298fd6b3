"""Holds all that netd knows and keeps of its one pod: the state that every system call is about.

Built once by netd, from the plan and from what the netd before has left; handed to the handler of
each call. Everything in it is given what it needs when it is made, so it is built from the bottom
up: addresses, the agent's and the kubelet's ends, ports, identities, ways to others, datagrams.
"""

from __future__ import annotations

import threading

from ..linux.fast_imports import value
from .agent_control import AgentControl
from .dns.pod_dns import PodDns
from .endpoint_cache import EndpointCache, Observer
from .identity.names import Identities
from .identity.notices import Hooks, Notices
from .identity.proof import Proof
from .identity.sock_diag import Owners
from .interfaces import Interfaces
from .native import CompiledPart, QuickAcceptQueue, QuickNotices, start_compiled
from .pod_addressing import NodeAddressing, PodAddressing
from .routes import Routes
from .sockets import sockaddr
from .sockets.abstract_unix import AbstractUnixSockets
from .sockets.bindings import Bindings
from .tcp import connection_table
from .tcp.accept_handoff import AcceptHandoff
from .tcp.accept_queue import AcceptQueue
from .tcp.connection_table import ConnectionTable
from .tcp.nonblocking_journal import NonblockingJournal
from .tcp.pending_calls import Pending
from .udp import udp_peers
from .udp.announcements import Announcements
from .udp.destinations import Destinations
from .udp.flows import Flows
from .udp.port_leases import Leases
from .udp.send_twins import Twins
from .udp.udp_peers import UdpPeers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Optional

    from .native import Quick
    from .netd_supervisor import NetdState

    Send = Callable[[dict[str, Any]], None]
    StepAside = Callable[[], None]


@value
class PodNetwork:
    addressing: PodAddressing
    quick: Optional[Quick]  # the compiled part, where it is used
    step_aside: StepAside  # called before a call takes long
    endpoints: EndpointCache  # what the kubelet tells
    agent: AgentControl
    # Ports, and who is who
    bindings: Bindings
    identities: Identities
    owners: Owners
    notices: Notices
    proof: Proof
    routes: Routes
    interfaces: Interfaces
    # Calls that wait, and connections on their way
    pending: Pending
    journal: NonblockingJournal
    accept_queue: AcceptQueue
    accept_handoff: AcceptHandoff
    unix_sockets: AbstractUnixSockets
    # Datagrams
    flows: Flows
    leases: Leases
    twins: Twins
    announcements: Announcements
    destinations: Destinations
    placing: threading.Lock  # a descriptor that is free is so until a socket is put there
    stamping: threading.Lock  # a socket tells the time of the last that was received

    def sweep(self) -> None:
        """Close copies of sockets whose programs may be done with them."""
        self.pending.sweep()
        self.twins.give_up()
        if self.quick is not None:
            self.quick.sweep()

    def let_go_of(self, port: int) -> None:
        """Close copies of ours at a real port that the pod wants again.

        They may be all that is left there.
        """
        self.sweep()
        self.leases.give_up(port)

    def next_sweep(self, longest: float) -> float:
        """Close what was kept for a moment that is over; return the seconds until there is more."""
        due = self.leases.sweep(), self.twins.sweep()
        return min((when for when in due if when), default=longest)


class _CacheObserver(Observer):
    """Has others answer calls while one waits, and lets the compiled part know what changes."""

    def __init__(self, step_aside: StepAside, quick: Optional[Quick]) -> None:
        self._step_aside, self._quick = step_aside, quick

    def before_waiting(self) -> None:
        self._step_aside()

    def on_told(self, key: str) -> None:
        kind, _, ip = key.partition("/")
        if self._quick is not None and kind in ("svc", "pod"):
            self._quick.drop(sockaddr.number(ip))

    def on_policy(self, ingress: bool, egress: bool) -> None:
        if self._quick is not None:
            self._quick.policy(ingress, egress)


def build(
    network: dict[str, Any], node: str, inherited: NetdState, send: Send, step_aside: StepAside
) -> PodNetwork:
    """Build it of `network` as the plan has it; `send` passes a message to the kubelet."""
    kind = NodeAddressing if network.get("onNode") else PodAddressing
    addressing = kind(network, inherited.address)
    compiled = start_compiled(addressing, inherited)
    quick = compiled.quick if compiled is not None else None
    endpoints = EndpointCache(network, send, node, observer=_CacheObserver(step_aside, quick))
    agent = AgentControl(inherited.control, endpoints)
    pending = Pending()
    leases = Leases(pending.wake)
    on_bound = (quick.bound,) if quick is not None else ()
    bindings = Bindings(addressing, agent.bound, inherited.host_ports, *on_bound)
    identities = Identities(addressing, bindings, ConnectionTable(inherited.names))
    hooks = Hooks(bindings.given, identities.connected, pending.nudge)
    owners, notices = _who_speaks(addressing, inherited, compiled, leases, hooks)
    flows = Flows()
    dns = PodDns(network, addressing, endpoints, owners, flows, identities)
    routes = Routes(addressing, bindings, endpoints, dns.services, quick)
    journal = NonblockingJournal(inherited.names, connection_table.SIZE + udp_peers.SIZE)
    journal.mend()
    accept_handoff = AcceptHandoff(inherited.rooms)
    accept_queue = QuickAcceptQueue(quick) if quick is not None else AcceptQueue()
    for listening, connection, number in accept_handoff.left():
        accept_queue.keep(listening, connection, None, number)
    announcements = Announcements(addressing, identities, notices, owners, leases, step_aside)
    return PodNetwork(
        addressing=addressing,
        quick=quick,
        step_aside=step_aside,
        endpoints=endpoints,
        agent=agent,
        bindings=bindings,
        identities=identities,
        owners=owners,
        notices=notices,
        proof=Proof(addressing, notices, identities, owners),
        routes=routes,
        interfaces=Interfaces(addressing),
        pending=pending,
        journal=journal,
        accept_queue=accept_queue,
        accept_handoff=accept_handoff,
        unix_sockets=AbstractUnixSockets(addressing, pending, journal),
        flows=flows,
        leases=leases,
        twins=Twins(lambda own: bindings.holder("udp", own), pending.wake),
        announcements=announcements,
        destinations=Destinations(addressing, routes, flows, announcements),
        placing=threading.Lock(),
        stamping=threading.Lock(),
    )


def _who_speaks(
    addressing: PodAddressing,
    inherited: NetdState,
    compiled: Optional[CompiledPart],
    leases: Leases,
    hooks: Hooks,
) -> tuple[Owners, Notices]:
    """Make what knows whose the other ends are: by the compiled part where it is used."""
    peers = UdpPeers(inherited.names, connection_table.SIZE)
    if compiled is not None:
        by_compiled = QuickNotices(compiled, addressing, inherited.notices, peers, leases, hooks)
        return compiled.owners, by_compiled
    owners = Owners(inherited.diagnostics, inherited.uids)
    return owners, Notices(addressing, inherited.notices, peers, owners, leases, hooks)
