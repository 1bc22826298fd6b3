"""The rules for CustomResourceDefinitions: names, versions, conversion, columns, schemas.

Called by `validate_create` and `validate_update`. As apiextensions/validation/validation.go; what
the schemas themselves must look like is in `schemas`, which names other definitions have taken is
seen when the definition is served.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from .. import names
from ..crd.jsonpath import JsonPath
from ..objects import Obj, meta
from .errors import (
    Errors,
    bad_value,
    bad_values,
    duplicate,
    forbidden,
    immutable,
    not_supported,
    required,
)
from .schemas import default_problems, rules_length, structural_problems

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_PROTECTED = ("k8s.io", "kubernetes.io")
_APPROVAL = "api-approved.kubernetes.io"
_MOST_COLUMNS = 100  # each is looked up in every object of a list
_LONGEST_RULES = 200_000  # characters of CEL, which take a second or two to compile
_SIMPLE_PATH = re.compile(r"(\.[A-Za-z_$][\w$-]*|\['[^']+'\])+")
_MOST_SELECTABLE = 8


def custom_resource_definition(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    errors = _full_name(obj, spec) + _group(obj, spec)
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        scope = spec.get("scope") or ""
        errors += (
            [not_supported("spec.scope", scope, ("Cluster", "Namespaced"))]
            if scope
            else [required("spec.scope")]
        )
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        errors.append(bad_value("spec.preserveUnknownFields", True, detail))
    errors += _versions(spec)
    errors += _names(spec.get("names") or {})
    errors += _conversion(spec)
    return errors + _stored_versions(obj, spec)


def custom_resource_definition_update(new: Obj, old: Obj) -> Errors:
    """Check what may not change once the definition is established."""
    conditions = (old.get("status") or {}).get("conditions") or ()
    if not any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
        return []
    spec, former = new.get("spec") or {}, old.get("spec") or {}
    errors = immutable("spec.scope", spec.get("scope"), former.get("scope"))
    for name in ("kind", "plural"):
        wanted, had = spec.get("names", {}).get(name), former.get("names", {}).get(name)
        errors += immutable(f"spec.names.{name}", wanted, had)
    return errors + immutable("spec.group", spec.get("group"), former.get("group"))


def _full_name(obj: Obj, spec: Obj) -> Errors:
    plural = (spec.get("names") or {}).get("plural") or ""
    wanted = f"{plural}.{spec.get('group') or ''}"
    name = meta(obj).get("name", "")
    if name == wanted:
        return []
    return [bad_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]


def _group(obj: Obj, spec: Obj) -> Errors:
    group = spec.get("group") or ""
    if not group:
        return [required("spec.group")]
    errors = bad_values("spec.group", group, names.dns1123_subdomain(group))
    if not errors and "." not in group:
        errors.append(bad_value("spec.group", group, "should be a domain with at least one dot"))
    if any(group.endswith(f".{domain}") or group == domain for domain in _PROTECTED):
        errors += _approval((meta(obj).get("annotations") or {}).get(_APPROVAL))
    return errors


def _approval(text: str | None) -> Errors:
    field = f"metadata.annotations[{_APPROVAL}]"
    see = "see https://github.com/kubernetes/enhancements/pull/1111"
    if not text:
        detail = f'protected groups must have approval annotation "{_APPROVAL}", {see}'
        return [required(field, detail)]
    if text.startswith("unapproved") or re.match(r"https?://[^/\s]+", text):
        return []
    detail = f'protected groups must have approval annotation "{_APPROVAL}" with either a URL or a '
    return [bad_value(field, text, f'{detail}reason starting with "unapproved", {see}')]


def _names(given: Obj) -> Errors:
    errors: Errors = []
    for name in ("plural", "singular", "kind", "listKind"):
        field, value = f"spec.names.{name}", given.get(name) or ""
        if not value:
            errors.append(required(field))
            continue
        checked = value.lower() if name.endswith(("kind", "Kind")) else value
        errors += bad_values(field, value, names.dns1035_label(checked))
    for name in ("shortNames", "categories"):
        for index, value in enumerate(given.get(name) or ()):
            field = f"spec.names.{name}[{index}]"
            errors += bad_values(field, value, names.dns1035_label(value))
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        detail = "kind and listKind may not be the same"
        errors.append(bad_value("spec.names.listKind", given["listKind"], detail))
    return errors


def _versions(spec: Obj) -> Errors:
    versions: list[Obj] = spec.get("versions") or []
    if not versions:
        return [required("spec.versions", "must have at least one version")]
    errors: Errors = []
    storing = sum(bool(one.get("storage")) for one in versions)
    if storing != 1:
        detail = "must have exactly one version marked as storage version"
        errors.append(bad_value("spec.versions", [one.get("name") for one in versions], detail))
    for name, count in Counter(one.get("name") for one in versions).items():
        if count > 1:
            errors.append(bad_value("spec.versions", [name], "must contain unique version names"))
    length = sum(rules_length(schema) for one in versions if (schema := _schema_of(one)))
    if length > _LONGEST_RULES:
        detail = f"may have at most {_LONGEST_RULES} characters of rules in all, but has {length}"
        return [*errors, forbidden("spec.versions", detail)]
    for index, version in enumerate(versions):
        errors += _version(f"spec.versions[{index}]", version)
    return errors


def _schema_of(version: Obj) -> Obj | None:
    schema: Obj | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return schema


def _version(field: str, version: Obj) -> Errors:
    name = version.get("name") or ""
    errors = bad_values(f"{field}.name", name, names.dns1035_label(name))
    if version.get("deprecationWarning") and not version.get("deprecated"):
        text = version["deprecationWarning"]
        detail = "can only be set for deprecated versions"
        errors.append(bad_value(f"{field}.deprecationWarning", text, detail))
    schema = _schema_of(version)
    if schema is None:
        errors.append(required(f"{field}.schema.openAPIV3Schema", "schemas are required"))
    else:
        place = f"{field}.schema.openAPIV3Schema"
        problems = structural_problems(place, schema)
        errors += problems or default_problems(place, schema)
    errors += _subresources(f"{field}.subresources", version.get("subresources") or {})
    errors += _columns(field, version)
    return errors + _selectable(f"{field}.selectableFields", version, schema or {})


def _columns(field: str, version: Obj) -> Errors:
    errors: Errors = []
    columns = version.get("additionalPrinterColumns") or ()
    if len(columns) > _MOST_COLUMNS:
        detail = f"must have at most {_MOST_COLUMNS} items"
        return [forbidden(f"{field}.additionalPrinterColumns", detail)]
    for index, column in enumerate(columns):
        place = f"{field}.additionalPrinterColumns[{index}]"
        for name in ("name", "type", "jsonPath"):
            if not column.get(name):
                errors.append(required(f"{place}.{name}"))
        kind, form = column.get("type") or "", column.get("format") or ""
        if kind and kind not in _COLUMN_TYPES:
            detail = f"must be one of {','.join(_COLUMN_TYPES)}"
            errors.append(bad_value(f"{place}.type", kind, detail))
        if form and form not in _COLUMN_FORMATS:
            detail = f"must be one of {','.join(_COLUMN_FORMATS)}"
            errors.append(bad_value(f"{place}.format", form, detail))
        errors += _path_problems(f"{place}.jsonPath", column.get("jsonPath") or "")
    return errors


def _path_problems(field: str, path: str) -> Errors:
    try:
        JsonPath(path)
    except ValueError as error:
        return [bad_value(field, path, f"is an invalid path: {error}")]
    return []


def _subresources(field: str, subresources: Obj) -> Errors:
    scale = subresources.get("scale")
    if scale is None:
        return []
    errors: Errors = []
    for name, parent in (
        ("specReplicasPath", ".spec."),
        ("statusReplicasPath", ".status."),
        ("labelSelectorPath", ""),
    ):
        place, path = f"{field}.scale.{name}", scale.get(name) or ""
        if not path:
            if parent:
                errors.append(required(place))
            continue
        if not re.fullmatch(r"(\.[A-Za-z_][\w-]*)+", path):
            errors.append(bad_value(place, path, "should be a simple json path (without array)"))
        elif parent and not path.startswith(parent):
            detail = f"should be a json path under {parent.rstrip('.')}"
            errors.append(bad_value(place, path, detail))
        elif not parent and not path.startswith((".spec.", ".status.")):
            detail = "should be a json path under either .status or .spec"
            errors.append(bad_value(place, path, detail))
    return errors


def _selectable(field: str, version: Obj, schema: Obj) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    fields = version.get("selectableFields") or ()
    if len(fields) > _MOST_SELECTABLE:
        errors.append(forbidden(field, f"must have at most {_MOST_SELECTABLE} items"))
    for index, one in enumerate(fields):
        place, path = f"{field}[{index}].jsonPath", one.get("jsonPath") or ""
        if not path:
            errors.append(required(place))
        elif not _SIMPLE_PATH.fullmatch(path):
            errors.append(bad_value(place, path, "is an invalid path: must be a simple path"))
        elif _type_at(schema, path) not in ("string", "boolean", "integer"):
            detail = "must point to a field of type string, boolean or integer. Enum string fields"
            errors.append(bad_value(place, path, f"{detail} and strings with formats are allowed."))
        elif path.startswith(".metadata"):
            errors.append(bad_value(place, path, "must not point to fields in metadata"))
        elif path in seen:
            errors.append(duplicate(place, path))
        seen.add(path)
    return errors


def _type_at(schema: Obj, path: str) -> Any:
    for name in path.strip(".").split("."):
        schema = (schema.get("properties") or {}).get(name) or {}
    return schema.get("type")


def _conversion(spec: Obj) -> Errors:
    conversion = spec.get("conversion") or {}
    strategy, field = conversion.get("strategy"), "spec.conversion"
    webhook = conversion.get("webhook")
    if strategy == "None":
        if webhook:
            detail = "should not be set when strategy is not set to Webhook"
            return [forbidden(f"{field}.webhook", detail)]
        return []
    if strategy != "Webhook":
        return [not_supported(f"{field}.strategy", strategy or "", ("None", "Webhook"))]
    if not webhook or not webhook.get("clientConfig"):
        return [
            required(f"{field}.webhook.clientConfig", "required when strategy is set to Webhook")
        ]
    return _webhook(f"{field}.webhook", webhook)


def _webhook(field: str, webhook: Obj) -> Errors:
    client = webhook["clientConfig"]
    url, service = client.get("url"), client.get("service")
    errors: Errors = []
    if bool(url) == bool(service):
        detail = "exactly one of url or service is required"
        errors.append(required(f"{field}.clientConfig", detail))
    elif url and not url.startswith("https://"):
        detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        errors.append(bad_value(f"{field}.clientConfig.url", url, detail))
    elif service:
        errors += [
            required(f"{field}.clientConfig.service.{name}", f"service {name} is required")
            for name in ("name", "namespace")
            if not service.get(name)
        ]
    versions = webhook.get("conversionReviewVersions") or ()
    if not versions:
        errors.append(required(f"{field}.conversionReviewVersions"))
    elif not {"v1", "v1beta1"} & set(versions):
        place = f"{field}.conversionReviewVersions"
        detail = "must include at least one of v1, v1beta1"
        errors.append(bad_value(place, list(versions), detail))
    return errors


def _stored_versions(obj: Obj, spec: Obj) -> Errors:
    """Check that no version goes in which objects may still be kept."""
    stored = (obj.get("status") or {}).get("storedVersions") or ()
    known = {one.get("name") for one in spec.get("versions") or ()}
    detail = (
        "missing from spec.versions; {} was previously a storage version, and must remain in "
        "spec.versions until a storage migration ensures no data remains persisted in {} and "
        "removes {} from status.storedVersions"
    )
    return [
        bad_value(f"status.storedVersions[{index}]", name, detail.format(name, name, name))
        for index, name in enumerate(stored)
        if name not in known
    ]
