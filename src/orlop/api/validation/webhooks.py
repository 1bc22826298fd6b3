"""The rules for webhook configurations, and those that they share with admission policies.

Called by the dispatch. As pkg/apis/admissionregistration/validation/validation.go, in its words;
whether a webhook can be reached is seen when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from .. import names
from ..cel import CelSyntaxError, compile_expression
from ..objects import Obj
from .errors import (
    Errors,
    bad_value,
    bad_values,
    duplicate,
    not_supported,
    required,
    too_many,
)
from .selectors import label_selector

REQUEST_VARIABLES = ("object", "oldObject", "request", "authorizer")
_POLICIES, _MATCHES = ("Fail", "Ignore"), ("Equivalent", "Exact")
_SCOPES, _OPERATIONS = (
    ("*", "Cluster", "Namespaced"),
    ("*", "CONNECT", "CREATE", "DELETE", "UPDATE"),
)
_REVIEWS = ("v1", "v1beta1")
_MOST_CONDITIONS = 64


def mutating(obj: Obj) -> Errors:
    return _all(obj, _mutating)


def validating(obj: Obj) -> Errors:
    return _all(obj, _webhook)


def _all(obj: Obj, check: Callable[[str, Obj], Errors]) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, webhook in enumerate(obj.get("webhooks") or ()):
        field, name = f"webhooks[{index}]", webhook.get("name") or ""
        errors += check(field, webhook)
        if name in seen:
            errors.append(duplicate(f"{field}.name", name))
        seen.add(name)
    return errors


def _mutating(field: str, webhook: Obj) -> Errors:
    errors = _webhook(field, webhook)
    policy = webhook.get("reinvocationPolicy")
    if policy not in (None, "Never", "IfNeeded"):
        errors.append(not_supported(f"{field}.reinvocationPolicy", policy, ["IfNeeded", "Never"]))
    return errors


def _webhook(field: str, webhook: Obj) -> Errors:
    errors = _qualified(f"{field}.name", webhook.get("name") or "")
    for name, supported in (("failurePolicy", _POLICIES), ("matchPolicy", _MATCHES)):
        if webhook.get(name) not in (None, *supported):
            errors.append(not_supported(f"{field}.{name}", webhook[name], supported))
    errors += _side_effects(f"{field}.sideEffects", webhook.get("sideEffects"))
    seconds = webhook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        why = "the timeout value must be between 1 and 30 seconds"
        errors.append(bad_value(f"{field}.timeoutSeconds", seconds, why))
    for name in ("namespaceSelector", "objectSelector"):
        errors += label_selector(f"{field}.{name}", webhook.get(name))
    errors += client_config(f"{field}.clientConfig", webhook.get("clientConfig") or {})
    errors += _reviews(f"{field}.admissionReviewVersions", webhook.get("admissionReviewVersions"))
    for index, rule in enumerate(webhook.get("rules") or ()):
        errors += rule_errors(f"{field}.rules[{index}]", rule)
    return errors + conditions(f"{field}.matchConditions", webhook.get("matchConditions") or ())


def _qualified(field: str, name: str) -> Errors:
    """Check for at least three words with dots between them. As IsFullyQualifiedName."""
    if not name:
        return [required(field, "")]
    errors = bad_values(field, name, names.dns1123_subdomain(name))
    if len(name.split(".")) < 3:
        why = "should be a domain with at least three segments separated by dots"
        errors.append(bad_value(field, name, why))
    return errors


def _side_effects(field: str, value: str | None) -> Errors:
    supported = ["None", "NoneOnDryRun"]
    if value is None:
        return [required(field, f"must specify one of {', '.join(supported)}")]
    return [] if value in supported else [not_supported(field, value, supported)]


def _reviews(field: str, versions: Sequence[str] | None) -> Errors:
    if not versions:
        return [required(field, f"must specify one of {', '.join(_REVIEWS)}")]
    errors: Errors = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            errors.append(bad_value(f"{field}[{index}]", version, "duplicate version"))
        errors += bad_values(f"{field}[{index}]", version, names.dns1035_label(version))
    if not any(one in _REVIEWS for one in versions):
        why = f"must include at least one of {', '.join(_REVIEWS)}"
        errors.append(bad_value(field, list(versions), why))
    return errors


def client_config(field: str, config: Obj) -> Errors:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(f"{field}.url" if url is not None else field,
                         "exactly one of url or service is required")]  # fmt: skip
    if url is not None:
        return _url(f"{field}.url", url)
    return _service(f"{field}.service", service or {})


def _url(field: str, url: str) -> Errors:
    form = "; desired format: https://host[/path]"
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as error:
        return [required(field, f"url must be a valid URL: {error}{form}")]
    errors: Errors = []
    if parts.scheme != "https":
        why = f"'https' is the only allowed URL scheme{form}"
        errors.append(bad_value(field, parts.scheme, why))
    if not host:
        errors.append(bad_value(field, host or "", f"host must be specified{form}"))
    if parts.username is not None:
        why = "user information is not permitted in the URL"
        errors.append(bad_value(field, parts.username, why))
    if parts.fragment:
        errors.append(bad_value(field, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        why = "query parameters are not permitted in the URL"
        errors.append(bad_value(field, parts.query, why))
    return errors


def _service(field: str, service: Obj) -> Errors:
    errors: Errors = []
    for name in ("name", "namespace"):
        if not service.get(name):
            why = f"service {name} is required"
            errors.append(required(f"{field}.{name}", why))
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        why = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(bad_value(f"{field}.port", port, why))
    path = service.get("path")
    if path is not None and not path.startswith("/"):
        errors.append(bad_value(f"{field}.path", path, "must start with a '/'"))
    return errors


def rule_errors(field: str, rule: Obj) -> Errors:
    """Check a rule of a webhook or of a policy: what it is about."""
    errors: Errors = []
    for name in ("operations", "apiGroups", "apiVersions", "resources"):
        values = rule.get(name) or ()
        if not values:
            errors.append(required(f"{field}.{name}", ""))
        if "*" in values and len(values) > 1 and name != "resources":
            why = "if '*' is present, must not specify other " + _PLURALS[name]
            errors.append(bad_value(f"{field}.{name}", list(values), why))
        if name in ("apiVersions", "resources"):
            errors += [required(f"{field}.{name}[{i}]", "") for i, v in enumerate(values) if not v]
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in _OPERATIONS:
            errors.append(not_supported(f"{field}.operations[{index}]", operation, _OPERATIONS))
    if rule.get("scope") not in (None, *_SCOPES):
        errors.append(not_supported(f"{field}.scope", rule["scope"], _SCOPES))
    return errors + _resources(f"{field}.resources", rule.get("resources") or ())


_PLURALS = {"operations": "operations", "apiGroups": "API groups", "apiVersions": "API versions"}


def _resources(field: str, resources: Sequence[str]) -> Errors:
    """Check resources.

    `*/*` names everything, `pods/*` everything below pods: nothing else may be beside them.
    """
    errors: Errors = []
    if "*/*" in resources and len(resources) > 1:
        why = "if '*/*' is present, must not specify other resources"
        errors.append(bad_value(field, list(resources), why))
    for index, text in enumerate(resources):
        resource, _, below = text.partition("/")
        if below and below != "*" and f"{resource}/*" in resources:
            why = f"if '{resource}/*' is present, must not specify {text}"
            errors.append(bad_value(f"{field}[{index}]", text, why))
    return errors


def conditions(
    field: str, each: Sequence[Obj], variables: Sequence[str] = REQUEST_VARIABLES
) -> Errors:
    errors: Errors = []
    if len(each) > _MOST_CONDITIONS:
        errors.append(too_many(field, len(each), _MOST_CONDITIONS))
    seen: set[str] = set()
    for index, condition in enumerate(each):
        name, expression = condition.get("name") or "", condition.get("expression") or ""
        inner = f"{field}[{index}]"
        if not name:
            errors.append(required(f"{inner}.name", ""))
        else:
            errors += bad_values(f"{inner}.name", name, names.qualified_name(name))
        if name and name in seen:
            errors.append(duplicate(f"{inner}.name", name))
        seen.add(name)
        errors += expression_errors(f"{inner}.expression", expression, variables)
    return errors


def expression_errors(field: str, text: str, variables: Sequence[str]) -> Errors:
    if not text.strip():
        return [required(field, "")]
    try:
        compile_expression(text, variables)
    except CelSyntaxError as error:
        return [bad_value(field, text, f"compilation failed: {error}")]
    return []
