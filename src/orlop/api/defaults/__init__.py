"""Fills in what a manifest leaves out, by upstream's rules.

Called with every object that is written, created or updated, after it was decoded and before it is
validated. Complete on purpose: controllers written in Go read these fields without looking. It
changes the object it is given and asks nothing of the cluster; what depends on other objects
(service accounts, priority classes, limit ranges) is admission's.
"""

from __future__ import annotations

from collections.abc import Callable

from .. import kinds
from ..kinds import Kind
from ..objects import Obj
from . import admissionregistration, autoscaling, cluster, core, definitions, pods, workloads

_DEFAULTERS: dict[Kind, Callable[[Obj], None]] = {
    kinds.POD: pods.pod,
    kinds.POD_TEMPLATE: pods.pod_template,
    kinds.REPLICATION_CONTROLLER: workloads.replication_controller,
    kinds.SERVICE: core.service,
    kinds.SECRET: core.secret,
    kinds.NAMESPACE: core.namespace,
    kinds.NODE: core.node,
    kinds.ENDPOINTS: core.endpoints,
    kinds.LIMIT_RANGE: core.limit_range,
    kinds.RESOURCE_QUOTA: core.resource_quota,
    kinds.PERSISTENT_VOLUME: core.persistent_volume,
    kinds.PERSISTENT_VOLUME_CLAIM: core.persistent_volume_claim,
    kinds.DEPLOYMENT: workloads.deployment,
    kinds.REPLICA_SET: workloads.replica_set,
    kinds.STATEFUL_SET: workloads.stateful_set,
    kinds.DAEMON_SET: workloads.daemon_set,
    kinds.JOB: workloads.job,
    kinds.CRON_JOB: workloads.cron_job,
    kinds.HORIZONTAL_POD_AUTOSCALER: autoscaling.horizontal_pod_autoscaler,
    kinds.HORIZONTAL_POD_AUTOSCALER_V1: autoscaling.horizontal_pod_autoscaler_v1,
    kinds.ENDPOINT_SLICE: core.endpoint_slice,
    kinds.NETWORK_POLICY: cluster.network_policy,
    kinds.INGRESS_CLASS: cluster.ingress_class,
    kinds.ROLE_BINDING: cluster.role_binding,
    kinds.CLUSTER_ROLE_BINDING: cluster.role_binding,
    kinds.STORAGE_CLASS: cluster.storage_class,
    kinds.CSI_DRIVER: cluster.csi_driver,
    kinds.PRIORITY_CLASS: cluster.priority_class,
    kinds.API_SERVICE: cluster.api_service,
    kinds.CUSTOM_RESOURCE_DEFINITION: definitions.custom_resource_definition,
    kinds.MUTATING_WEBHOOK_CONFIGURATION: admissionregistration.mutating,
    kinds.VALIDATING_WEBHOOK_CONFIGURATION: admissionregistration.validating,
    kinds.VALIDATING_ADMISSION_POLICY: admissionregistration.policy,
    kinds.VALIDATING_ADMISSION_POLICY_BINDING: admissionregistration.policy_binding,
    kinds.MUTATING_ADMISSION_POLICY: admissionregistration.mutating_policy,
    kinds.MUTATING_ADMISSION_POLICY_BINDING: admissionregistration.policy_binding,
}


_BY_NAME = {
    (kind.group, kind.version, kind.kind): defaulter for kind, defaulter in _DEFAULTERS.items()
}


def apply_defaults(kind: Kind, obj: Obj) -> None:
    """Complete `obj` in place; the caller owns it."""
    if kind.custom is not None:
        kind.custom.default(obj)
        return
    defaulter = _BY_NAME.get((kind.group, kind.version, kind.kind))
    if defaulter is not None:
        defaulter(obj)
