"""Computes NetworkPolicies as the rules of one pod, and a pod as the rules of others see it.

Used by the kubelet for each pod that asks; pure. Selectors are handed on as they are and held
against a peer's labels where the connection is, so that a new pod somewhere changes nobody's rules.
What a pod's own ports are called is resolved here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..api import selectors
from ..api.objects import Obj, labels_of, meta

DIRECTIONS = (("Ingress", "ingress", "from"), ("Egress", "egress", "to"))


def selects(policy: Obj, pod: Obj) -> bool:
    selector = selectors.from_structure((policy.get("spec") or {}).get("podSelector") or {})
    return selector.matches(labels_of(pod))


def policy_value(pod: Obj, policies: Iterable[Obj]) -> Obj | None:
    """Return the rules of a pod, from the policies of its namespace; None: nobody restricts it."""
    chosen = [policy for policy in policies if selects(policy, pod)]
    found: Obj = {}
    for kind, field, peers in DIRECTIONS:
        specs = [policy["spec"] for policy in chosen if kind in _types(policy["spec"])]
        if specs:
            rules = [rule for spec in specs for rule in spec.get(field) or []]
            own = named_ports(pod) if field == "ingress" else None
            namespace = meta(pod)["namespace"]
            found[field] = [_rule(rule, peers, namespace, own) for rule in rules]
    return found or None


def _types(spec: Obj) -> list[str]:
    """Return the types by the API's default: Ingress always, Egress where it has such rules."""
    default = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    return list(spec.get("policyTypes") or default)


def _rule(rule: Obj, peers: str, namespace: str, own: dict[str, int] | None) -> Obj:
    told: Obj = {}
    if rule.get("ports"):
        told["ports"] = [port for one in rule["ports"] for port in _port(one, own)]
    if rule.get(peers):
        told["peers"] = [_peer(peer, namespace) for peer in rule[peers]]
    return told


def _port(port: Obj, own: dict[str, int] | None) -> list[list[Any]]:
    protocol = (port.get("protocol") or "TCP").lower()
    first = port.get("port")
    if first is None:
        return [[protocol, 1, 65535]]
    if isinstance(first, int):
        return [[protocol, first, port.get("endPort") or first]]
    if own is None:
        return [[protocol, first]]  # a name that the other pod has
    number = own.get(f"{protocol}/{first}")
    return [[protocol, number, number]] if number is not None else []


def _peer(peer: Obj, namespace: str) -> Obj:
    if peer.get("ipBlock"):
        block = peer["ipBlock"]
        return {"cidr": block["cidr"], "except": block.get("except") or []}
    told: Obj = {}
    if peer.get("namespaceSelector") is None:
        told["namespace"] = namespace
    else:
        told["namespaces"] = _requirements(peer["namespaceSelector"])
    if peer.get("podSelector") is not None:
        told["pods"] = _requirements(peer["podSelector"])
    return told


def _requirements(selector: Obj) -> list[list[Any]]:
    labels = selector.get("matchLabels") or {}
    equal: list[list[Any]] = [[key, "In", [value]] for key, value in sorted(labels.items())]
    expressions = selector.get("matchExpressions") or []
    return equal + [[one["key"], one["operator"], one.get("values") or []] for one in expressions]


def peer_value(pod: Obj, namespace_labels: dict[str, str]) -> Obj:
    """Return what the rules of other pods may ask of this one."""
    return {
        "namespace": meta(pod)["namespace"],
        "labels": labels_of(pod),
        "namespaceLabels": namespace_labels,
        "ports": named_ports(pod),
    }


def named_ports(pod: Obj) -> dict[str, int]:
    """Return the numbers of a pod's named ports: `tcp/http` -> 8080."""
    containers = [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or [])]
    return {
        f"{(port.get('protocol') or 'TCP').lower()}/{port['name']}": int(port["containerPort"])
        for container in containers
        for port in container.get("ports") or []
        if port.get("name")
    }
