"""Computes what a pod may know of itself: fieldRef and resourceFieldRef, the downward API.

Called for variables and for volumes while a plan is made. What only the compute node knows, its own
address, is a mark that the agent fills in there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...api.objects import Obj, annotations_of, labels_of, meta
from ...api.quantity import NANO, Quantity, parse
from ...wellknown import HOST_IP_MARK, HOST_IPS_MARK
from .refusal import Refusal

_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


@dataclass(frozen=True, slots=True)
class Allocatable:
    """The resources of the node: the limit of a container that sets none."""

    cpu: Quantity
    memory: Quantity
    others: Mapping[str, Quantity] = field(default_factory=dict)

    def get(self, resource: str) -> Quantity:
        named = {"cpu": self.cpu, "memory": self.memory}
        return named.get(resource) or self.others.get(resource) or Quantity(0)


def field_value(pod: Obj, path: str) -> str:
    """Return the value of a fieldRef."""
    metadata, spec = meta(pod), pod["spec"]
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript is not None:
        of = labels_of(pod) if subscript[1] == "labels" else annotations_of(pod)
        return of.get(subscript[2], "")
    if path in ("metadata.labels", "metadata.annotations"):
        return _lines(labels_of(pod) if path == "metadata.labels" else annotations_of(pod))
    if path in ("metadata.name", "metadata.namespace", "metadata.uid"):
        return str(metadata.get(path.removeprefix("metadata."), ""))
    if path in ("spec.nodeName", "spec.serviceAccountName"):
        return str(spec.get(path.removeprefix("spec."), ""))
    if path in ("status.podIP", "status.hostIP"):
        return str((pod.get("status") or {}).get(path.removeprefix("status."), ""))
    if path in ("status.podIPs", "status.hostIPs"):
        many = (pod.get("status") or {}).get(path.removeprefix("status.")) or []
        return ",".join(one["ip"] for one in many)
    raise Refusal(f'field label not supported: "{path}"')


def with_addresses(pod: Obj, pod_ip: str) -> Obj:
    """Return the pod as its containers may know it; without an address of its own it has the
    node's.
    """
    host, hosts = HOST_IP_MARK, [{"ip": HOST_IPS_MARK}]
    addresses = {
        "hostIP": host,
        "hostIPs": hosts,
        "podIP": pod_ip or host,
        "podIPs": [{"ip": pod_ip}] if pod_ip else hosts,
    }
    return {**pod, "status": {**(pod.get("status") or {}), **addresses}}


def resource_value(pod: Obj, container: Obj, reference: Obj, allocatable: Allocatable) -> str:
    """Return the value of a resourceFieldRef: whole divisors, rounded up."""
    name = reference.get("containerName")
    if name and name != container["name"]:
        container = _container(pod, name)
    kind, _, resource = str(reference["resource"]).partition(".")
    if kind not in ("limits", "requests") or not resource:
        raise Refusal(f"unsupported container resource : {reference['resource']}")
    amounts = (container.get("resources") or {}).get(kind) or {}
    if resource in amounts:
        amount = parse(amounts[resource])
    else:
        amount = allocatable.get(resource) if kind == "limits" else Quantity(0)
    divisor = parse(reference.get("divisor") or "0").nanos or NANO
    return str(-(-amount.nanos // divisor))


def _container(pod: Obj, name: str) -> Obj:
    spec = pod["spec"]
    for container in [*spec["containers"], *(spec.get("initContainers") or [])]:
        if container["name"] == name:
            return container  # type: ignore[no-any-return]
    raise Refusal(f"container {name} not found")


def _lines(values: Mapping[str, str]) -> str:
    """Write `key="value"` lines, sorted. As pkg/fieldpath/fieldpath.go: FormatMap."""
    return "\n".join(f"{key}={_quoted(values[key])}" for key in sorted(values))


def _quoted(text: str) -> str:
    """Quote as Go's %q, which writes control characters in hexadecimal."""
    text = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\x7f")
    return re.sub(r"(?<!\\)((?:\\\\)*)\\u00([0-9a-f]{2})", r"\1\\x\2", text)
