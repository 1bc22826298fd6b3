"""Makes what every cluster has from the start: namespaces, RBAC's roots, the API's own service.

Called by the server at each start, through its own API; what is there already is left as it is,
whoever may have changed it, but for rules that a bootstrap role lacks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence

from ...api import kinds
from ...api.aggregated_roles import AggregatedRole
from ...api.kinds import Kind
from ...api.objects import Key, Obj, annotations_of
from ...client.api import Api
from ...errors import AlreadyExists, NotFound
from ...network.ranges import Ranges
from ..admission.priority import SYSTEM_CLASSES
from ..aggregation import FrontProxy
from . import flows
from .roles import BINDINGS, Role, cluster_roles

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
# What serves Ingresses that ask for no other: orlop.gateway.
_INGRESS_CLASS: Obj = {
    "metadata": {
        "name": "orlop",
        "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"},
    },
    "spec": {"controller": "orlop.dev/ingress"},
}


async def ensure(
    api: Api,
    port: int,
    ranges: Ranges,
    front_proxy: FrontProxy | None = None,
    roles: Sequence[AggregatedRole] = (),
) -> None:
    """Make what is missing, in few turns of the disk."""
    await _together(
        _ensure(api, kinds.NAMESPACE, {"metadata": {"name": name}}) for name in NAMESPACES
    )
    await _together(
        _ensure_role(api, _role(name, role)) for name, role in cluster_roles(roles).items()
    )
    await _together(
        _ensure(api, kinds.CLUSTER_ROLE_BINDING, _binding(name, role, groups))
        for name, (role, groups) in BINDINGS.items()
    )
    await _together(
        _ensure(api, kinds.PRIORITY_CLASS, _priority_class(name, value, words))
        for name, (value, words) in SYSTEM_CLASSES.items()
    )
    await _ensure(api, kinds.SERVICE, _kubernetes(port, ranges.api))
    await _ensure(api, kinds.SERVICE, _dns(ranges.dns))
    await _ensure(api, kinds.INGRESS_CLASS, _INGRESS_CLASS)
    await _ensure(api, kinds.ROLE, _reader())
    await _together(_ensure(api, kind, obj) for kind, obj in flows.objects())
    if front_proxy is not None:
        await _keep(api, kinds.CONFIG_MAP, _for_extensions(front_proxy))


async def _keep(api: Api, kind: Kind, obj: Obj) -> None:
    """Do as `_ensure`, and bring the content up to date: certificates are renewed."""
    await _ensure(api, kind, obj)
    key = Key(obj["metadata"]["namespace"], obj["metadata"]["name"])
    if (await api.get(kind, key)).get("data") != obj["data"]:
        await api.patch(kind, key, {"data": obj["data"]})


_FOR_EXTENSIONS = "extension-apiserver-authentication"


def _for_extensions(front_proxy: FrontProxy) -> Obj:
    """Make the ConfigMap by which extension servers recognise us and our users.

    It is where they look by habit.
    """
    data = {
        "client-ca-file": front_proxy.client_authority.read_text(),
        "requestheader-client-ca-file": front_proxy.authority.read_text(),
        "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    }
    return {"metadata": {"name": _FOR_EXTENSIONS, "namespace": "kube-system"}, "data": data}


def _reader() -> Obj:
    """Make the role that extension servers are bound to, to read that."""
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [_FOR_EXTENSIONS],
        "verbs": ["get", "list", "watch"],
    }
    name = f"{_FOR_EXTENSIONS}-reader"
    metadata = {**_bootstrapped(name), "namespace": "kube-system"}
    return {"metadata": metadata, "rules": [rule]}


async def _together(works: Iterable[Coroutine[None, None, None]]) -> None:
    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(work)


async def _ensure_role(api: Api, role: Obj) -> None:
    """Make a role, or add what a newer version brings, unless someone has said not to."""
    await _ensure(api, kinds.CLUSTER_ROLE, role)
    key = Key("", role["metadata"]["name"])
    found = await api.get(kinds.CLUSTER_ROLE, key)
    had = found.get("rules") or []
    missing = [rule for rule in role["rules"] if rule not in had]
    is_kept = annotations_of(found).get(_AUTOUPDATE) == "true" and "aggregationRule" not in found
    if missing and is_kept:
        await api.patch(kinds.CLUSTER_ROLE, key, {"rules": [*had, *missing]})


async def _ensure(api: Api, kind: Kind, obj: Obj) -> None:
    metadata = obj["metadata"]
    try:
        await api.get(kind, Key(metadata.get("namespace", ""), metadata["name"]))
    except NotFound:
        try:
            await api.create(kind, obj)
        except AlreadyExists:
            pass


def _bootstrapped(name: str, labels: Mapping[str, str] | None = None) -> Obj:
    return {
        "name": name,
        "labels": {**_LABELS, **(labels or {})},
        "annotations": {_AUTOUPDATE: "true"},
    }


def _role(name: str, role: Role) -> Obj:
    made: Obj = {"metadata": _bootstrapped(name, role.labels), "rules": role.rules}
    if role.aggregation is not None:
        made["aggregationRule"] = role.aggregation
    return made


def _binding(name: str, role: str, groups: list[str]) -> Obj:
    api_group = kinds.CLUSTER_ROLE.group
    return {
        "metadata": _bootstrapped(name),
        "roleRef": {"apiGroup": api_group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": api_group, "kind": "Group", "name": group} for group in groups],
    }


def _dns(address: str) -> Obj:
    """Make the Service where tools look for the cluster's DNS.

    Every pod is answered by its own agent.
    """
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
    ]
    labels = {
        "k8s-app": "kube-dns",
        "kubernetes.io/cluster-service": "true",
        "kubernetes.io/name": "CoreDNS",
    }
    return {
        "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": labels},
        "spec": {"type": "ClusterIP", "clusterIP": address, "ports": ports},
    }


def _priority_class(name: str, value: int, words: str) -> Obj:
    return {"metadata": {"name": name}, "value": value, "description": words}


def _kubernetes(port: int, address: str) -> Obj:
    """Make the Service where programs in pods look for the API by habit; it has no selector."""
    return {
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": address,
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
            "sessionAffinity": "None",
        },
    }
