"""Facts that no package tells about the built-in types: how lists merge, what is replaced whole.

Read by source when it builds the schema; tests hold every line against upstream's own OpenAPI
document. A list that is named nowhere here is atomic: whoever writes it replaces it.
"""

from __future__ import annotations

from typing import NamedTuple

REVISION = "3"  # raise when a fact changes: cached schemas are then built anew


class Merge(NamedTuple):
    """The patch strategy of a field, and for lists the key its elements are told apart by."""

    key: str
    strategies: tuple[str, ...]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _merges(key: str, strategies: str, fields: str) -> dict[str, Merge]:
    return {field: Merge(key, tuple(strategies.split(","))) for field in fields.split()}


MERGES: dict[str, Merge] = {
    **_merges(
        "name",
        "merge",
        """
        CSINodeSpec.drivers CSINodeStatus.storageHealth Container.env
        ContainerStatus.allocatedResourcesStatus EphemeralContainer.env
        JobSchedulingConfiguration.resourceClaims MutatingAdmissionPolicySpec.matchConditions
        MutatingWebhook.matchConditions
        MutatingWebhookConfiguration.webhooks NodeAllocatableResourceClaimStatus.mapping
        NodeAllocatableResourceClaimStatus.overhead PodSpec.containers PodSpec.ephemeralContainers
        PodSpec.evictionResponders PodSpec.imagePullSecrets PodSpec.initContainers
        PodSpec.schedulingGates ServiceAccount.secrets ValidatingAdmissionPolicySpec.matchConditions
        ValidatingAdmissionPolicySpec.variables ValidatingWebhook.matchConditions
        ValidatingWebhookConfiguration.webhooks
        """,
    ),
    **_merges(
        "type",
        "merge",
        """
        APIServiceStatus.conditions DaemonSetStatus.conditions DeploymentStatus.conditions
        DeviceTaintRuleStatus.conditions FlowSchemaStatus.conditions
        HorizontalPodAutoscalerStatus.conditions JobStatus.conditions NamespaceStatus.conditions
        NodeStatus.addresses NodeStatus.conditions PersistentVolumeClaimStatus.conditions
        PodCertificateRequestStatus.conditions PodDisruptionBudgetStatus.conditions
        PodStatus.conditions PriorityLevelConfigurationStatus.conditions ReplicaSetStatus.conditions
        ReplicationControllerStatus.conditions ServiceCIDRStatus.conditions ServiceStatus.conditions
        StatefulSetStatus.conditions StorageVersionMigrationStatus.conditions
        """,
    ),
    **_merges(
        "name",
        "merge,retainKeys",
        "PodSpec.resourceClaims PodSpec.volumes PodStatus.resourceClaimStatuses",
    ),
    **_merges("rule", "merge", "JSONSchemaProps.x-kubernetes-validations"),
    **_merges("containerPort", "merge", "Container.ports EphemeralContainer.ports"),
    **_merges("devicePath", "merge", "Container.volumeDevices EphemeralContainer.volumeDevices"),
    **_merges(
        "mountPath",
        "merge",
        "Container.volumeMounts ContainerStatus.volumeMounts EphemeralContainer.volumeMounts",
    ),
    **_merges("ip", "merge", "PodSpec.hostAliases PodStatus.hostIPs PodStatus.podIPs"),
    **_merges("topologyKey", "merge", "PodSpec.topologySpreadConstraints"),
    **_merges("resourceClaimName", "merge", "PodStatus.nodeAllocatableResourceClaimStatuses"),
    **_merges(
        "status", "merge", "PodVolumeHealth.healthConditions VolumeHealthStatus.healthConditions"
    ),
    **_merges("port", "merge", "ServiceSpec.ports"),
    **_merges("uid", "merge", "ObjectMeta.ownerReferences ResourceClaimStatus.reservedFor"),
    **_merges("", "merge", "NodeSpec.podCIDRs ObjectMeta.finalizers"),
    **_merges("", "replace", "PodDisruptionBudgetSpec.selector"),
    **_merges("", "retainKeys", "DeploymentSpec.strategy"),
}

# The keys of associative lists where they are not just the merge key; () is none after all.
LIST_KEYS: dict[str, tuple[str, ...]] = {
    "AllocatedDeviceStatus.conditions": ("type",),
    "CertificateSigningRequestStatus.conditions": ("type",),
    "Container.ports": ("containerPort", "protocol"),
    "EphemeralContainer.ports": ("containerPort", "protocol"),
    "CustomResourceDefinitionStatus.conditions": ("type",),
    "JobStatus.conditions": (),
    "PodSpec.topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "PodStatus.hostIPs": (),
    "PodStatus.volumeHealth": ("name",),
    "PodVolumeHealth.healthConditions": ("status", "reason"),
    "ResourceClaimStatus.devices": ("driver", "device", "pool", "shareID"),
    "ResourceRequirements.claims": ("name",),
    "ResourceStatus.resources": ("resourceID",),
    "ServiceSpec.ports": ("port", "protocol"),
    "ValidatingAdmissionPolicyStatus.conditions": ("type",),
    "VolumeHealthStatus.healthConditions": ("status", "reason"),
}

SETS = _words(
    """
    CSIDriverSpec.volumeLifecycleModes ContainerRestartRuleOnExitCodes.values
    DeviceRequestAllocationResult.skipNodeOperations Endpoint.addresses
    NonResourcePolicyRule.nonResourceURLs NonResourcePolicyRule.verbs
    ResourcePolicyRule.apiGroups ResourcePolicyRule.namespaces ResourcePolicyRule.resources
    ResourcePolicyRule.verbs ResourceSliceSpec.skipNodeOperations
    NodeAllocatableResourceClaimStatus.containers NodePodPreemptionPolicy.disableResizePreemption
    NodeSpec.podCIDRs ObjectMeta.finalizers PodFailurePolicyOnExitCodesRequirement.values
    UncountedTerminatedPods.failed UncountedTerminatedPods.succeeded
    ValidatingAdmissionPolicyBindingSpec.validationActions VolumeMount.bindMountOptions
    """
)

# Keys of associative lists that elements may leave out; OpenAPI 3 tells clients too.
DEFAULTS: dict[str, str] = {"ContainerPort.protocol": "TCP", "ServicePort.protocol": "TCP"}

# Bytes are a list of numbers to Go; of one field it says so.
LIST_TYPES: dict[str, str] = {"APIServiceSpec.caBundle": "atomic"}

# By name, or by package and name where two packages differ.
ATOMIC_STRUCTS = _words(
    """
    ConfigMapKeySelector EndpointAddress EndpointPort EvictionResponder
    FileKeySelector LabelSelector LocalObjectReference MatchResources NamedRuleWithOperations
    NodeSelector NodeSelectorTerm ObjectFieldSelector ObjectReference OwnerReference ParamKind
    ParamRef ResourceFieldSelector RoleRef ScopeSelector SecretKeySelector SecretReference
    ServiceBackendPort TopologySelectorTerm TypedLocalObjectReference Variable
    autoscaling_v1.CrossVersionObjectReference rbac_v1.Subject
    """
)

# Fields that differ from their type: maps replaced whole, and one reference that is not.
MAP_TYPES: dict[str, str] = {
    "PersistentVolumeClaimStatus.allocatedResourceStatuses": "granular",
    "PersistentVolumeSpec.claimRef": "granular",
    "PodSpec.nodeSelector": "atomic",
    "ReplicationControllerSpec.selector": "atomic",
    "Scheduling.nodeSelector": "atomic",
    "ServiceSpec.selector": "atomic",
}

# Types of fields that the wire table does not have: groups of other packages, later releases.
_PROPS = "apiextensions_v1.JSONSchemaProps"
SPECS: dict[str, str] = {
    # A schema is made of schemas; where something else may stand in its place, it is just JSON.
    **dict.fromkeys([f"{_PROPS}.{name}" for name in ("properties", "definitions")], f"{{@{_PROPS}"),
    f"{_PROPS}.patternProperties": f"{{@{_PROPS}",
    f"{_PROPS}.dependencies": "{*",
    f"{_PROPS}.enum": "[*",
    **dict.fromkeys(
        [
            f"{_PROPS}.{name}"
            for name in ("additionalItems", "additionalProperties", "default", "example", "items")
        ],
        "*",
    ),
    "apiextensions_v1.CustomResourceSubresources.status": "*",
    "apiregistration_v1.APIServiceSpec.caBundle": "y",
    "apiregistration_v1.APIServiceSpec.groupPriorityMinimum": "i",
    "apiregistration_v1.APIServiceSpec.versionPriority": "i",
    "apiregistration_v1.ServiceReference.port": "i",
    "certificates_v1.PodCertificateRequestSpec.stubPKCS10Request": "y",
    "resource_v1.Device.nodeAllocatableResources": "{@resource_v1.NodeAllocatableResource",
}
