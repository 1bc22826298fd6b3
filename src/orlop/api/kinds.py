"""Lists the kinds there are: group, version, names, scope, subresources.

A hand-written table of facts, so that naming a kind costs no schema; tests hold it against two
independent sources. `Kinds` is the registry the API server serves from; custom resources join it at
run time, the built-in ones are constants here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .crd import CustomResource

READ = ("get", "list", "watch")
WRITE = ("create", "delete", "deletecollection", "patch", "update")
ALL_VERBS = (*READ, *WRITE)
CREATE_ONLY = ("create",)
_VERSION = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?")


@dataclass(frozen=True, slots=True)
class Kind:
    """One version of one kind, as discovery shows it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    keeps_generation: bool = False
    custom: CustomResource | None = None  # its own schema, where a definition made the kind
    list_name: str = ""  # where it is not the kind's with List behind it
    singular_name: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """Return `deployments.apps`, as messages and RBAC name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def list_kind(self) -> str:
        return self.list_name or f"{self.kind}List"

    @property
    def singular(self) -> str:
        return self.singular_name or self.kind.lower()

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources


NAMESPACED, CLUSTER = True, False
_ALL = ("all",)
_EXTENSION = ("api-extensions",)
_STATUS = ("status",)
_SCALED = ("scale", "status")


_core = partial(Kind, "", "v1")
NAMESPACE = _core(
    "Namespace",
    "namespaces",
    CLUSTER,
    ("ns",),
    subresources=("finalize", "status"),
    verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
)
NODE = _core("Node", "nodes", CLUSTER, ("no",), subresources=("proxy", "status"))
POD = _core(
    "Pod",
    "pods",
    NAMESPACED,
    ("po",),
    _ALL,
    (
        "attach",
        "binding",
        "ephemeralcontainers",
        "eviction",
        "exec",
        "log",
        "portforward",
        "proxy",
        "resize",
        "status",
    ),
    keeps_generation=True,
)
SERVICE = _core("Service", "services", NAMESPACED, ("svc",), _ALL, ("proxy", "status"))
SERVICE_ACCOUNT = _core(
    "ServiceAccount", "serviceaccounts", NAMESPACED, ("sa",), subresources=("token",)
)
CONFIG_MAP = _core("ConfigMap", "configmaps", NAMESPACED, ("cm",))
SECRET = _core("Secret", "secrets", NAMESPACED)
ENDPOINTS = _core("Endpoints", "endpoints", NAMESPACED, ("ep",))
EVENT = _core("Event", "events", NAMESPACED, ("ev",))
LIMIT_RANGE = _core("LimitRange", "limitranges", NAMESPACED, ("limits",))
RESOURCE_QUOTA = _core(
    "ResourceQuota", "resourcequotas", NAMESPACED, ("quota",), subresources=_STATUS
)
PERSISTENT_VOLUME = _core(
    "PersistentVolume", "persistentvolumes", CLUSTER, ("pv",), subresources=_STATUS
)
PERSISTENT_VOLUME_CLAIM = _core(
    "PersistentVolumeClaim", "persistentvolumeclaims", NAMESPACED, ("pvc",), subresources=_STATUS
)
POD_TEMPLATE = _core("PodTemplate", "podtemplates", NAMESPACED, keeps_generation=True)
REPLICATION_CONTROLLER = _core(
    "ReplicationController",
    "replicationcontrollers",
    NAMESPACED,
    ("rc",),
    _ALL,
    _SCALED,
    keeps_generation=True,
)
BINDING = _core("Binding", "bindings", NAMESPACED, verbs=CREATE_ONLY)

_apiregistration = partial(Kind, "apiregistration.k8s.io", "v1")
API_SERVICE = _apiregistration(
    "APIService", "apiservices", CLUSTER, categories=_EXTENSION, subresources=_STATUS
)

_apps = partial(Kind, "apps", "v1")
DEPLOYMENT = _apps(
    "Deployment", "deployments", NAMESPACED, ("deploy",), _ALL, _SCALED, keeps_generation=True
)
REPLICA_SET = _apps(
    "ReplicaSet", "replicasets", NAMESPACED, ("rs",), _ALL, _SCALED, keeps_generation=True
)
STATEFUL_SET = _apps(
    "StatefulSet", "statefulsets", NAMESPACED, ("sts",), _ALL, _SCALED, keeps_generation=True
)
DAEMON_SET = _apps(
    "DaemonSet", "daemonsets", NAMESPACED, ("ds",), _ALL, _STATUS, keeps_generation=True
)
CONTROLLER_REVISION = _apps("ControllerRevision", "controllerrevisions", NAMESPACED)

_events = partial(Kind, "events.k8s.io", "v1")
EVENTS_EVENT = _events("Event", "events", NAMESPACED, ("ev",))

_authentication = partial(Kind, "authentication.k8s.io", "v1")
SELF_SUBJECT_REVIEW = _authentication(
    "SelfSubjectReview", "selfsubjectreviews", CLUSTER, verbs=CREATE_ONLY
)
TOKEN_REVIEW = _authentication("TokenReview", "tokenreviews", CLUSTER, verbs=CREATE_ONLY)

_authorization = partial(Kind, "authorization.k8s.io", "v1")
LOCAL_SUBJECT_ACCESS_REVIEW = _authorization(
    "LocalSubjectAccessReview", "localsubjectaccessreviews", NAMESPACED, verbs=CREATE_ONLY
)
SELF_SUBJECT_ACCESS_REVIEW = _authorization(
    "SelfSubjectAccessReview", "selfsubjectaccessreviews", CLUSTER, verbs=CREATE_ONLY
)
SELF_SUBJECT_RULES_REVIEW = _authorization(
    "SelfSubjectRulesReview", "selfsubjectrulesreviews", CLUSTER, verbs=CREATE_ONLY
)
SUBJECT_ACCESS_REVIEW = _authorization(
    "SubjectAccessReview", "subjectaccessreviews", CLUSTER, verbs=CREATE_ONLY
)

_autoscaling = partial(Kind, "autoscaling", "v2")
HORIZONTAL_POD_AUTOSCALER = _autoscaling(
    "HorizontalPodAutoscaler", "horizontalpodautoscalers", NAMESPACED, ("hpa",), _ALL, _STATUS
)

_autoscaling_v1 = partial(Kind, "autoscaling", "v1")
HORIZONTAL_POD_AUTOSCALER_V1 = _autoscaling_v1(
    "HorizontalPodAutoscaler", "horizontalpodautoscalers", NAMESPACED, ("hpa",), _ALL, _STATUS
)

_batch = partial(Kind, "batch", "v1")
JOB = _batch(
    "Job", "jobs", NAMESPACED, categories=_ALL, subresources=_STATUS, keeps_generation=True
)
CRON_JOB = _batch("CronJob", "cronjobs", NAMESPACED, ("cj",), _ALL, _STATUS, keeps_generation=True)

_certificates = partial(Kind, "certificates.k8s.io", "v1")
CERTIFICATE_SIGNING_REQUEST = _certificates(
    "CertificateSigningRequest",
    "certificatesigningrequests",
    CLUSTER,
    ("csr",),
    subresources=("approval", "status"),
)
CLUSTER_TRUST_BUNDLE = _certificates("ClusterTrustBundle", "clustertrustbundles", CLUSTER)
POD_CERTIFICATE_REQUEST = _certificates(
    "PodCertificateRequest", "podcertificaterequests", NAMESPACED, subresources=_STATUS
)

_networking = partial(Kind, "networking.k8s.io", "v1")
INGRESS = _networking(
    "Ingress", "ingresses", NAMESPACED, ("ing",), subresources=_STATUS, keeps_generation=True
)
INGRESS_CLASS = _networking("IngressClass", "ingressclasses", CLUSTER, keeps_generation=True)
NETWORK_POLICY = _networking(
    "NetworkPolicy", "networkpolicies", NAMESPACED, ("netpol",), keeps_generation=True
)
IP_ADDRESS = _networking("IPAddress", "ipaddresses", CLUSTER, ("ip",))
SERVICE_CIDR = _networking("ServiceCIDR", "servicecidrs", CLUSTER, subresources=_STATUS)

_policy = partial(Kind, "policy", "v1")
POD_DISRUPTION_BUDGET = _policy(
    "PodDisruptionBudget",
    "poddisruptionbudgets",
    NAMESPACED,
    ("pdb",),
    subresources=_STATUS,
    keeps_generation=True,
)

_rbac = partial(Kind, "rbac.authorization.k8s.io", "v1")
ROLE = _rbac("Role", "roles", NAMESPACED)
ROLE_BINDING = _rbac("RoleBinding", "rolebindings", NAMESPACED)
CLUSTER_ROLE = _rbac("ClusterRole", "clusterroles", CLUSTER)
CLUSTER_ROLE_BINDING = _rbac("ClusterRoleBinding", "clusterrolebindings", CLUSTER)

_storage = partial(Kind, "storage.k8s.io", "v1")
STORAGE_CLASS = _storage("StorageClass", "storageclasses", CLUSTER, ("sc",))
VOLUME_ATTACHMENT = _storage("VolumeAttachment", "volumeattachments", CLUSTER, subresources=_STATUS)
VOLUME_ATTRIBUTES_CLASS = _storage(
    "VolumeAttributesClass", "volumeattributesclasses", CLUSTER, ("vac",)
)
CSI_DRIVER = _storage("CSIDriver", "csidrivers", CLUSTER)
CSI_NODE = _storage("CSINode", "csinodes", CLUSTER)
CSI_STORAGE_CAPACITY = _storage("CSIStorageCapacity", "csistoragecapacities", NAMESPACED)

_admissionregistration = partial(Kind, "admissionregistration.k8s.io", "v1")
MUTATING_WEBHOOK_CONFIGURATION = _admissionregistration(
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    CLUSTER,
    categories=_EXTENSION,
    keeps_generation=True,
)
VALIDATING_WEBHOOK_CONFIGURATION = _admissionregistration(
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    CLUSTER,
    categories=_EXTENSION,
    keeps_generation=True,
)
VALIDATING_ADMISSION_POLICY = _admissionregistration(
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    CLUSTER,
    categories=_EXTENSION,
    subresources=_STATUS,
    keeps_generation=True,
)
VALIDATING_ADMISSION_POLICY_BINDING = _admissionregistration(
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    CLUSTER,
    categories=_EXTENSION,
    keeps_generation=True,
)

MUTATING_ADMISSION_POLICY = _admissionregistration(
    "MutatingAdmissionPolicy",
    "mutatingadmissionpolicies",
    CLUSTER,
    categories=_EXTENSION,
    keeps_generation=True,
)
MUTATING_ADMISSION_POLICY_BINDING = _admissionregistration(
    "MutatingAdmissionPolicyBinding",
    "mutatingadmissionpolicybindings",
    CLUSTER,
    categories=_EXTENSION,
    keeps_generation=True,
)

_scheduling = partial(Kind, "scheduling.k8s.io", "v1")
PRIORITY_CLASS = _scheduling(
    "PriorityClass", "priorityclasses", CLUSTER, ("pc",), keeps_generation=True
)

_coordination = partial(Kind, "coordination.k8s.io", "v1")
LEASE = _coordination("Lease", "leases", NAMESPACED)

_node = partial(Kind, "node.k8s.io", "v1")
RUNTIME_CLASS = _node("RuntimeClass", "runtimeclasses", CLUSTER)

_apiextensions = partial(Kind, "apiextensions.k8s.io", "v1")
CUSTOM_RESOURCE_DEFINITION = _apiextensions(
    "CustomResourceDefinition",
    "customresourcedefinitions",
    CLUSTER,
    ("crd", "crds"),
    _EXTENSION,
    _STATUS,
    keeps_generation=True,
)

_discovery = partial(Kind, "discovery.k8s.io", "v1")
ENDPOINT_SLICE = _discovery("EndpointSlice", "endpointslices", NAMESPACED, keeps_generation=True)

_flowcontrol = partial(Kind, "flowcontrol.apiserver.k8s.io", "v1")
FLOW_SCHEMA = _flowcontrol(
    "FlowSchema", "flowschemas", CLUSTER, subresources=_STATUS, keeps_generation=True
)
PRIORITY_LEVEL_CONFIGURATION = _flowcontrol(
    "PriorityLevelConfiguration",
    "prioritylevelconfigurations",
    CLUSTER,
    subresources=_STATUS,
    keeps_generation=True,
)

_resource = partial(Kind, "resource.k8s.io", "v1")
DEVICE_CLASS = _resource("DeviceClass", "deviceclasses", CLUSTER, keeps_generation=True)
DEVICE_TAINT_RULE = _resource(
    "DeviceTaintRule", "devicetaintrules", CLUSTER, subresources=_STATUS, keeps_generation=True
)
RESOURCE_CLAIM = _resource("ResourceClaim", "resourceclaims", NAMESPACED, subresources=_STATUS)
RESOURCE_CLAIM_TEMPLATE = _resource("ResourceClaimTemplate", "resourceclaimtemplates", NAMESPACED)
RESOURCE_SLICE = _resource("ResourceSlice", "resourceslices", CLUSTER, keeps_generation=True)

_storagemigration = partial(Kind, "storagemigration.k8s.io", "v1")
STORAGE_VERSION_MIGRATION = _storagemigration(
    "StorageVersionMigration", "storageversionmigrations", CLUSTER, subresources=_STATUS
)

# Objects that are kept; reviews, and the old way to bind a pod, are only ever posted.
REVIEWS = (
    BINDING,
    SELF_SUBJECT_REVIEW,
    TOKEN_REVIEW,
    LOCAL_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_RULES_REVIEW,
    SUBJECT_ACCESS_REVIEW,
)
# Everything above, in the order discovery shows it: groups by priority, as upstream has them.
BUILT_IN = tuple(kind for kind in list(globals().values()) if isinstance(kind, Kind))
STORED = tuple(kind for kind in BUILT_IN if kind not in REVIEWS)

# Served where something measures, made anew for each question, and never kept.
_metrics = partial(Kind, "metrics.k8s.io", "v1beta1", verbs=("get", "list"))
NODE_METRICS = _metrics("NodeMetrics", "nodes", CLUSTER, list_name="NodeMetricsList")
POD_METRICS = _metrics("PodMetrics", "pods", NAMESPACED, list_name="PodMetricsList")
COMPUTED = (NODE_METRICS, POD_METRICS)


class Kinds:
    """The kinds that are served, by resource and by kind, in the order discovery shows them."""

    def __init__(self, kinds: Iterable[Kind] = BUILT_IN) -> None:
        self._by_resource: dict[tuple[str, str, str], Kind] = {}
        self._by_kind: dict[tuple[str, str], Kind] = {}
        for kind in kinds:
            self.add(kind)

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._by_resource.values())

    def __len__(self) -> int:
        return len(self._by_resource)

    def add(self, kind: Kind) -> None:
        """Serve a kind; one of the same resource is replaced in place."""
        former = self._by_resource.get((kind.group, kind.version, kind.plural))
        if former is not None:
            self._by_kind.pop((former.api_version, former.kind), None)
        self._by_resource[kind.group, kind.version, kind.plural] = kind
        self._by_kind[kind.api_version, kind.kind] = kind

    def remove(self, kind: Kind) -> None:
        """Stop serving a kind; none of that resource is no error."""
        self._by_resource.pop((kind.group, kind.version, kind.plural), None)
        self._by_kind.pop((kind.api_version, kind.kind), None)

    def by_resource(self, group: str, version: str, plural: str) -> Kind | None:
        return self._by_resource.get((group, version, plural))

    def by_kind(self, api_version: str, kind: str) -> Kind | None:
        return self._by_kind.get((api_version, kind))

    def groups(self) -> dict[str, list[str]]:
        """Return the versions of each group, the preferred one first; groups by priority."""
        groups: dict[str, list[str]] = {}
        for kind in self:
            versions = groups.setdefault(kind.group, [])
            if kind.version not in versions:
                versions.append(kind.version)
        for versions in groups.values():
            versions.sort(key=version_priority, reverse=True)
        return groups

    def of_group_version(self, group: str, version: str) -> list[Kind]:
        return [kind for kind in self if kind.group == group and kind.version == version]


def version_priority(version: str) -> tuple[int, int, int]:
    """Make a sort key: v2, then v1, v1beta2, v1alpha1, then anything else, as upstream does."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (0, 0, 0)
    major, stage, minor = match.groups()
    return ({None: 3, "beta": 2, "alpha": 1}[stage], int(major), int(minor or 0))


@dataclass(frozen=True, slots=True)
class Subresource:
    """The facts of `<plural>/<name>`: its kind may be another than the object's."""

    name: str
    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]


_READ_WRITE = ("get", "patch", "update")
_CONNECT = ("create", "get")
_PROXY = ("create", "delete", "get", "patch", "update")
_OWN_KIND = {
    "approval": _READ_WRITE,
    "ephemeralcontainers": _READ_WRITE,
    "finalize": ("update",),
    "log": ("get",),
    "resize": _READ_WRITE,
    "status": _READ_WRITE,
}
_OTHER_KIND = {
    "attach": ("", "v1", "PodAttachOptions", _CONNECT),
    "binding": ("", "v1", "Binding", CREATE_ONLY),
    "eviction": ("policy", "v1", "Eviction", CREATE_ONLY),
    "exec": ("", "v1", "PodExecOptions", _CONNECT),
    "portforward": ("", "v1", "PodPortForwardOptions", _CONNECT),
    "scale": ("autoscaling", "v1", "Scale", _READ_WRITE),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", CREATE_ONLY),
}


def subresource(kind: Kind, name: str) -> Subresource | None:
    """Return the facts of one subresource, None where the kind does not have it."""
    if name not in kind.subresources:
        return None
    if name in _OTHER_KIND:
        return Subresource(name, *_OTHER_KIND[name])
    if name == "proxy":
        return Subresource(name, "", "v1", f"{kind.kind}ProxyOptions", _PROXY)
    return Subresource(name, kind.group, kind.version, kind.kind, _OWN_KIND[name])
