"""The variables of a container: its image's, those of the API server, then envFrom, then env.

Called while a plan is made. The order and the rules are upstream's
(pkg/kubelet/kubelet_pods.go: makeEnvironmentVariables): a later one wins, `$(VAR)` sees what was
set before it and never the image's own. Variables of other services are not set yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from ..api.objects import Obj
from .downward import Allocatable, field_value, resource_value
from .expansion import expand
from .refusal import Refusal
from .sources import Sources


def container_variables(
    pod: Obj,
    container: Obj,
    sources: Sources,
    allocatable: Allocatable,
    services: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """What the pod itself sets, over `services`; also what its command may refer to."""
    variables = {**(services or {}), **_from_sources(container, sources)}
    for variable in container.get("env") or []:
        name, text = variable["name"], variable.get("value") or ""
        if text:
            variables[name] = expand(text, variables)
            continue
        value = _value_from(pod, container, variable.get("valueFrom") or {}, sources, allocatable)
        if value is not None:
            variables[name] = value
    return variables


def service_variables(name: str, url: str) -> dict[str, str]:
    """What pods are told of a service. As pkg/kubelet/envvars: its port, and links of old."""
    if not url:
        return {}
    parts = urlsplit(url)
    host, port = parts.hostname or "", str(parts.port or 443)
    prefix = name.upper().replace("-", "_")
    link = f"{prefix}_PORT_{port}_TCP"
    return {
        f"{prefix}_SERVICE_HOST": host,
        f"{prefix}_SERVICE_PORT": port,
        f"{prefix}_SERVICE_PORT_{parts.scheme.upper()}": port,
        f"{prefix}_PORT": f"tcp://{host}:{port}",
        link: f"tcp://{host}:{port}",
        f"{link}_PROTO": "tcp",
        f"{link}_PORT": port,
        f"{link}_ADDR": host,
    }


def with_image(image: Mapping[str, str], variables: Mapping[str, str]) -> list[list[str]]:
    """The final list: the image's variables where the pod does not set them itself."""
    return [[name, value] for name, value in {**image, **variables}.items()]


def _from_sources(container: Obj, sources: Sources) -> dict[str, str]:
    variables: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        prefix = source.get("prefix") or ""
        values = _all_of(source, sources)
        variables.update({prefix + key: values[key] for key in sorted(values)})
    return variables


def _all_of(source: Obj, sources: Sources) -> dict[str, str]:
    if source.get("configMapRef"):
        reference, word = source["configMapRef"], "configmap"
        values = sources.config_map_text(reference["name"])
    else:
        reference, word = source.get("secretRef") or {"name": ""}, "secret"
        values = sources.secret_text(reference["name"])
    if values is None and not reference.get("optional"):
        raise Refusal(f'{word} "{reference["name"]}" not found')
    return values or {}


def _value_from(
    pod: Obj, container: Obj, source: Obj, sources: Sources, allocatable: Allocatable
) -> str | None:
    """The value of a `valueFrom`; None where it is optional and absent."""
    if source.get("fieldRef"):
        return field_value(pod, source["fieldRef"]["fieldPath"])
    if source.get("resourceFieldRef"):
        return resource_value(pod, container, source["resourceFieldRef"], allocatable)
    if source.get("configMapKeyRef"):
        reference = source["configMapKeyRef"]
        values = sources.config_map_text(reference["name"])
        return _key_of(reference, values, "ConfigMap", sources.namespace)
    if source.get("secretKeyRef"):
        reference = source["secretKeyRef"]
        values = sources.secret_text(reference["name"])
        return _key_of(reference, values, "Secret", sources.namespace)
    return ""


def _key_of(
    reference: Obj, values: Mapping[str, str] | None, kind: str, namespace: str
) -> str | None:
    name, key = reference["name"], reference["key"]
    if values is not None and key in values:
        return values[key]
    if reference.get("optional"):
        return None
    if values is None:
        raise Refusal(f'{kind.lower()} "{name}" not found')
    raise Refusal(f"couldn't find key {key} in {kind} {namespace}/{name}")
