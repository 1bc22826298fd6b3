"""The rules for containers, init containers among them.

Called by pods. As the container half of pkg/apis/core/validation: names, images, ports, variables,
mounts, probes, hooks and security contexts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import names
from ..objects import Obj
from . import resources
from .errors import (
    Errors,
    bad_value,
    bad_values,
    duplicate,
    forbidden,
    non_negative,
    not_found,
    not_supported,
    one_of,
    required,
)
from .volumes import field_ref, relative_path, resource_field_ref

PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_MAX_RESTART_RULES, _MAX_EXIT_CODES = 20, 255
_MESSAGE_POLICIES = ("FallbackToLogsOnError", "File")
_SCHEMES = ("HTTP", "HTTPS")
_ENV_FIELD_PATHS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_PROBE_SOURCES = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_SOURCES = ("exec", "httpGet", "tcpSocket", "sleep")
# As pkg/apis/core/validation: allowedEphemeralContainerFields.
_EPHEMERAL_FIELDS = (
    "name", "image", "command", "args", "workingDir", "envFrom", "env", "volumeMounts",
    "volumeDevices", "terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy",
    "securityContext", "stdin", "stdinOnce", "tty", "targetContainerName",
)  # fmt: skip
_PROBE_NUMBERS = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)


@dataclass(slots=True)
class Surroundings:
    """The pod around a container, against which the container is checked."""

    volumes: dict[str, Obj]
    names: set[str]
    host_network: bool
    is_template: bool
    host_ports: set[tuple[str, str, int]]
    grace: int | None = None


def containers(field: str, items: list[Obj], pod: Surroundings) -> Errors:
    if not items:
        return [required(field)]
    errors: Errors = []
    for index, container in enumerate(items):
        errors += _running(f"{field}[{index}]", container, pod)
    return errors


def init_containers(field: str, items: list[Obj], pod: Surroundings) -> Errors:
    errors: Errors = []
    for index, container in enumerate(items):
        at = f"{field}[{index}]"
        if container.get("restartPolicy") == "Always":
            errors += _running(at, container, pod)  # a sidecar: as any other
            continue
        errors += _common(at, container, pod)
        errors += [
            forbidden(
                f"{at}.{name}", "may not be set for init containers without restartPolicy=Always"
            )
            for name in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
            if name in container
        ]
    return errors


def ephemeral_containers(field: str, items: list[Obj], pod: Surroundings) -> Errors:
    """Check containers added to a running pod: without what a service would need."""
    detail = "cannot be set for an Ephemeral Container"
    others = frozenset(pod.names)
    errors: Errors = []
    for index, container in enumerate(items):
        at = f"{field}[{index}]"
        errors += _common(at, container, pod)
        errors += [
            forbidden(f"{at}.{name}", detail)
            for name, value in container.items()
            if name not in _EPHEMERAL_FIELDS and value
        ]
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            errors += [
                forbidden(f"{at}.volumeMounts[{number}].{name}", detail)
                for name in ("subPath", "subPathExpr")
                if mount.get(name)
            ]
        target = container.get("targetContainerName")
        if target and target not in others:
            errors.append(not_found(f"{at}.targetContainerName", target))
    return errors


def _running(at: str, container: Obj, pod: Surroundings) -> Errors:
    """Check a container that stays: it may listen, and be probed."""
    errors = _common(at, container, pod) + _host_ports(at, container, pod)
    errors += _lifecycle(f"{at}.lifecycle", container.get("lifecycle"))
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            errors += _probe(f"{at}.{name}", container[name], name)
    return errors


def _common(at: str, container: Obj, pod: Surroundings) -> Errors:
    errors = _name(f"{at}.name", container.get("name", ""), pod)
    if not container.get("image"):
        errors.append(required(f"{at}.image"))
    errors += one_of(f"{at}.imagePullPolicy", container.get("imagePullPolicy"), _PULL_POLICIES)
    policy = container.get("terminationMessagePolicy")
    errors += one_of(f"{at}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    errors += _restarts(at, container)
    if container.get("ports"):
        errors += _ports(f"{at}.ports", container["ports"])
    for index, variable in enumerate(container.get("env") or ()):
        errors += _variable(f"{at}.env[{index}]", variable)
    for index, source in enumerate(container.get("envFrom") or ()):
        errors += _env_from(f"{at}.envFrom", index, source)
    if container.get("volumeMounts"):
        errors += _mounts(f"{at}.volumeMounts", container["volumeMounts"], pod)
    errors += _devices(f"{at}.volumeDevices", container, pod)
    errors += resources.requirements(f"{at}.resources", container.get("resources"))
    if container.get("securityContext"):
        errors += security_context(f"{at}.securityContext", container["securityContext"])
    return errors


def _restarts(at: str, container: Obj) -> Errors:
    """Check a container's own restart policy, and its rules for exit codes."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    errors: Errors = []
    if policy is not None and policy not in _RESTART_POLICIES:
        errors.append(not_supported(f"{at}.restartPolicy", policy, _RESTART_POLICIES))
    if rules and policy is None:
        detail = "must specify restartPolicy when restart rules are used"
        errors.append(required(f"{at}.restartPolicy", detail))
    if len(rules) > _MAX_RESTART_RULES:
        detail = f"must have at most {_MAX_RESTART_RULES} items"
        errors.append(bad_value(f"{at}.restartPolicyRules", len(rules), detail))
    for index, rule in enumerate(rules):
        errors += _restart_rule(f"{at}.restartPolicyRules[{index}]", rule)
    return errors


def _restart_rule(field: str, rule: Obj) -> Errors:
    action, codes = rule.get("action", ""), rule.get("exitCodes")
    errors: Errors = []
    if action != "Restart":
        errors.append(not_supported(f"{field}.action", action, ("Restart",)))
    if codes is None:
        return [*errors, required(f"{field}.exitCodes", "must be specified")]
    operator, values = codes.get("operator", ""), codes.get("values") or ()
    if operator not in ("In", "NotIn"):
        errors.append(not_supported(f"{field}.exitCodes.operator", operator, ("In", "NotIn")))
    if not 0 < len(values) <= _MAX_EXIT_CODES:
        detail = f"must have between 1 and {_MAX_EXIT_CODES} items"
        errors.append(bad_value(f"{field}.exitCodes.values", len(values), detail))
    return errors


def _name(field: str, name: str, pod: Surroundings) -> Errors:
    if not name:
        return [required(field)]
    if name in pod.names:
        return [duplicate(field, name)]
    pod.names.add(name)
    return bad_values(field, name, names.dns1123_label(name))


def _ports(field: str, ports: list[Obj]) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        at = f"{field}[{index}]"
        name = port.get("name", "")
        if name:
            errors += bad_values(f"{at}.name", name, names.port_name(name))
            if name in seen:
                errors.append(duplicate(f"{at}.name", name))
            seen.add(name)
        errors += port_number(f"{at}.containerPort", port.get("containerPort", 0))
        if port.get("hostPort"):
            errors += bad_values(
                f"{at}.hostPort", port["hostPort"], names.in_range(port["hostPort"], 1, 65535)
            )
        errors += one_of(f"{at}.protocol", port.get("protocol"), PROTOCOLS)
    return errors


def port_number(field: str, number: int) -> Errors:
    if not number:
        return [required(field)]
    return bad_values(field, number, names.in_range(number, 1, 65535))


def _host_ports(at: str, container: Obj, pod: Surroundings) -> Errors:
    errors: Errors = []
    for index, port in enumerate(container.get("ports") or ()):
        number = port.get("hostPort", 0)
        field = f"{at}.ports[{index}]"
        # As validateHostNetwork: in a template it is filled in when a pod is made of it.
        is_said = bool(number) or not pod.is_template
        if pod.host_network and is_said and number != port.get("containerPort", 0):
            detail = "must match `hostPort` when `hostNetwork` is true"
            errors.append(bad_value(f"{field}.containerPort", port.get("containerPort", 0), detail))
        if number:
            key = (port.get("protocol", "TCP"), port.get("hostIP", ""), number)
            if key in pod.host_ports:
                shown = f"{key[0]}/{key[1]}/{key[2]}"
                errors.append(duplicate(f"{field}.hostPort", shown))
            pod.host_ports.add(key)
    return errors


def _variable(field: str, variable: Obj) -> Errors:
    name = variable.get("name", "")
    if not name:
        errors: Errors = [required(f"{field}.name")]
    else:
        errors = bad_values(f"{field}.name", name, names.env_name(name))
    source = variable.get("valueFrom")
    if source is not None:
        errors += _value_from(f"{field}.valueFrom", source, has_value=bool(variable.get("value")))
    return errors


def _value_from(field: str, source: Obj, *, has_value: bool) -> Errors:
    errors: Errors = []
    used = [key for key in _ENV_SOURCES if key in source]
    if "fieldRef" in source:
        errors += field_ref(f"{field}.fieldRef", source["fieldRef"], _ENV_FIELD_PATHS)
    if "resourceFieldRef" in source:
        errors += resource_field_ref(f"{field}.resourceFieldRef", source["resourceFieldRef"])
    for key in ("configMapKeyRef", "secretKeyRef"):
        if key in source:
            errors += _key_reference(f"{field}.{key}", source[key])
    if not used:
        detail = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, "
            "`secretKeyRef` or `fileKeyRef`"
        )
        errors.append(bad_value(field, "", detail))
    elif has_value:
        errors.append(bad_value(field, "", "may not be specified when `value` is not empty"))
    elif len(used) > 1:
        detail = "may not have more than one field specified at a time"
        errors.append(bad_value(field, "", detail))
    return errors


def _key_reference(field: str, reference: Obj) -> Errors:
    errors: Errors = []
    if not reference.get("name"):
        errors.append(required(f"{field}.name"))
    key = reference.get("key", "")
    if not key:
        errors.append(required(f"{field}.key"))
    else:
        errors += bad_values(f"{field}.key", key, names.config_key(key))
    return errors


def _env_from(field: str, index: int, source: Obj) -> Errors:
    at = f"{field}[{index}]"
    errors: Errors = []
    prefix = source.get("prefix", "")
    if prefix:
        errors += bad_values(f"{at}.prefix", prefix, names.env_name(prefix))
    used = [key for key in ("configMapRef", "secretRef") if key in source]
    errors += [required(f"{at}.{key}.name") for key in used if not source[key].get("name")]
    # Upstream names the list here, not the element.
    if not used:
        errors.append(bad_value(field, "", "must specify one of: `configMapRef` or `secretRef`"))
    elif len(used) > 1:
        detail = "may not have more than one field specified at a time"
        errors.append(bad_value(field, "", detail))
    return errors


def _mounts(field: str, mounts: list[Obj], pod: Surroundings) -> Errors:
    errors: Errors = []
    paths: set[str] = set()
    for index, mount in enumerate(mounts):
        at = f"{field}[{index}]"
        name, path = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(f"{at}.name"))
        elif name not in pod.volumes:
            errors.append(not_found(f"{at}.name", name))
        if not path:
            errors.append(required(f"{at}.mountPath"))
        elif path in paths:
            errors.append(bad_value(f"{at}.mountPath", path, "must be unique"))
        paths.add(path)
        errors += relative_path(f"{at}.subPath", mount.get("subPath", ""), is_required=False)
        expression = mount.get("subPathExpr", "")
        errors += relative_path(f"{at}.subPathExpr", expression, is_required=False)
        if expression and mount.get("subPath"):
            detail = "subPathExpr and subPath are mutually exclusive"
            errors.append(bad_value(f"{at}.subPathExpr", expression, detail))
    return errors


def _devices(field: str, container: Obj, pod: Surroundings) -> Errors:
    errors: Errors = []
    for index, device in enumerate(container.get("volumeDevices") or ()):
        at = f"{field}[{index}]"
        name, path = device.get("name", ""), device.get("devicePath", "")
        if not name:
            errors.append(required(f"{at}.name"))
        elif name not in pod.volumes:
            errors.append(not_found(f"{at}.name", name))
        if not path:
            errors.append(required(f"{at}.devicePath"))
    return errors


def _probe(field: str, probe: Obj, kind: str) -> Errors:
    errors = _handler(field, probe, _PROBE_SOURCES)
    for name in _PROBE_NUMBERS:
        errors += non_negative(f"{field}.{name}", probe.get(name))
    threshold = probe.get("successThreshold", 1)
    if kind != "readinessProbe" and threshold != 1:
        errors.append(bad_value(f"{field}.successThreshold", threshold, "must be 1"))
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None:
        at = f"{field}.terminationGracePeriodSeconds"
        if kind == "readinessProbe":
            errors.append(bad_value(at, grace, "must not be set for readinessProbes"))
        elif grace <= 0:
            errors.append(bad_value(at, grace, "must be greater than 0"))
    return errors


def _lifecycle(field: str, lifecycle: Obj | None) -> Errors:
    errors: Errors = []
    for name in ("postStart", "preStop"):
        hook = (lifecycle or {}).get(name)
        if hook is not None:
            errors += _handler(f"{field}.{name}", hook, _HOOK_SOURCES)
    return errors


def _handler(field: str, handler: Obj, sources: tuple[str, ...]) -> Errors:
    used = [name for name in sources if name in handler]
    if not used:
        return [required(field, "must specify a handler type")]
    errors: Errors = [
        forbidden(f"{field}.{name}", "may not specify more than 1 handler type")
        for name in used[1:]
    ]
    source = handler[used[0]]
    if "exec" in used and not handler["exec"].get("command"):
        errors.append(required(f"{field}.exec.command"))
    if used[0] == "httpGet":
        errors += _http_get(f"{field}.httpGet", source)
    elif used[0] == "tcpSocket":
        errors += port_or_name(f"{field}.tcpSocket.port", source.get("port"))
    elif used[0] == "grpc":
        errors += port_or_name(f"{field}.grpc.port", source.get("port", 0))
    return errors


def _http_get(field: str, action: Obj) -> Errors:
    errors = port_or_name(f"{field}.port", action.get("port"))
    errors += one_of(f"{field}.scheme", action.get("scheme"), _SCHEMES)
    for header in action.get("httpHeaders") or ():
        name = header.get("name", "")
        errors += bad_values(f"{field}.httpHeaders", name, names.http_header_name(name))
    return errors


def port_or_name(field: str, port: Any) -> Errors:
    if isinstance(port, str):
        return bad_values(field, port, names.port_name(port))
    return bad_values(field, port or 0, names.in_range(port or 0, 1, 65535))


def security_context(field: str, context: Obj) -> Errors:
    errors = run_as(field, context)
    if context.get("privileged") and context.get("allowPrivilegeEscalation") is False:
        detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        errors.append(bad_value(field, context, detail))
    mount = context.get("procMount")
    if mount is not None and mount not in ("Default", "Unmasked"):
        errors.append(not_supported(f"{field}.procMount", mount, ("Default", "Unmasked")))
    return errors


def run_as(field: str, context: Obj) -> Errors:
    """Check users and groups, of a pod or of a container."""
    errors: Errors = []
    for name in ("runAsUser", "runAsGroup", "fsGroup"):
        value = context.get(name)
        if value is not None:
            errors += bad_values(f"{field}.{name}", value, names.in_range(value, 0, 2**32 - 1))
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        at = f"{field}.supplementalGroups[{index}]"
        errors += bad_values(at, group, names.in_range(group, 0, 2**32 - 1))
    profile = context.get("seccompProfile")
    if profile is not None:
        errors += _profile(f"{field}.seccompProfile", profile)
    return errors


def _profile(field: str, profile: Obj) -> Errors:
    kind = profile.get("type", "")
    supported = ("Localhost", "RuntimeDefault", "Unconfined")
    if not kind:
        return [required(f"{field}.type", "type is required when seccompProfile is set")]
    if kind not in supported:
        return [not_supported(f"{field}.type", kind, supported)]
    if kind == "Localhost" and not profile.get("localhostProfile"):
        return [required(f"{field}.localhostProfile", "must be set when seccomp type is Localhost")]
    if kind != "Localhost" and "localhostProfile" in profile:
        value = profile["localhostProfile"]
        detail = "can only be set when seccomp type is Localhost"
        return [bad_value(f"{field}.localhostProfile", value, detail)]
    return []
