"""The rules for the volumes of a pod.

Called by pods, for pods and templates alike. As the volume half of pkg/apis/core/validation;
sources that need a driver we do not have are checked for their shape.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .. import names, quantity
from ..objects import Obj
from .errors import (
    Errors,
    bad_value,
    bad_values,
    duplicate,
    forbidden,
    not_supported,
    required,
)
from .metadata import check_labels

_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_FIELD_PATHS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_SUBSCRIPT = re.compile(r"(metadata\.(?:labels|annotations))\['(.*)'\]")
_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)


def volumes(field: str, items: list[Obj]) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, volume in enumerate(items):
        at = f"{field}[{index}]"
        name = volume.get("name", "")
        if not name:
            errors.append(required(f"{at}.name"))
        elif name in seen:
            errors.append(duplicate(f"{at}.name", name))
        else:
            errors += bad_values(f"{at}.name", name, names.dns1123_label(name))
        seen.add(name)
        errors += _source(at, volume)
    return errors


def _source(field: str, volume: Obj) -> Errors:
    sources = [key for key in volume if key != "name"]
    if not sources:
        return [required(field, "must specify a volume type")]
    errors = [
        forbidden(f"{field}.{extra}", "may not specify more than 1 volume type")
        for extra in sources[1:]
    ]
    check = _CHECKS.get(sources[0])
    return errors + (check(f"{field}.{sources[0]}", volume[sources[0]]) if check else [])


def _empty_dir(field: str, source: Obj) -> Errors:
    limit = source.get("sizeLimit")
    if limit is not None and quantity.parse(limit).nanos < 0:
        return [
            forbidden(f"{field}.sizeLimit", "SizeLimit field must be a valid resource quantity")
        ]
    return []


def _host_path(field: str, source: Obj) -> Errors:
    path = source.get("path", "")
    errors: Errors = []
    if not path:
        return [required(f"{field}.path")]
    if ".." in path.split("/"):
        errors.append(bad_value(f"{field}.path", path, "must not contain '..'"))
    if source.get("type", "") not in _HOST_PATH_TYPES:
        errors.append(not_supported(f"{field}.type", source["type"], _HOST_PATH_TYPES))
    return errors


def _config_map(field: str, source: Obj) -> Errors:
    errors = [] if source.get("name") else [required(f"{field}.name")]
    return errors + _mode(f"{field}.defaultMode", source) + _items(field, source)


def _secret(field: str, source: Obj) -> Errors:
    errors = [] if source.get("secretName") else [required(f"{field}.secretName")]
    return errors + _mode(f"{field}.defaultMode", source) + _items(field, source)


def _mode(field: str, source: Obj) -> Errors:
    mode = source.get(field.rpartition(".")[2])
    if mode is not None and not 0 <= mode <= 0o777:
        return [bad_value(field, mode, _MODE)]
    return []


def _items(field: str, source: Obj) -> Errors:
    errors: Errors = []
    for index, item in enumerate(source.get("items") or ()):
        at = f"{field}.items[{index}]"
        if not item.get("key"):
            errors.append(required(f"{at}.key"))
        errors += _file(at, item)
    return errors


def _file(field: str, item: Obj) -> Errors:
    """Check a path inside a volume, with its mode."""
    errors = relative_path(f"{field}.path", item.get("path", ""), is_required=True)
    if item.get("path", "").startswith(".."):
        errors.append(bad_value(f"{field}.path", item["path"], "must not start with '..'"))
    return errors + _mode(f"{field}.mode", item)


def relative_path(field: str, path: str, *, is_required: bool) -> Errors:
    if not path:
        return [required(field)] if is_required else []
    errors: Errors = []
    if path.startswith("/"):
        errors.append(bad_value(field, path, "must be a relative path"))
    if ".." in path.split("/"):
        errors.append(bad_value(field, path, "must not contain '..'"))
    return errors


def _downward_api(field: str, source: Obj) -> Errors:
    errors = _mode(f"{field}.defaultMode", source)
    for index, item in enumerate(source.get("items") or ()):
        at = f"{field}.items[{index}]"
        errors += _file(at, item)
        if "fieldRef" in item:
            errors += field_ref(f"{at}.fieldRef", item["fieldRef"], _FIELD_PATHS)
            if "resourceFieldRef" in item:
                detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
                errors.append(bad_value(at, "resource", detail))
        elif "resourceFieldRef" in item:
            reference = item["resourceFieldRef"]
            if not reference.get("containerName"):
                errors.append(required(f"{at}.resourceFieldRef.containerName"))
            errors += resource_field_ref(f"{at}.resourceFieldRef", reference)
        else:
            errors.append(required(at, "one of fieldRef and resourceFieldRef is required"))
    return errors


def field_ref(field: str, reference: Obj, supported: tuple[str, ...]) -> Errors:
    path = reference.get("fieldPath", "")
    if not path:
        return [required(f"{field}.fieldPath")]
    match = _SUBSCRIPT.fullmatch(path)
    if match is not None:
        key = match[2] if match[1].endswith("labels") else match[2].lower()
        return bad_values(f"{field}.fieldPath", path, names.qualified_name(key))
    if path not in supported:
        return [not_supported(f"{field}.fieldPath", path, supported)]
    return []


def resource_field_ref(field: str, reference: Obj) -> Errors:
    resource = reference.get("resource", "")
    if not resource:
        return [required(f"{field}.resource")]
    is_huge = re.fullmatch(r"(limits|requests)\.hugepages-.+", resource)
    if resource not in _RESOURCES and not is_huge:
        return [not_supported(f"{field}.resource", resource, _RESOURCES)]
    return []


def _projected(field: str, source: Obj) -> Errors:
    errors = _mode(f"{field}.defaultMode", source)
    for index, one in enumerate(source.get("sources") or ()):
        at = f"{field}.sources[{index}]"
        for key in list(one)[1:]:
            detail = "may not specify more than 1 volume type"
            errors.append(forbidden(f"{at}.{key}", detail))
        for key, check in _PROJECTIONS.items():
            if key in one:
                errors += check(f"{at}.{key}", one[key])
    return errors


def _named_projection(field: str, source: Obj) -> Errors:
    errors = [] if source.get("name") else [required(f"{field}.name")]
    return errors + _items(field, source)


def _token_projection(field: str, source: Obj) -> Errors:
    errors = relative_path(f"{field}.path", source.get("path", ""), is_required=True)
    seconds = source.get("expirationSeconds", 3600)
    if seconds < 600:
        detail = "may not specify a duration less than 10 minutes"
        errors.append(bad_value(f"{field}.expirationSeconds", seconds, detail))
    return errors


def _claim(field: str, source: Obj) -> Errors:
    return [] if source.get("claimName") else [required(f"{field}.claimName")]


def _nfs(field: str, source: Obj) -> Errors:
    errors = [required(f"{field}.{key}") for key in ("server", "path") if not source.get(key)]
    path = source.get("path", "")
    if path and not path.startswith("/"):
        errors.append(bad_value(f"{field}.path", path, "must be an absolute path"))
    return errors


def _csi(field: str, source: Obj) -> Errors:
    driver = source.get("driver", "")
    if not driver:
        return [required(f"{field}.driver")]
    return bad_values(f"{field}.driver", driver, names.dns1123_subdomain(driver.lower()))


def _ephemeral(field: str, source: Obj) -> Errors:
    template = source.get("volumeClaimTemplate")
    if template is None:
        return [required(f"{field}.volumeClaimTemplate")]
    at = f"{field}.volumeClaimTemplate"
    metadata = template.get("metadata") or {}
    return check_labels(f"{at}.metadata.labels", metadata.get("labels"))


def _image(field: str, source: Obj) -> Errors:
    if not source.get("reference"):
        return [required(f"{field}.reference")]
    policy = source.get("pullPolicy", "")
    supported = ("Always", "IfNotPresent", "Never")
    return [] if policy in supported else [not_supported(f"{field}.pullPolicy", policy, supported)]


_CHECKS: dict[str, Callable[[str, Obj], Errors]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "configMap": _config_map,
    "secret": _secret,
    "downwardAPI": _downward_api,
    "projected": _projected,
    "persistentVolumeClaim": _claim,
    "nfs": _nfs,
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}
_PROJECTIONS: dict[str, Callable[[str, Obj], Errors]] = {
    "configMap": _named_projection,
    "secret": _named_projection,
    "downwardAPI": _downward_api,
    "serviceAccountToken": _token_projection,
}
