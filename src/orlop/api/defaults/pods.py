"""Defaults of pods and of the pod templates inside every workload.

Called by the dispatch and by workloads. Some rules hold for pods and not for templates: requests
from limits, service links, host ports. As pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from .. import quantity
from ..objects import Obj
from .core import claim_spec
from .fill import fill, section

DEFAULT_MODE = 0o644
_POD_LEVEL_RESOURCES = ("cpu", "memory", "hugepages-")


def pod(obj: Obj) -> None:
    spec = section(obj, "spec")
    pod_spec(spec)
    for group in ("containers", "initContainers"):
        for container in spec.get(group) or ():
            _requests_from_limits(container)
            if spec.get("hostNetwork"):
                for port in container.get("ports") or ():
                    fill(port, "hostPort", port.get("containerPort", 0))
    if spec.get("resources"):
        _pod_requests(spec)
    spec.setdefault("enableServiceLinks", True)


def pod_template(obj: Obj) -> None:
    """Default a PodTemplate object."""
    template(section(obj, "template"))


def template(obj: Obj) -> None:
    """Default the `template` of a workload."""
    pod_spec(section(obj, "spec"))


def pod_spec(spec: Obj) -> None:
    fill(spec, "restartPolicy", "Always")
    fill(spec, "dnsPolicy", "ClusterFirst")
    fill(spec, "schedulerName", "default-scheduler")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("securityContext", {})
    _service_account(spec)
    for volume in spec.get("volumes") or ():
        _volume(volume)
    for group in ("containers", "initContainers", "ephemeralContainers"):
        for one in spec.get(group) or ():
            _container(one)
    if "overhead" in spec:
        round_up(spec["overhead"])


def _service_account(spec: Obj) -> None:
    """Fill `serviceAccount`, the old name of the field: both names are always written."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def _container(obj: Obj) -> None:
    fill(obj, "imagePullPolicy", pull_policy(obj.get("image", "")))
    fill(obj, "terminationMessagePath", "/dev/termination-log")
    fill(obj, "terminationMessagePolicy", "File")
    resources = obj.setdefault("resources", {})
    for amounts in (resources.get("limits"), resources.get("requests")):
        if amounts:
            round_up(amounts)
    for port in obj.get("ports") or ():
        fill(port, "protocol", "TCP")
    for variable in obj.get("env") or ():
        source = variable.get("valueFrom")
        if source:
            _field_ref(source)
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in obj:
            _probe(obj[name])
    for hook in (obj.get("lifecycle") or {}).values():
        if isinstance(hook, dict) and "httpGet" in hook:
            _http_get(hook["httpGet"])


def pull_policy(image: str) -> str:
    """Return Always for :latest, said or meant; IfNotPresent for any other tag and for digests."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag == "latest" or not (tag or digest) else "IfNotPresent"


def round_up(amounts: Obj) -> None:
    """Round amounts of resources up to a thousandth."""
    for name, amount in amounts.items():
        if isinstance(amount, str) and amount.endswith(("n", "u")):
            amounts[name] = str(quantity.Quantity(quantity.to_millis(amount) * quantity.MICRO))


def _field_ref(source: Obj) -> None:
    if "fieldRef" in source:
        fill(source["fieldRef"], "apiVersion", "v1")


def _probe(probe: Obj) -> None:
    fill(probe, "timeoutSeconds", 1)
    fill(probe, "periodSeconds", 10)
    fill(probe, "successThreshold", 1)
    fill(probe, "failureThreshold", 3)
    if "httpGet" in probe:
        _http_get(probe["httpGet"])
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _http_get(action: Obj) -> None:
    fill(action, "path", "/")
    fill(action, "scheme", "HTTP")


def _requests_from_limits(container: Obj) -> None:
    resources = container.get("resources") or {}
    limits = resources.get("limits")
    if limits:
        requests = section(resources, "requests")
        for name, amount in limits.items():
            requests.setdefault(name, amount)


def _pod_requests(spec: Obj) -> None:
    """Default pod-level requests: what the containers ask for, else the pod-level limits."""
    resources = spec["resources"]
    limits = resources.get("limits")
    if not limits:
        return
    requests = dict(resources.get("requests") or {})
    for name in ("cpu", "memory"):
        total = _container_requests(spec, name)
        if name not in requests and total is not None:
            requests[name] = str(total)
    for name, amount in limits.items():
        if name.startswith(_POD_LEVEL_RESOURCES):
            requests.setdefault(name, amount)
    if requests:
        resources["requests"] = requests


def _container_requests(spec: Obj, name: str) -> quantity.Quantity | None:
    """Return what all containers together ask for, sidecars among them; None where none does."""
    total: quantity.Quantity | None = None
    staying = peak = None
    for container in spec.get("initContainers") or ():
        amount = _request(container, name)
        if amount is not None:
            at_once = amount if staying is None else staying + amount
            peak = at_once if peak is None or at_once > peak else peak
            if container.get("restartPolicy") == "Always":
                staying = at_once
    total = staying
    for container in spec.get("containers") or ():
        amount = _request(container, name)
        if amount is not None:
            total = amount if total is None else total + amount
    return peak if total is None or (peak is not None and peak > total) else total


def _request(container: Obj, name: str) -> quantity.Quantity | None:
    amount = ((container.get("resources") or {}).get("requests") or {}).get(name)
    return None if amount is None else quantity.parse(amount)


def _volume(volume: Obj) -> None:
    if len(volume) <= 1:  # nothing but its name
        volume["emptyDir"] = {}
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        if source in volume:
            volume[source].setdefault("defaultMode", DEFAULT_MODE)
    for name, defaulter in _VOLUMES.items():
        if name in volume:
            defaulter(volume[name])


def _items(source: Obj) -> None:
    for item in source.get("items") or ():
        _field_ref(item)


def _projected(source: Obj) -> None:
    for one in source.get("sources") or ():
        if "downwardAPI" in one:
            _items(one["downwardAPI"])
        if "serviceAccountToken" in one:
            one["serviceAccountToken"].setdefault("expirationSeconds", 3600)


def _host_path(source: Obj) -> None:
    source.setdefault("type", "")


def _ephemeral(source: Obj) -> None:
    if "volumeClaimTemplate" in source:
        claim_spec(section(source["volumeClaimTemplate"], "spec"))


def _image(source: Obj) -> None:
    fill(source, "pullPolicy", pull_policy(source.get("reference", "")))


def _iscsi(source: Obj) -> None:
    fill(source, "iscsiInterface", "default")


def _rbd(source: Obj) -> None:
    fill(source, "pool", "rbd")
    fill(source, "user", "admin")
    fill(source, "keyring", "/etc/ceph/keyring")


_VOLUMES = {
    "downwardAPI": _items,
    "projected": _projected,
    "hostPath": _host_path,
    "ephemeral": _ephemeral,
    "image": _image,
    "iscsi": _iscsi,
    "rbd": _rbd,
}
