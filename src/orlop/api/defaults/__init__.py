"""Fills in what a manifest leaves out, by upstream's rules.

Called with every object that is written, created or updated, after it was decoded and before it is
validated. Complete on purpose: controllers written in Go read these fields without looking. It
changes the object it is given and asks nothing of the cluster; what depends on other objects
(service accounts, priority classes, limit ranges) is admission's.
"""

from __future__ import annotations

from collections.abc import Callable

from ..kinds import Kind
from ..objects import Obj
from . import admissionregistration, autoscaling, cluster, core, pods, workloads

_DEFAULTERS: dict[tuple[str, str], Callable[[Obj], None]] = {
    ("", "Pod"): pods.pod,
    ("", "PodTemplate"): pods.pod_template,
    ("", "ReplicationController"): workloads.replication_controller,
    ("", "Service"): core.service,
    ("", "Secret"): core.secret,
    ("", "Namespace"): core.namespace,
    ("", "Node"): core.node,
    ("", "Endpoints"): core.endpoints,
    ("", "LimitRange"): core.limit_range,
    ("", "ResourceQuota"): core.resource_quota,
    ("", "PersistentVolume"): core.persistent_volume,
    ("", "PersistentVolumeClaim"): core.persistent_volume_claim,
    ("apps", "Deployment"): workloads.deployment,
    ("apps", "ReplicaSet"): workloads.replica_set,
    ("apps", "StatefulSet"): workloads.stateful_set,
    ("apps", "DaemonSet"): workloads.daemon_set,
    ("batch", "Job"): workloads.job,
    ("batch", "CronJob"): workloads.cron_job,
    ("autoscaling", "HorizontalPodAutoscaler"): autoscaling.horizontal_pod_autoscaler,
    ("discovery.k8s.io", "EndpointSlice"): core.endpoint_slice,
    ("networking.k8s.io", "NetworkPolicy"): cluster.network_policy,
    ("networking.k8s.io", "IngressClass"): cluster.ingress_class,
    ("rbac.authorization.k8s.io", "RoleBinding"): cluster.role_binding,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): cluster.role_binding,
    ("storage.k8s.io", "StorageClass"): cluster.storage_class,
    ("storage.k8s.io", "CSIDriver"): cluster.csi_driver,
    ("scheduling.k8s.io", "PriorityClass"): cluster.priority_class,
    ("apiregistration.k8s.io", "APIService"): cluster.api_service,
    (
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
    ): admissionregistration.mutating,
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
    ): admissionregistration.validating,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): admissionregistration.policy,
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
    ): admissionregistration.policy_binding,
}


def apply_defaults(kind: Kind, obj: Obj) -> None:
    """Complete `obj` in place; the caller owns it."""
    defaulter = _DEFAULTERS.get((kind.group, kind.kind))
    if defaulter is not None:
        defaulter(obj)
