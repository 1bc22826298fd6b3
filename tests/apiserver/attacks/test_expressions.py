"""Expressions, rules and schemas made to take for ever, and objects that meet such schemas."""

from __future__ import annotations

import json
import time
from itertools import count
from typing import Any

import pytest

from tests.apiserver.attacks.target import Reply, Target

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TEXT = {"type": "string"}
WHOLE = {"type": "integer"}


def _definition(schema: dict[str, Any], kind: str = "Never", **version: Any) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    whole = {"type": "object", "properties": {"x": schema}}
    return {
        "metadata": {"name": f"{plural}.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [{"name": "v1", "served": True, "storage": True,
                          "schema": {"openAPIV3Schema": whole}, **version}],
        },
    }  # fmt: skip


class Thing:
    """A kind of its own, which goes with the block."""

    numbers = count()

    def __init__(self, target: Target, schema: dict[str, Any]) -> None:
        self._target = target
        self._schema = schema
        self._kind = f"Thing{next(self.numbers)}"
        self._plural = f"{self._kind.lower()}s"
        self.path = f"/apis/example.org/v1/namespaces/small/{self._plural}"

    def __enter__(self) -> Thing:
        definition = _definition(self._schema, self._kind)
        made = self._target.ask("POST", DEFINITIONS, definition, who="admin")
        assert made.code == 201, made.body[:1000]
        deadline = time.monotonic() + 30
        while self._target.ask("GET", self.path, who="admin").code != 200:
            assert time.monotonic() < deadline, "its kind is not served"
        return self

    def __exit__(self, *_: object) -> None:
        name = f"{self._plural}.example.org"
        self._target.ask("DELETE", f"{DEFINITIONS}/{name}", who="admin")

    def _body(self, x: Any, name: str = "a") -> dict[str, Any]:
        body = {"apiVersion": "example.org/v1", "kind": self._kind, "metadata": {"name": name}}
        return body if x is None else {**body, "x": x}

    def with_x(self, x: Any, name: str = "a") -> Reply:
        return self._target.ask("POST", self.path, self._body(x, name), who="admin")

    def updated(self, x: Any) -> Reply:
        found = self._target.ask("GET", f"{self.path}/a", who="admin").json
        return self._target.ask("PUT", f"{self.path}/a", {**found, "x": x}, who="admin")

    def applied(self, manager: str, x: Any, query: str = "", *, as_yaml: bool = False) -> Reply:
        path = f"{self.path}/a?fieldManager={manager}{query}"
        body = json.dumps(self._body(x)).encode() + (b"\n# as YAML" if as_yaml else b"")
        return self._target.ask("PATCH", path, body, "application/apply-patch+yaml", who="admin")


def _ruled(rule: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "x-kubernetes-validations": [{"rule": rule}]}


def _bound(levels: int, start: str, step: str, body: str) -> str:
    """`v0` is the start, each next one a step of the one before, and then comes the body."""
    opening = f"cel.bind(v0, {start}, "
    opening += "".join(f"cel.bind(v{n}, {step.replace('V', f'v{n - 1}')}, "
                       for n in range(1, levels + 1))  # fmt: skip
    return opening + body.replace("V", f"v{levels}") + ")" * (levels + 1)


NUMBERS = {"type": "array", "items": WHOLE}
TEXTS = {"type": "array", "items": TEXT}
HUNDRED = list(range(100))
RULES: list[tuple[str, dict[str, Any], Any]] = [
    ("self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d >= 0))))", NUMBERS, HUNDRED),
    ("self.map(a, self.map(b, self.map(c, [a, b, c]))).size() > 0", NUMBERS, HUNDRED),
    ("self.distinct().size() > 0", NUMBERS, list(range(80_000))),
    ("sets.contains(self, self)", NUMBERS, list(range(80_000))),
    ("self.map(a, self) == self.map(a, self)", NUMBERS, HUNDRED * 30),
    (_bound(26, "[1, 1]", "[V, V]", "V == V"), NUMBERS, [1]),
    (_bound(26, "[1, 1]", "[V, V]", "V.flatten(30).size() > 0"), NUMBERS, [1]),
    (_bound(26, "[1, 1]", "[V, V]", "'%s'.format([V]).size() > 0"), NUMBERS, [1]),
    (_bound(40, "'xx'", "V + V", "V.size() > 0"), NUMBERS, [1]),
    ("cel.bind(s, self.join(), self.map(a, s).join().size() > 0)", TEXTS, ["a" * 50] * 20_000),
    ("'%.999999999f'.format([1.0]).size() > 0", NUMBERS, [1]),
    ("self.all(a, a.matches('^(a+)+$'))", TEXTS, ["a" * 40 + "!"] * 100),
    ("self.all(a, a.matches('^[ab]*a.{900}$'))", TEXTS, ["ab" * 400_000]),
    ("self.all(a, a.findAll('a.*z|a').size() > 0)", TEXTS, ["a" * 100_000]),
    ("self.all(a, int(a) > 0)", TEXTS, ["9" * 100_000]),
    ("self.all(a, isURL(a) && url(a).getHostname() != '')", TEXTS, ["http://[::" + "1" * 100_000]),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "schema", "x"), RULES, ids=[rule[:40] for rule, _, _ in RULES])
def test_a_rule_ends_soon_and_says_why(
    target: Target, rule: str, schema: dict[str, Any], x: Any
) -> None:
    with Thing(target, _ruled(rule, schema)) as thing, target.unharmed(growth=400):
        reply = thing.with_x(x)
    assert reply.code == 422, reply.body[:500]
    assert len(reply.body) < 200_000


def test_many_rules_share_what_one_object_may_take(target: Target) -> None:
    rule = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"
    schema = {**NUMBERS, "x-kubernetes-validations": [{"rule": rule}] * 30}
    with Thing(target, {"type": "array", "items": schema}) as thing, target.unharmed():
        reply = thing.with_x([list(range(85))] * 50)
    assert reply.code == 422
    assert "cost" in reply.message or "computing time" in reply.message


def _nested(levels: int, inner: dict[str, Any], **fields: Any) -> dict[str, Any]:
    for _ in range(levels):
        inner = {"type": "object", "properties": {"a": inner}, **fields}
    return inner


BAD_SCHEMAS: list[tuple[str, dict[str, Any]]] = [
    ("deep", _nested(150, TEXT)),
    ("pattern: too large", {**TEXT, "pattern": r"\pL{1000}"}),
    ("pattern: large ones", {"type": "object", "properties": {
        f"p{n}": {**TEXT, "pattern": rf"\pL{{900}}{n}"} for n in range(500)}}),
    ("pattern: repeats of repeats", {**TEXT, "pattern": "((a{100}){100}){100}"}),
    ("pattern: looks ahead", {**TEXT, "pattern": "^(?=.*a)b"}),
    ("pattern: looks back", {**TEXT, "pattern": r"^(a)\1$"}),
    ("pattern: brackets", {**TEXT, "pattern": "(" * 1_000_000}),
    ("rule: brackets", _ruled("(" * 50_000, TEXT)),
    ("rule: long", _ruled("[" + "1," * 300_000 + "1].size() > 0", TEXT)),
    ("rules: many", {"type": "object", "properties": {
        f"p{n}": _ruled("[" + "1," * 4_000 + "1].size() > 0", TEXT) for n in range(60)}}),
    ("allOf", {**TEXT, "allOf": [{"nullable": True}] * 30_000}),
]  # fmt: skip


@pytest.mark.parametrize("schema", [s for _, s in BAD_SCHEMAS], ids=[n for n, _ in BAD_SCHEMAS])
def test_a_schema_that_is_too_much_is_refused(target: Target, schema: dict[str, Any]) -> None:
    with target.unharmed():
        reply = target.ask("POST", DEFINITIONS, _definition(schema), who="admin")
    assert reply.code in (400, 422), reply.body[:500]
    assert len(reply.body) < 200_000


@pytest.mark.parametrize(
    "path",
    [
        ".a[?(@.b" + " " * 20_000 + "x",
        ".a[?(@.b" + " " * 500 + "==" + " " * 400,
        ".a[?(@.b==" + "[" * 900 + ")]",
        ".a" * 20_000,
    ],
    ids=["spaces", "few spaces", "brackets", "long"],
)
def test_so_is_a_path_of_a_column(target: Target, path: str) -> None:
    columns = [{"name": "a", "type": "string", "jsonPath": path}]
    definition = _definition(TEXT, additionalPrinterColumns=columns)
    with target.unharmed():
        reply = target.ask("POST", DEFINITIONS, definition, who="admin")
    assert reply.code == 422
    assert "additionalPrinterColumns[0].jsonPath" in reply.message


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


COSTLY: list[tuple[str, dict[str, Any], Any]] = [
    ("pattern", {**TEXT, "pattern": "^(a+)+$"}, "a" * 40 + "!"),
    ("pattern, long", {**TEXT, "pattern": "^[ab]*a.{900}$"}, "ab" * 700_000),
    ("patterns", _list({**TEXT, "pattern": "^[ab]*a.{900}$"}), ["ab" * 200] * 5_000),
    ("format", {**TEXT, "format": "hostname"}, "a" * 1_000_000),
    ("format of a duration", {**TEXT, "format": "duration"}, "1h" * 500_000 + "!"),
    ("format of an email", {**TEXT, "format": "email"}, "@" * 1_000_000),
    ("anyOf", _list({**TEXT, "anyOf": [{"maxLength": 1}] * 3_000}), ["aa"] * 20_000),
    ("enum", _list({**WHOLE, "enum": list(range(20_000))}), [-1] * 50_000),
    ("enum of objects", _list({
        "type": "object", "x-kubernetes-preserve-unknown-fields": True,
        "enum": [{"a": n} for n in range(2_000)]}), [{"a": 0.5}] * 20_000),
    ("defaults", _list({"type": "object", "properties": {"a": {
        **TEXT, "default": "x" * 100_000}}}), [{}] * 50_000),
    ("many defaults", _list({"type": "object", "properties": {
        f"a{n}": {**WHOLE, "default": n} for n in range(100)}}), [{}] * 20_000),
    ("long names", {"type": "object", "additionalProperties": {"type": "array", "items": WHOLE}},
     {"x" * 1_000_000: ["a"] * 50_000}),
    ("set", {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT}, ["a"] * 80_000),
]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "x"), [(s, x) for _, s, x in COSTLY], ids=[name for name, _, _ in COSTLY]
)
def test_an_object_that_costs_too_much_is_refused(
    target: Target, schema: dict[str, Any], x: Any
) -> None:
    with Thing(target, schema) as thing, target.unharmed(growth=400):
        reply = thing.with_x(x)
    assert reply.code in (400, 422), reply.body[:500]
    assert len(reply.body) < 3_000_000


def test_rules_and_defaults_at_every_level_are_read_once(target: Target) -> None:
    rule = [{"rule": "true"}]
    schema = _nested(60, TEXT, **{"x-kubernetes-validations": rule, "nullable": True})
    wide = {f"w{n}": _nested(8, TEXT, **{"x-kubernetes-validations": rule}) for n in range(1_000)}
    whole = {"type": "object", "properties": {"deep": schema, **wide}}
    with target.unharmed(), Thing(target, whole) as thing:
        reply = thing.with_x({})
    assert reply.code in (201, 422), reply.body[:500]
