"""Bodies of every kind with anything in them: refused or kept, never an error of ours."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from orlop.api import kinds
from orlop.api.schema import Schema, StructType
from orlop.apiserver.auth.authentication import user
from orlop.apiserver.registry import Call
from orlop.apiserver.verbs.apply import apply
from orlop.apiserver.verbs.create import create
from orlop.apiserver.verbs.patch import JSON, MERGE, STRATEGIC, patch
from orlop.apiserver.verbs.update import update
from orlop.errors import ApiError

# By the schema's letters for types: what is plausible, and what is just over the edge.
TYPED: dict[str, list[Any]] = {
    "s": ["", "a", "A b", "TCP", "Always", "10.96.0.7", "0 0 * * *", "x" * 70, "../x", "Exists"],
    "i": [0, 1, -1, 80, 70000, 2**31],
    "l": [0, 1, -1, 2**40],
    "b": [True, False],
    "t": ["2020-01-01T00:00:00Z", None],
    "T": ["2020-01-01T00:00:00.000000Z"],
    "q": ["1", "100m", "1Gi", 5, "-1"],
    "x": [1, "50%", "http", 0],
    "y": ["YQ==", "", "!!"],
}
WRONG = [
    None,
    True,
    0,
    -1,
    1.5,
    10**20,
    "",
    "ü",
    [],
    {},
    [None],
    [[]],
    [{}],
    {"a": None},
    "x" * 300,
]
PATHS = ["", "/spec", "/metadata", "/metadata/labels", "/a/b", "/status", "/spec/containers/0"]


class Maker:
    def __init__(self, schema: Schema, seed: int) -> None:
        self.schema = schema
        self.rng = random.Random(seed)

    def struct(self, struct: StructType | None, depth: int = 0) -> Any:
        if struct is None or depth > 6:
            return self.rng.choice(WRONG)
        chance = 0.5 if depth < 3 else 0.25
        return {
            name: self.value(field.spec, depth)
            for name, field in struct.fields.items()
            if self.rng.random() < chance
        }

    def value(self, spec: str, depth: int) -> Any:
        if self.rng.random() < 0.01:
            return self.rng.choice(WRONG)
        if spec.startswith("["):
            return [self.value(spec[1:], depth) for _ in range(self.rng.randint(0, 2))]
        if spec.startswith("{"):
            names = self.rng.sample(["a", "b/c", "cpu", "x y"], self.rng.randint(0, 2))
            return {name: self.value(spec[1:], depth) for name in names}
        if spec.startswith("@"):
            return self.struct(self.schema.struct(spec[1:]), depth + 1)
        return self.rng.choice(TYPED.get(spec, WRONG))

    def body(self, kind: kinds.Kind) -> dict[str, Any]:
        body = self.struct(self.schema.type_of(kind))
        metadata = body.get("metadata") if isinstance(body.get("metadata"), dict) else {}
        dropped = ("resourceVersion", "namespace", "uid")
        kept = {name: value for name, value in metadata.items() if name not in dropped}
        body["metadata"] = {**kept, "name": self.rng.choice("abc")}
        return {**body, "apiVersion": kind.api_version, "kind": kind.kind}

    def operations(self) -> list[dict[str, Any]]:
        verbs = ["add", "replace", "remove", "test", "copy", "move", "none"]
        return [
            {"op": self.rng.choice(verbs), "path": self.rng.choice(PATHS),
             "from": self.rng.choice(PATHS), "value": self.rng.choice(WRONG)}
            for _ in range(2)
        ]  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
async def test_no_body_is_an_error_of_ours(site, schema, seed) -> None:
    maker, registry = Maker(schema, seed), site.server.registry
    kept, answers = 0, list[ApiError]()
    for _ in range(300):
        kind = maker.rng.choice(kinds.STORED)
        body = json.loads(json.dumps(maker.body(kind)))
        namespace = "default" if kind.namespaced else ""
        call = Call(user("x"), kind, namespace, field_validation="Ignore")
        verbs = ["create", "create", "update", "merge", "strategic", "json", "apply", "status"]
        verb = maker.rng.choice(verbs)
        if verb != "create":
            call.name = body["metadata"]["name"]
        try:
            if verb == "create":
                await create(registry, call, body)
            elif verb == "update":
                await update(registry, call, body)
            elif verb in ("apply", "status"):
                call.subresource = "status" if verb == "status" and kind.has_status else ""
                call.field_manager = maker.rng.choice("xyz")
                await apply(registry, call, body, force=maker.rng.random() < 0.7)
            elif verb == "json":
                await patch(registry, call, JSON, maker.operations())
            else:
                await patch(registry, call, MERGE if verb == "merge" else STRATEGIC, body)
            kept += 1
        except ApiError as refused:
            answers.append(refused)
    assert [answer for answer in answers if not 400 <= answer.status_code < 500] == []
    assert all(json.dumps(answer.status()) for answer in answers)
    assert kept > 5, "some of it is valid, or nothing was tested"
