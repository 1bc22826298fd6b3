"""Remembers where everything is: pods' real addresses, services' endpoints, names and policies.

Kept by netd, asked by whatever answers a socket call or a DNS question, from any thread. What is
not known is asked of the kubelet once and then kept up to date by it; while the kubelet is away,
what is known stays valid.
"""

from __future__ import annotations

import threading
import time

from ..linux.fast_imports import value as lean_value
from .layout import TRIES
from .policy import Policy
from .ranges import Range

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Optional

PATIENCE = 2.0  # seconds for an answer of the kubelet
FRESH = 0.5  # seconds to hear whether a port is really not there
REMEMBERED = 4096  # answers kept; the least used go first


class Unknown(Exception):
    """No answer in time: it cannot be said yet."""


class Refused(Exception):
    """The answer is known, and it is that nobody is there."""


@lean_value
class _Service:
    """A service's endpoints, ready to be picked from."""

    ports: dict[tuple[str, int], list[tuple[str, int]]]
    affinity: float


class Observer:
    """Hears what happens in the cache; this one does nothing about it."""

    def before_waiting(self) -> None:
        """Hear that somebody is about to wait for the kubelet."""

    def on_told(self, key: str) -> None:
        """Hear that what is known of a key has changed, or is known no more."""

    def on_policy(self, ingress: bool, egress: bool) -> None:
        """Hear whether anybody may come, and whether one may go anywhere."""


class EndpointCache:
    """The cache; `send` passes a message to the kubelet; `node` is the pod's Kubernetes node."""

    def __init__(
        self,
        network: dict[str, Any],
        send: Callable[[dict[str, Any]], None],
        node: str = "",
        patience: float = PATIENCE,
        observer: Optional[Observer] = None,
    ) -> None:
        self._observer = observer or Observer()
        self._pods, self._services = Range(network["podCIDR"]), Range(network["serviceCIDR"])
        self._send, self._node, self._patience = send, node, patience
        self._own = network["podIP"]
        # As of when the pod was planned, for one that starts while the kubelet is away.
        planned = network.get("policy")
        self._planned = Policy(planned) if planned else None
        self._changed = threading.Condition()
        self._is_connected = False
        self.is_in_doubt = (
            False  # whether ports were opened that others may still know as another's
        )
        self._since = time.monotonic()  # connected, or not
        self._known: dict[str, Any] = {}
        self._used: dict[str, float] = {}  # key -> when it was last of use
        self._version: dict[str, int] = {}  # key -> how often it was told
        self._sticky: dict[tuple[str, str, int], tuple[tuple[str, int], float]] = {}
        self._address, self._notice = "", 0
        self._listens: dict[tuple[str, int], int] = {}

    # What is asked, by CIDR

    def is_service(self, ip: str) -> bool:
        return ip in self._services

    def is_pod(self, ip: str) -> bool:
        return ip in self._pods

    # What is asked of the kubelet

    def backend(self, protocol: str, ip: str, port: int, source: str = "") -> list[tuple[str, int]]:
        """Return endpoints of a service in the order to try; none: refuse. Raise Unknown."""
        service = self._answer(f"svc/{ip}")
        found = service.ports.get((protocol, port)) if service is not None else None
        if not found:
            return []
        if service.affinity:
            return self._with_affinity((protocol, ip, port), found, service.affinity)
        return _picked(found)

    def endpoints(self, protocol: str, ip: str, port: int) -> list[tuple[str, int]]:
        """Return all endpoints that a connection may go to, any as well as another; else none.

        The same list until the service changes.
        """
        service: _Service | None = self._known.get(f"svc/{ip}")
        if service is None or service.affinity:
            return []
        return service.ports.get((protocol, port)) or []

    def location(self, protocol: str, ip: str, port: int) -> tuple[str, int, int]:
        """Return a pod's port: its node's address, the real port, where to announce oneself.

        Raise Refused where the pod has no such listener, and Unknown.
        """
        key = f"pod/{ip}"
        pod = self._answer(key)
        real = (pod or {}).get(protocol, {}).get(str(port))
        if real is None:
            # The listener may be newer than what we were told: ask before saying no.
            pod = self._fresh(key)
            real = (pod or {}).get(protocol, {}).get(str(port))
        if pod is None or real is None:
            raise Refused(f"{ip} does not listen at {protocol} port {port}")
        return str(pod["address"]), int(real), int(pod.get("notice") or 0)

    def peek_place(self, protocol: str, ip: str, port: int) -> tuple[str, int, int] | None:
        """Return what `location` would, from what is known; None where it is not."""
        pod = self._known.get(f"pod/{ip}") or {}
        real = pod.get(protocol, {}).get(str(port))
        if real is None:
            return None
        return str(pod["address"]), int(real), int(pod.get("notice") or 0)

    def name(self, name: str) -> dict[str, Any] | None:
        """Return what DNS says of a cluster's name, None where there is none; raise Unknown."""
        is_away = not self._is_connected and time.monotonic() - self._since > self._patience
        # A resolver tries many names: none of them should wait long for a kubelet that is away.
        found: dict[str, Any] | None = self._answer(f"name/{name}", 0.0 if is_away else None)
        return found

    def peek(self, key: str) -> tuple[bool, Any]:
        """Return whether something is known of a key, and what; without asking."""
        found = self._known.get(key, self)
        return found is not self, found

    def is_still(self, key: str, told: Any) -> bool:
        """Return whether what we were told of a key is still that very answer."""
        return self._known.get(key, self) is told

    def allows(self, direction: str, protocol: str, peer_ip: str, port: int) -> bool:
        """Return whether NetworkPolicy lets us connect to the peer's port, or the peer to ours.

        A peer that is not known is not let through, once there is a policy at all.
        """
        policy = self._policy()
        if policy is None or not policy.restricts(direction):
            return True
        if peer_ip == self._own:
            return True
        peer = None
        try:
            if self.is_pod(peer_ip):
                peer = self._answer(f"peer/{peer_ip}")
        except Unknown:
            pass  # blocks of addresses may still let it in
        return policy.allows(direction, protocol, peer_ip, port, peer)

    def restricts(self, direction: str) -> bool:
        """Return whether any NetworkPolicy selects this pod in a direction."""
        policy = self._policy()
        return policy is not None and policy.restricts(direction)

    def may_restrict(self, direction: str) -> bool:
        """Answer as `restricts` does, without waiting; if no answer is here yet, say yes."""
        if "policy" not in self._known:
            return True
        policy: Policy | None = self._known["policy"]
        return policy is not None and policy.restricts(direction)

    def _policy(self) -> Policy | None:
        """Return the kubelet's word, waited for once; where it is away, that of the plan."""
        try:
            found: Policy | None = self._answer("policy")
        except Unknown:
            with self._changed:
                found = self._known.setdefault("policy", self._planned)
                self._say_policy()
        return found

    def _say_policy(self) -> None:
        if "policy" not in self._known:
            return
        policy: Policy | None = self._known["policy"]
        free = [policy is None or not policy.restricts(way) for way in ("ingress", "egress")]
        # In doubt, whoever comes is looked at more closely than the compiled part does.
        self._observer.on_policy(free[0] and not self.is_in_doubt, free[1])

    def opened(self) -> None:
        """Note that a port of the node is newly ours: it may have been another pod's before.

        Who comes to it may mean that pod. Others are told of its end, but not while the control
        plane is away.
        """
        with self._changed:
            if not self._is_connected:
                self.is_in_doubt = True
                self._say_policy()

    def _with_affinity(
        self, key: tuple[str, str, int], found: list[tuple[str, int]], seconds: float
    ) -> list[tuple[str, int]]:
        """Put the endpoint of last time first, while it is one and not too long ago."""
        now = time.monotonic()
        with self._changed:
            last, until = self._sticky.get(key, (None, 0.0))
            first = last if last is not None and until > now and last in found else None
            order = _picked(found)
            if first is not None:
                order = [first, *(one for one in order if one != first)]
            self._sticky[key] = (order[0], now + seconds)
        return order

    # What is known

    def _answer(self, key: str, patience: float | None = None) -> Any:
        """Return what we were told of a key; ask on a miss, and wait for the answer."""
        self._used[key] = now = time.monotonic()
        try:
            return self._known[key]
        except KeyError:
            pass
        self._observer.before_waiting()
        until = now + (self._patience if patience is None else patience)
        with self._changed:
            self._ask(key)
            while key not in self._known:
                left = until - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    raise Unknown(f"no answer yet about {key}")
            return self._known[key]

    def _fresh(self, key: str) -> Any:
        """Return the answer as the kubelet has it now; as last known where it is away."""
        self._observer.before_waiting()
        with self._changed:
            if not self._is_connected:
                return self._known.get(key)
            before = self._version.get(key, 0)
            self._send({"type": "net-ask", "keys": [key]})
            until = time.monotonic() + min(FRESH, self._patience)
            while self._version.get(key, 0) == before:
                left = until - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    break
            return self._known.get(key)

    def _ask(self, key: str) -> None:
        if len(self._used) > REMEMBERED:
            self._forget_least_used()
        if self._is_connected:
            self._send({"type": "net-ask", "keys": [key]})

    def _forget_least_used(self) -> None:
        keys = sorted((key for key in self._used if key != "policy"), key=self._used.__getitem__)
        gone = keys[: len(keys) // 4]
        for key in gone:
            for table in (self._used, self._known, self._version):
                table.pop(key, None)
            self._observer.on_told(key)
        if self._is_connected:
            self._send({"type": "net-forget", "keys": gone})

    # What we are told

    def on_message(self, message: dict[str, Any]) -> None:
        """Take a "net-..." message of the kubelet, or one about the connection to it."""
        kind = message.get("type")
        if kind == "net-tell":
            self._on_tell(message["key"], message.get("value"))
        elif kind == "net-connected":
            with self._changed:
                self._is_connected, self.is_in_doubt = True, False
                self._say_all()
                self._say_policy()
        elif kind == "net-disconnected":
            with self._changed:
                self._is_connected, self._since = False, time.monotonic()

    def _on_tell(self, key: str, told: Any) -> None:
        if key.startswith("svc/"):
            told = self._service(told)
        elif key == "policy":
            told = Policy(told) if told is not None else None
        with self._changed:
            # What a network process before us asked for is ours to ask for again.
            self._used.setdefault(key, time.monotonic())
            self._known[key] = told
            self._version[key] = self._version.get(key, 0) + 1
            self._observer.on_told(key)
            if key == "policy":
                self._say_policy()
            self._changed.notify_all()

    def _service(self, told: dict[str, Any] | None) -> _Service | None:
        if told is None:
            return None
        is_local = told.get("internalPolicy") == "Local"
        ports = {}
        for port in told["ports"]:
            ends = port["endpoints"]
            if is_local:
                ends = [end for end in ends if end[2] == self._node]
            ports[port["protocol"], int(port["port"])] = [(end[0], int(end[1])) for end in ends]
        return _Service(ports, float(told.get("affinity") or 0))

    def _say_all(self) -> None:
        """Say where we are, and ask again for all we use: the kubelet may be a new one."""
        if self._address:
            self._send(self._state())
        keys = list(dict.fromkeys(["policy", *self._used]))
        self._send({"type": "net-ask", "keys": keys})

    # What we tell

    def located(self, address: str, notice: int) -> None:
        """Tell where this pod's sockets are, and the port where others announce themselves."""
        with self._changed:
            self._address, self._notice = address, notice
            if self._is_connected:
                self._send(self._state())

    def published(self, protocol: str, port: int, real: int, address: str) -> None:
        """Tell that the pod listens at `port`, really at `real` of the node's `address`."""
        with self._changed:
            self._listens[protocol, port] = real
            self._address = address
            if self._is_connected:
                said = {"type": "net-listen", "protocol": protocol, "port": port}
                self._send({**said, "real": real, "address": address, "notice": self._notice})

    def _state(self) -> dict[str, Any]:
        real: dict[str, dict[str, int]] = {"tcp": {}, "udp": {}}
        for (protocol, port), number in self._listens.items():
            real[protocol][str(port)] = number
        return {"type": "net-state", "address": self._address, "notice": self._notice, **real}


def _picked(found: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Pick some from anywhere in the list: the cost does not grow with it."""
    count = len(found)
    if count == 1:
        return found[:]
    from random import random  # slow to import, and not needed before a service is used

    start = int(random() * count)
    taken = found[start : start + TRIES]
    if len(taken) < TRIES:
        taken += found[: min(start, TRIES - len(taken))]
    return taken
