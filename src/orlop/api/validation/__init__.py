"""Checks whether an object may be stored: upstream's rules, in upstream's words.

Called with every object before it is stored, after defaulting and after strategy has set what is
the server's. The result is a list of FieldErrors, empty where all is well; `invalid` makes the
answer of them. It looks at the object: what depends on others is admission's.
"""

from __future__ import annotations

from collections.abc import Callable

from ..kinds import Kind
from ..objects import Obj
from . import (
    autoscaling,
    cluster,
    core,
    definitions,
    jobs,
    limits,
    metadata,
    pods,
    policies,
    services,
    webhooks,
    workloads,
)
from .errors import Errors, FieldError, invalid

__all__ = [
    "FieldError",
    "invalid",
    "validate_create",
    "validate_status_update",
    "validate_update",
]

_APIEXTENSIONS = "apiextensions.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_RBAC = "rbac.authorization.k8s.io"


def validate_create(kind: Kind, obj: Obj) -> list[FieldError]:
    errors = metadata.validate_create(kind, obj)
    if kind.custom is not None:
        return errors + kind.custom.validate(obj)
    check = _CHECKS.get((kind.group, kind.kind))
    return errors + check(obj) if check is not None else errors


def validate_update(kind: Kind, new: Obj, old: Obj) -> list[FieldError]:
    """Check the rules of `new` by itself, then what may not differ from `old`."""
    errors = metadata.validate_update(kind, new, old)
    if kind.custom is not None:
        return errors + kind.custom.validate(new, old)
    key = (kind.group, kind.kind)
    check = _CHECKS.get(key)
    if check is not None and key != ("", "Pod"):  # a pod that exists is judged by its changes
        errors += check(new)
    check_update = _UPDATES.get(key)
    return errors + check_update(new, old) if check_update is not None else errors


def validate_status_update(kind: Kind, new: Obj, old: Obj) -> list[FieldError]:
    """Check the metadata around a status, or a schema; the status is its controller's word."""
    errors = metadata.validate_update(kind, new, old)
    return errors if kind.custom is None else errors + kind.custom.validate(new, old)


_CHECKS: dict[tuple[str, str], Callable[[Obj], Errors]] = {
    ("", "Pod"): pods.pod,
    ("", "PodTemplate"): lambda obj: pods.template("template", obj.get("template") or {}),
    ("", "ReplicationController"): workloads.replication_controller,
    ("", "Service"): services.service,
    ("", "Endpoints"): services.endpoints,
    ("", "ConfigMap"): core.config_map,
    ("", "Secret"): core.secret,
    ("", "Namespace"): core.namespace,
    ("", "Node"): core.node,
    ("", "Event"): core.event,
    ("", "PersistentVolume"): core.persistent_volume,
    ("", "PersistentVolumeClaim"): core.persistent_volume_claim,
    ("", "LimitRange"): limits.limit_range,
    ("", "ResourceQuota"): limits.resource_quota,
    ("apps", "Deployment"): workloads.deployment,
    ("apps", "ReplicaSet"): workloads.replica_set,
    ("apps", "StatefulSet"): workloads.stateful_set,
    ("apps", "DaemonSet"): workloads.daemon_set,
    ("apps", "ControllerRevision"): cluster.controller_revision,
    ("batch", "Job"): jobs.job,
    ("batch", "CronJob"): jobs.cron_job,
    ("events.k8s.io", "Event"): core.new_event,
    ("discovery.k8s.io", "EndpointSlice"): services.endpoint_slice,
    ("autoscaling", "HorizontalPodAutoscaler"): autoscaling.horizontal_pod_autoscaler,
    ("policy", "PodDisruptionBudget"): cluster.pod_disruption_budget,
    ("networking.k8s.io", "Ingress"): cluster.ingress,
    ("networking.k8s.io", "NetworkPolicy"): cluster.network_policy,
    (_RBAC, "Role"): cluster.role,
    (_RBAC, "ClusterRole"): cluster.cluster_role,
    (_RBAC, "RoleBinding"): cluster.role_binding,
    (_RBAC, "ClusterRoleBinding"): cluster.cluster_role_binding,
    (_APIEXTENSIONS, "CustomResourceDefinition"): definitions.custom_resource_definition,
    ("scheduling.k8s.io", "PriorityClass"): cluster.priority_class,
    ("storage.k8s.io", "StorageClass"): cluster.storage_class,
    ("coordination.k8s.io", "Lease"): cluster.lease,
    ("node.k8s.io", "RuntimeClass"): cluster.runtime_class,
    ("certificates.k8s.io", "CertificateSigningRequest"): cluster.signing_request,
    ("apiregistration.k8s.io", "APIService"): cluster.api_service,
    (_ADMISSION, "MutatingWebhookConfiguration"): webhooks.mutating,
    (_ADMISSION, "ValidatingWebhookConfiguration"): webhooks.validating,
    (_ADMISSION, "ValidatingAdmissionPolicy"): policies.validating,
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): policies.validating_binding,
    (_ADMISSION, "MutatingAdmissionPolicy"): policies.mutating,
    (_ADMISSION, "MutatingAdmissionPolicyBinding"): policies.mutating_binding,
}
_UPDATES: dict[tuple[str, str], Callable[[Obj, Obj], Errors]] = {
    ("", "Pod"): pods.validate_update,
    ("", "Service"): services.service_update,
    ("", "ConfigMap"): core.config_map_update,
    ("", "Secret"): core.secret_update,
    ("", "Node"): core.node_update,
    ("", "ResourceQuota"): limits.resource_quota_update,
    ("", "PersistentVolume"): core.persistent_volume_update,
    ("", "PersistentVolumeClaim"): core.persistent_volume_claim_update,
    ("apps", "Deployment"): workloads.selector_update,
    ("apps", "ReplicaSet"): workloads.selector_update,
    ("apps", "DaemonSet"): workloads.selector_update,
    ("apps", "StatefulSet"): workloads.stateful_set_update,
    ("apps", "ControllerRevision"): cluster.controller_revision_update,
    ("batch", "Job"): jobs.job_update,
    ("discovery.k8s.io", "EndpointSlice"): services.endpoint_slice_update,
    (_RBAC, "RoleBinding"): cluster.binding_update,
    (_RBAC, "ClusterRoleBinding"): cluster.binding_update,
    (_APIEXTENSIONS, "CustomResourceDefinition"): definitions.custom_resource_definition_update,
    ("scheduling.k8s.io", "PriorityClass"): cluster.priority_class_update,
    ("storage.k8s.io", "StorageClass"): cluster.storage_class_update,
    ("node.k8s.io", "RuntimeClass"): cluster.runtime_class_update,
}
