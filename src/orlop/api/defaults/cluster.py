"""Defaults of the smaller groups: networking, rbac, storage, scheduling, apiregistration.

Called by the dispatch. As pkg/apis/<group>/v1/defaults.go.
"""

from __future__ import annotations

from ..objects import Obj
from .fill import fill, section

_RBAC = "rbac.authorization.k8s.io"


def network_policy(obj: Obj) -> None:
    spec = section(obj, "spec")
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for port in rule.get("ports") or ():
            port.setdefault("protocol", "TCP")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def ingress_class(obj: Obj) -> None:
    parameters = (obj.get("spec") or {}).get("parameters")
    if parameters:
        fill(parameters, "scope", "Cluster")


def role_binding(obj: Obj) -> None:
    fill(section(obj, "roleRef"), "apiGroup", _RBAC)
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            fill(subject, "apiGroup", _RBAC)


def storage_class(obj: Obj) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def csi_driver(obj: Obj) -> None:
    spec = section(obj, "spec")
    spec.setdefault("attachRequired", True)
    spec.setdefault("podInfoOnMount", False)
    spec.setdefault("storageCapacity", False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    spec.setdefault("requiresRepublish", False)
    spec.setdefault("seLinuxMount", False)
    fill(spec, "volumeLifecycleModes", ["Persistent"])


def priority_class(obj: Obj) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def api_service(obj: Obj) -> None:
    service = (obj.get("spec") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)
