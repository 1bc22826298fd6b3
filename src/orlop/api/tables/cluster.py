"""The tables of the smaller groups: rbac, policy, networking, scheduling and others.

Called by the dispatch. As pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from ..objects import Obj, condition_of, controller_of, meta
from ..quantity import ZERO, parse
from .cells import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Cells,
    Printer,
    age,
    boolean,
    column,
    joined,
    name_of,
    selector_text,
    shortened,
    wide,
)


def _lease(obj: Obj, now: float) -> Cells:
    return [name_of(obj), (obj.get("spec") or {}).get("holderIdentity", ""), age(obj, now)]


def _role(obj: Obj, now: float) -> Cells:
    return [name_of(obj), meta(obj).get("creationTimestamp", "")]


def _binding(obj: Obj, now: float) -> Cells:
    reference = obj.get("roleRef") or {}
    subjects = obj.get("subjects") or ()

    def named(kind: str) -> str:
        return ", ".join(one.get("name", "") for one in subjects if one.get("kind") == kind)

    accounts = ", ".join(
        f"{one.get('namespace', '')}/{one.get('name', '')}"
        for one in subjects
        if one.get("kind") == "ServiceAccount"
    )
    return [
        name_of(obj),
        f"{reference.get('kind', '')}/{reference.get('name', '')}",
        age(obj, now),
        named("User"),
        named("Group"),
        accounts,
    ]


def _priority_class(obj: Obj, now: float) -> Cells:
    return [
        name_of(obj),
        obj.get("value", 0),
        bool(obj.get("globalDefault")),
        age(obj, now),
        obj.get("preemptionPolicy", ""),
    ]


def _budget(obj: Obj, now: float) -> Cells:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return [
        name_of(obj),
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        status.get("disruptionsAllowed", 0),
        age(obj, now),
    ]


def _autoscaler(obj: Obj, now: float) -> Cells:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    target = spec.get("scaleTargetRef") or {}
    return [
        name_of(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _targets(obj),
        str(spec.get("minReplicas", "<unset>")),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        age(obj, now),
    ]


def _targets(obj: Obj) -> str:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if obj.get("apiVersion") == "autoscaling/v1":
        wanted = spec.get("targetCPUUtilizationPercentage")
        if wanted is None:
            return NONE
        found = status.get("currentCPUUtilizationPercentage")
        return f"cpu: {UNKNOWN if found is None else f'{found}%'}/{wanted}%"
    current = status.get("currentMetrics") or ()
    texts = [
        _metric(metric, current[index] if index < len(current) else {})
        for index, metric in enumerate(spec.get("metrics") or ())
    ]
    return shortened(texts, 2).replace(",", ", ") or NONE


def _metric(metric: Obj, current: Obj) -> str:
    """Write `cpu: 12%/80%`, or the plain value of whatever else is measured."""
    source = metric.get("type", "")
    key = source[:1].lower() + source[1:]
    wanted = (metric.get(key) or {}).get("target") or {}
    found = (current.get(key) or {}).get("current") or {}
    name = (metric.get(key) or {}).get("name")
    prefix = f"{name}: " if name else ""
    if "averageUtilization" in wanted:
        used = found.get("averageUtilization")
        return f"{prefix}{UNKNOWN if used is None else f'{used}%'}/{wanted['averageUtilization']}%"
    for field in ("averageValue", "value"):
        if field in wanted:
            suffix = " (avg)" if field == "averageValue" and not name else ""
            return f"{prefix}{found.get(field, UNKNOWN)}/{wanted[field]}{suffix}"
    return "<unknown>"


def _ingress(obj: Obj, now: float) -> Cells:
    spec = obj.get("spec") or {}
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    balancer = (obj.get("status") or {}).get("loadBalancer") or {}
    addresses = [one.get("ip") or one.get("hostname", "") for one in balancer.get("ingress") or ()]
    return [
        name_of(obj),
        spec.get("ingressClassName") or NONE,
        shortened(hosts) or "*",
        ",".join(addresses),
        "80, 443" if spec.get("tls") else "80",
        age(obj, now),
    ]


def _ingress_class(obj: Obj, now: float) -> Cells:
    spec = obj.get("spec") or {}
    found = spec.get("parameters") or {}
    kind = found.get("kind", "")
    if found.get("apiGroup"):
        kind = f"{kind}.{found['apiGroup']}"
    parameters = f"{kind}/{found.get('name', '')}" if found else NONE
    return [name_of(obj), spec.get("controller", ""), parameters, age(obj, now)]


def _network_policy(obj: Obj, now: float) -> Cells:
    selector = (obj.get("spec") or {}).get("podSelector") or {}
    return [name_of(obj), selector_text(selector), age(obj, now)]


def _runtime_class(obj: Obj, now: float) -> Cells:
    return [name_of(obj), obj.get("handler", ""), age(obj, now)]


def _webhooks(obj: Obj, now: float) -> Cells:
    return [name_of(obj), len(obj.get("webhooks") or ()), age(obj, now)]


def _controller_revision(obj: Obj, now: float) -> Cells:
    owner = controller_of(obj)
    controller = NONE
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        kind = owner.get("kind", "").lower()
        controller = f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner['name']}"
    return [name_of(obj), controller, obj.get("revision", 0), age(obj, now)]


def _signing_request(obj: Obj, now: float) -> Cells:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    words = [
        word for word in ("Approved", "Denied", "Failed") if condition_of(obj, word) is not None
    ] or ["Pending"]
    if status.get("certificate"):
        words.append("Issued")
    seconds = spec.get("expirationSeconds")
    return [
        name_of(obj),
        age(obj, now),
        spec.get("signerName") or NONE,
        spec.get("username", ""),
        f"{seconds}s" if seconds else NONE,
        ",".join(words),
    ]


def _api_service(obj: Obj, now: float) -> Cells:
    service = (obj.get("spec") or {}).get("service")
    available = condition_of(obj, "Available") or {}
    text = available.get("status", UNKNOWN)
    if text != "True" and available.get("reason"):
        text = f"{text} ({available['reason']})"
    where = f"{service.get('namespace')}/{service.get('name')}" if service else "Local"
    return [name_of(obj), where, text, age(obj, now)]


def _csi_node(obj: Obj, now: float) -> Cells:
    return [name_of(obj), len((obj.get("spec") or {}).get("drivers") or ()), age(obj, now)]


def _csi_driver(obj: Obj, now: float) -> Cells:
    spec = obj.get("spec") or {}
    return [
        name_of(obj),
        bool(spec.get("attachRequired", True)),
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        joined(spec.get("volumeLifecycleModes") or ()),
        age(obj, now),
    ]


def _volume_attachment(obj: Obj, now: float) -> Cells:
    spec = obj.get("spec") or {}
    return [
        name_of(obj),
        spec.get("attacher", ""),
        (spec.get("source") or {}).get("persistentVolumeName", ""),
        spec.get("nodeName", ""),
        boolean((obj.get("status") or {}).get("attached")).lower(),
        age(obj, now),
    ]


def _node_metrics(obj: Obj, now: float) -> Cells:
    usage = obj.get("usage") or {}
    return [name_of(obj), usage.get("cpu", ""), usage.get("memory", ""), obj.get("window", "")]


def _pod_metrics(obj: Obj, now: float) -> Cells:
    usages = [one.get("usage") or {} for one in obj.get("containers") or ()]
    summed = [str(sum((parse(one.get(name, 0)) for one in usages), ZERO)) for name in _MEASURED]
    return [name_of(obj), *summed, obj.get("window", "")]


_MEASURED = ("cpu", "memory")
_USAGE = (NAME, column("cpu"), column("memory"), column("Window"))
NODE_METRICS = Printer(_USAGE, _node_metrics)
POD_METRICS = Printer(_USAGE, _pod_metrics)
LEASE = Printer((NAME, column("Holder", about="Who holds the lease."), AGE), _lease)
ROLE = Printer((NAME, column("Created At")), _role)
BINDING = Printer(
    (
        NAME,
        column("Role", about="What is granted."),
        AGE,
        wide("Users"),
        wide("Groups"),
        wide("ServiceAccounts"),
    ),
    _binding,
)
PRIORITY_CLASS = Printer(
    (
        NAME,
        column("Value", "integer"),
        column("Global-Default", "boolean"),
        AGE,
        column("PreemptionPolicy"),
    ),
    _priority_class,
)
POD_DISRUPTION_BUDGET = Printer(
    (
        NAME,
        column("Min Available"),
        column("Max Unavailable"),
        column("Allowed Disruptions", "integer"),
        AGE,
    ),
    _budget,
)
HORIZONTAL_POD_AUTOSCALER = Printer(
    (
        NAME,
        column("Reference"),
        column("Targets"),
        column("MinPods"),
        column("MaxPods"),
        column("Replicas"),
        AGE,
    ),
    _autoscaler,
)
INGRESS = Printer(
    (NAME, column("Class"), column("Hosts"), column("Address"), column("Ports"), AGE), _ingress
)
INGRESS_CLASS = Printer((NAME, column("Controller"), column("Parameters"), AGE), _ingress_class)
NETWORK_POLICY = Printer((NAME, column("Pod-Selector"), AGE), _network_policy)
RUNTIME_CLASS = Printer((NAME, column("Handler"), AGE), _runtime_class)
WEBHOOKS = Printer((NAME, column("Webhooks", "integer"), AGE), _webhooks)
CONTROLLER_REVISION = Printer(
    (NAME, column("Controller"), column("Revision"), AGE), _controller_revision
)
SIGNING_REQUEST = Printer(
    (
        NAME,
        AGE,
        column("SignerName"),
        column("Requestor"),
        column("RequestedDuration"),
        column("Condition"),
    ),
    _signing_request,
)
DEFINITION = Printer(
    (NAME, column("Created At", "date", about="When the definition was created, in UTC.")),
    lambda obj, now: [name_of(obj), meta(obj).get("creationTimestamp")],
)
API_SERVICE = Printer((NAME, column("Service"), column("Available"), AGE), _api_service)
CSI_NODE = Printer((NAME, column("Drivers", "integer"), AGE), _csi_node)
CSI_DRIVER = Printer(
    (
        NAME,
        column("AttachRequired", "boolean"),
        column("PodInfoOnMount", "boolean"),
        column("StorageCapacity", "boolean"),
        column("Modes"),
        AGE,
    ),
    _csi_driver,
)
VOLUME_ATTACHMENT = Printer(
    (NAME, column("Attacher"), column("PV"), column("Node"), column("Attached"), AGE),
    _volume_attachment,
)
