"""Makes a Kubernetes node of a machine of the engine: its object, as it should be.

Used by `registration.py`, which writes it; pure. A node is a partition, or this host: its capacity
is what the engine says, its addresses are those of the kubelet, because that is where logs are
asked for.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ... import __version__
from ...api.objects import Obj
from ...api.times import rfc3339
from ...engine import Machine
from ...wellknown import DOMAIN, ENGINE_LABEL, ENGINE_REACHABLE, SOME_HOSTS
from ..status.conditions import condition, merged_conditions

MACHINE_ANNOTATION = f"{DOMAIN}/machine"  # the engine's own name for it
CLOSED_TAINT = f"{DOMAIN}/closed"
NOT_READY_TAINT = "node.kubernetes.io/not-ready"
MAX_PODS = 100_000  # the engine queues; this only must not be the limit
_OURS = (CLOSED_TAINT, NOT_READY_TAINT)


@dataclass(frozen=True, slots=True)
class Host:
    """The facts told of the host that the kubelet runs on."""

    name: str
    addresses: Sequence[str]
    port: int
    facts: Mapping[str, str] = field(default_factory=dict)  # nodeInfo: kernelVersion, ...


def node_name(machine: str) -> str:
    """Return a partition's name as a node may have it: lower case, and unique."""
    plain = re.sub(r"[^a-z0-9.-]+", "-", machine.lower()).strip("-.")
    if plain == machine:
        return plain
    mark = hashlib.sha256(machine.encode()).hexdigest()[:5]
    return f"{plain}-{mark}" if plain else mark


def node_object(machine: Machine, engine: str) -> Obj:
    """Return a node to be registered, without its status."""
    name = node_name(machine.name)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": node_labels(machine, engine),
            "annotations": {MACHINE_ANNOTATION: machine.name, **node_annotations(machine)},
        },
        "spec": {"taints": taints} if (taints := node_taints(machine, [])) else {},
    }


def node_labels(machine: Machine, engine: str) -> dict[str, str]:
    name = node_name(machine.name)
    standard = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": machine.architecture,
        ENGINE_LABEL: engine,
    }
    return {**machine.labels, **standard}


def node_annotations(machine: Machine) -> dict[str, str]:
    """Return the annotations that change with the machine."""
    return {SOME_HOSTS: ",".join(machine.partial)} if machine.partial else {}


def node_taints(machine: Machine, present: Sequence[Obj]) -> list[Obj]:
    """Return the taints of others, and ours as they should be."""
    wanted = [taint for taint in present if not _is_ours(taint)]
    if not machine.is_schedulable:
        wanted.append({"key": CLOSED_TAINT, "effect": "NoSchedule"})
    if not machine.is_ready:
        wanted.append({"key": NOT_READY_TAINT, "effect": "NoSchedule"})
    return wanted


def _is_ours(taint: Obj) -> bool:
    """Return whether a taint is ours; pods are made to go by the node lifecycle controller."""
    return taint.get("key") in _OURS and taint.get("effect") == "NoSchedule"


def node_status(node: Obj, machine: Machine, host: Host, engine_error: str, now: float) -> Obj:
    """Return the status of a registered node."""
    capacity = {
        "cpu": str(machine.cpus),
        "memory": f"{machine.memory_mib}Mi",
        "pods": str(MAX_PODS),
        **{name: str(count) for name, count in machine.resources.items()},
    }
    return {
        "capacity": capacity,
        "allocatable": capacity,
        "conditions": merged_conditions(node, _conditions(machine, engine_error), _OWNED, now),
        "addresses": node_addresses(host),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": host.port}},
        "nodeInfo": {
            "operatingSystem": "linux",
            "architecture": machine.architecture,
            "kubeletVersion": f"v{__version__}",
            "containerRuntimeVersion": f"orlop://{__version__}",
            "kubeProxyVersion": "",
            **{key: host.facts.get(key, "") for key in _FACTS},
        },
    }


def node_addresses(host: Host) -> list[Obj]:
    internal = [{"type": "InternalIP", "address": address} for address in host.addresses]
    return [*internal, {"type": "Hostname", "address": host.name}]


_FACTS = ("kernelVersion", "osImage", "machineID", "systemUUID", "bootID")
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")
_OWNED = (*_PRESSURES, "Ready", ENGINE_REACHABLE)


def _conditions(machine: Machine, engine_error: str) -> list[Obj]:
    """Return the conditions; a silent engine says nothing about the node, so Ready stays as last
    known.
    """
    found = [condition(kind, False, f"KubeletHas{_ENOUGH[kind]}") for kind in _PRESSURES]
    if machine.is_ready:
        words = machine.message or "the kubelet takes pods for this node"
        found.append(condition("Ready", True, "KubeletReady", words))
    else:
        found.append(condition("Ready", False, "KubeletNotReady", machine.message))
    if engine_error:
        found.append(condition(ENGINE_REACHABLE, False, "EngineUnavailable", engine_error))
    return found


_ENOUGH = {
    "MemoryPressure": "SufficientMemory",
    "DiskPressure": "NoDiskPressure",
    "PIDPressure": "SufficientPID",
}


def lost(node: Obj, now: float) -> Obj:
    """Return the status of a node whose machine the engine does not list any more."""
    gone = condition("Ready", False, "MachineGone", "the engine does not list it any more")
    return {"conditions": merged_conditions(node, [gone], (), now)}


def heartbeat(conditions: list[Obj], now: float) -> list[Obj]:
    return [{**item, "lastHeartbeatTime": rfc3339(now)} for item in conditions]
