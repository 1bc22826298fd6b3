"""The tables that kubectl prints of nodes, namespaces, services, events, configuration and volumes.

Called by the dispatch. As pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from ..objects import Obj, annotations_of, condition_of, is_deleting, labels_of, meta
from .cells import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Cells,
    Printer,
    age,
    column,
    joined,
    label_text,
    name_of,
    shortened,
    since,
    wide,
)

_ROLE = "node-role.kubernetes.io/"
_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def _namespace(obj: Obj, now: float) -> Cells:
    return [name_of(obj), (obj.get("status") or {}).get("phase", ""), age(obj, now)]


def _node(obj: Obj, now: float) -> Cells:
    info = (obj.get("status") or {}).get("nodeInfo") or {}
    return [
        name_of(obj),
        _node_status(obj),
        _roles(obj),
        age(obj, now),
        info.get("kubeletVersion", ""),
        _address(obj, "InternalIP"),
        _address(obj, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _node_status(obj: Obj) -> str:
    ready = condition_of(obj, "Ready")
    words = ["Unknown"]
    if ready is not None:
        words = ["Ready" if ready.get("status") == "True" else "NotReady"]
    if (obj.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(obj: Obj) -> str:
    roles = set()
    for key, value in labels_of(obj).items():
        if key.startswith(_ROLE) and len(key) > len(_ROLE):
            roles.add(key.removeprefix(_ROLE))
        elif key == "kubernetes.io/role" and value:
            roles.add(value)
    return joined(sorted(roles))


def _address(obj: Obj, kind: str) -> str:
    addresses = (obj.get("status") or {}).get("addresses") or ()
    return next((one.get("address", "") for one in addresses if one.get("type") == kind), NONE)


def _service(obj: Obj, now: float) -> Cells:
    spec = obj.get("spec") or {}
    return [
        name_of(obj),
        spec.get("type", ""),
        (spec.get("clusterIPs") or [spec.get("clusterIP")])[0] or NONE,
        _external_address(obj),
        joined(_port(port) for port in spec.get("ports") or ()),
        age(obj, now),
        label_text(spec.get("selector")),
    ]


def _external_address(obj: Obj) -> str:
    spec = obj.get("spec") or {}
    listed = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case "LoadBalancer":
            balancer = (obj.get("status") or {}).get("loadBalancer") or {}
            ingress = [
                one.get("ip") or one.get("hostname", "") for one in balancer.get("ingress") or ()
            ]
            return ",".join([*ingress, *listed]) or "<pending>"
    return joined(listed)


def _port(port: Obj) -> str:
    number = str(port.get("port", ""))
    if port.get("nodePort"):
        number += f":{port['nodePort']}"
    return f"{number}/{port.get('protocol', 'TCP')}"


def _endpoints(obj: Obj, now: float) -> Cells:
    found = []
    for subset in obj.get("subsets") or ():
        ports = subset.get("ports") or ()
        for address in subset.get("addresses") or ():
            host = address.get("ip", "")
            found += [f"{host}:{port.get('port')}" for port in ports] or [host]
    return [name_of(obj), shortened(found) or NONE, age(obj, now)]


def _endpoint_slice(obj: Obj, now: float) -> Cells:
    ports = [str(port.get("port") or "*") for port in obj.get("ports") or ()]
    addresses = [
        address for one in obj.get("endpoints") or () for address in one.get("addresses") or ()
    ]
    return [
        name_of(obj),
        obj.get("addressType", ""),
        shortened(ports) or UNSET,
        shortened(addresses) or UNSET,
        age(obj, now),
    ]


def _event(obj: Obj, now: float) -> Cells:
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    last = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    series = obj.get("series")
    if series:
        last, count = series.get("lastObservedTime", last), series.get("count", count)
    kind, name = about.get("kind", "").lower(), about.get("name")
    return [
        since(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        about.get("fieldPath", ""),
        _source(obj),
        (obj.get("message") or obj.get("note") or "").strip(),
        since(first, now),
        count,
        name_of(obj),
    ]


def _source(obj: Obj) -> str:
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    component = source.get("component") or obj.get("reportingComponent") or ""
    component = component or obj.get("reportingController", "")
    host = source.get("host") or obj.get("reportingInstance")
    return f"{component}, {host}" if host else component


def _config_map(obj: Obj, now: float) -> Cells:
    count = len(obj.get("data") or ()) + len(obj.get("binaryData") or ())
    return [name_of(obj), count, age(obj, now)]


def _secret(obj: Obj, now: float) -> Cells:
    return [name_of(obj), obj.get("type", ""), len(obj.get("data") or ()), age(obj, now)]


def _service_account(obj: Obj, now: float) -> Cells:
    return [name_of(obj), len(obj.get("secrets") or ()), age(obj, now)]


def _access_modes(modes: list[str] | None) -> str:
    return ",".join(_MODES.get(mode, mode) for mode in modes or ())


def _phase(obj: Obj) -> str:
    return "Terminating" if is_deleting(obj) else str((obj.get("status") or {}).get("phase", ""))


def _persistent_volume(obj: Obj, now: float) -> Cells:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    claim = spec.get("claimRef") or {}
    return [
        name_of(obj),
        (spec.get("capacity") or {}).get("storage", ""),
        _access_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or UNSET,
        status.get("reason", ""),
        age(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def _persistent_volume_claim(obj: Obj, now: float) -> Cells:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    is_bound = bool(spec.get("volumeName"))
    return [
        name_of(obj),
        _phase(obj),
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", "") if is_bound else "",
        _access_modes(status.get("accessModes")) if is_bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or UNSET,
        age(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def _storage_class(obj: Obj, now: float) -> Cells:
    is_default = annotations_of(obj).get(_DEFAULT_CLASS) == "true"
    return [
        f"{name_of(obj)} (default)" if is_default else name_of(obj),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", ""),
        obj.get("volumeBindingMode", ""),
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


def _resource_quota(obj: Obj, now: float) -> Cells:
    hard = (obj.get("status") or {}).get("hard") or {}
    used = (obj.get("status") or {}).get("used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        target = limits if name.startswith("limits.") else requests
        target.append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [name_of(obj), ", ".join(requests), ", ".join(limits), age(obj, now)]


def _limit_range(obj: Obj, now: float) -> Cells:
    return [name_of(obj), meta(obj).get("creationTimestamp", "")]


NAMESPACE = Printer((NAME, column("Status", about="Active, or Terminating."), AGE), _namespace)
NODE = Printer(
    (
        NAME,
        column("Status", about="Whether pods can run here."),
        column("Roles", about="What the node's labels say it is for."),
        AGE,
        column("Version", about="The version of its kubelet."),
        wide("Internal-IP"),
        wide("External-IP"),
        wide("OS-Image"),
        wide("Kernel-Version"),
        wide("Container-Runtime"),
    ),
    _node,
)
SERVICE = Printer(
    (
        NAME,
        column("Type", about="How the service is reached."),
        column("Cluster-IP", about="Its address inside the cluster."),
        column("External-IP", about="Its address outside."),
        column("Port(s)", about="What it listens on."),
        AGE,
        wide("Selector"),
    ),
    _service,
)
ENDPOINTS = Printer((NAME, column("Endpoints", about="The addresses behind it."), AGE), _endpoints)
ENDPOINT_SLICE = Printer(
    (NAME, column("AddressType"), column("Ports"), column("Endpoints"), AGE), _endpoint_slice
)
EVENT = Printer(
    (
        column("Last Seen", about="When it last happened."),
        column("Type", about="Normal, or Warning."),
        column("Reason", about="Why, in a word."),
        column("Object", about="What it is about."),
        wide("Subobject"),
        wide("Source"),
        column("Message", about="What happened."),
        wide("First Seen"),
        wide("Count", "integer"),
        wide("Name"),
    ),
    _event,
)
CONFIG_MAP = Printer((NAME, column("Data", "integer", about="How many keys."), AGE), _config_map)
SECRET = Printer(
    (NAME, column("Type"), column("Data", "integer", about="How many keys."), AGE), _secret
)
SERVICE_ACCOUNT = Printer((NAME, column("Secrets", "integer"), AGE), _service_account)
PERSISTENT_VOLUME = Printer(
    (
        NAME,
        column("Capacity"),
        column("Access Modes"),
        column("Reclaim Policy"),
        column("Status"),
        column("Claim"),
        column("StorageClass"),
        column("VolumeAttributesClass"),
        column("Reason"),
        AGE,
        wide("VolumeMode"),
    ),
    _persistent_volume,
)
PERSISTENT_VOLUME_CLAIM = Printer(
    (
        NAME,
        column("Status"),
        column("Volume"),
        column("Capacity"),
        column("Access Modes"),
        column("StorageClass"),
        column("VolumeAttributesClass"),
        AGE,
        wide("VolumeMode"),
    ),
    _persistent_volume_claim,
)
STORAGE_CLASS = Printer(
    (
        NAME,
        column("Provisioner"),
        column("ReclaimPolicy"),
        column("VolumeBindingMode"),
        column("AllowVolumeExpansion"),
        AGE,
    ),
    _storage_class,
)
RESOURCE_QUOTA = Printer((NAME, column("Request"), column("Limit"), AGE), _resource_quota)
LIMIT_RANGE = Printer((NAME, column("Created At")), _limit_range)
