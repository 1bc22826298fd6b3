"""Strategic merge patches, with the real types: what kubectl apply, edit and label send."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from orlop.api import kinds
from orlop.api.kinds import Kind
from orlop.api.patch import strategic
from orlop.api.schema import Schema
from orlop.errors import BadRequest, Invalid

Obj = dict[str, Any]


def pod(*containers: Obj, **spec: Any) -> Obj:
    return {"spec": {"containers": list(containers), **spec}}


def names(*words: str) -> list[Obj]:
    return [{"name": word} for word in words]


CASES: dict[str, tuple[Kind, Obj, Obj, Obj]] = {
    "maps merge": (
        kinds.POD,
        {"metadata": {"labels": {"a": "1"}}},
        {"metadata": {"labels": {"b": "2"}}},
        {"metadata": {"labels": {"a": "1", "b": "2"}}},
    ),
    "null deletes": (
        kinds.POD,
        {"metadata": {"labels": {"a": "1", "b": "2"}}},
        {"metadata": {"labels": {"a": None, "gone": None}}},
        {"metadata": {"labels": {"b": "2"}}},
    ),
    "keyed lists merge by name": (
        kinds.POD,
        pod({"name": "a", "image": "x", "tty": True}, {"name": "b", "image": "y"}),
        pod({"name": "a", "image": "z"}),
        pod({"name": "a", "image": "z", "tty": True}, {"name": "b", "image": "y"}),
    ),
    "a new element comes where the patch has it": (
        kinds.POD,
        pod({"name": "a"}, {"name": "b"}),
        pod({"name": "c"}),
        pod({"name": "c"}, {"name": "a"}, {"name": "b"}),
    ),
    "nested keyed lists merge": (
        kinds.POD,
        pod({"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}),
        pod({"name": "a", "env": [{"name": "Y", "value": "3"}]}),
        pod({"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "3"}]}),
    ),
    "atomic lists are replaced": (
        kinds.POD,
        pod({"name": "a", "args": ["1", "2"]}),
        pod({"name": "a", "args": ["3"]}),
        pod({"name": "a", "args": ["3"]}),
    ),
    "tolerations are replaced": (
        kinds.POD,
        {"spec": {"tolerations": [{"key": "a"}]}},
        {"spec": {"tolerations": [{"key": "b"}]}},
        {"spec": {"tolerations": [{"key": "b"}]}},
    ),
    "sets of scalars are united": (
        kinds.POD,
        {"metadata": {"finalizers": ["a/x", "b/y"]}},
        {"metadata": {"finalizers": ["c/z", "a/x"]}},
        {"metadata": {"finalizers": ["c/z", "a/x", "b/y"]}},
    ),
    "an element is deleted by directive": (
        kinds.POD,
        pod({"name": "a"}, {"name": "b"}),
        pod({"name": "a", "$patch": "delete"}),
        pod({"name": "b"}),
    ),
    "a list is replaced by directive": (
        kinds.POD,
        pod({"name": "a"}, {"name": "b"}),
        pod({"$patch": "replace"}, {"name": "c"}),
        pod({"name": "c"}),
    ),
    "a map is replaced by directive": (
        kinds.POD,
        {"metadata": {"labels": {"a": "1", "b": "2"}}},
        {"metadata": {"labels": {"$patch": "replace", "c": "3"}}},
        {"metadata": {"labels": {"c": "3"}}},
    ),
    "a map is emptied by directive": (
        kinds.POD,
        {"metadata": {"labels": {"a": "1"}, "name": "x"}},
        {"metadata": {"labels": {"$patch": "delete"}}},
        {"metadata": {"labels": {}, "name": "x"}},
    ),
    "values leave a list of scalars": (
        kinds.POD,
        {"metadata": {"finalizers": ["a", "b", "c"]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["b", "gone"]}},
        {"metadata": {"finalizers": ["a", "c"]}},
    ),
    "the order of elements is set": (
        kinds.POD,
        pod(*names("a", "b", "c")),
        {"spec": {"$setElementOrder/containers": names("c", "b", "a")}},
        pod(*names("c", "b", "a")),
    ),
    "order, change and addition together": (
        kinds.POD,
        pod({"name": "a", "image": "1"}, {"name": "b", "image": "1"}),
        {
            "spec": {
                "$setElementOrder/containers": names("b", "c", "a"),
                "containers": [{"name": "c", "image": "2"}, {"name": "a", "image": "2"}],
            }
        },
        pod({"name": "b", "image": "1"}, {"name": "c", "image": "2"}, {"name": "a", "image": "2"}),
    ),
    "what only the server has keeps its place": (
        kinds.POD,
        pod(*names("server", "a", "b", "tail")),
        {"spec": {"$setElementOrder/containers": names("b", "a")}},
        pod(*names("server", "b", "a", "tail")),
    ),
    "order and deletion together": (
        kinds.POD,
        pod(*names("a", "b", "c")),
        {
            "spec": {
                "$setElementOrder/containers": names("c", "a"),
                "containers": [{"name": "b", "$patch": "delete"}],
            }
        },
        pod(*names("c", "a")),
    ),
    "order of scalars": (
        kinds.POD,
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"$setElementOrder/finalizers": ["b", "c", "a"], "finalizers": ["c"]}},
        {"metadata": {"finalizers": ["b", "c", "a"]}},
    ),
    "order for a list that is new": (
        kinds.POD,
        {"spec": {}},
        {"spec": {"$setElementOrder/containers": names("a"), "containers": names("a")}},
        pod(*names("a")),
    ),
    "order for a list that is nowhere": (
        kinds.POD,
        {"spec": {}},
        {"spec": {"$setElementOrder/containers": names("a")}},
        {"spec": {}},
    ),
    "retained keys drop the others": (
        kinds.DEPLOYMENT,
        {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}},
        {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
        {"spec": {"strategy": {"type": "Recreate"}}},
    ),
    "a volume changes its source": (
        kinds.POD,
        {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
        {
            "spec": {
                "volumes": [
                    {"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}
                ]
            }
        },
        {"spec": {"volumes": [{"name": "v", "configMap": {"name": "c"}}]}},
    ),
    "ports of a service merge by number": (
        kinds.SERVICE,
        {"spec": {"ports": [{"port": 80, "nodePort": 30080}, {"port": 443}]}},
        {"spec": {"ports": [{"port": 80, "name": "http"}]}},
        {"spec": {"ports": [{"port": 80, "nodePort": 30080, "name": "http"}, {"port": 443}]}},
    ),
    "conditions merge by type": (
        kinds.POD,
        {"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "X"}]}},
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        {"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "X"}]}},
    ),
    "a selector of a budget is replaced": (
        kinds.POD_DISRUPTION_BUDGET,
        {"spec": {"selector": {"matchLabels": {"a": "1"}}}},
        {"spec": {"selector": {"matchLabels": {"b": "2"}}}},
        {"spec": {"selector": {"matchLabels": {"b": "2"}}}},
    ),
    "types differ, the patch wins": (
        kinds.SERVICE,
        {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}},
        {"spec": {"ports": [{"port": 80, "targetPort": "http"}]}},
        {"spec": {"ports": [{"port": 80, "targetPort": "http"}]}},
    ),
    "directives and nulls of what is new vanish": (
        kinds.POD,
        {},
        {
            "spec": {
                "containers": [{"name": "a", "image": None}, {"name": "b", "$patch": "delete"}],
                "$setElementOrder/containers": names("a"),
            }
        },
        {"spec": {"containers": [{"name": "a"}]}},
    ),
    "templates know their types": (
        kinds.DEPLOYMENT,
        {"spec": {"template": pod({"name": "a", "image": "1"}, {"name": "b", "image": "1"})}},
        {"spec": {"template": pod({"name": "b", "image": "2"})}},
        {"spec": {"template": pod({"name": "a", "image": "1"}, {"name": "b", "image": "2"})}},
    ),
    "an unknown field is a plain merge": (
        kinds.POD,
        {"spec": {"nonsense": {"a": [1]}}},
        {"spec": {"nonsense": {"a": [2], "b": 1}}},
        {"spec": {"nonsense": {"a": [2], "b": 1}}},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_patching(case: str, schema: Schema) -> None:
    kind, target, patch, result = copy.deepcopy(CASES[case])
    assert strategic.apply(target, patch, schema.type_of(kind)) == result


@pytest.mark.parametrize(
    ("patch", "error", "message"),
    [
        ([], BadRequest, "must be a JSON object"),
        ({"metadata": {"$patch": "explode"}}, BadRequest, "unknown patch type"),
        ({"spec": {"containers": [{"image": "x"}]}}, Invalid, "declared merge key: name"),
        (
            {"spec": {"containers": [{"$patch": "merge", "name": "a"}]}},
            BadRequest,
            "merging lists cannot yet be specified in the patch",
        ),
        ({"spec": {"containers": [{"$patch": "x"}]}}, BadRequest, "unknown patch type"),
        ({"spec": {"containers": [{"$patch": "delete"}]}}, Invalid, "declared merge key"),
        ({"metadata": {"$retainKeys": "x"}}, BadRequest, "invalid patch format of retainKeys"),
        (
            {"metadata": {"$retainKeys": ["name"], "labels": {}}},
            BadRequest,
            "invalid patch format of retainKeys",
        ),
        (
            {"metadata": {"$deleteFromPrimitiveList/finalizers": "x"}},
            BadRequest,
            "invalid patch format of primitive list",
        ),
        (
            {"spec": {"$setElementOrder/containers": "x"}},
            BadRequest,
            "invalid patch format of setElementOrder list",
        ),
        ({"spec": {"containers": ["x"]}}, Invalid, "declared merge key"),
        ({"metadata": {"finalizers": [{"a": 1}]}}, Invalid, "cannot merge lists without merge key"),
    ],
)
def test_patches_that_cannot_be(
    patch: Any, error: type[Exception], message: str, schema: Schema
) -> None:
    target = {"metadata": {"finalizers": ["a"], "name": "p"}, "spec": {"containers": names("a")}}
    with pytest.raises(error, match=message):
        strategic.apply(target, patch, schema.type_of(kinds.POD))


def test_without_types_every_list_is_replaced() -> None:
    target = {"spec": {"items": [{"name": "a"}]}}
    patched = strategic.apply(target, {"spec": {"items": [{"name": "b"}], "x": 1}}, None)
    assert patched == {"spec": {"items": [{"name": "b"}], "x": 1}}


def test_an_empty_patch_changes_nothing(schema: Schema) -> None:
    target = pod({"name": "a", "image": "x"})
    assert strategic.apply(copy.deepcopy(target), {}, schema.type_of(kinds.POD)) == target


@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"finalizers": [["a"]]}},
        {"spec": {"containers": [{"name": {"a": "b"}}]}},
        {"spec": {"containers": [{"name": ["a"], "image": "b"}]}},
    ],
)
def test_what_cannot_be_a_merge_key_is_refused(schema: Schema, patch: Obj) -> None:
    target = {**pod(*names("a")), "metadata": {"finalizers": ["x/y"]}}
    with pytest.raises(Invalid):
        strategic.apply(target, patch, schema.type_of(kinds.POD))


def test_an_order_that_names_objects_puts_nothing_before_anything(schema: Schema) -> None:
    patch = {"spec": {"$setElementOrder/containers": [{"name": {"a": "b"}}, {"name": "b"}]}}
    done = strategic.apply(pod(*names("a", "b")), patch, schema.type_of(kinds.POD))
    assert done["spec"]["containers"] == names("a", "b")
