"""The rules for metadata, which are nearly the same for every kind.

Called first for each create and update. Names differ by kind: most are DNS subdomains, some are
DNS labels, RBAC's may be anything that fits into a path. As apimachinery/pkg/api/validation.
"""

from __future__ import annotations

from .. import names
from ..kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from ..objects import Obj, meta
from .errors import (
    IMMUTABLE,
    Errors,
    bad_value,
    bad_values,
    forbidden,
    required,
    too_long,
)

ANNOTATIONS_LIMIT = 256 * 1024
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
_NAME_RULES: dict[tuple[str, str], names.Check] = {
    ("", "namespaces"): names.dns1123_label,
    ("", "services"): names.dns1035_label,
    ("rbac.authorization.k8s.io", "roles"): names.path_segment,
    ("rbac.authorization.k8s.io", "rolebindings"): names.path_segment,
    ("rbac.authorization.k8s.io", "clusterroles"): names.path_segment,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): names.path_segment,
    ("certificates.k8s.io", "certificatesigningrequests"): names.path_segment,
    ("networking.k8s.io", "ipaddresses"): names.path_segment,
    ("apiregistration.k8s.io", "apiservices"): names.path_segment,
}


def name_rule(kind: Kind) -> names.Check:
    return _NAME_RULES.get((kind.group, kind.plural), names.dns1123_subdomain)


def validate_create(kind: Kind, obj: Obj) -> Errors:
    metadata = meta(obj)
    check = name_rule(kind)
    errors: Errors = []
    prefix = metadata.get("generateName")
    if prefix:
        problems = names.masked(check, prefix)
        errors += bad_values("metadata.generateName", prefix, problems)
    name = metadata.get("name")
    if not name:
        errors.append(required("metadata.name", "name or generateName is required"))
    else:
        errors += bad_values("metadata.name", name, check(name))
    errors += _namespace(kind, metadata)
    return errors + _common(kind, metadata)


def validate_update(kind: Kind, new: Obj, old: Obj) -> Errors:
    metadata, former = meta(new), meta(old)
    errors: Errors = []
    for key in ("name", "namespace", "uid", "creationTimestamp"):
        if metadata.get(key) != former.get(key):
            errors.append(bad_value(f"metadata.{key}", metadata.get(key, ""), IMMUTABLE))
    if metadata.get("generation", 0) < former.get("generation", 0):
        field, value = "metadata.generation", metadata.get("generation", 0)
        errors.append(bad_value(field, value, "must not be decremented"))
    errors += _finalizers_of_deleted(metadata, former)
    return errors + _common(kind, metadata)


def _namespace(kind: Kind, metadata: Obj) -> Errors:
    namespace = metadata.get("namespace")
    if not kind.namespaced:
        if namespace:
            return [forbidden("metadata.namespace", "not allowed on this type")]
        return []
    if not namespace:
        return [required("metadata.namespace")]
    return bad_values("metadata.namespace", namespace, names.dns1123_label(namespace))


def _common(kind: Kind, metadata: Obj) -> Errors:
    errors = check_labels("metadata.labels", metadata.get("labels"))
    errors += check_annotations("metadata.annotations", metadata.get("annotations"))
    if metadata.get("ownerReferences"):
        errors += _owners(metadata["ownerReferences"])
    is_lenient = kind.custom is not None or kind == CUSTOM_RESOURCE_DEFINITION
    for finalizer in metadata.get("finalizers") or ():
        if is_lenient:
            errors += bad_values("metadata.finalizers", finalizer, names.qualified_name(finalizer))
        else:
            errors += finalizer_name("metadata.finalizers", finalizer)
    return errors


def check_labels(field: str, values: dict[str, str] | None) -> Errors:
    errors: Errors = []
    for key, value in (values or {}).items():
        errors += bad_values(field, key, _label_key(key))
        errors += bad_values(field, value, names.label_value(value))
    return errors


_KNOWN_KEYS: dict[str, list[str]] = {}


def _label_key(key: str) -> list[str]:
    """Check a label key.

    The same few keys come again and again; checking one costs more than remembering it.
    """
    problems = _KNOWN_KEYS.get(key)
    if problems is None:
        problems = names.qualified_name(key)
        if not problems and len(_KNOWN_KEYS) < 10_000:
            _KNOWN_KEYS[key] = problems
    return problems


def check_annotations(field: str, values: dict[str, str] | None) -> Errors:
    errors: Errors = []
    total = 0
    for key, value in (values or {}).items():
        errors += bad_values(field, key, _label_key(key.lower()))
        total += len(key) + len(value)
    if total > ANNOTATIONS_LIMIT:
        errors.append(too_long(field, ANNOTATIONS_LIMIT))
    return errors


def finalizer_name(field: str, name: str) -> Errors:
    errors = bad_values(field, name, names.qualified_name(name))
    if not errors and "/" not in name and name not in _STANDARD_FINALIZERS:
        detail = "name is neither a standard finalizer name nor is it fully qualified"
        errors.append(bad_value(field, name, detail))
    return errors


def _owners(owners: list[Obj]) -> Errors:
    errors: Errors = []
    controllers = [owner for owner in owners if owner.get("controller")]
    for index, owner in enumerate(owners):
        field = f"metadata.ownerReferences[{index}]"
        if not owner.get("apiVersion", "").rpartition("/")[2]:
            value = owner.get("apiVersion", "")
            errors.append(bad_value(f"{field}.apiVersion", value, "version must not be empty"))
        errors += [
            bad_value(f"{field}.{key}", "", "must not be empty")
            for key in ("kind", "name", "uid")
            if not owner.get(key)
        ]
    if len(controllers) > 1:
        first, second = (f"{owner.get('kind')}/{owner.get('name')}" for owner in controllers[:2])
        detail = (
            "Only one reference can have Controller set to true. "
            f'Found "true" in references for {first} and {second}'
        )
        errors.append(bad_value("metadata.ownerReferences", owners, detail))
    return errors


def _finalizers_of_deleted(metadata: Obj, former: Obj) -> Errors:
    """Check finalizers: an object that is being deleted can lose them and not gain any."""
    if "deletionTimestamp" not in former:
        return []
    added = sorted({*(metadata.get("finalizers") or ())} - {*(former.get("finalizers") or ())})
    if not added:
        return []
    listed = ", ".join(f'"{name}"' for name in added)
    detail = (
        "no new finalizers can be added if the object is being deleted, "
        f"found new finalizers []string{{{listed}}}"
    )
    return [forbidden("metadata.finalizers", detail)]
