"""What every cluster has from its first moment: namespaces, RBAC's roots, the API's own service.

Called by the server at each start, through its own API; what is there already is left as it is,
whoever may have changed it.
"""

from __future__ import annotations

from ..api import kinds
from ..api.kinds import Kind
from ..api.objects import Key, Obj
from ..client.api import Api
from ..errors import AlreadyExists, NotFound

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ANNOTATIONS = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
_DISCOVERY = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version/"]
_HEALTH = ["/healthz", "/livez", "/readyz", "/version"]
SERVICE_IP = "10.96.0.1"


def _rule(verbs: list[str], groups: list[str], resources: list[str]) -> Obj:
    return {"verbs": verbs, "apiGroups": groups, "resources": resources}


def _paths(*paths: str) -> Obj:
    return {"verbs": ["get"], "nonResourceURLs": list(paths)}


CLUSTER_ROLES: dict[str, list[Obj]] = {
    "cluster-admin": [
        _rule(["*"], ["*"], ["*"]),
        {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ],
    "system:basic-user": [
        _rule(
            ["create"],
            ["authorization.k8s.io"],
            ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        ),
        _rule(["create"], ["authentication.k8s.io"], ["selfsubjectreviews"]),
    ],
    "system:discovery": [_paths(*_DISCOVERY, *_HEALTH)],
    "system:public-info-viewer": [_paths(*_HEALTH)],
}
BINDINGS = {
    "cluster-admin": ("cluster-admin", "system:masters"),
    "system:basic-user": ("system:basic-user", "system:authenticated"),
    "system:discovery": ("system:discovery", "system:authenticated"),
    "system:public-info-viewer": ("system:public-info-viewer", "system:authenticated"),
}


async def ensure(api: Api, port: int) -> None:
    """Make what is missing."""
    for name in NAMESPACES:
        await _ensure(api, kinds.NAMESPACE, {"metadata": {"name": name}})
    for name, rules in CLUSTER_ROLES.items():
        await _ensure(api, kinds.CLUSTER_ROLE, {"metadata": _bootstrapped(name), "rules": rules})
    for name, (role, group) in BINDINGS.items():
        await _ensure(api, kinds.CLUSTER_ROLE_BINDING, _binding(name, role, group))
    await _ensure(api, kinds.SERVICE, _kubernetes(port))


async def _ensure(api: Api, kind: Kind, obj: Obj) -> None:
    metadata = obj["metadata"]
    try:
        await api.get(kind, Key(metadata.get("namespace", ""), metadata["name"]))
    except NotFound:
        try:
            await api.create(kind, obj)
        except AlreadyExists:
            pass


def _bootstrapped(name: str) -> Obj:
    return {"name": name, "labels": dict(_LABELS), "annotations": dict(_ANNOTATIONS)}


def _binding(name: str, role: str, group: str) -> Obj:
    api_group = kinds.CLUSTER_ROLE.group
    return {
        "metadata": _bootstrapped(name),
        "roleRef": {"apiGroup": api_group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": api_group, "kind": "Group", "name": group}],
    }


def _kubernetes(port: int) -> Obj:
    """Where programs in pods look for the API by habit; it has no selector."""
    return {
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": SERVICE_IP,
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
            "sessionAffinity": "None",
        },
    }
