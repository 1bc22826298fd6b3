"""Mutating policies: parts laid over objects, JSON patches, and the second round."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.apiserver.conftest import Http

from .conftest import DEPLOYMENTS, GROUP, MAPS, PODS, laid_over, mutation, patched, rule

Obj = dict[str, Any]


async def test_a_part_is_laid_over_the_object_as_apply_would(http: Http, pod) -> None:
    side = (
        "Object{metadata: Object.metadata{labels: {'by': 'policy'}}, "
        "spec: Object.spec{containers: ["
        "Object.spec.containers{name: 'main', image: 'other:1'}, "
        "Object.spec.containers{name: 'side', image: 'i:1'}]}}"
    )
    await mutation(http, laid_over(side))
    reply = await http("POST", PODS, pod(labels={"mine": "kept"}))
    assert reply.code == 201, reply.text
    made = reply.json
    assert made["metadata"]["labels"] == {"mine": "kept", "by": "policy"}
    assert {c["name"]: c["image"] for c in made["spec"]["containers"]} == {
        "main": "other:1",
        "side": "i:1",
    }
    assert all(c["terminationMessagePath"] for c in made["spec"]["containers"])


async def test_json_patches_are_applied_one_after_the_other(http: Http, config_map) -> None:
    await mutation(
        http,
        patched(
            "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a.io/b'),"
            "value: 'x'}]"
        ),
        patched(
            "'a.io/b' in object.metadata.labels ? "
            "[JSONPatch{op: 'test', path: '/data/k', value: 'v'},"
            "JSONPatch{op: 'replace', path: '/data/k', value: 'w'}] : []"
        ),
        resources=("configmaps",),
    )
    reply = await http("POST", MAPS, config_map(labels={"mine": "kept"}))
    assert reply.json["data"] == {"k": "w"}, reply.text
    assert reply.json["metadata"]["labels"] == {"mine": "kept", "a.io/b": "x"}


async def test_conditions_variables_and_parameters_work_here_too(http: Http, config_map) -> None:
    await http("POST", MAPS, config_map("params", {"value": "from params"}))
    await mutation(
        http,
        laid_over("Object{data: {'k': variables.text}}"),
        resources=("configmaps",),
        matchConditions=[{"name": "x", "expression": "object.metadata.name != 'spared'"}],
        variables=[{"name": "text", "expression": "params.data.value + '!'"}],
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        bind={"paramRef": {"name": "params", "parameterNotFoundAction": "Deny"}},
    )
    assert (await http("POST", MAPS, config_map())).json["data"] == {"k": "from params!"}
    assert (await http("POST", MAPS, config_map("spared"))).json["data"] == {"k": "v"}


async def test_replicas_of_a_deployment_are_bounded(http: Http) -> None:
    await mutation(
        http,
        laid_over("Object{spec: Object.spec{replicas: object.spec.replicas > 3 ? 3 : "
                  "object.spec.replicas}}"),
        resources=("deployments",),
        group="apps",
    )  # fmt: skip
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template, "replicas": 9}
    made = (await http("POST", DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})).json
    assert made["spec"]["replicas"] == 3


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (laid_over("Object{data: Object.data{k: object.data.none}}"), "no such key: none"),
        (laid_over("1"), "must evaluate to an Object"),
        (patched("[JSONPatch{op: 'remove', path: '/data/none'}]"), "error in our request"),
        (patched("1"), "must evaluate to a list of JSONPatch"),
        (patched("[JSONPatch{op: 'add', path: '/metadata/managedFields', value: []}]"),
         "metadata.managedFields must not be changed"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("failure", ["Fail", "Ignore"])
async def test_what_cannot_be_done_counts_by_the_failure_policy(
    http: Http, config_map, change, why, failure
) -> None:
    await mutation(http, change, resources=("configmaps",), failurePolicy=failure)
    reply = await http("POST", MAPS, config_map())
    if failure == "Ignore":
        assert (reply.code, reply.json["data"]) == (201, {"k": "v"})
    else:
        assert reply.code == 403
        text = "policy 'changes' with binding 'changes-binding' denied request: expression"
        assert text in reply.json["message"]
        assert why in reply.json["message"]


async def test_atomic_lists_cannot_be_laid_over(http: Http, pod) -> None:
    part = "Object{spec: Object.spec{tolerations: [Object.spec.tolerations{key: 'x'}]}}"
    await mutation(http, laid_over(part))
    reply = await http("POST", PODS, pod())
    assert "may not mutate atomic arrays: .spec.tolerations" in reply.json["message"]


@pytest.mark.parametrize(("policy", "label"), [("Never", "0"), ("IfNeeded", "1")])
async def test_a_policy_sees_the_object_again_when_a_later_one_changed_it(
    http: Http, pod, policy, label
) -> None:
    counted = (
        "Object{metadata: Object.metadata{labels: {'others': "
        "string(size(object.metadata.?annotations.orValue({})))}}}"
    )
    await mutation(http, laid_over(counted), name="a", reinvocationPolicy=policy)
    noted = "Object{metadata: Object.metadata{annotations: {'b': 'was here'}}}"
    await mutation(http, laid_over(noted), name="b")
    made = (await http("POST", PODS, pod())).json
    assert made["metadata"]["labels"] == {"others": label}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"mutations": []}, "spec.mutations"),
        ({"mutations": [{"patchType": "Other"}]}, "spec.mutations[0].patchType"),
        (
            {"mutations": [laid_over("Nothing{}")]},
            "spec.mutations[0].applyConfiguration.expression",
        ),
        ({"mutations": [laid_over("")]}, "spec.mutations[0].applyConfiguration.expression"),
        ({"reinvocationPolicy": "Often"}, "spec.reinvocationPolicy"),
    ],
)
async def test_a_policy_that_is_not_right_is_refused(http: Http, change, field) -> None:
    spec = {
        "matchConstraints": {"resourceRules": [rule("pods")]},
        "mutations": [laid_over("Object{}")],
        "reinvocationPolicy": "Never",
        **change,
    }
    body = {"metadata": {"name": "x"}, "spec": spec}
    reply = await http("POST", f"{GROUP}/mutatingadmissionpolicies", body)
    assert reply.code == 422, reply.text
    assert field in [cause["field"] for cause in reply.json["details"]["causes"]]


def _doubled(levels: int, start: str) -> str:
    """A list of lists of lists, a few bytes of expression and as large as one likes."""
    text = f"cel.bind(v0, {start}, "
    text += "".join(f"cel.bind(v{n}, [v{n - 1}, v{n - 1}], " for n in range(1, levels))
    patch = f'[JSONPatch{{op: "add", path: "/data/a", value: v{levels - 1}}}]'
    return text + patch + ")" * levels


@pytest.mark.parametrize(
    ("levels", "start"),
    [(40, "[1, 1]"), (8, "'" + "x" * 50_000 + "'")],
    ids=["doubled", "long"],
)
async def test_what_is_made_is_no_larger_than_an_object(
    http: Http, config_map, levels: int, start: str
) -> None:
    change = {"patchType": "JSONPatch", "jsonPatch": {"expression": _doubled(levels, start)}}
    await mutation(http, change, resources=("configmaps",))
    begun = time.monotonic()
    reply = await http("POST", MAPS, config_map())
    assert (reply.code, time.monotonic() - begun < 20) == (403, True), reply.text[:300]
    assert len(reply.text) < 200_000
