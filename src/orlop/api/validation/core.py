"""The rules for the core group's other kinds: configuration, nodes, namespaces, claims, events.

Called by the dispatch. As pkg/apis/core/validation.
"""

from __future__ import annotations

import base64

from .. import names, quantity
from ..objects import Obj, meta
from ..reading import decode_json
from . import resources, scheduling
from .errors import (
    Errors,
    bad_value,
    bad_values,
    duplicate,
    forbidden,
    immutable,
    not_supported,
    one_of,
    required,
    too_long,
)
from .metadata import finalizer_name
from .selectors import label_selector

DATA_LIMIT = 1024 * 1024
_IMMUTABLE_DATA = "field is immutable when `immutable` is set"
_ACCESS_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
_RECLAIM = ("Delete", "Recycle", "Retain")
_VOLUME_MODES = ("Block", "Filesystem")
_NOT_SOURCES = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)


def config_map(obj: Obj) -> Errors:
    errors: Errors = []
    total = 0
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    for key, value in data.items():
        errors += bad_values(f"data[{key}]", key, names.config_key(key))
        if key in binary:
            errors.append(bad_value(f"data[{key}]", key, "duplicate of key present in binaryData"))
        total += len(value.encode())
    for key, value in binary.items():
        errors += bad_values(f"binaryData[{key}]", key, names.config_key(key))
        total += len(value) * 3 // 4
    if total > DATA_LIMIT:
        errors.append(too_long("", DATA_LIMIT))
    return errors


def config_map_update(new: Obj, old: Obj) -> Errors:
    return _immutable_data(new, old, ("data", "binaryData"))


def _immutable_data(new: Obj, old: Obj, keys: tuple[str, ...]) -> Errors:
    if not old.get("immutable"):
        return []
    errors = [] if new.get("immutable") else [forbidden("immutable", _IMMUTABLE_DATA)]
    changed = [key for key in keys if (new.get(key) or {}) != (old.get(key) or {})]
    return errors + [forbidden(key, _IMMUTABLE_DATA) for key in changed]


def secret(obj: Obj) -> Errors:
    data = obj.get("data") or {}
    errors: Errors = []
    for key in data:
        errors += bad_values(f"data[{key}]", key, names.config_key(key))
    if sum(len(value) * 3 // 4 for value in data.values()) > DATA_LIMIT:
        errors.append(too_long("data", DATA_LIMIT))
    return errors + _typed_secret(obj.get("type", ""), data, meta(obj).get("annotations") or {})


def _typed_secret(kind: str, data: Obj, annotations: Obj) -> Errors:
    match kind:
        case "kubernetes.io/service-account-token":
            key = "kubernetes.io/service-account.name"
            return [] if annotations.get(key) else [required(f"metadata.annotations[{key}]")]
        case "kubernetes.io/dockerconfigjson":
            return _json_secret(".dockerconfigjson", data)
        case "kubernetes.io/dockercfg":
            return _json_secret(".dockercfg", data)
        case "kubernetes.io/basic-auth":
            if "username" not in data and "password" not in data:
                return [required(f"data[{key}]") for key in ("username", "password")]
        case "kubernetes.io/ssh-auth":
            if not data.get("ssh-privatekey"):
                return [required("data[ssh-privatekey]")]
        case "kubernetes.io/tls":
            return [required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]
    return []


def _json_secret(key: str, data: Obj) -> Errors:
    if key not in data:
        return [required(f"data[{key}]")]
    try:
        decode_json(base64.b64decode(data[key]))
    except ValueError as error:
        return [bad_value(f"data[{key}]", "<secret contents redacted>", str(error))]
    return []


def secret_update(new: Obj, old: Obj) -> Errors:
    errors = immutable("type", new.get("type"), old.get("type"))
    return errors + _immutable_data(new, old, ("data",))


def namespace(obj: Obj) -> Errors:
    errors: Errors = []
    for finalizer in (obj.get("spec") or {}).get("finalizers") or ():
        errors += finalizer_name("spec.finalizers", finalizer)
    return errors


def node(obj: Obj) -> Errors:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    errors = scheduling.taints("spec.taints", spec.get("taints") or [])
    errors += _addresses(status.get("addresses") or [])
    errors += resources.amounts("status.capacity", status.get("capacity"))
    return errors + resources.amounts("status.allocatable", status.get("allocatable"))


def _addresses(addresses: list[Obj]) -> Errors:
    seen: list[tuple[str, str]] = []
    errors: Errors = []
    for index, address in enumerate(addresses):
        key = (address.get("type", ""), address.get("address", ""))
        if key in seen:
            errors.append(duplicate(f"status.addresses[{index}]", address))
        seen.append(key)
    return errors


def node_update(new: Obj, old: Obj) -> Errors:
    spec, former = new.get("spec") or {}, old.get("spec") or {}
    errors: Errors = []
    if former.get("providerID") and spec.get("providerID") != former["providerID"]:
        detail = 'node updates may not change providerID except from "" to valid'
        errors.append(forbidden("spec.providerID", detail))
    if former.get("podCIDRs") and spec.get("podCIDRs") != former["podCIDRs"]:
        detail = 'node updates may not change podCIDR except from "" to valid'
        errors.append(forbidden("spec.podCIDRs", detail))
    return errors


def event(obj: Obj) -> Errors:
    """Check events of clients of all ages.

    Strict for those that keep time the new way.
    """
    errors = _event_namespace(obj)
    if obj.get("eventTime"):
        controller = obj.get("reportingComponent") or obj.get("reportingController") or ""
        if not controller:
            errors.append(required("reportingController"))
        errors += bad_values("reportingController", controller, names.qualified_name(controller))
        for key in ("reportingInstance", "action", "reason"):
            errors += _short_text(key, obj.get(key, ""))
        if len(obj.get("message") or obj.get("note") or "") > 1024:
            errors.append(bad_value("message", "", "can have at most 1024 characters"))
    return errors


def _event_namespace(obj: Obj) -> Errors:
    namespace = meta(obj).get("namespace", "")
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    field = "involvedObject.namespace" if "involvedObject" in obj else "regarding.namespace"
    if not about.get("namespace"):
        if namespace not in ("default", "kube-system", ""):
            return [bad_value(field, "", "does not match event.namespace")]
    elif about["namespace"] != namespace:
        return [bad_value(field, about["namespace"], "does not match event.namespace")]
    return []


def _short_text(field: str, text: str) -> Errors:
    if not text:
        return [required(field)]
    return [bad_value(field, "", "can have at most 128 characters")] if len(text) > 128 else []


def new_event(obj: Obj) -> Errors:
    """Check an event of events.k8s.io, which says when and of what kind it is."""
    errors = event(obj)
    if not obj.get("eventTime"):
        errors.append(required("eventTime"))
    if obj.get("type") not in ("Normal", "Warning"):
        detail = f"has invalid value: {obj.get('type', '')}"
        errors.append(bad_value("type", "", detail))
    return errors


def persistent_volume(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    errors = _access_modes(spec, "spec.accessModes")
    capacity = spec.get("capacity") or {}
    if not capacity:
        errors.append(required("spec.capacity"))
    elif "storage" not in capacity or len(capacity) > 1:
        errors.append(not_supported("spec.capacity", capacity, ("storage",)))
    else:
        errors += resources.amounts("spec.capacity", capacity)
    policy = spec.get("persistentVolumeReclaimPolicy")
    errors += one_of("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM)
    errors += one_of("spec.volumeMode", spec.get("volumeMode"), _VOLUME_MODES)
    sources = [key for key in spec if key not in _NOT_SOURCES]
    if not sources:
        errors.append(required("spec", "must specify a volume type"))
    detail = "may not specify more than 1 volume type"
    errors += [forbidden(f"spec.{key}", detail) for key in sources[1:]]
    if spec.get("mountOptions") and "hostPath" in sources:
        detail = "may not specify mount options for this volume type"
        errors.append(forbidden("spec.mountOptions", detail))
    affinity = (spec.get("nodeAffinity") or {}).get("required")
    if affinity is not None:
        errors += scheduling.node_selector("spec.nodeAffinity.required", affinity)
    elif "local" in sources:
        errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    return errors


def persistent_volume_update(new: Obj, old: Obj) -> Errors:
    def source(obj: Obj) -> Obj:
        spec = obj.get("spec") or {}
        return {key: value for key, value in spec.items() if key not in _NOT_SOURCES}

    if source(new) != source(old):
        return [
            forbidden(
                "spec.persistentvolumesource",
                "spec.persistentvolumesource is immutable after creation",
            )
        ]
    spec, former = new.get("spec") or {}, old.get("spec") or {}
    return immutable("spec.volumeMode", spec.get("volumeMode"), former.get("volumeMode"))


def _access_modes(spec: Obj, field: str) -> Errors:
    modes = spec.get("accessModes")
    if not modes:
        return [required(field, "at least 1 access mode is required")]
    errors = [
        not_supported(field, mode, _ACCESS_MODES) for mode in modes if mode not in _ACCESS_MODES
    ]
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        errors.append(forbidden(field, "may not use ReadWriteOncePod with other access modes"))
    return errors


def persistent_volume_claim(obj: Obj) -> Errors:
    return claim_spec("spec", obj.get("spec") or {})


def claim_spec(field: str, spec: Obj) -> Errors:
    errors = _access_modes(spec, f"{field}.accessModes")
    errors += label_selector(f"{field}.selector", spec.get("selector"))
    requests = (spec.get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        errors.append(required(f"{field}.resources[storage]"))
    elif quantity.parse(requests["storage"]).nanos <= 0:
        at = f"{field}.resources[storage]"
        errors.append(bad_value(at, requests["storage"], "must be greater than zero"))
    return errors + one_of(f"{field}.volumeMode", spec.get("volumeMode"), _VOLUME_MODES)


def persistent_volume_claim_update(new: Obj, old: Obj) -> Errors:
    """Check what may change of a claim.

    A claim may ask for more; who binds it may also write the volume's name, once.
    """
    spec, former = dict(new.get("spec") or {}), dict(old.get("spec") or {})
    if not former.get("volumeName"):
        spec.pop("volumeName", None)
        former.pop("volumeName", None)
    if "storageClassName" not in former:  # an empty name is a name: it asks for no class at all
        spec.pop("storageClassName", None)
        former.pop("storageClassName", None)
    errors = _no_less_than_there_is(spec, old)
    for key in ("resources", "volumeAttributesClassName"):
        spec.pop(key, None)
        former.pop(key, None)
    if spec == former:
        return errors
    detail = (
        "spec is immutable after creation except resources.requests and "
        "volumeAttributesClassName for bound claims"
    )
    return [*errors, forbidden("spec", detail)]


def _no_less_than_there_is(spec: Obj, old: Obj) -> Errors:
    asked = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    has = ((old.get("status") or {}).get("capacity") or {}).get("storage")
    if asked is None or has is None or quantity.parse(asked) >= quantity.parse(has):
        return []
    return [
        forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
    ]
