"""Which kinds there are: group, version, names, scope, subresources.

A hand-written table of facts, so that naming a kind costs no schema; tests hold it against two
independent sources. `Kinds` is the registry the API server serves from; custom resources join it at
run time, the built-in ones are constants here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

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

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """`deployments.apps`, as messages and RBAC name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources


NAMESPACE = Kind(
    "",
    "v1",
    "Namespace",
    "namespaces",
    False,
    short_names=("ns",),
    subresources=("finalize", "status"),
    verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
)
NODE = Kind("", "v1", "Node", "nodes", False, short_names=("no",), subresources=("proxy", "status"))
POD = Kind(
    "",
    "v1",
    "Pod",
    "pods",
    True,
    short_names=("po",),
    categories=("all",),
    subresources=(
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
SERVICE = Kind(
    "",
    "v1",
    "Service",
    "services",
    True,
    short_names=("svc",),
    categories=("all",),
    subresources=("proxy", "status"),
)
SERVICE_ACCOUNT = Kind(
    "",
    "v1",
    "ServiceAccount",
    "serviceaccounts",
    True,
    short_names=("sa",),
    subresources=("token",),
)
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps", True, short_names=("cm",))
SECRET = Kind("", "v1", "Secret", "secrets", True)
ENDPOINTS = Kind("", "v1", "Endpoints", "endpoints", True, short_names=("ep",))
EVENT = Kind("", "v1", "Event", "events", True, short_names=("ev",))
LIMIT_RANGE = Kind("", "v1", "LimitRange", "limitranges", True, short_names=("limits",))
RESOURCE_QUOTA = Kind(
    "",
    "v1",
    "ResourceQuota",
    "resourcequotas",
    True,
    short_names=("quota",),
    subresources=("status",),
)
PERSISTENT_VOLUME = Kind(
    "",
    "v1",
    "PersistentVolume",
    "persistentvolumes",
    False,
    short_names=("pv",),
    subresources=("status",),
)
PERSISTENT_VOLUME_CLAIM = Kind(
    "",
    "v1",
    "PersistentVolumeClaim",
    "persistentvolumeclaims",
    True,
    short_names=("pvc",),
    subresources=("status",),
)
POD_TEMPLATE = Kind("", "v1", "PodTemplate", "podtemplates", True, keeps_generation=True)
REPLICATION_CONTROLLER = Kind(
    "",
    "v1",
    "ReplicationController",
    "replicationcontrollers",
    True,
    short_names=("rc",),
    categories=("all",),
    subresources=("scale", "status"),
    keeps_generation=True,
)
BINDING = Kind("", "v1", "Binding", "bindings", True, verbs=CREATE_ONLY)
API_SERVICE = Kind(
    "apiregistration.k8s.io",
    "v1",
    "APIService",
    "apiservices",
    False,
    categories=("api-extensions",),
    subresources=("status",),
)
DEPLOYMENT = Kind(
    "apps",
    "v1",
    "Deployment",
    "deployments",
    True,
    short_names=("deploy",),
    categories=("all",),
    subresources=("scale", "status"),
    keeps_generation=True,
)
REPLICA_SET = Kind(
    "apps",
    "v1",
    "ReplicaSet",
    "replicasets",
    True,
    short_names=("rs",),
    categories=("all",),
    subresources=("scale", "status"),
    keeps_generation=True,
)
STATEFUL_SET = Kind(
    "apps",
    "v1",
    "StatefulSet",
    "statefulsets",
    True,
    short_names=("sts",),
    categories=("all",),
    subresources=("scale", "status"),
    keeps_generation=True,
)
DAEMON_SET = Kind(
    "apps",
    "v1",
    "DaemonSet",
    "daemonsets",
    True,
    short_names=("ds",),
    categories=("all",),
    subresources=("status",),
    keeps_generation=True,
)
CONTROLLER_REVISION = Kind("apps", "v1", "ControllerRevision", "controllerrevisions", True)
EVENTS_EVENT = Kind("events.k8s.io", "v1", "Event", "events", True, short_names=("ev",))
SELF_SUBJECT_REVIEW = Kind(
    "authentication.k8s.io",
    "v1",
    "SelfSubjectReview",
    "selfsubjectreviews",
    False,
    verbs=CREATE_ONLY,
)
TOKEN_REVIEW = Kind(
    "authentication.k8s.io", "v1", "TokenReview", "tokenreviews", False, verbs=CREATE_ONLY
)
LOCAL_SUBJECT_ACCESS_REVIEW = Kind(
    "authorization.k8s.io",
    "v1",
    "LocalSubjectAccessReview",
    "localsubjectaccessreviews",
    True,
    verbs=CREATE_ONLY,
)
SELF_SUBJECT_ACCESS_REVIEW = Kind(
    "authorization.k8s.io",
    "v1",
    "SelfSubjectAccessReview",
    "selfsubjectaccessreviews",
    False,
    verbs=CREATE_ONLY,
)
SELF_SUBJECT_RULES_REVIEW = Kind(
    "authorization.k8s.io",
    "v1",
    "SelfSubjectRulesReview",
    "selfsubjectrulesreviews",
    False,
    verbs=CREATE_ONLY,
)
SUBJECT_ACCESS_REVIEW = Kind(
    "authorization.k8s.io",
    "v1",
    "SubjectAccessReview",
    "subjectaccessreviews",
    False,
    verbs=CREATE_ONLY,
)
HORIZONTAL_POD_AUTOSCALER = Kind(
    "autoscaling",
    "v2",
    "HorizontalPodAutoscaler",
    "horizontalpodautoscalers",
    True,
    short_names=("hpa",),
    categories=("all",),
    subresources=("status",),
)
HORIZONTAL_POD_AUTOSCALER_V1 = Kind(
    "autoscaling",
    "v1",
    "HorizontalPodAutoscaler",
    "horizontalpodautoscalers",
    True,
    short_names=("hpa",),
    categories=("all",),
    subresources=("status",),
)
JOB = Kind(
    "batch",
    "v1",
    "Job",
    "jobs",
    True,
    categories=("all",),
    subresources=("status",),
    keeps_generation=True,
)
CRON_JOB = Kind(
    "batch",
    "v1",
    "CronJob",
    "cronjobs",
    True,
    short_names=("cj",),
    categories=("all",),
    subresources=("status",),
    keeps_generation=True,
)
CERTIFICATE_SIGNING_REQUEST = Kind(
    "certificates.k8s.io",
    "v1",
    "CertificateSigningRequest",
    "certificatesigningrequests",
    False,
    short_names=("csr",),
    subresources=("approval", "status"),
)
INGRESS = Kind(
    "networking.k8s.io",
    "v1",
    "Ingress",
    "ingresses",
    True,
    short_names=("ing",),
    subresources=("status",),
    keeps_generation=True,
)
INGRESS_CLASS = Kind(
    "networking.k8s.io", "v1", "IngressClass", "ingressclasses", False, keeps_generation=True
)
NETWORK_POLICY = Kind(
    "networking.k8s.io",
    "v1",
    "NetworkPolicy",
    "networkpolicies",
    True,
    short_names=("netpol",),
    keeps_generation=True,
)
IP_ADDRESS = Kind("networking.k8s.io", "v1", "IPAddress", "ipaddresses", False, short_names=("ip",))
SERVICE_CIDR = Kind(
    "networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs", False, subresources=("status",)
)
POD_DISRUPTION_BUDGET = Kind(
    "policy",
    "v1",
    "PodDisruptionBudget",
    "poddisruptionbudgets",
    True,
    short_names=("pdb",),
    subresources=("status",),
    keeps_generation=True,
)
ROLE = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles", True)
ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", True)
CLUSTER_ROLE = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False)
CLUSTER_ROLE_BINDING = Kind(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", False
)
STORAGE_CLASS = Kind(
    "storage.k8s.io", "v1", "StorageClass", "storageclasses", False, short_names=("sc",)
)
VOLUME_ATTACHMENT = Kind(
    "storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", False, subresources=("status",)
)
VOLUME_ATTRIBUTES_CLASS = Kind(
    "storage.k8s.io",
    "v1",
    "VolumeAttributesClass",
    "volumeattributesclasses",
    False,
    short_names=("vac",),
)
CSI_DRIVER = Kind("storage.k8s.io", "v1", "CSIDriver", "csidrivers", False)
CSI_NODE = Kind("storage.k8s.io", "v1", "CSINode", "csinodes", False)
CSI_STORAGE_CAPACITY = Kind(
    "storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", True
)
MUTATING_WEBHOOK_CONFIGURATION = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    False,
    categories=("api-extensions",),
    keeps_generation=True,
)
VALIDATING_WEBHOOK_CONFIGURATION = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    False,
    categories=("api-extensions",),
    keeps_generation=True,
)
VALIDATING_ADMISSION_POLICY = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    False,
    categories=("api-extensions",),
    subresources=("status",),
    keeps_generation=True,
)
VALIDATING_ADMISSION_POLICY_BINDING = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    False,
    categories=("api-extensions",),
    keeps_generation=True,
)
PRIORITY_CLASS = Kind(
    "scheduling.k8s.io",
    "v1",
    "PriorityClass",
    "priorityclasses",
    False,
    short_names=("pc",),
    keeps_generation=True,
)
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases", True)
RUNTIME_CLASS = Kind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", False)
ENDPOINT_SLICE = Kind(
    "discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", True, keeps_generation=True
)

STORED = (
    NAMESPACE,
    NODE,
    POD,
    SERVICE,
    SERVICE_ACCOUNT,
    CONFIG_MAP,
    SECRET,
    ENDPOINTS,
    EVENT,
    LIMIT_RANGE,
    RESOURCE_QUOTA,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD_TEMPLATE,
    REPLICATION_CONTROLLER,
    API_SERVICE,
    DEPLOYMENT,
    REPLICA_SET,
    STATEFUL_SET,
    DAEMON_SET,
    CONTROLLER_REVISION,
    EVENTS_EVENT,
    HORIZONTAL_POD_AUTOSCALER,
    HORIZONTAL_POD_AUTOSCALER_V1,
    JOB,
    CRON_JOB,
    CERTIFICATE_SIGNING_REQUEST,
    INGRESS,
    INGRESS_CLASS,
    NETWORK_POLICY,
    IP_ADDRESS,
    SERVICE_CIDR,
    POD_DISRUPTION_BUDGET,
    ROLE,
    ROLE_BINDING,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
    VOLUME_ATTRIBUTES_CLASS,
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_WEBHOOK_CONFIGURATION,
    VALIDATING_ADMISSION_POLICY,
    VALIDATING_ADMISSION_POLICY_BINDING,
    PRIORITY_CLASS,
    LEASE,
    RUNTIME_CLASS,
    ENDPOINT_SLICE,
)
REVIEWS = (
    BINDING,
    SELF_SUBJECT_REVIEW,
    TOKEN_REVIEW,
    LOCAL_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_RULES_REVIEW,
    SUBJECT_ACCESS_REVIEW,
)
BUILT_IN = (*STORED, *REVIEWS)


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
        """The versions of each group, the preferred one first; groups in order of priority."""
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
    """Sorts v2 over v1 over v1beta2 over v1alpha1 over anything else, as upstream does."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (0, 0, 0)
    major, stage, minor = match.groups()
    return ({None: 3, "beta": 2, "alpha": 1}[stage], int(major), int(minor or 0))


@dataclass(frozen=True, slots=True)
class Subresource:
    """What `<plural>/<name>` takes or gives: its kind may be another than the object's."""

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
    """The facts of one subresource, None where the kind does not have it."""
    if name not in kind.subresources:
        return None
    if name in _OTHER_KIND:
        return Subresource(name, *_OTHER_KIND[name])
    if name == "proxy":
        return Subresource(name, "", "v1", f"{kind.kind}ProxyOptions", _PROXY)
    return Subresource(name, kind.group, kind.version, kind.kind, _OWN_KIND[name])
