"""Limits what a kubelet may do: its own node, and what the pods bound to it refer to.

Asked by authorization for users of the group system:nodes, beside RBAC. Kubelets that run elsewhere
come with a certificate for `system:node:<name>`; our own is a part of the control plane and does
not come here. As plugin/pkg/auth/authorizer/node: rules for all, and a graph of references to
secrets, config maps, claims and accounts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...api import kinds
from ...api.objects import Obj
from ...store import Store
from .authentication import User
from .rbac import Attributes, covers

GROUP, PREFIX = "system:nodes", "system:node:"
LEASES = "kube-node-lease"
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "patch", "update"]


def _rule(verbs: list[str], group: str, *resources: str) -> Obj:
    return {"verbs": verbs, "apiGroups": [group], "resources": list(resources)}


# As plugin/pkg/auth/authorizer/rbac/bootstrappolicy: NodeRules, which NodeRestriction narrows.
_RULES = [
    _rule(["create"], "authentication.k8s.io", "tokenreviews"),
    _rule(["create"], "authorization.k8s.io", "localsubjectaccessreviews", "subjectaccessreviews"),
    _rule(_READ, "", "services", "nodes", "pods"),
    _rule(["create", "patch", "update"], "", "nodes", "nodes/status"),
    _rule(["create", "delete"], "", "pods"),
    _rule(["patch", "update"], "", "pods/status"),
    _rule(["create"], "", "pods/eviction"),
    _rule(["create", "patch", "update"], "", "events"),
    _rule(["create", *_READ], "certificates.k8s.io", "certificatesigningrequests"),
    _rule(_READ, "storage.k8s.io", "csidrivers", "volumeattachments"),
    _rule(_READ, "node.k8s.io", "runtimeclasses"),
]


def node_of(user: User) -> str:
    """Return the node whose kubelet a user is; empty where it is none."""
    if GROUP not in user.groups or not user.name.startswith(PREFIX):
        return ""
    return user.name.removeprefix(PREFIX)


@dataclass(slots=True)
class _References:
    """The objects that the pods of one node refer to, by namespace and name."""

    secrets: set[tuple[str, str]] = field(default_factory=set)
    configmaps: set[tuple[str, str]] = field(default_factory=set)
    persistentvolumeclaims: set[tuple[str, str]] = field(default_factory=set)
    resourceclaims: set[tuple[str, str]] = field(default_factory=set)
    serviceaccounts: set[tuple[str, str]] = field(default_factory=set)


class NodeAuthorizer:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen = -1
        self._graph: dict[str, _References] = {}

    def allows(self, user: User, wanted: Attributes) -> bool:
        node = node_of(user)
        if not node:
            return False
        if any(covers(rule, wanted) for rule in _RULES):
            return True
        match (wanted.group, wanted.full_resource):
            case ("coordination.k8s.io", "leases"):
                is_own = wanted.name == node or (not wanted.name and wanted.verb == "create")
                allowed = ["get", *_WRITE]
                return wanted.namespace == LEASES and is_own and wanted.verb in allowed
            case ("storage.k8s.io", "csinodes"):
                is_own = wanted.name == node or (not wanted.name and wanted.verb == "create")
                return is_own and wanted.verb in ["get", *_WRITE]
            case ("", "serviceaccounts/token"):
                return wanted.verb == "create" and self._refers(node, wanted, "serviceaccounts")
            case ("", "secrets" | "configmaps" as resource):
                return wanted.verb in _READ and self._refers(node, wanted, resource)
            case ("", "persistentvolumeclaims") | ("resource.k8s.io", "resourceclaims"):
                return wanted.verb == "get" and self._refers(node, wanted, wanted.resource)
            case ("", "persistentvolumes"):
                return wanted.verb == "get" and self._mounts(node, wanted.name)
        return False

    def _refers(self, node: str, wanted: Attributes, to: str) -> bool:
        found: set[tuple[str, str]] = getattr(self._references(node), to)
        return bool(wanted.name) and (wanted.namespace, wanted.name) in found

    def _mounts(self, node: str, volume: str) -> bool:
        bucket, claims = kinds.PERSISTENT_VOLUME_CLAIM.resource, self._references(node)
        records = self._store.list(bucket).records
        known = claims.persistentvolumeclaims
        mounted = [one for one in records if (one.key.namespace, one.key.name) in known]
        return bool(volume) and any(
            one.decode().get("spec", {}).get("volumeName") == volume for one in mounted
        )

    def _references(self, node: str) -> _References:
        newest = self._store.changed(kinds.POD.resource)
        if newest != self._seen:
            self._graph = {}
            for record in self._store.list(kinds.POD.resource).records:
                _add(self._graph, record.decode())
            self._seen = newest
        return self._graph.get(node) or _References()


def _add(graph: dict[str, _References], pod: Obj) -> None:
    node, namespace = pod["spec"].get("nodeName"), pod["metadata"]["namespace"]
    if not node:
        return
    known = graph.setdefault(node, _References())
    spec = pod["spec"]
    known.serviceaccounts.add((namespace, spec.get("serviceAccountName") or "default"))
    for one in spec.get("imagePullSecrets") or ():
        known.secrets.add((namespace, one.get("name", "")))
    for kind, name in (*_of_volumes(spec), *_of_environment(spec)):
        getattr(known, kind).add((namespace, name))
    for one in spec.get("resourceClaims") or ():
        known.resourceclaims.add((namespace, one.get("resourceClaimName") or ""))


def references_objects(spec: Obj) -> bool:
    """Return whether a pod would let its node read, or speak as, anything beside the pod itself."""
    named = [name for _, name in (*_of_volumes(spec), *_of_environment(spec))]
    named += [one.get("name") or "" for one in spec.get("imagePullSecrets") or ()]
    named += [spec.get("serviceAccountName") or "", spec.get("serviceAccount") or ""]
    tokens = (
        source.get("serviceAccountToken")
        for volume in spec.get("volumes") or ()
        for source in (volume.get("projected") or {}).get("sources") or ()
    )
    return any(named) or any(tokens) or bool(spec.get("resourceClaims"))


def _of_volumes(spec: Obj) -> Iterator[tuple[str, str]]:
    for volume in spec.get("volumes") or ():
        sources = [volume, *((volume.get("projected") or {}).get("sources") or ())]
        for one in sources:
            secret = one.get("secret") or {}
            yield "secrets", secret.get("secretName") or secret.get("name") or ""
            yield "configmaps", (one.get("configMap") or {}).get("name") or ""
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        yield "persistentvolumeclaims", claim or ""
        csi = (volume.get("csi") or {}).get("nodePublishSecretRef") or {}
        yield "secrets", csi.get("name") or ""


def _of_environment(spec: Obj) -> Iterator[tuple[str, str]]:
    lists = ("containers", "initContainers", "ephemeralContainers")
    for container in (one for name in lists for one in spec.get(name) or ()):
        for one in container.get("envFrom") or ():
            yield "secrets", (one.get("secretRef") or {}).get("name") or ""
            yield "configmaps", (one.get("configMapRef") or {}).get("name") or ""
        for one in container.get("env") or ():
            source = one.get("valueFrom") or {}
            yield "secrets", (source.get("secretKeyRef") or {}).get("name") or ""
            yield "configmaps", (source.get("configMapKeyRef") or {}).get("name") or ""
