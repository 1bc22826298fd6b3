"""Fields that rules name: those that are there, and those that cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api.crd.names import unknown_fields
from orlop.api.crd.structural_schema import Node

TEXT = {"type": "string"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "a": TEXT,
                "a-b": TEXT,
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "map": {"type": "object", "additionalProperties": TEXT},
                "list": {"type": "array", "items": {"type": "object", "properties": {"k": TEXT}}},
                "deep": {"type": "object", "properties": {"n": {"type": "integer"}}},
                "pod": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {"spec": {"type": "object"}},
                },
                "any": {"x-kubernetes-int-or-string": True},
            },
        }
    },
}
ROOT = Node(SCHEMA)
SPEC = Node(SCHEMA["properties"]["spec"])


@pytest.mark.parametrize(
    "rule",
    [
        "self.a == 'x'",
        "has(self.a)",
        "self.?a.orValue('')== ''",
        "self.a__dash__b == ''",
        "self.free.whatever.more == 1",
        "self.map.key == 'x' && self.map['k'] == 'y'",
        "self.list[0].k == ''",
        "self.list.all(x, x.unheard == 1)",
        "self.deep.n > oldSelf.deep.n",
        "self.pod.metadata.name == '' && self.pod.kind == 'Pod'",
        "[{'q': 1}].all(self, self.q == 1)",
        "oldSelf.orValue(self).a == 'x'",
        "{'z': 1}.z == 1",
        "type(self.any) == int",
    ],
)
def test_what_is_there_or_cannot_be_known_is_let_be(rule: str) -> None:
    assert list(unknown_fields(rule, SPEC, is_root=False)) == []


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ("self.z == 'x'", "z"),
        ("has(self.z)", "z"),
        ("self.deep.z > 1", "z"),
        ("oldSelf.deep.z > 1", "z"),
        ("self.list[0].z == ''", "z"),
        ("true || [self.z] == []", "z"),
        ("{'a': self.z}.a == 1", "z"),
        ("self.deep[?'n'].hasValue() && self.zz", "zz"),
        ("self.list.all(x, x.k == self.z)", "z"),
        ("self.pod.metadata.labels == {}", "labels"),
    ],
)
def test_what_cannot_be_is_told(rule: str, field: str) -> None:
    (told,) = unknown_fields(rule, SPEC, is_root=False)
    assert f"undefined field '{field}'" in told


def test_at_the_root_there_are_names_and_types() -> None:
    assert list(unknown_fields("self.metadata.name == self.kind", ROOT, is_root=True)) == []
    assert len(list(unknown_fields("self.metadata.labels == {}", ROOT, is_root=True))) == 1
    assert len(list(unknown_fields("self.metadata.name == ''", SPEC, is_root=False))) == 1
