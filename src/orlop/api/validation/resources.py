"""The rules for amounts of resources: requests, limits, capacities.

Called for containers, pods, claims, nodes and quotas. Values are canonical already: decoding has
seen to it; here it is their names and sizes that count.
"""

from __future__ import annotations

from .. import names, quantity
from ..objects import Obj
from .errors import Errors, bad_value, bad_values, required

_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage", "storage"})
_HUGE_PAGES = "hugepages-"
_WHOLE = "must be an integer"


def requirements(field: str, resources: Obj | None) -> Errors:
    """Check the `resources` of a container or a pod."""
    if not resources:
        return []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    errors: Errors = []
    for name, amount in limits.items():
        errors += _amount(f"{field}.limits", name, amount)
    for name, amount in requests.items():
        errors += _amount(f"{field}.requests", name, amount)
        errors += _request_within_limit(field, name, amount, limits)
    return errors


def _request_within_limit(field: str, name: str, amount: str, limits: Obj) -> Errors:
    limit = limits.get(name)
    if limit is None:
        if _is_overcommittable(name):
            return []
        detail = "Limit must be set for non overcommitable resources"
        return [required(f"{field}.limits", detail)]
    field = f"{field}.requests"
    wanted, most = quantity.parse(amount), quantity.parse(limit)
    if not _is_overcommittable(name) and wanted.nanos != most.nanos:
        return [bad_value(field, amount, f"must be equal to {name} limit of {limit}")]
    if wanted > most:
        return [bad_value(field, amount, f"must be less than or equal to {name} limit of {limit}")]
    return []


def _is_overcommittable(name: str) -> bool:
    """Return whether it may be promised twice: cpu, memory and so on; no devices or huge pages."""
    return ("/" not in name or name.startswith("kubernetes.io/")) and not name.startswith(
        _HUGE_PAGES
    )


def _amount(field: str, name: str, amount: str) -> Errors:
    at = f"{field}[{name}]"
    errors = resource_name(at, name)
    parsed = quantity.parse(amount)
    if parsed.nanos < 0:
        errors.append(bad_value(at, amount, "must be greater than or equal to 0"))
    if "/" in name and parsed.nanos % quantity.NANO:
        errors.append(bad_value(at, amount, _WHOLE))
    return errors


def resource_name(field: str, name: str) -> Errors:
    if name in _STANDARD or name.startswith(_HUGE_PAGES):
        return []
    errors = bad_values(field, name, names.qualified_name(name))
    if not errors and "/" not in name:
        errors.append(bad_value(field, name, "must be a standard resource type or fully qualified"))
    return errors


def amounts(field: str, values: Obj | None) -> Errors:
    """Check a plain list of resources, such as a node's capacity."""
    errors: Errors = []
    for name, amount in (values or {}).items():
        if quantity.parse(amount).nanos < 0:
            errors.append(
                bad_value(f"{field}[{name}]", amount, "must be greater than or equal to 0")
            )
    return errors
