"""NodeRestriction: a kubelet may change its own node and the pods bound to it.

An admission plugin, always on, for users of the group system:nodes. Together with the node
authorizer it keeps one compromised node from becoming the whole cluster. As
plugin/pkg/admission/noderestriction, in its words.
"""

from __future__ import annotations

from ....api import kinds
from ....api.objects import Key, Obj, labels_of
from ....errors import Forbidden
from ....store import Store
from ...auth.node_authorizer import LEASES, node_of, references_objects
from ...request.failures import forbidden
from ..chain import Attributes, Plugin

_MIRROR = "kubernetes.io/config.mirror"
# Labels of the project's own domains that a kubelet may set on its node.
_OWN_LABELS = frozenset(
    [
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.kubernetes.io/region",
        "failure-domain.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    ]
)
_OWN_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")


class NodeRestriction(Plugin):
    def __init__(self, store: Store) -> None:
        self._store = store

    async def validate(self, attributes: Attributes) -> None:
        node = node_of(attributes.user)
        if not node:
            return
        match (attributes.kind.group, attributes.kind.plural, attributes.subresource):
            case ("", "pods", ""):
                self._pod(node, attributes)
            case ("", "pods", "status"):
                self._pod_status(node, attributes)
            case ("", "pods", "eviction"):
                if _place(self._find(kinds.POD, attributes)) != node:
                    why = "can only evict pods with spec.nodeName set to itself"
                    raise _refused(attributes, f"node {node} {why}")
            case ("", "nodes", _):
                self._node(node, attributes)
            case ("coordination.k8s.io", "leases", _):
                self._lease(node, attributes)
            case ("storage.k8s.io", "csinodes", _) if attributes.name != node:
                why = "can only access CSINode with the same name as the requesting node"
                raise _refused(attributes, why)
            case ("", "serviceaccounts", "token"):
                self._token(node, attributes)

    def _find(self, kind: kinds.Kind, attributes: Attributes, name: str = "") -> Obj | None:
        key = Key(attributes.namespace, name or attributes.name)
        record = self._store.newest(kind.resource, key)
        return None if record is None else record.decode()

    def _pod(self, node: str, attributes: Attributes) -> None:
        if attributes.operation == "DELETE" and _place(attributes.old) != node:
            why = "can only delete pods with spec.nodeName set to itself"
            raise _refused(attributes, f'node "{node}" {why}')
        pod = attributes.obj
        if attributes.operation != "CREATE" or pod is None:
            return
        if _MIRROR not in (pod["metadata"].get("annotations") or {}):
            why = f'pod does not have "{_MIRROR}" annotation, node "{node}" can only create mirror'
            raise _refused(attributes, f"{why} pods")
        if _place(pod) != node:
            why = "can only create pods with spec.nodeName set to itself"
            raise _refused(attributes, f'node "{node}" {why}')
        owners = pod["metadata"].get("ownerReferences") or []
        if any((one.get("kind"), one.get("name")) != ("Node", node) for one in owners):
            why = "can only create pods with an owner reference set to itself"
            raise _refused(attributes, f'node "{node}" {why}')
        if references_objects(pod["spec"]):  # which it could then read
            why = "can not create pods that reference other objects of the API"
            raise _refused(attributes, f'node "{node}" {why}')

    def _pod_status(self, node: str, attributes: Attributes) -> None:
        if _place(attributes.old) != node:
            why = "can only update pod status for pods with spec.nodeName set to itself"
            raise _refused(attributes, f'node "{node}" {why}')
        if labels_of(attributes.obj or {}) != labels_of(attributes.old or {}):
            why = "cannot update labels through pod status"
            raise _refused(attributes, f'node "{node}" {why}')

    def _node(self, node: str, attributes: Attributes) -> None:
        if attributes.name != node:
            why = f'node "{node}" is not allowed to modify node "{attributes.name}"'
            raise _refused(attributes, why)
        new, old = attributes.obj or {}, attributes.old or {}
        taints = [(one.get("spec") or {}).get("taints") for one in (new, old)]
        if attributes.operation == "UPDATE" and taints[0] != taints[1]:
            raise _refused(attributes, f'node "{node}" is not allowed to modify taints')
        owners = [one.get("metadata", {}).get("ownerReferences") or [] for one in (new, old)]
        if attributes.operation in ("CREATE", "UPDATE") and owners[0] != owners[1]:
            why = f'node "{node}" is not allowed to modify ownerReferences'
            raise _refused(attributes, why)  # the garbage collector would delete it for the node
        if attributes.operation in ("CREATE", "UPDATE"):
            mine, former = labels_of(new), labels_of(old)
            changed = {key for key in {*mine, *former} if mine.get(key) != former.get(key)}
            wrong = sorted(key for key in changed if not _is_own_label(key))
            if wrong:
                why = f"is not allowed to modify labels: {', '.join(wrong)}"
                raise _refused(attributes, f'node "{node}" {why}')

    def _lease(self, node: str, attributes: Attributes) -> None:
        if attributes.namespace != LEASES:
            why = f'can only access leases in the "{LEASES}" system namespace'
            raise _refused(attributes, why)
        if attributes.name != node:
            why = "can only access node lease with the same name as the requesting node"
            raise _refused(attributes, why)

    def _token(self, node: str, attributes: Attributes) -> None:
        spec = (attributes.obj or {}).get("spec") or {}
        reference = spec.get("boundObjectRef") or {}
        if (reference.get("apiVersion"), reference.get("kind")) != ("v1", "Pod"):
            raise _refused(attributes, "node requested token not bound to a pod")
        pod = self._find(kinds.POD, attributes, reference.get("name") or "")
        if pod is None or reference.get("uid") != pod["metadata"]["uid"]:
            raise _refused(attributes, "node requested token with a pod that is not there")
        if _place(pod) != node:
            why = "node requested token bound to a pod scheduled on a different node"
            raise _refused(attributes, why)


def _place(pod: Obj | None) -> str:
    return str(((pod or {}).get("spec") or {}).get("nodeName") or "")


def _is_own_label(key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    if key in _OWN_LABELS or any(
        domain == one or domain.endswith(f".{one}") for one in _OWN_DOMAINS
    ):
        return True
    return not any(
        domain == one or domain.endswith(f".{one}") for one in ("kubernetes.io", "k8s.io")
    )


def _refused(attributes: Attributes, why: str) -> Forbidden:
    return forbidden(attributes.kind, attributes.name, why)
