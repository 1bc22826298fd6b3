"""Makes the variables of a container: its image's, those of the API server, then envFrom, then env.

Called while a plan is made. The order and the rules are upstream's (pkg/kubelet/kubelet_pods.go:
makeEnvironmentVariables): a later one wins, `$(VAR)` sees what was set before it but not the
image's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from ...api.objects import Obj, meta
from ...wellknown import END_TIME, END_TIME_MARK
from .downward_api import Allocatable, field_value, resource_value
from .expansion import MOST, Room, expand
from .refusal import Refusal
from .sources import Sources

_END_TIME = f"metadata.annotations['{END_TIME}']"  # known when the job has begun: by the agent


def container_variables(
    pod: Obj,
    container: Obj,
    sources: Sources,
    allocatable: Allocatable,
    services: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return what the pod itself sets, over `services`; also what its command may refer to."""
    variables = {**(services or {}), **_from_sources(container, sources)}
    room = Room(MOST, "Linux takes no more arguments and variables")
    room.take(*variables.values())
    for variable in container.get("env") or []:
        name, text = variable["name"], variable.get("value") or ""
        value: str | None
        if text:
            value = expand(text, variables)
        else:
            source = variable.get("valueFrom") or {}
            value = _value_from(pod, container, source, sources, allocatable)
        if value is not None:
            room.take(value)
            variables[name] = value
    return variables


def api_variables(url: str) -> dict[str, str]:
    """Return what a pod on its node's network is told of the API server: where it really is."""
    if not url:
        return {}
    parts = urlsplit(url)
    port: Obj = {"name": parts.scheme, "port": parts.port or 443}
    spec = {"clusterIP": parts.hostname or "", "ports": [port]}
    return service_variables([{"metadata": {"name": "kubernetes"}, "spec": spec}])


def service_variables(services: Iterable[Obj]) -> dict[str, str]:
    """Return what pods are told of services. As pkg/kubelet/envvars: address and ports, old-style
    links.
    """
    variables: dict[str, str] = {}
    for service in services:
        host, ports = service["spec"].get("clusterIP"), service["spec"].get("ports") or []
        if host and host != "None" and ports:
            variables |= _links(_word(meta(service)["name"]), host, ports)
    return variables


def _links(prefix: str, host: str, ports: Sequence[Obj]) -> dict[str, str]:
    first = f"{(ports[0].get('protocol') or 'TCP').lower()}://{host}:{ports[0]['port']}"
    found = {
        f"{prefix}_SERVICE_HOST": host,
        f"{prefix}_SERVICE_PORT": str(ports[0]["port"]),
        f"{prefix}_PORT": first,
    }
    for port in ports:
        number, protocol = str(port["port"]), port.get("protocol") or "TCP"
        if port.get("name"):
            found[f"{prefix}_SERVICE_PORT_{_word(port['name'])}"] = number
        link = f"{prefix}_PORT_{number}_{protocol}"
        found |= {
            link: f"{protocol.lower()}://{host}:{number}",
            f"{link}_PROTO": protocol.lower(),
            f"{link}_PORT": number,
            f"{link}_ADDR": host,
        }
    return found


def _word(name: str) -> str:
    return name.upper().replace("-", "_")


def planned_env_files(pod: Obj, container: Obj) -> list[Obj]:
    """Return the variables that only the node can know: from files that the pod writes itself."""
    empty = {v["name"] for v in pod["spec"].get("volumes") or [] if v.get("emptyDir") is not None}
    found = []
    for variable in container.get("env") or []:
        source = (variable.get("valueFrom") or {}).get("fileKeyRef")
        if not source:
            continue
        if source["volumeName"] not in empty:
            raise Refusal(f'fileKeyRef: volume "{source["volumeName"]}" is not an emptyDir')
        reference = {"name": variable["name"], "volume": source["volumeName"]}
        rest = {"path": source["path"], "key": source["key"]}
        found.append({**reference, **rest, "optional": bool(source.get("optional"))})
    return found


def with_image(image: Mapping[str, str], variables: Mapping[str, str]) -> list[list[str]]:
    """Return the final list: the image's variables where the pod does not set them itself."""
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
    """Return the value of a `valueFrom`; None where it is optional and absent, or in a file."""
    if source.get("fileKeyRef"):
        return None
    if source.get("fieldRef"):
        path = source["fieldRef"]["fieldPath"]
        return field_value(pod, path) or (END_TIME_MARK if path == _END_TIME else "")
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
