"""Policies and their bindings, as short as a test needs them."""

from __future__ import annotations

from typing import Any

from tests.apiserver.conftest import Http

Obj = dict[str, Any]
GROUP = "/apis/admissionregistration.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def rule(*resources: str, group: str = "", operations: tuple[str, ...] = ("*",)) -> Obj:
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "resources": list(resources),
        "operations": list(operations),
    }


async def create(http: Http, plural: str, name: str, spec: Obj) -> None:
    reply = await http("POST", f"{GROUP}/{plural}", {"metadata": {"name": name}, "spec": spec})
    assert reply.code == 201, reply.text


async def policy(
    http: Http,
    *validations: Obj | str,
    resources: tuple[str, ...] = ("configmaps",),
    group: str = "",
    name: str = "rules",
    actions: tuple[str, ...] = ("Deny",),
    bind: Obj | None = None,
    **spec: Any,
) -> None:
    """A validating policy and its binding."""
    each = [one if isinstance(one, dict) else {"expression": one} for one in validations]
    body = {
        "matchConstraints": {"resourceRules": [rule(*resources, group=group)]},
        "validations": each,
        **spec,
    }
    await create(http, "validatingadmissionpolicies", name, body)
    binding = {"policyName": name, "validationActions": list(actions), **(bind or {})}
    await create(http, "validatingadmissionpolicybindings", f"{name}-binding", binding)


async def mutation(
    http: Http,
    *mutations: Obj,
    resources: tuple[str, ...] = ("pods",),
    group: str = "",
    name: str = "changes",
    bind: Obj | None = None,
    **spec: Any,
) -> None:
    body = {
        "matchConstraints": {"resourceRules": [rule(*resources, group=group)]},
        "mutations": list(mutations),
        "reinvocationPolicy": "Never",
        **spec,
    }
    await create(http, "mutatingadmissionpolicies", name, body)
    binding = {"policyName": name, **(bind or {})}
    await create(http, "mutatingadmissionpolicybindings", f"{name}-binding", binding)


def laid_over(expression: str) -> Obj:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patched(expression: str) -> Obj:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
