"""Sets what is the server's on an object when it is created or updated, kind by kind.

Called by create, update and the status subresource, after defaulting and before validation. It
protects what clients may not write (uid, timestamps, generation, the half of the object that
another endpoint owns) and derives what they need not; as the strategies in upstream's pkg/registry.
Time and uid are passed in.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from . import times
from .asked import asked
from .kinds import Kind
from .objects import Obj, meta
from .podsecurity import PREFIX as LEVEL_PREFIX
from .qos import qos_class

# Kept from the stored object whatever an update says.
_SYSTEM_FIELDS = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)
DECISIONS = ("Approved", "Denied")  # conditions of a CertificateSigningRequest
_NOT_SPEC = ("apiVersion", "kind", "metadata", "status")

# An update of these must name the resourceVersion it is based on.
_CONDITIONAL = frozenset(
    {
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("coordination.k8s.io", "leases"),
        ("policy", "poddisruptionbudgets"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
        ("storage.k8s.io", "csidrivers"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "csistoragecapacities"),
        ("storage.k8s.io", "volumeattachments"),
        ("node.k8s.io", "runtimeclasses"),
    }
)
# A write of the status of these changes no label, annotation or finalizer either.
# As metav1.ResetObjectMetaForStatus in their strategies.
_STATUS_ALONE = frozenset(
    {
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("apiregistration.k8s.io", "apiservices"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("flowcontrol.apiserver.k8s.io", "flowschemas"),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
        ("networking.k8s.io", "servicecidrs"),
        ("resource.k8s.io", "resourceclaims"),
        ("resource.k8s.io", "devicetaintrules"),
        ("storagemigration.k8s.io", "storageversionmigrations"),
    }
)
# A PUT of one of these that does not exist creates it.
_CREATED_BY_UPDATE = frozenset(
    {
        ("coordination.k8s.io", "leases"),
        ("", "endpoints"),
        ("", "events"),
        ("events.k8s.io", "events"),
        ("", "limitranges"),
        ("rbac.authorization.k8s.io", "roles"),
        ("rbac.authorization.k8s.io", "rolebindings"),
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("rbac.authorization.k8s.io", "clusterrolebindings"),
    }
)


def allows_unconditional_update(kind: Kind) -> bool:
    return kind.custom is None and (kind.group, kind.plural) not in _CONDITIONAL


def allows_create_on_update(kind: Kind) -> bool:
    return (kind.group, kind.plural) in _CREATED_BY_UPDATE


def prepare_for_create(kind: Kind, obj: Obj, *, now: float, uid: str) -> None:
    """Make `obj`, which has its final name, ready to be stored for the first time."""
    metadata = obj.setdefault("metadata", {})
    for key in (*_SYSTEM_FIELDS, "resourceVersion"):
        metadata.pop(key, None)
    metadata["uid"] = uid
    metadata["creationTimestamp"] = times.rfc3339(now)
    if kind.keeps_generation:
        metadata["generation"] = 1
    if kind.has_status and (kind.group, kind.kind) not in _STATUS_AT_BIRTH:
        obj.pop("status", None)
    creator = _CREATORS.get((kind.group, kind.kind))
    if creator is not None:
        creator(obj)


def prepare_for_update(kind: Kind, new: Obj, old: Obj) -> None:
    """Make `new` ready to replace `old`: the caller's fields, the server's metadata and status."""
    _keep_system_fields(new, old)
    if kind.has_status:
        _take(new, old, "status")
    updater = _UPDATERS.get((kind.group, kind.kind))
    if updater is not None:
        updater(new, old)
    if kind.keeps_generation and _has_new_generation(kind, new, old):
        metadata = new["metadata"]
        metadata["generation"] = int(metadata.get("generation", 0)) + 1


def prepare_for_status_update(kind: Kind, new: Obj, old: Obj) -> None:
    """Make `new` a copy of `old` but for its status, and for labels and annotations."""
    _keep_system_fields(new, old)
    for key in {*new, *old} - set(_NOT_SPEC):
        _take(new, old, key)
    if kind.custom is not None or (kind.group, kind.plural) in _STATUS_ALONE:
        fields = new["metadata"].get("managedFields")
        new["metadata"] = {**meta(old), **({"managedFields": fields} if fields else {})}
        return
    _take(new["metadata"], meta(old), "ownerReferences")
    if kind.kind == "Pod":
        status = new.setdefault("status", {})
        if "qosClass" in (old.get("status") or {}):
            status.setdefault("qosClass", old["status"]["qosClass"])
        _keep_asked(new["metadata"], meta(old))
    elif kind.kind == "Deployment":
        _take(new["metadata"], meta(old), "labels")
    elif kind.kind == "CertificateSigningRequest":
        _keep_decisions(new, old)
    elif kind.kind == "Namespace":
        _keep_asked(new["metadata"], meta(old))
        _keep_levels(new["metadata"], meta(old))


def _keep_asked(metadata: Obj, former: Obj) -> None:
    """Keep what a pod asks of Orlop: like its spec, it cannot be changed by way of its status."""
    given, before = metadata.get("annotations") or {}, former.get("annotations") or {}
    if asked(given) != asked(before):
        others = {name: text for name, text in given.items() if name not in asked(given)}
        metadata["annotations"] = others | asked(before)


def _keep_levels(metadata: Obj, former: Obj) -> None:
    """Keep how pods are confined in a namespace: that is no part of its status."""
    given, before = metadata.get("labels") or {}, former.get("labels") or {}
    mine = {name: text for name, text in before.items() if name.startswith(LEVEL_PREFIX)}
    others = {name: text for name, text in given.items() if not name.startswith(LEVEL_PREFIX)}
    if others | mine != given:
        metadata["labels"] = others | mine


def _keep_decisions(new: Obj, old: Obj) -> None:
    """Keep whether a certificate is signed: `approval` says that, whoever may write the rest."""
    status, former = new.get("status") or {}, old.get("status") or {}
    decided = [one for one in former.get("conditions") or () if one.get("type") in DECISIONS]
    others = [one for one in status.get("conditions") or () if not _is_decision(one)]
    if decided or others or "conditions" in former:
        new["status"] = {**status, "conditions": [*decided, *others]}
    else:
        status.pop("conditions", None)


def _is_decision(condition: Any) -> bool:
    return isinstance(condition, dict) and condition.get("type") in DECISIONS


def _keep_system_fields(new: Obj, old: Obj) -> None:
    metadata, former = new.setdefault("metadata", {}), meta(old)
    for key in _SYSTEM_FIELDS:
        _take(metadata, former, key)


def _take(new: Obj, old: Obj, key: str) -> None:
    if key in old:
        new[key] = old[key]
    else:
        new.pop(key, None)


def _has_new_generation(kind: Kind, new: Obj, old: Obj) -> bool:
    keys = {*new, *old} - set(_NOT_SPEC)
    if kind.custom is not None and not kind.has_status:
        keys.add("status")  # without a subresource it is a field like any other
    if any(new.get(key) != old.get(key) for key in keys):
        return True
    # A rollout can be asked for by annotation alone.
    is_annotated = kind.kind == "Deployment" and kind.custom is None
    return is_annotated and meta(new).get("annotations") != meta(old).get("annotations")


def _create_pod(obj: Obj) -> None:
    spec = obj["spec"]
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1  # as kubelets have always read it
    obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj)}
    if spec.get("schedulingGates"):
        obj["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]


def _create_namespace(obj: Obj) -> None:
    obj["status"] = {"phase": "Active"}
    finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")


def _create_pending(obj: Obj) -> None:
    obj["status"] = {"phase": "Pending"}


def _create_load_balanced(obj: Obj) -> None:
    obj["status"] = {"loadBalancer": {}}


def _create_definition(obj: Obj) -> None:
    obj["status"] = {"storedVersions": [_storage_version(obj)], "conditions": []}


def _update_definition(new: Obj, old: Obj) -> None:
    """Keep all stored versions: objects may be in every version that was the storage version."""
    status = new["status"] = dict(old.get("status") or {})
    stored = list(status.get("storedVersions") or ())
    if _storage_version(new) not in stored:
        stored.append(_storage_version(new))
    status["storedVersions"] = stored


def _storage_version(definition: Obj) -> str:
    versions = (definition.get("spec") or {}).get("versions") or ()
    return next((str(one.get("name")) for one in versions if one.get("storage")), "")


def _create_job(obj: Obj) -> None:
    """Add the labels by which a job finds its pods; its uid in them makes them unique."""
    spec, metadata = obj["spec"], obj["metadata"]
    if spec.get("manualSelector"):
        return
    labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    for prefix in ("", "batch.kubernetes.io/"):
        labels.setdefault(f"{prefix}controller-uid", metadata["uid"])
        labels.setdefault(f"{prefix}job-name", metadata.get("name", ""))
    selector = spec.setdefault("selector", {}).setdefault("matchLabels", {})
    selector.setdefault("batch.kubernetes.io/controller-uid", metadata["uid"])


def merge_string_data(obj: Obj) -> None:
    """Join the values of a secret's `stringData`, which is for writing, to `data`."""
    texts = obj.pop("stringData", None)
    if texts:
        data = obj.setdefault("data", {})
        for key, text in texts.items():
            data[key] = base64.b64encode(text.encode()).decode()


def _update_secret(new: Obj, old: Obj) -> None:
    merge_string_data(new)


def _update_namespace(new: Obj, old: Obj) -> None:
    spec = new.setdefault("spec", {})
    _take(spec, old.get("spec") or {}, "finalizers")


def _update_signing_request(new: Obj, old: Obj) -> None:
    _take(new, old, "spec")


def _update_service(new: Obj, old: Obj) -> None:
    """Keep addresses and ports that were given out, where the update does not mention them."""
    spec, former = new.get("spec") or {}, old.get("spec") or {}
    if "ExternalName" in (spec.get("type"), former.get("type")):
        return
    if not spec.get("clusterIP"):
        for key in ("clusterIP", "clusterIPs"):
            _take(spec, former, key)
    for key in ("ipFamilies", "ipFamilyPolicy"):
        if key not in spec:
            _take(spec, former, key)
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        _keep_node_ports(spec, former)


def _keep_node_ports(spec: Obj, former: Obj) -> None:
    taken = {port.get("nodePort") for port in spec.get("ports") or ()}
    by_port = {_port_key(port): port.get("nodePort") for port in former.get("ports") or ()}
    for port in spec.get("ports") or ():
        number = by_port.get(_port_key(port))
        if number and not port.get("nodePort") and number not in taken:
            port["nodePort"] = number
    if spec.get("externalTrafficPolicy") == "Local" and not spec.get("healthCheckNodePort"):
        _take(spec, former, "healthCheckNodePort")


def _port_key(port: Obj) -> tuple[str, int]:
    return port.get("protocol", "TCP"), port.get("port", 0)


# Kubelets register their nodes with a status; everything else starts without.
_STATUS_AT_BIRTH = frozenset({("", "Node")})
_CREATORS: dict[tuple[str, str], Callable[[Obj], None]] = {
    ("", "Pod"): _create_pod,
    ("", "Namespace"): _create_namespace,
    ("", "PersistentVolume"): _create_pending,
    ("", "PersistentVolumeClaim"): _create_pending,
    ("", "Service"): _create_load_balanced,
    ("", "Secret"): merge_string_data,
    ("networking.k8s.io", "Ingress"): _create_load_balanced,
    ("batch", "Job"): _create_job,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _create_definition,
}
_UPDATERS: dict[tuple[str, str], Callable[[Obj, Obj], None]] = {
    ("", "Secret"): _update_secret,
    ("", "Namespace"): _update_namespace,
    ("", "Service"): _update_service,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _update_definition,
    ("certificates.k8s.io", "CertificateSigningRequest"): _update_signing_request,
}
