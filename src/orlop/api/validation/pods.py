"""The rules for pods and for the pod templates of workloads.

Called by the dispatch and by workloads. A pod's spec is fixed once it exists: what little may still
change is in `validate_update`. As pkg/apis/core/validation.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from ...wellknown import MIRROR
from .. import names
from ..objects import Obj, annotations_of, meta
from . import containers, resources, scheduling
from .errors import (
    Errors,
    bad_value,
    bad_values,
    duplicate,
    forbidden,
    non_negative,
    not_supported,
    one_of,
    required,
)
from .metadata import check_annotations, check_labels
from .volumes import volumes

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_MAX_INT32 = 2**31 - 1
_FIXED = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
    "(allow it to be set to 1 if it was previously negative)"
)


def pod(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    errors = pod_spec("spec", spec) + _images(spec)
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("schedulingGates") and spec.get("nodeName"):
        detail = "cannot be set until all schedulingGates have been cleared"
        errors.append(forbidden("spec.nodeName", detail))
    return errors


def _images(spec: Obj) -> Errors:
    """Check images.

    In templates a blank image is allowed: something may fill it in before there is a pod.
    """
    detail = "must not have leading or trailing whitespace"
    return [
        bad_value(f"spec.{group}[{index}].image", container["image"], detail)
        for group in ("containers", "initContainers")
        for index, container in enumerate(spec.get(group) or ())
        if container.get("image", "") != container.get("image", "").strip()
    ]


def template(field: str, obj: Obj) -> Errors:
    """Check the `template` of a workload: labels, annotations and the spec."""
    metadata = meta(obj)
    errors = check_labels(f"{field}.metadata.labels", metadata.get("labels"))
    errors += check_annotations(f"{field}.metadata.annotations", metadata.get("annotations"))
    spec = obj.get("spec") or {}
    errors += pod_spec(f"{field}.spec", spec)
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(f"{field}.spec.ephemeralContainers", detail))
    return errors


def pod_spec(field: str, spec: Obj) -> Errors:
    errors = volumes(f"{field}.volumes", spec["volumes"]) if spec.get("volumes") else []
    surroundings = _surroundings(spec, is_template=field != "spec")
    errors += containers.containers(
        f"{field}.containers", spec.get("containers") or [], surroundings
    )
    if spec.get("initContainers"):
        errors += containers.init_containers(
            f"{field}.initContainers", spec["initContainers"], surroundings
        )
    errors += one_of(f"{field}.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES)
    errors += one_of(f"{field}.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES)
    errors += scheduling.placement(field, spec)
    errors += _times(field, spec)
    errors += _references(field, spec)
    errors += _host(field, spec)
    errors += resources.requirements(f"{field}.resources", spec.get("resources"))
    if spec.get("securityContext"):
        errors += containers.run_as(f"{field}.securityContext", spec["securityContext"])
    return errors


def _surroundings(spec: Obj, *, is_template: bool) -> containers.Surroundings:
    return containers.Surroundings(
        volumes={volume.get("name", ""): volume for volume in spec.get("volumes") or ()},
        names=set(),
        host_network=bool(spec.get("hostNetwork")),
        is_template=is_template,
        host_ports=set(),
    )


def _times(field: str, spec: Obj) -> Errors:
    grace = spec.get("terminationGracePeriodSeconds")
    errors = non_negative(f"{field}.terminationGracePeriodSeconds", grace)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None:
        problems = names.in_range(deadline, 1, _MAX_INT32)
        errors += bad_values(f"{field}.activeDeadlineSeconds", deadline, problems)
    return errors


_REFERENCES = {
    "serviceAccountName": names.dns1123_subdomain,
    "nodeName": names.dns1123_subdomain,
    "runtimeClassName": names.dns1123_subdomain,
    "priorityClassName": names.dns1123_subdomain,
    "hostname": names.dns1123_label,
    "subdomain": names.dns1123_label,
}


def _references(field: str, spec: Obj) -> Errors:
    errors: Errors = []
    for key, check in _REFERENCES.items():
        value = spec.get(key)
        if value:
            errors += bad_values(f"{field}.{key}", value, check(value))
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        value = gate.get("conditionType", "")
        at = f"{field}.readinessGates[{index}].conditionType"
        errors += bad_values(at, value, names.qualified_name(value))
    errors += _scheduling_gates(f"{field}.schedulingGates", spec.get("schedulingGates") or [])
    return errors


def _scheduling_gates(field: str, gates: list[Obj]) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        errors += bad_values(f"{field}[{index}]", name, names.qualified_name(name))
        if name in seen:
            errors.append(duplicate(f"{field}[{index}]", name))
        seen.add(name)
    return errors


def _host(field: str, spec: Obj) -> Errors:
    errors: Errors = []
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(bad_value(f"{field}.shareProcessNamespace", True, detail))
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        address = alias.get("ip", "")
        if not is_address(address):
            detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            errors.append(bad_value(f"{field}.hostAliases[{index}].ip", address, detail))
        for name in alias.get("hostnames") or ():
            at = f"{field}.hostAliases[{index}].hostnames"
            errors += bad_values(at, name, names.dns1123_subdomain(name))
    return errors + _dns_config(f"{field}.dnsConfig", spec)


def _dns_config(field: str, spec: Obj) -> Errors:
    servers = (spec.get("dnsConfig") or {}).get("nameservers") or []
    if spec.get("dnsPolicy") == "None" and not servers:
        if "dnsConfig" not in spec:
            return [required(field, "must provide `dnsConfig` when `dnsPolicy` is None")]
        detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        return [required(f"{field}.nameservers", detail)]
    options = (spec.get("dnsConfig") or {}).get("options") or []
    unnamed = [
        required(f"{field}.options[{index}]", "must not be empty")
        for index, option in enumerate(options)
        if not option.get("name")
    ]
    return unnamed + [
        bad_value(
            f"{field}.nameservers[{index}]",
            server,
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        )
        for index, server in enumerate(servers)
        if not is_address(server)
    ]


def is_address(text: Any) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def validate_update(new: Obj, old: Obj) -> Errors:
    """Check what may change of a pod: images, deadlines, more tolerations, fewer gates."""
    spec, former = new.get("spec") or {}, old.get("spec") or {}
    errors = _mirror_update(new, old)
    if spec == former:
        return errors
    for group in ("containers", "initContainers"):
        if len(spec.get(group) or ()) != len(former.get(group) or ()):
            detail = "pod updates may not add or remove containers"
            errors.append(forbidden(f"spec.{group}", detail))
        for index, container in enumerate(spec.get(group) or ()):
            if not container.get("image"):
                errors.append(required(f"spec.{group}[{index}].image"))
    errors += _images(spec)
    if errors:
        return errors
    errors += _deadline_update(
        spec.get("activeDeadlineSeconds"), former.get("activeDeadlineSeconds")
    )
    errors += _tolerations_update(spec.get("tolerations") or [], former.get("tolerations") or [])
    errors += _gates_update(spec, former)
    if _without_mutable(spec, former) != _without_mutable(former, former):
        errors.append(forbidden("spec", _FIXED))
    return errors


def _mirror_update(new: Obj, old: Obj) -> Errors:
    """Refuse a change of the mirror annotation: whether a pod is started is said once."""
    said, before = (annotations_of(one).get(MIRROR) for one in (new, old))
    field = f"metadata.annotations[{MIRROR}]"
    words = "may not add, remove or update mirror pod annotation"
    return [] if said == before else [forbidden(field, words)]


def validate_ephemeral_update(new: Obj, old: Obj) -> Errors:
    """Check that ephemeral containers are added, and none is removed or changed."""
    field = "spec.ephemeralContainers"
    spec, former = new["spec"], old["spec"].get("ephemeralContainers") or []
    wanted = spec.get("ephemeralContainers") or []
    by_name = {container.get("name"): container for container in wanted}
    errors: Errors = []
    for container in former:
        kept = by_name.get(container["name"])
        if kept != container:
            what = "removed" if kept is None else "changed"
            words = f'existing ephemeral containers "{container["name"]}" may not be {what}'
            errors.append(forbidden(field, words))
    surroundings = _surroundings(spec, is_template=False)
    for group in ("containers", "initContainers"):
        surroundings.names |= {container["name"] for container in spec.get(group) or ()}
    return errors + containers.ephemeral_containers(field, wanted, surroundings)


def _deadline_update(new: int | None, old: int | None) -> Errors:
    field = "spec.activeDeadlineSeconds"
    if new is not None:
        problems = names.in_range(new, 1, _MAX_INT32)
        if not problems and old is not None and new > old:
            problems = ["must be less than or equal to previous value"]
        return bad_values(field, new, problems)
    if old is not None:
        return [bad_value(field, None, "must not update from a positive integer to nil value")]
    return []


def _tolerations_update(new: list[Obj], old: list[Obj]) -> Errors:
    def without_seconds(items: list[Obj]) -> list[Obj]:
        return [
            {key: value for key, value in item.items() if key != "tolerationSeconds"}
            for item in items
        ]

    kept = without_seconds(new)
    if all(item in kept for item in without_seconds(old)):
        return []
    detail = "existing toleration can not be modified except its tolerationSeconds"
    return [forbidden("spec.tolerations", detail)]


def _gates_update(spec: Obj, former: Obj) -> Errors:
    before = {gate.get("name") for gate in former.get("schedulingGates") or ()}
    added = [
        gate.get("name", "")
        for gate in spec.get("schedulingGates") or ()
        if gate.get("name") not in before
    ]
    detail = "only deletion is allowed, but found new scheduling gate '{}'"
    return [forbidden("spec.schedulingGates", detail.format(name)) for name in added]


def _without_mutable(spec: Obj, former: Obj) -> Obj:
    fixed = dict(spec)
    for key in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        fixed.pop(key, None)
    if former.get("terminationGracePeriodSeconds", 0) < 0:
        fixed.pop("terminationGracePeriodSeconds", None)
    if former.get("schedulingGates"):  # where it will run is still open
        fixed.pop("nodeSelector", None)
        fixed.pop("affinity", None)
    for group in ("containers", "initContainers"):
        if group in fixed:
            fixed[group] = [{**container, "image": ""} for container in fixed[group]]
    return fixed


def restart_policy(field: str, spec: Obj, supported: tuple[str, ...]) -> Errors:
    """Check the restart policy: workloads allow their pods just some of them."""
    policy = spec.get("restartPolicy", "")
    return [] if policy in supported else [not_supported(field, policy, supported)]
