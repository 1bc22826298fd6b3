"""Validating policies: what they refuse, in whose words, with which parameters."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from orlop.api import kinds
from tests.apiserver.conftest import Http

from .conftest import GROUP, MAPS, PODS, create, policy, rule

Obj = dict[str, Any]


async def test_what_breaks_a_rule_is_refused_in_upstreams_words(http: Http, config_map) -> None:
    await policy(http, {"expression": "object.data.k != 'bad'", "message": "k must be good"})
    assert (await http("POST", MAPS, config_map())).code == 201
    reply = await http("POST", MAPS, config_map("b", {"k": "bad"}))
    assert (reply.code, reply.json["reason"]) == (422, "Invalid")
    why = (
        "ValidatingAdmissionPolicy 'rules' with binding 'rules-binding' denied request: "
        "k must be good"
    )
    assert reply.json["message"] == f'configmaps "b" is forbidden: {why}'
    assert reply.json["details"]["causes"] == [{"message": why}]


@pytest.mark.parametrize(
    ("validation", "code", "message"),
    [
        ({"reason": "Forbidden"}, 403, "failed expression: object.data.k == 'v'"),
        ({"reason": "Unauthorized", "message": "who?"}, 401, "who?"),
        ({"messageExpression": "'not ' + object.data.k"}, 422, "not bad"),
        ({"messageExpression": "object.data.none", "message": "else"}, 422, "else"),
        ({"messageExpression": "'a\\nb'"}, 422, "failed expression: object.data.k == 'v'"),
    ],
)
async def test_reasons_and_messages(http: Http, config_map, validation, code, message) -> None:
    await policy(http, {"expression": "object.data.k == 'v'", **validation})
    reply = await http("POST", MAPS, config_map(data={"k": "bad"}))
    assert reply.code == code
    assert reply.json["message"].endswith(f"denied request: {message}")


@pytest.mark.parametrize(("failure", "code"), [("Fail", 422), ("Ignore", 201)])
async def test_an_expression_without_a_value_counts_by_the_failure_policy(
    http: Http, config_map, failure, code
) -> None:
    await policy(http, "object.data.none == 'x'", failurePolicy=failure)
    reply = await http("POST", MAPS, config_map())
    assert reply.code == code
    if code == 422:
        text = "expression 'object.data.none == 'x'' resulted in error: no such key: none"
        assert reply.json["message"].endswith(text)


async def test_warn_and_audit_let_the_request_through(http: Http, config_map) -> None:
    await policy(http, "false", actions=("Warn", "Audit"))
    reply = await http("POST", MAPS, config_map())
    assert reply.code == 201
    assert reply.headers["Warning"] == (
        "299 - \"Validation failed for ValidatingAdmissionPolicy 'rules' with binding "
        "'rules-binding': failed expression: false\""
    )


@pytest.mark.parametrize(
    "expression",
    [
        "request.operation == 'CREATE' && request.name == 'a' && request.namespace == 'default'",
        "request.userInfo.username == 'kubernetes-admin'",
        "request.resource.resource == 'configmaps' && request.kind.kind == 'ConfigMap'",
        "oldObject == null && object != null",
        "namespaceObject.metadata.name == 'default'",
        "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'default'",
        "authorizer.requestResource.check('create').allowed()",
        "!authorizer.serviceAccount('default','x').group('').resource('secrets')"
        ".namespace('default').check('get').allowed()",
        "variables.size == 1 && variables.twice == 2",
        "quantity('1Gi').isGreaterThan(quantity('1Mi')) && isSemver('1.2.3')",
        "!format.dns1123Label().validate(object.metadata.name).hasValue()",
    ],
)
async def test_what_expressions_see(http: Http, config_map, expression) -> None:
    variables = [
        {"name": "size", "expression": "size(object.data)"},
        {"name": "twice", "expression": "variables.size * 2"},
    ]
    await policy(http, expression, variables=variables)
    reply = await http("POST", MAPS, config_map())
    assert reply.code == 201, reply.text


async def test_a_deletion_sees_the_old_object_alone(http: Http, config_map) -> None:
    await http("POST", MAPS, config_map())
    kept = "object == null && oldObject.data.k == 'x'"
    await policy(http, f"request.operation != 'DELETE' || ({kept})")
    assert (await http("DELETE", f"{MAPS}/a")).code == 422
    patch = json.dumps({"data": {"k": "x"}})
    kind = {"Content_Type": "application/merge-patch+json"}
    assert (await http("PATCH", f"{MAPS}/a", patch, **kind)).code == 200
    assert (await http("DELETE", f"{MAPS}/a")).code == 200


async def test_a_policy_without_a_binding_does_nothing_and_conditions_narrow_it(
    http: Http, config_map
) -> None:
    conditions = [{"name": "named", "expression": "object.metadata.name.startsWith('x')"}]
    await policy(http, "false", matchConditions=conditions)
    assert (await http("POST", MAPS, config_map())).code == 201
    assert (await http("POST", MAPS, config_map("x"))).code == 422
    await http("DELETE", f"{GROUP}/validatingadmissionpolicybindings/rules-binding")
    assert (await http("POST", MAPS, config_map("x"))).code == 201


@pytest.mark.parametrize(
    ("narrowed", "code"),
    [
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, 422),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}, 201),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, 201),
        ({"resourceRules": [rule("configmaps", operations=("UPDATE",))]}, 201),
        ({"excludeResourceRules": [rule("configmaps")]}, 201),
    ],
)
async def test_a_binding_narrows_what_it_is_about(http: Http, config_map, narrowed, code) -> None:
    await policy(http, "false", bind={"matchResources": narrowed})
    assert (await http("POST", MAPS, config_map())).code == code


async def test_a_rule_may_name_its_objects(http: Http, config_map) -> None:
    named = {**rule("configmaps"), "resourceNames": ["only"]}
    await policy(http, "false", matchConstraints={"resourceRules": [named]})
    assert (await http("POST", MAPS, config_map("other"))).code == 201
    assert (await http("POST", MAPS, config_map("only"))).code == 422


PARAMS = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
LIMIT = "int(params.data.limit) >= size(object.spec.containers)"


async def test_parameters_are_found_by_name_and_by_selector(http: Http, config_map, pod) -> None:
    for name, limit in (("one", "1"), ("none", "0")):
        await http("POST", MAPS, config_map(name, {"limit": limit}, labels={"for": "pods"}))
    reference = {"name": "one", "namespace": "default", "parameterNotFoundAction": "Deny"}
    await policy(http, LIMIT, resources=("pods",), bind={"paramRef": reference}, **PARAMS)
    assert (await http("POST", PODS, pod())).code == 201
    selected = {
        "selector": {"matchLabels": {"for": "pods"}},
        "parameterNotFoundAction": "Deny",
    }
    binding = {"policyName": "rules", "validationActions": ["Deny"], "paramRef": selected}
    await create(http, "validatingadmissionpolicybindings", "all", binding)
    reply = await http("POST", PODS, pod("b"))
    assert "with binding 'all' denied request: failed expression" in reply.json["message"]


@pytest.mark.parametrize(("action", "code"), [("Allow", 201), ("Deny", 422)])
async def test_parameters_that_are_not_there(http: Http, pod, action, code) -> None:
    reference = {"name": "none", "parameterNotFoundAction": action}
    await policy(http, LIMIT, resources=("pods",), bind={"paramRef": reference}, **PARAMS)
    reply = await http("POST", PODS, pod())
    assert reply.code == code
    if code == 422:
        assert "no params found for policy binding with `Deny`" in reply.json["message"]


async def test_parameters_can_be_custom_resources(http: Http, pod) -> None:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"most": {"type": "integer"}}}},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "limits", "singular": "limit", "kind": "Limit", "listKind": "LimitList"}
    definition = {
        "metadata": {"name": "limits.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]},
    }
    await http("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    kind = {"apiVersion": "example.com/v1", "kind": "Limit"}
    reference = {"name": "pods", "parameterNotFoundAction": "Deny"}
    await policy(
        http,
        "size(object.spec.containers) <= params.spec.most",
        resources=("pods",),
        paramKind=kind,
        bind={"paramRef": reference},
    )
    made: Any = None
    for _ in range(100):
        limit = {"metadata": {"name": "pods"}, "spec": {"most": 0}}
        made = await http("POST", "/apis/example.com/v1/limits", limit)
        if made.code == 201:
            break
        await asyncio.sleep(0.05)
    assert made.code == 201
    assert (await http("POST", PODS, pod())).code == 422


async def test_expressions_are_bounded(http: Http, config_map) -> None:
    digits, expression = list(range(10)), "true"
    for name in "abcdef":
        expression = f"{digits}.all({name}, {expression})"
    await policy(http, expression)
    reply = await http("POST", MAPS, config_map())
    assert reply.code == 422
    assert "cost limit exceeded" in reply.json["message"]


async def test_scale_and_controllers_are_not_spared(http: Http, local, config_map) -> None:
    await policy(http, "object.data.k == 'v'")
    with pytest.raises(Exception, match="denied request"):
        await local.create(kinds.CONFIG_MAP, config_map(data={"k": "x"}))


@pytest.mark.parametrize(
    ("expression", "warning"),
    [
        ("object.spec.replicas < 3", ""),
        ("object.spce.replicas < 3", "apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined "
                                     "field 'spce'"),
        ("object.spec.template.spec.containers.all(c, c.imgae != '')", "undefined field 'imgae'"),
        ("variables.pods.containers[0].naem == ''", "undefined field 'naem'"),
        ("has(object.metadata.labels) && object.metadata.labels.anything == 'x'", ""),
    ],
)  # fmt: skip
async def test_fields_that_are_not_there_are_warned_of_in_the_status(
    http: Http, expression, warning
) -> None:
    variables = [{"name": "pods", "expression": "object.spec.template.spec"}]
    await policy(http, expression, resources=("deployments",), group="apps", variables=variables)
    path = f"{GROUP}/validatingadmissionpolicies/rules"
    status: Obj = {}
    for _ in range(100):
        status = (await http("GET", path)).json.get("status") or {}
        if status.get("observedGeneration") == 1:
            break
        await asyncio.sleep(0.05)
    found = status["typeChecking"].get("expressionWarnings") or []
    assert bool(found) is bool(warning)
    if warning:
        assert found[0]["fieldRef"] == "spec.validations[0].expression"
        assert warning in found[0]["warning"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"validations": []}, "spec.validations"),
        ({"validations": [{"expression": "object."}]}, "spec.validations[0].expression"),
        ({"validations": [{"expression": "variables.x"}]}, "spec.validations[0].expression"),
        ({"validations": [{"expression": "params.x"}]}, "spec.validations[0].expression"),
        ({"validations": [{"expression": "true", "reason": "Because"}]},
         "spec.validations[0].reason"),
        ({"matchConstraints": None}, "spec.matchConstraints"),
        ({"matchConstraints": {"resourceRules": []}}, "spec.matchConstraints.resourceRules"),
        ({"variables": [{"name": "a b", "expression": "1"}]}, "spec.variables[0].name"),
        ({"variables": [{"name": "a", "expression": "variables.b"},
                        {"name": "b", "expression": "1"}]}, "spec.variables[0].expression"),
        ({"auditAnnotations": [{"key": "k", "valueExpression": ""}]},
         "spec.auditAnnotations[0].valueExpression"),
    ],
)  # fmt: skip
async def test_a_policy_that_is_not_right_is_refused(http: Http, change, field) -> None:
    spec = {
        "matchConstraints": {"resourceRules": [rule("pods")]},
        "validations": [{"expression": "true"}],
        **change,
    }
    body = {"metadata": {"name": "x"}, "spec": spec}
    reply = await http("POST", f"{GROUP}/validatingadmissionpolicies", body)
    assert reply.code == 422, reply.text
    assert field in [cause["field"] for cause in reply.json["details"]["causes"]]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"validationActions": []}, "spec.validationActions"),
        ({"validationActions": ["Deny", "Warn"]}, "spec.validationActions"),
        ({"validationActions": ["Shout"]}, "spec.validationActions[0]"),
        ({"policyName": ""}, "spec.policyName"),
        ({"paramRef": {"parameterNotFoundAction": "Deny"}}, "spec.paramRef"),
        ({"paramRef": {"name": "x"}}, "spec.paramRef.parameterNotFoundAction"),
    ],
)
async def test_a_binding_that_is_not_right_is_refused(http: Http, change, field) -> None:
    spec = {"policyName": "p", "validationActions": ["Deny"], **change}
    body = {"metadata": {"name": "x"}, "spec": spec}
    reply = await http("POST", f"{GROUP}/validatingadmissionpolicybindings", body)
    assert reply.code == 422, reply.text
    assert field in [cause["field"] for cause in reply.json["details"]["causes"]]
