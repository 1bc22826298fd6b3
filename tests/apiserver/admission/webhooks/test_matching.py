"""Which requests a webhook hears of: rules, selectors, conditions, other versions."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api import kinds
from orlop.api.objects import Key
from tests.apiserver.conftest import Http, Site

from .conftest import GROUP, MAPS, PODS, Hook, add, configure, patch

Obj = dict[str, Any]
PATH = "/api/v1/namespaces/default/pods"
EVERYTHING = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}


def rule(**more: Any) -> Obj:
    return {**PODS, "operations": ["CREATE"], **more}


@pytest.mark.parametrize(
    ("rules", "is_called"),
    [
        ([rule()], True),
        ([rule(resources=["*"])], True),
        ([rule(resources=["*/*"])], True),
        ([rule(resources=["pods/*"])], True),
        ([rule(resources=["pods/status"])], False),
        ([rule(apiGroups=["apps"])], False),
        ([rule(apiVersions=["v2"])], False),
        ([rule(operations=["UPDATE", "DELETE"])], False),
        ([rule(scope="Namespaced")], True),
        ([rule(scope="Cluster")], False),
        ([rule(apiGroups=["apps"]), rule(apiGroups=["*"])], True),
    ],
)
async def test_rules_say_which_requests(http: Http, hook: Hook, pod, rules, is_called) -> None:
    await configure(http, "validating", hook.config(rules=rules))
    assert (await http("POST", PATH, pod())).code == 201
    assert len(hook.requests) == int(is_called)


@pytest.mark.parametrize(
    ("selectors", "is_called"),
    [
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "y"}}}, False),
        ({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}},
         False),
        ({"objectSelector": {"matchLabels": {"app": "web"}}}, True),
        ({"objectSelector": {"matchLabels": {"app": "db"}}}, False),
    ],
)  # fmt: skip
async def test_selectors_look_at_the_namespace_and_at_the_object(
    http: Http, hook: Hook, pod, selectors, is_called
) -> None:
    space = {"metadata": {"name": "lab", "labels": {"team": "x"}}}
    await http("POST", "/api/v1/namespaces", space)
    await configure(http, "validating", hook.config(**selectors))
    body = pod(namespace="lab", labels={"app": "web"})
    assert (await http("POST", "/api/v1/namespaces/lab/pods", body)).code == 201
    assert len(hook.requests) == int(is_called)


@pytest.mark.parametrize(
    ("expression", "is_called"),
    [
        ("object.metadata.name == 'a'", True),
        ("object.metadata.name != 'a'", False),
        ("request.operation == 'CREATE' && oldObject == null", True),
        ("'system:masters' in request.userInfo.groups", True),
        ("authorizer.group('').resource('pods').namespace('x').check('create').allowed()", True),
        ("authorizer.requestResource.check('fly').allowed()", True),
        ("authorizer.serviceAccount('default', 'nobody').path('/metrics').check('get').allowed()",
         False),
        ("!has(object.metadata.labels) || object.metadata.labels['x'] == 'y'", True),
    ],
)  # fmt: skip
async def test_conditions_in_cel_say_whether_to_ask(
    http: Http, hook: Hook, pod, expression, is_called
) -> None:
    conditions = [{"name": "first", "expression": "true"}, {"name": "x", "expression": expression}]
    await configure(http, "validating", hook.config(matchConditions=conditions))
    assert (await http("POST", PATH, pod())).code == 201
    assert len(hook.requests) == int(is_called)


@pytest.mark.parametrize(("policy", "code"), [("Fail", 403), ("Ignore", 201)])
async def test_a_condition_without_a_value_counts_by_the_failure_policy(
    http: Http, hook: Hook, pod, policy, code
) -> None:
    conditions = [{"name": "x", "expression": "object.metadata.labels.none == 'y'"}]
    config = hook.config(matchConditions=conditions, failurePolicy=policy)
    await configure(http, "validating", config)
    reply = await http("POST", PATH, pod())
    assert reply.code == code
    assert hook.requests == []
    if code == 403:
        assert "resulted in error: no such key: labels" in reply.json["message"]


async def test_a_false_condition_decides_over_one_without_a_value(
    http: Http, hook: Hook, pod
) -> None:
    conditions = [
        {"name": "x", "expression": "object.metadata.labels.none == 'y'"},
        {"name": "y", "expression": "false"},
    ]
    await configure(http, "validating", hook.config(matchConditions=conditions))
    assert (await http("POST", PATH, pod())).code == 201


@pytest.mark.parametrize(("policy", "is_called"), [("Equivalent", True), ("Exact", False)])
async def test_a_rule_for_another_version_sees_the_object_in_that_version(
    http: Http, hook: Hook, policy, is_called
) -> None:
    rules = [
        {
            "apiGroups": ["autoscaling"],
            "apiVersions": ["v1"],
            "resources": ["horizontalpodautoscalers"],
            "operations": ["CREATE"],
        }
    ]
    hook.answer = lambda request: patch(add("/spec/targetCPUUtilizationPercentage", 50))
    await configure(http, "mutating", hook.config(rules=rules, matchPolicy=policy))
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    body = {"metadata": {"name": "h"}, "spec": {"scaleTargetRef": target, "maxReplicas": 5}}
    path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    made = (await http("POST", path, body)).json
    assert len(hook.requests) == int(is_called)
    if is_called:
        request = hook.requests[0]
        assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v1", "v2")
        assert request["object"]["apiVersion"] == "autoscaling/v1"
        assert made["apiVersion"] == "autoscaling/v2"
        assert made["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 50


async def test_nothing_is_asked_about_webhooks_and_policies_themselves(
    http: Http, hook: Hook
) -> None:
    hook.answer = lambda request: {"allowed": False}
    await configure(http, "validating", hook.config(rules=[EVERYTHING]))
    refused = await http("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}})
    assert refused.code == 400
    path = f"{GROUP}/validatingwebhookconfigurations/hooks"
    assert (await http("DELETE", path)).code == 200
    assert (await http("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}})).code == 201


async def test_a_configuration_holds_for_the_very_next_request_and_goes_as_fast(
    http: Http, hook: Hook, local, config_map
) -> None:
    """In process too: controllers are not spared."""
    rules = [{**MAPS, "operations": ["*"]}]
    for turn in range(5):
        await configure(http, "validating", hook.config(rules=rules))
        await local.create(kinds.CONFIG_MAP, config_map(f"m{turn}"))
        await http("DELETE", f"{GROUP}/validatingwebhookconfigurations/hooks")
        await local.create(kinds.CONFIG_MAP, config_map(f"n{turn}"))
    assert [request["name"] for request in hook.requests] == [f"m{turn}" for turn in range(5)]


async def test_a_namespace_is_selected_by_its_own_labels_and_is_its_own_namespace(
    http: Http, hook: Hook
) -> None:
    rules = [{**rule(), "resources": ["namespaces"]}]
    selector = {"matchLabels": {"watched": "yes"}}
    await configure(http, "validating", hook.config(rules=rules, namespaceSelector=selector))
    for name, labels in (("one", {"watched": "yes"}), ("two", {})):
        await http("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    assert [request["namespace"] for request in hook.requests] == ["one"]


@pytest.mark.parametrize(
    ("subresource", "body", "kind"),
    [
        ("binding", {"target": {"name": "n1"}}, "Binding"),
        ("eviction", {"metadata": {"name": "a"}}, "Eviction"),
    ],
)
async def test_what_is_posted_to_a_subresource_is_the_object(
    http: Http, hook: Hook, site: Site, pod, subresource, body, kind
) -> None:
    await http("POST", PATH, pod())
    rules = [rule(resources=["pods/*"], operations=["*"])]
    hook.answer = lambda request: {"allowed": request["name"] != "a"}
    await configure(http, "validating", hook.config(rules=rules))
    reply = await http("POST", f"{PATH}/a/{subresource}", body)
    assert reply.code == 400
    (request,) = hook.requests
    assert (request["operation"], request["subResource"]) == ("CREATE", subresource)
    assert request["kind"]["kind"] == request["object"]["kind"] == kind
    assert "nodeName" not in (await http("GET", f"{PATH}/a")).json["spec"]


async def test_exec_is_connected_to_and_can_be_refused(http: Http, hook: Hook, pod, local) -> None:
    await http("POST", PATH, pod())
    await local.create_subresource(
        kinds.POD, Key("default", "a"), "binding", {"target": {"name": "n1"}}
    )
    hook.answer = lambda request: {"allowed": False, "status": {"message": "hands off"}}
    rules = [rule(resources=["pods/exec"], operations=["CONNECT"])]
    await configure(http, "validating", hook.config(rules=rules))
    reply = await http("GET", f"{PATH}/a/exec?command=sh&command=-c&stdin=true")
    assert reply.json["message"].endswith("denied the request: hands off")
    shown = hook.requests[0]["object"]
    assert shown["kind"] == "PodExecOptions"
    assert (shown["command"], shown["stdin"]) == (["sh", "-c"], True)
