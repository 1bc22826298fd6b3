"""The rules for the smaller groups: rbac, policy, networking, storage, scheduling, coordination.

Called by the dispatch. As pkg/apis/<group>/validation.
"""

from __future__ import annotations

from typing import Any

from .. import names
from ..objects import Obj, meta
from .containers import PROTOCOLS
from .errors import (
    Errors,
    bad_value,
    bad_values,
    forbidden,
    immutable,
    non_negative,
    not_supported,
    one_of,
    positive,
    required,
)
from .selectors import label_selector
from .workloads import int_or_percent

_RBAC = "rbac.authorization.k8s.io"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
HIGHEST_USER_PRIORITY = 1_000_000_000


def role(obj: Obj) -> Errors:
    return _rules(obj, namespaced=True)


def cluster_role(obj: Obj) -> Errors:
    errors = _rules(obj, namespaced=False)
    selectors = (obj.get("aggregationRule") or {}).get("clusterRoleSelectors")
    if "aggregationRule" in obj and not selectors:
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        errors.append(required("aggregationRule.clusterRoleSelectors", detail))
    return errors


def _rules(obj: Obj, *, namespaced: bool) -> Errors:
    errors: Errors = []
    for index, rule in enumerate(obj.get("rules") or ()):
        at = f"rules[{index}]"
        if not rule.get("verbs"):
            errors.append(required(f"{at}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs"):
            errors += _url_rule(at, rule, namespaced=namespaced)
            continue
        if not rule.get("apiGroups"):
            detail = "resource rules must supply at least one api group"
            errors.append(required(f"{at}.apiGroups", detail))
        if not rule.get("resources"):
            detail = "resource rules must supply at least one resource"
            errors.append(required(f"{at}.resources", detail))
    return errors


def _url_rule(at: str, rule: Obj, *, namespaced: bool) -> Errors:
    value = rule["nonResourceURLs"]
    if namespaced:
        detail = "namespaced rules cannot apply to non-resource URLs"
        return [bad_value(f"{at}.nonResourceURLs", value, detail)]
    if any(rule.get(key) for key in ("apiGroups", "resources", "resourceNames")):
        detail = "rules cannot apply to both regular resources and non-resource URLs"
        return [bad_value(f"{at}.nonResourceURLs", value, detail)]
    return []


def role_binding(obj: Obj) -> Errors:
    return _binding(obj, ("Role", "ClusterRole"), namespaced=True)


def cluster_role_binding(obj: Obj) -> Errors:
    return _binding(obj, ("ClusterRole",), namespaced=False)


def _binding(obj: Obj, roles: tuple[str, ...], *, namespaced: bool) -> Errors:
    reference = obj.get("roleRef") or {}
    errors = one_of("roleRef.apiGroup", reference.get("apiGroup"), (_RBAC,))
    errors += one_of("roleRef.kind", reference.get("kind"), roles)
    name = reference.get("name", "")
    if not name:
        errors.append(required("roleRef.name"))
    else:
        errors += bad_values("roleRef.name", name, names.path_segment(name))
    for index, subject in enumerate(obj.get("subjects") or ()):
        errors += _subject(f"subjects[{index}]", subject, namespaced=namespaced)
    return errors


def _subject(at: str, subject: Obj, *, namespaced: bool) -> Errors:
    errors = [] if subject.get("name") else [required(f"{at}.name")]
    kind, group = subject.get("kind", ""), subject.get("apiGroup", "")
    if kind == "ServiceAccount":
        name = subject.get("name", "")
        if name:
            errors += bad_values(f"{at}.name", name, names.dns1123_subdomain(name))
        if group:
            errors.append(not_supported(f"{at}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            errors.append(required(f"{at}.namespace"))
    elif kind in ("User", "Group"):
        errors += one_of(f"{at}.apiGroup", group, (_RBAC,))
    else:
        errors.append(not_supported(f"{at}.kind", kind, ("ServiceAccount", "User", "Group")))
    return errors


def binding_update(new: Obj, old: Obj) -> Errors:
    if new.get("roleRef") == old.get("roleRef"):
        return []
    return [bad_value("roleRef", new.get("roleRef"), "cannot change roleRef")]


def pod_disruption_budget(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    errors: Errors = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        detail = "minAvailable and maxUnavailable cannot be both set"
        errors.append(bad_value("spec", spec, detail))
    for key in ("minAvailable", "maxUnavailable"):
        if key in spec:
            errors += int_or_percent(f"spec.{key}", spec[key])
    return errors + label_selector("spec.selector", spec.get("selector"))


def network_policy(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    errors = label_selector("spec.podSelector", spec.get("podSelector"))
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            at = f"spec.{direction}[{index}]"
            for place, port in enumerate(rule.get("ports") or ()):
                errors += one_of(f"{at}.ports[{place}].protocol", port.get("protocol"), PROTOCOLS)
            for place, peer in enumerate(rule.get(peers) or ()):
                errors += _peer(f"{at}.{peers}[{place}]", peer)
    for index, kind in enumerate(spec.get("policyTypes") or ()):
        errors += one_of(f"spec.policyTypes[{index}]", kind, ("Egress", "Ingress"))
    return errors


def _peer(field: str, peer: Obj) -> Errors:
    if not peer:
        return [required(field, "must specify a peer")]
    if "ipBlock" in peer and len(peer) > 1:
        return [forbidden(field, "may not specify both ipBlock and another peer")]
    errors = label_selector(f"{field}.podSelector", peer.get("podSelector"))
    return errors + label_selector(f"{field}.namespaceSelector", peer.get("namespaceSelector"))


def ingress(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    rules = spec.get("rules") or []
    errors: Errors = []
    if not rules and "defaultBackend" not in spec:
        detail = "either `defaultBackend` or `rules` must be specified"
        errors.append(bad_value("spec", [], detail))
    for index, rule in enumerate(rules):
        at = f"spec.rules[{index}]"
        host = rule.get("host", "")
        if host:
            check = names.wildcard_subdomain if "*" in host else names.dns1123_subdomain
            errors += bad_values(f"{at}.host", host, check(host))
        http = rule.get("http")
        if http is None:
            continue
        if not http.get("paths"):
            errors.append(required(f"{at}.http.paths"))
        for place, path in enumerate(http.get("paths") or ()):
            errors += _ingress_path(f"{at}.http.paths[{place}]", path)
    if "defaultBackend" in spec:
        errors += _backend("spec.defaultBackend", spec["defaultBackend"])
    return errors


def _ingress_path(field: str, path: Obj) -> Errors:
    kind, text = path.get("pathType"), path.get("path", "")
    errors: Errors = []
    if kind is None:
        errors.append(required(f"{field}.pathType", "pathType must be specified"))
    elif kind not in _PATH_TYPES:
        errors.append(not_supported(f"{field}.pathType", kind, _PATH_TYPES))
    elif (kind != "ImplementationSpecific" or text) and not text.startswith("/"):
        errors.append(bad_value(f"{field}.path", text, "must be an absolute path"))
    return errors + _backend(f"{field}.backend", path.get("backend") or {})


def _backend(field: str, backend: Obj) -> Errors:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [bad_value(field, "", "cannot set both resource and service backends")]
    if service is None:
        return [] if resource else [required(field, "resource or service backend is required")]
    errors = [] if service.get("name") else [required(f"{field}.service.name")]
    port = service.get("port") or {}
    if not port.get("name") and not port.get("number"):
        errors.append(required(field, "port name or number is required"))
    return errors


def priority_class(obj: Obj) -> Errors:
    name, value = meta(obj).get("name", ""), obj.get("value", 0)
    errors: Errors = []
    is_system = name in ("system-cluster-critical", "system-node-critical")
    if name.startswith("system-") and not is_system:
        detail = "priority class names with 'system-' prefix are reserved for system use only"
        errors.append(forbidden("metadata.name", detail))
    if value > HIGHEST_USER_PRIORITY and not is_system:
        detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        errors.append(forbidden("value", detail))
    policies = ("Never", "PreemptLowerPriority")
    return errors + one_of("preemptionPolicy", obj.get("preemptionPolicy"), policies)


def priority_class_update(new: Obj, old: Obj) -> Errors:
    errors: Errors = []
    if new.get("value", 0) != old.get("value", 0):
        errors.append(forbidden("value", "may not be changed in an update."))
    policy = "preemptionPolicy"
    return errors + immutable(policy, new.get(policy), old.get(policy))


def storage_class(obj: Obj) -> Errors:
    errors: Errors = []
    if not obj.get("provisioner"):
        errors.append(required("provisioner"))
    errors += one_of("reclaimPolicy", obj.get("reclaimPolicy"), ("Delete", "Retain"))
    modes = ("Immediate", "WaitForFirstConsumer")
    return errors + one_of("volumeBindingMode", obj.get("volumeBindingMode"), modes)


def storage_class_update(new: Obj, old: Obj) -> Errors:
    errors: Errors = []
    for key in ("parameters", "provisioner"):
        if (new.get(key) or None) != (old.get(key) or None):
            errors.append(forbidden(key, f"updates to {key} are forbidden."))
    if new.get("reclaimPolicy") != old.get("reclaimPolicy"):
        errors.append(forbidden("reclaimPolicy", "updates to reclaimPolicy are forbidden."))
    mode = "volumeBindingMode"
    return errors + immutable(mode, new.get(mode), old.get(mode))


def lease(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    errors: Errors = []
    seconds: Any = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        errors.append(bad_value("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    errors += non_negative("spec.leaseTransitions", spec.get("leaseTransitions"))
    if spec.get("holderIdentity") == "":
        errors.append(bad_value("spec.holderIdentity", "", "must not be empty"))
    return errors


def runtime_class(obj: Obj) -> Errors:
    handler = obj.get("handler", "")
    return bad_values("handler", handler, names.dns1123_label(handler))


def runtime_class_update(new: Obj, old: Obj) -> Errors:
    return immutable("handler", new.get("handler"), old.get("handler"))


def controller_revision(obj: Obj) -> Errors:
    errors = [] if "data" in obj else [required("data", "data is mandatory")]
    return errors + non_negative("revision", obj.get("revision"))


def controller_revision_update(new: Obj, old: Obj) -> Errors:
    return immutable("data", new.get("data"), old.get("data"))


def signing_request(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    errors = [required(f"spec.{key}") for key in ("request", "signerName") if not spec.get(key)]
    if not spec.get("usages"):
        errors.append(required("spec.usages"))
    return errors + positive("spec.expirationSeconds", spec.get("expirationSeconds"))


def api_service(obj: Obj) -> Errors:
    """Check an APIService. As kube-aggregator/pkg/apis/apiregistration/validation."""
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name") or ""
    errors: Errors = []
    wanted = f"{spec.get('version') or ''}.{spec.get('group') or ''}"
    if name != wanted:
        why = f'must be `spec.version+"."+spec.group`: {wanted!r}'.replace("'", '"')
        errors.append(bad_value("metadata.name", name, why))
    if not spec.get("version"):
        errors.append(required("spec.version", ""))
    for field, limit in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        value = spec.get(field) or 0
        if not 0 < value <= limit:
            why = f"must be positive and less than {limit}"
            errors.append(bad_value(f"spec.{field}", value, why))
    service = spec.get("service")
    if service is None:
        if spec.get("caBundle"):
            why = "local APIServices may not have a caBundle"
            errors.append(bad_value("spec.caBundle", "...", why))
        if spec.get("insecureSkipTLSVerify"):
            why = "local APIServices may not have insecureSkipTLSVerify"
            errors.append(bad_value("spec.insecureSkipTLSVerify", True, why))
        return errors
    for field in ("namespace", "name"):
        if not service.get(field):
            errors.append(required(f"spec.service.{field}", ""))
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        why = "may not be true if caBundle is present"
        errors.append(bad_value("spec.insecureSkipTLSVerify", True, why))
    return errors
