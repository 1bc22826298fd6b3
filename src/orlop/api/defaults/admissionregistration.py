"""Defaults of webhook configurations and of admission policies.

Called by the dispatch. As pkg/apis/admissionregistration/v1/defaults.go.
"""

from __future__ import annotations

from ..objects import Obj
from .fill import section


def mutating(obj: Obj) -> None:
    for webhook in obj.get("webhooks") or ():
        _webhook(webhook)
        webhook.setdefault("reinvocationPolicy", "Never")


def validating(obj: Obj) -> None:
    for webhook in obj.get("webhooks") or ():
        _webhook(webhook)


def policy(obj: Obj) -> None:
    spec = section(obj, "spec")
    spec.setdefault("failurePolicy", "Fail")
    if "matchConstraints" in spec:
        _match_resources(spec["matchConstraints"])


def mutating_policy(obj: Obj) -> None:
    policy(obj)
    section(obj, "spec").setdefault("reinvocationPolicy", "Never")


def policy_binding(obj: Obj) -> None:
    spec = section(obj, "spec")
    if "matchResources" in spec:
        _match_resources(spec["matchResources"])


def _webhook(webhook: Obj) -> None:
    webhook.setdefault("failurePolicy", "Fail")
    _match_resources(webhook)
    webhook.setdefault("timeoutSeconds", 10)
    for rule in webhook.get("rules") or ():
        rule.setdefault("scope", "*")
    service = (webhook.get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)


def _match_resources(obj: Obj) -> None:
    obj.setdefault("matchPolicy", "Equivalent")
    obj.setdefault("namespaceSelector", {})
    obj.setdefault("objectSelector", {})
    for group in ("resourceRules", "excludeResourceRules"):
        for rule in obj.get(group) or ():
            rule.setdefault("scope", "*")
