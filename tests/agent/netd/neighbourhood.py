"""Pods with a network of their own, and a kubelet that tells them of each other.

The kubelet's part is a double: it keeps what agents say of their ports and answers what they ask,
as the contract between them has it. Services are what a test says.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

from orlop.agent.netd.identity.notices import Notices
from orlop.agent.netd.identity.sock_diag import Owners
from orlop.agent.netd.netd_supervisor import open_diagnostics, open_notices
from orlop.agent.netd.pod_addressing import PodAddressing
from orlop.agent.netd.udp.port_leases import Leases
from orlop.agent.netd.udp.udp_peers import SIZE as peers_size
from orlop.agent.netd.udp.udp_peers import UdpPeers

from ..kubelet_double import Connection, KubeletDouble
from ..pods import Pod, container
from ..remote import Remote

KEY = "5f" * 32
NAMESERVER = "10.96.0.10"


@contextlib.contextmanager
def other_netd(pod: str, node: str, key: str = KEY) -> Iterator[Notices]:
    """The part of another pod's netd that tells who comes, and hears who comes."""
    network = {"podIP": pod, "podCIDR": "10.244.0.0/16", "serviceCIDR": "10.96.0.0/12", "key": key}
    owners = Owners(open_diagnostics(), [(os.getuid(), 1)])
    peers = UdpPeers(bytearray(peers_size), 0)
    with contextlib.closing(open_notices()) as sock:
        yield Notices(PodAddressing(network, node), sock, peers, owners, Leases())
    owners.close()


class Neighbour:
    """One pod of the neighbourhood, and the line to its agent."""

    def __init__(self, pod: Pod, ip: str) -> None:
        self.pod, self.ip = pod, ip
        self.connection: Connection | None = None
        self._remote: Remote | None = None
        self.is_welcome = threading.Event()
        self.state: dict[str, Any] = {"address": "", "notice": 0, "tcp": {}, "udp": {}}

    @property
    def remote(self) -> Remote:
        assert self.is_welcome.wait(40), self.pod.records()
        self.pod.wait_for(lambda: self.pod.records_of("running"), 40)
        if self._remote is None or self._remote.agent is not self.connection:
            self._remote = Remote(self.connection)  # type: ignore[arg-type]
        return self._remote

    def sh(self, script: str, timeout: float = 20.0, **options: Any) -> str:
        """What a command in its container prints; it must succeed."""
        code, out, errors = self.try_sh(script, timeout, **options)
        assert code == 0, (script, code, out, errors)
        return out

    def try_sh(self, script: str, timeout: float = 20.0, name: str = "c") -> tuple[int, str, str]:
        remote = self.remote
        number = remote.exec("sh", "-c", script, name=name)
        closed = remote.closed(number, timeout)
        assert not closed["error"], closed
        return closed["code"], remote.text(number), remote.text(number + 1)


class Neighbourhood:
    def __init__(self, kubelet: KubeletDouble, make_pod: Callable[..., Pod]) -> None:
        self.kubelet, self._make_pod = kubelet, make_pod
        self.pods: dict[str, Neighbour] = {}
        self.services: dict[str, Any] = {}
        self.policies: dict[str, Any] = {}
        self.names: dict[str, Any] = {}
        self._asked: dict[str, set[str]] = {}  # key -> names of pods
        self._count = 0
        self._lock = threading.Lock()
        self.is_silent = False
        self.helper = ""  # the compiled part of netd, if pods shall have it
        threading.Thread(target=self._welcome, daemon=True).start()

    @property
    def next_ip(self) -> str:
        """That of the pod that will be added next."""
        # Pods of tests that run at once are on one node, where no two have the same address.
        return f"10.244.{10 + os.getpid() % 244}.{self._count + 2}"

    def add(self, *containers: dict[str, Any], **options: Any) -> Neighbour:
        """A new pod that runs; by default one that waits for commands."""
        ip = self.next_ip
        self._count += 1
        network = {
            "podIP": ip,
            "podCIDR": "10.244.0.0/16",
            "serviceCIDR": "10.96.0.0/12",
            "key": KEY,
            "dns": {"nameserver": NAMESERVER, "domain": "cluster.local"},
            "helper": self.helper,
            "host": {"allowOutside": options.pop("allow_outside", False)},
        }
        network["hostPorts"] = options.pop("host_ports", [])
        network |= options.pop("network", {})
        if options.pop("on_node", False):
            network |= {"podIP": "", "onNode": True}
        plan = {"kubelet": self.kubelet.plan, "network": network, **options.pop("plan", {})}
        given = list(containers) or [container(script="exec sleep 1000")]
        pod = self._make_pod(*given, plan=plan, **options)
        neighbour = self.pods[pod.folder.name] = Neighbour(pod, ip)
        (pod.folder / "token").write_text("t")
        pod.start()
        return neighbour

    def serve(self, vip: str, port: int, *endpoints: tuple[Neighbour, int], **more: Any) -> None:
        """Have a service, or change it."""
        protocol = more.pop("protocol", "tcp")
        ends = [[neighbour.ip, end, "n1"] for neighbour, end in endpoints]
        ports = [{"protocol": protocol, "port": port, "name": "", "endpoints": ends}]
        self.services[vip] = {"ports": ports, "affinity": 0, "internalPolicy": "Cluster", **more}
        self._tell(f"svc/{vip}")

    def restrict(self, neighbour: Neighbour, **policy: Any) -> None:
        """Have a NetworkPolicy select a pod: its rules of `ingress` and `egress`."""
        name = neighbour.pod.folder.name
        self.policies[name] = policy
        self._tell("policy", name)

    # The kubelet

    def _welcome(self) -> None:
        while True:
            try:
                connection = self.kubelet.agent(timeout=600)
            except Exception:
                return
            threading.Thread(target=self._greet, args=(connection,), daemon=True).start()

    def _greet(self, connection: Connection) -> None:
        name = connection.request.split(" ")[1].split("/")[-2]
        neighbour = self.pods[name]
        neighbour.connection = _Sifted(connection, lambda m: self._on_message(name, m))
        with contextlib.suppress(OSError, queue.Empty):
            connection.hear("hello")
            connection.tell(type="welcome", acked=0)
            neighbour.is_welcome.set()

    def _on_message(self, name: str, message: dict[str, Any]) -> None:
        neighbour = self.pods[name]
        kind = message["type"]
        with self._lock:
            if kind == "net-state":
                neighbour.state = {k: message[k] for k in ("address", "notice", "tcp", "udp")}
                self._tell(f"pod/{neighbour.ip}")
            elif kind == "net-listen":
                neighbour.state[message["protocol"]][str(message["port"])] = message["real"]
                neighbour.state["address"] = message["address"]
                self._tell(f"pod/{neighbour.ip}")
            elif kind == "net-ask" and not self.is_silent:
                for key in message["keys"]:
                    self._asked.setdefault(key, set()).add(name)
                    self._tell(key, name)

    def _tell(self, key: str, *names: str) -> None:
        for name in names or self._asked.get(key, ()):
            connection = self.pods[name].connection
            if connection is None:
                continue
            with contextlib.suppress(OSError):
                connection.tell(type="net-tell", key=key, value=self._value(key, name))

    def _value(self, key: str, asker: str) -> Any:
        kind, _, rest = key.partition("/")
        if kind == "pod":
            found = next((n for n in self.pods.values() if n.ip == rest), None)
            return {**found.state, "ready": True} if found is not None else None
        if kind == "svc":
            return self.services.get(rest)
        if kind == "name":
            return self.names.get(rest)
        return self.policies.get(asker) if kind == "policy" else None


class _Sifted:
    """A connection whose messages about the network go to the neighbourhood."""

    def __init__(self, connection: Connection, take: Callable[[dict[str, Any]], None]) -> None:
        self._connection, self._take = connection, take
        put = connection.messages.put

        def sift(message: dict[str, Any], *args: Any, **more: Any) -> None:
            if str(message["type"]).startswith("net-"):
                take(message)
            else:
                put(message, *args, **more)

        connection.messages.put = sift  # type: ignore[method-assign]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)
