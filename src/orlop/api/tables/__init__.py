"""Server-side tables: what `kubectl get` prints is decided here, not in kubectl.

Called by get, list and watch when a client accepts a meta.k8s.io Table. Kinds without a table of
their own get name and age. The time is passed in; it looks at the object.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from ..kinds import Kind
from ..objects import Obj, meta
from . import admission, cluster, core, pods, workloads
from .cells import AGE, NAME, Cells, Printer, age, name_of

IncludeObject = Literal["None", "Metadata", "Object"]


def _named(obj: Obj, now: float) -> Cells:
    return [name_of(obj), age(obj, now)]


_DEFAULT = Printer((NAME, AGE), _named)
_ADMISSION, _FLOWS = "admissionregistration.k8s.io", "flowcontrol.apiserver.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_PRINTERS: dict[tuple[str, str], Printer] = {
    ("", "pods"): pods.POD,
    ("", "namespaces"): core.NAMESPACE,
    ("", "nodes"): core.NODE,
    ("", "services"): core.SERVICE,
    ("", "endpoints"): core.ENDPOINTS,
    ("", "events"): core.EVENT,
    ("", "configmaps"): core.CONFIG_MAP,
    ("", "secrets"): core.SECRET,
    ("", "serviceaccounts"): core.SERVICE_ACCOUNT,
    ("", "persistentvolumes"): core.PERSISTENT_VOLUME,
    ("", "persistentvolumeclaims"): core.PERSISTENT_VOLUME_CLAIM,
    ("", "resourcequotas"): core.RESOURCE_QUOTA,
    ("", "limitranges"): core.LIMIT_RANGE,
    ("", "replicationcontrollers"): workloads.REPLICA_SET,
    ("apps", "deployments"): workloads.DEPLOYMENT,
    ("apps", "replicasets"): workloads.REPLICA_SET,
    ("apps", "statefulsets"): workloads.STATEFUL_SET,
    ("apps", "daemonsets"): workloads.DAEMON_SET,
    ("apps", "controllerrevisions"): cluster.CONTROLLER_REVISION,
    ("batch", "jobs"): workloads.JOB,
    ("batch", "cronjobs"): workloads.CRON_JOB,
    ("events.k8s.io", "events"): core.EVENT,
    ("discovery.k8s.io", "endpointslices"): core.ENDPOINT_SLICE,
    ("coordination.k8s.io", "leases"): cluster.LEASE,
    ("storage.k8s.io", "storageclasses"): core.STORAGE_CLASS,
    ("storage.k8s.io", "csinodes"): cluster.CSI_NODE,
    ("storage.k8s.io", "csidrivers"): cluster.CSI_DRIVER,
    ("storage.k8s.io", "volumeattachments"): cluster.VOLUME_ATTACHMENT,
    ("networking.k8s.io", "ingresses"): cluster.INGRESS,
    ("networking.k8s.io", "ingressclasses"): cluster.INGRESS_CLASS,
    ("networking.k8s.io", "networkpolicies"): cluster.NETWORK_POLICY,
    ("node.k8s.io", "runtimeclasses"): cluster.RUNTIME_CLASS,
    ("policy", "poddisruptionbudgets"): cluster.POD_DISRUPTION_BUDGET,
    ("autoscaling", "horizontalpodautoscalers"): cluster.HORIZONTAL_POD_AUTOSCALER,
    ("scheduling.k8s.io", "priorityclasses"): cluster.PRIORITY_CLASS,
    ("certificates.k8s.io", "certificatesigningrequests"): cluster.SIGNING_REQUEST,
    ("apiregistration.k8s.io", "apiservices"): cluster.API_SERVICE,
    ("apiextensions.k8s.io", "customresourcedefinitions"): cluster.DEFINITION,
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): cluster.WEBHOOKS,
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): cluster.WEBHOOKS,
    (_ADMISSION, "validatingadmissionpolicies"): admission.VALIDATING_POLICY,
    (_ADMISSION, "validatingadmissionpolicybindings"): admission.POLICY_BINDING,
    (_ADMISSION, "mutatingadmissionpolicies"): admission.MUTATING_POLICY,
    (_ADMISSION, "mutatingadmissionpolicybindings"): admission.POLICY_BINDING,
    (_FLOWS, "flowschemas"): admission.FLOW_SCHEMA,
    (_FLOWS, "prioritylevelconfigurations"): admission.PRIORITY_LEVEL,
    ("resource.k8s.io", "resourceclaims"): admission.RESOURCE_CLAIM,
    ("resource.k8s.io", "resourceslices"): admission.RESOURCE_SLICE,
    ("metrics.k8s.io", "nodes"): cluster.NODE_METRICS,
    ("metrics.k8s.io", "pods"): cluster.POD_METRICS,
    (_RBAC, "roles"): cluster.ROLE,
    (_RBAC, "clusterroles"): cluster.ROLE,
    (_RBAC, "rolebindings"): cluster.BINDING,
    (_RBAC, "clusterrolebindings"): cluster.BINDING,
}


def _printer(kind: Kind) -> Printer:
    if kind.custom is not None:
        return kind.custom.printer
    return _PRINTERS.get((kind.group, kind.plural), _DEFAULT)


def columns(kind: Kind) -> list[Obj]:
    """Return the columnDefinitions of a kind's table."""
    return list(_printer(kind).columns)


def cells_of(kind: Kind, obj: Obj, now: float) -> Cells:
    return _printer(kind).row(obj, now)


def row(kind: Kind, obj: Obj, now: float, include_object: IncludeObject = "Metadata") -> Obj:
    """Return one object's row, with as much of the object as the client asked for."""
    return {"cells": _printer(kind).row(obj, now), "object": _included(obj, include_object)}


def table(
    kind: Kind, objects: Iterable[Obj], now: float, include_object: IncludeObject = "Metadata"
) -> Obj:
    """Make a whole table; the caller fills in the list's metadata."""
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": columns(kind),
        "rows": [row(kind, obj, now, include_object) for obj in objects],
    }


def _included(obj: Obj, include_object: IncludeObject) -> Obj | None:
    if include_object == "Object":
        return obj
    if include_object == "None":
        return None
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta(obj),
    }
