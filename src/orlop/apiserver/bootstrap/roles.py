"""The roles and bindings that every cluster has, so that charts and operators find what they name.

Read by bootstrap at each start. `admin`, `edit` and `view` are sums of the roles labelled for them,
as a controller keeps them afterwards. As plugin/pkg/auth/authorizer/rbac/bootstrappolicy, without
the roles of upstream's own components, which run in process here. Data;
what custom kinds add to it is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ...api.aggregated_roles import AggregatedRole
from ...api.objects import Obj

READ = ["get", "list", "watch"]
WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
_DISCOVERY = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version/"]
_HEALTH = ["/healthz", "/livez", "/readyz", "/version"]


@dataclass(frozen=True, slots=True)
class Role:
    """A cluster role; `adds_to` names the sums it is part of, `sums` the one that it is."""

    rules: list[Obj] = field(default_factory=list)
    adds_to: str = ""
    sums: str = ""

    @property
    def labels(self) -> dict[str, str]:
        return {_AGGREGATE + self.adds_to: "true"} if self.adds_to else {}

    @property
    def aggregation(self) -> Obj | None:
        if not self.sums:
            return None
        return {"clusterRoleSelectors": [{"matchLabels": {_AGGREGATE + self.sums: "true"}}]}


def _rule(verbs: list[str], groups: str | list[str], *resources: str) -> Obj:
    listed = [groups] if isinstance(groups, str) else groups
    return {"verbs": verbs, "apiGroups": listed, "resources": list(resources)}


def _paths(*paths: str) -> Obj:
    return {"verbs": ["get"], "nonResourceURLs": list(paths)}


def _with(resource: str, *subresources: str) -> list[str]:
    return [resource, *(f"{resource}/{name}" for name in subresources)]


# What people run, by group: the view of it, and what who may edit writes.
_WORKLOADS = [
    ("apps", ["daemonsets", "deployments", "replicasets", "statefulsets"]),
    ("autoscaling", ["horizontalpodautoscalers"]),
    ("batch", ["cronjobs", "jobs"]),
    ("policy", ["poddisruptionbudgets"]),
    ("networking.k8s.io", ["ingresses", "networkpolicies"]),
]
_SCALED = ("deployments", "replicasets", "statefulsets")


def _viewed(resource: str) -> list[str]:
    scale = ["scale"] if resource in _SCALED else []
    return [resource] if resource == "networkpolicies" else _with(resource, *scale, "status")


def _edited(resource: str) -> list[str]:
    return _with(resource, *(["scale"] if resource in _SCALED else []))


_VIEW = [
    _rule(
        READ,
        "",
        "configmaps",
        "endpoints",
        *_with("persistentvolumeclaims", "status"),
        "pods",
        *_with("replicationcontrollers", "scale"),
        "serviceaccounts",
        *_with("services", "status"),
    ),
    _rule(
        READ,
        "",
        "bindings",
        "events",
        "limitranges",
        "namespaces/status",
        "pods/log",
        "pods/status",
        "replicationcontrollers/status",
        *_with("resourcequotas", "status"),
    ),
    _rule(READ, "", "namespaces"),
    _rule(READ, "discovery.k8s.io", "endpointslices"),
    _rule(READ, "apps", "controllerrevisions"),
    *(
        _rule(READ, group, *(name for resource in resources for name in _viewed(resource)))
        for group, resources in _WORKLOADS
    ),
]
_INTO_PODS = [f"pods/{name}" for name in ("attach", "exec", "portforward", "proxy")]
_EDIT = [
    _rule(READ, "", *_INTO_PODS, "secrets", "services/proxy"),
    _rule(["impersonate"], "", "serviceaccounts"),
    _rule(WRITE, "", "pods", *_INTO_PODS),
    _rule(["create"], "", "pods/eviction", "serviceaccounts/token"),
    _rule(
        WRITE,
        "",
        "configmaps",
        "events",
        "persistentvolumeclaims",
        *_with("replicationcontrollers", "scale"),
        "secrets",
        "serviceaccounts",
        *_with("services", "proxy"),
    ),
    *(
        _rule(WRITE, group, *(name for resource in resources for name in _edited(resource)))
        for group, resources in _WORKLOADS
    ),
    _rule([*READ, *WRITE], "coordination.k8s.io", "leases"),
]
_ADMIN = [
    _rule(["create"], "authorization.k8s.io", "localsubjectaccessreviews"),
    _rule([*READ, *WRITE], "rbac.authorization.k8s.io", "rolebindings", "roles"),
]
# As metrics-server's own manifests have it: who may view pods may view what they use.
_MEASURED = AggregatedRole(
    "system:aggregated-metrics-reader", "view", "metrics.k8s.io", ("nodes", "pods")
)


def _approver(what: str) -> list[Obj]:
    return [_rule(["create"], "certificates.k8s.io", f"certificatesigningrequests/{what}")]


_ROLES: dict[str, Role] = {
    "cluster-admin": Role(
        [_rule(["*"], "*", "*"), {"verbs": ["*"], "nonResourceURLs": ["*"]}],
    ),
    "admin": Role(sums="admin"),
    "edit": Role(adds_to="admin", sums="edit"),
    "view": Role(adds_to="edit", sums="view"),
    "system:aggregate-to-admin": Role(_ADMIN, adds_to="admin"),
    "system:aggregate-to-edit": Role(_EDIT, adds_to="edit"),
    "system:aggregate-to-view": Role(_VIEW, adds_to="view"),
    "system:basic-user": Role(
        [
            _rule(
                ["create"],
                "authorization.k8s.io",
                "selfsubjectaccessreviews",
                "selfsubjectrulesreviews",
            ),
            _rule(["create"], "authentication.k8s.io", "selfsubjectreviews"),
        ]
    ),
    "system:discovery": Role([_paths(*_DISCOVERY, *_HEALTH)]),
    "system:public-info-viewer": Role([_paths(*_HEALTH)]),
    "system:monitoring": Role(
        [_paths("/healthz/*", "/livez/*", "/readyz/*", "/metrics", "/metrics/slis", *_HEALTH[:3])]
    ),
    "system:service-account-issuer-discovery": Role(
        [_paths("/.well-known/openid-configuration", "/openid/v1/jwks")]
    ),
    "system:auth-delegator": Role(
        [
            _rule(["create"], "authentication.k8s.io", "tokenreviews"),
            _rule(["create"], "authorization.k8s.io", "subjectaccessreviews"),
        ]
    ),
    "system:kubelet-api-admin": Role(
        [
            _rule(READ, "", "nodes"),
            _rule(["proxy"], "", "nodes"),
            _rule(["*"], "", *(f"nodes/{name}" for name in ("log", "metrics", "proxy", "stats"))),
        ]
    ),
    "system:persistent-volume-provisioner": Role(
        [
            _rule(["create", "delete", *READ], "", "persistentvolumes"),
            _rule([*READ, "update"], "", "persistentvolumeclaims"),
            _rule(READ, "storage.k8s.io", "storageclasses"),
            _rule(["watch"], "", "events"),
            _rule(["create", "patch", "update"], ["", "events.k8s.io"], "events"),
        ]
    ),
    "system:node-bootstrapper": Role(
        [
            _rule(
                ["create", *READ],
                "certificates.k8s.io",
                "certificatesigningrequests",
            )
        ]
    ),
    "system:certificates.k8s.io:certificatesigningrequests:nodeclient": Role(
        _approver("nodeclient")
    ),
    "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient": Role(
        _approver("selfnodeclient")
    ),
}

# binding -> role, groups
BINDINGS: dict[str, tuple[str, list[str]]] = {
    "cluster-admin": ("cluster-admin", ["system:masters"]),
    "system:basic-user": ("system:basic-user", ["system:authenticated"]),
    "system:discovery": ("system:discovery", ["system:authenticated"]),
    "system:public-info-viewer": (
        "system:public-info-viewer",
        ["system:authenticated", "system:unauthenticated"],
    ),
    "system:monitoring": ("system:monitoring", ["system:monitoring"]),
    "system:service-account-issuer-discovery": (
        "system:service-account-issuer-discovery",
        ["system:serviceaccounts"],
    ),
}


def cluster_roles(added: Sequence[AggregatedRole] = ()) -> dict[str, Role]:
    """Return all cluster roles: with those that custom kinds add, and sums that have them."""
    # In the order in which the controller that keeps the sums adds them up.
    every = sorted([_MEASURED, *added], key=lambda one: one.name)
    roles = {one.name: Role(adds_to=one.adds_to) for one in every}
    for one in _merged(every):
        roles[one.name].rules.append(_rule(list(one.verbs), one.group, *one.resources))

    def more(name: str) -> list[Obj]:
        return [rule for role in roles.values() if role.adds_to == name for rule in role.rules]

    view = [*_VIEW, *more("view")]
    edit = [*_EDIT, *more("edit"), *view]
    sums = {"admin": [*edit, *_ADMIN, *more("admin")], "edit": edit, "view": view}
    summed = {name: replace(_ROLES[name], rules=rules) for name, rules in sums.items()}
    return {**_ROLES, **summed, **roles}


def _merged(added: Sequence[AggregatedRole]) -> list[AggregatedRole]:
    """Return one of each role, group and verbs, with all of their resources in order."""
    found: dict[AggregatedRole, set[str]] = {}
    for one in added:
        found.setdefault(replace(one, resources=()), set()).update(one.resources)
    return [replace(one, resources=tuple(sorted(named))) for one, named in found.items()]


CLUSTER_ROLES = cluster_roles()  # of a cluster without custom kinds
