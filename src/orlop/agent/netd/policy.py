"""Holds connections against the NetworkPolicies that select this pod.

The kubelet tells them as data; the endpoint cache asks for each connection. A pod that no policy of
a direction selects is open in it; one that is selected takes only what some rule lets through.
"""

from __future__ import annotations

from .ranges import Range

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ANY_PORT = (1, 65535)


class Policy:
    """The rules; `told`: {"ingress": None | [rule, ...], "egress": ...}; None: not restricted."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._rules = {
            direction: None if told.get(direction) is None else [_Rule(r) for r in told[direction]]
            for direction in ("ingress", "egress")
        }

    def restricts(self, direction: str) -> bool:
        return self._rules[direction] is not None

    def allows(
        self, direction: str, protocol: str, ip: str, port: int, peer: dict[str, Any] | None
    ) -> bool:
        """Return whether a rule lets it through; `peer` describes the pod at `ip`, None: no pod."""
        rules = self._rules[direction]
        # Names of ports are those of whoever is connected to.
        names = (peer or {}).get("ports") or {} if direction == "egress" else {}
        return rules is None or any(rule.allows(protocol, ip, port, peer, names) for rule in rules)


class _Rule:
    def __init__(self, told: dict[str, Any]) -> None:
        self._ports = told.get("ports")  # None: all; else [protocol, from, to] or [protocol, name]
        peers = told.get("peers")  # None: everybody
        self._peers = None if peers is None else [_Peer(peer) for peer in peers]

    def allows(
        self,
        protocol: str,
        ip: str,
        port: int,
        peer: dict[str, Any] | None,
        names: dict[str, int],
    ) -> bool:
        if self._ports is not None and not self._has(protocol, port, names):
            return False
        return self._peers is None or any(one.is_met_by(ip, peer) for one in self._peers)

    def _has(self, protocol: str, port: int, names: dict[str, int]) -> bool:
        for wanted, first, *rest in self._ports or []:
            if wanted != protocol:
                continue
            if isinstance(first, str):
                if names.get(f"{protocol}/{first}") == port:
                    return True
            elif first <= port <= (rest[0] if rest else first):
                return True
        return False


class _Peer:
    """A block of addresses, or pods by their labels and those of their namespaces."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._block = Range(told["cidr"]) if "cidr" in told else None
        self._except = [Range(text) for text in told.get("except") or []]
        self._namespace = told.get("namespace")  # the policy's own, where no selector is given
        self._namespaces, self._pods = told.get("namespaces"), told.get("pods")

    def is_met_by(self, ip: str, peer: dict[str, Any] | None) -> bool:
        if self._block is not None:
            return ip in self._block and not any(ip in gap for gap in self._except)
        if peer is None:
            return False
        if self._namespaces is None:
            if peer["namespace"] != self._namespace:
                return False
        elif not matches(self._namespaces, peer["namespaceLabels"]):
            return False
        return self._pods is None or matches(self._pods, peer["labels"])


def matches(selector: list[list[Any]], labels: dict[str, str]) -> bool:
    """Return whether labels fit a selector of [key, operator, values] entries; all must hold."""
    for key, operator, values in selector:
        found = labels.get(key)
        if operator == "In" and found not in values:
            return False
        if operator == "NotIn" and found is not None and found in values:
            return False
        if operator == "Exists" and found is None:
            return False
        if operator == "DoesNotExist" and found is not None:
            return False
    return True
