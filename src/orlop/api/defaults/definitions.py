"""Defaults of CustomResourceDefinitions.

Called by `apply_defaults`. As apiextensions/v1/defaults.go; defaults within the schemas of a
definition are for its objects, not for it.
"""

from __future__ import annotations

from ..objects import Obj


def custom_resource_definition(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if kind:
        if not names.get("singular"):
            names["singular"] = kind.lower()
        if not names.get("listKind"):
            names["listKind"] = f"{kind}List"
    conversion = spec.setdefault("conversion", {})
    conversion.setdefault("strategy", "None")
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service:
        service.setdefault("port", 443)
