"""Defaults of the core group's other kinds, and of endpoint slices.

Called by the dispatch, and by pods and workloads for the volume claims inside them. As
pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from ..objects import Obj, meta
from .fill import fill, section

_AFFINITY_TIMEOUT = 10_800  # three hours
_ROUTED = ("ClusterIP", "NodePort", "LoadBalancer")


def service(obj: Obj) -> None:
    spec = section(obj, "spec")
    fill(spec, "sessionAffinity", "None")
    fill(spec, "type", "ClusterIP")
    _session_affinity(spec)
    for port in spec.get("ports") or ():
        fill(port, "protocol", "TCP")
        fill(port, "targetPort", port.get("port", 0))
    kind = spec["type"]
    is_external = kind in ("NodePort", "LoadBalancer") or (
        kind == "ClusterIP" and bool(spec.get("externalIPs"))
    )
    if is_external:
        fill(spec, "externalTrafficPolicy", "Cluster")
    if kind in _ROUTED:
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for ingress in ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ():
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")
    section(section(obj, "status"), "loadBalancer")


def _session_affinity(spec: Obj) -> None:
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client = section(section(spec, "sessionAffinityConfig"), "clientIP")
        client.setdefault("timeoutSeconds", _AFFINITY_TIMEOUT)


def secret(obj: Obj) -> None:
    fill(obj, "type", "Opaque")


def namespace(obj: Obj) -> None:
    """Default a namespace: its name is also a label, and it is Active until told otherwise."""
    fill(section(obj, "status"), "phase", "Active")
    name = meta(obj).get("name")
    if name:
        section(section(obj, "metadata"), "labels")["kubernetes.io/metadata.name"] = name


def node(obj: Obj) -> None:
    status = obj.get("status") or {}
    if "allocatable" not in status and status.get("capacity"):
        status["allocatable"] = dict(status["capacity"])


def endpoints(obj: Obj) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            fill(port, "protocol", "TCP")


def endpoint_slice(obj: Obj) -> None:
    for port in obj.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def limit_range(obj: Obj) -> None:
    for item in section(obj, "spec").get("limits") or ():
        if item.get("type") != "Container":
            continue
        limits, requests = dict(item.get("default") or {}), dict(item.get("defaultRequest") or {})
        for name, amount in (item.get("max") or {}).items():
            limits.setdefault(name, amount)
        for amounts in (limits, item.get("min") or {}):
            for name, amount in amounts.items():
                requests.setdefault(name, amount)
        if limits:
            item["default"] = limits
        if requests:
            item["defaultRequest"] = requests


def resource_quota(obj: Obj) -> None:
    section(obj, "spec")


def persistent_volume(obj: Obj) -> None:
    fill(section(obj, "status"), "phase", "Pending")
    spec = section(obj, "spec")
    fill(spec, "persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")
    if "iscsi" in spec:
        fill(spec["iscsi"], "iscsiInterface", "default")
    if "rbd" in spec:
        fill(spec["rbd"], "pool", "rbd")
        fill(spec["rbd"], "user", "admin")
        fill(spec["rbd"], "keyring", "/etc/ceph/keyring")


def persistent_volume_claim(obj: Obj) -> None:
    fill(section(obj, "status"), "phase", "Pending")
    claim_spec(section(obj, "spec"))


def claim_spec(spec: Obj) -> None:
    spec.setdefault("volumeMode", "Filesystem")
    source = spec.get("dataSource")
    if source and "dataSourceRef" not in spec:  # the old field and the new one mirror each other
        spec["dataSourceRef"] = dict(source)
