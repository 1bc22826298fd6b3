"""What we store of valid objects is valid to upstream's own schemas."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from orlop.api import kinds, validation
from orlop.api.kinds import Kind, Kinds
from orlop.api.schema import Schema
from orlop.api.schema.definitions import definition_name
from orlop.api.schema.model import struct_name
from orlop.extensions.registry import definitions

from .validation import test_kinds, test_pods, test_workloads
from .validation.objects import prepared

Obj = dict[str, Any]
EXAMPLES = Path(__file__).parents[2] / "examples"
VALID: list[tuple[str, Kind, Obj]] = [
    *((kind.resource, kind, obj) for kind, obj in test_kinds.VALID.items()),
    *((kind.resource, kind, obj) for kind, obj in test_workloads.VALID.items()),
    *((f"pod: {name}", kinds.POD, obj) for name, obj in test_pods.GOOD.items()),
]


@pytest.fixture(scope="module")
def judge(upstream: dict[str, Any]) -> Callable[[Kind, Obj], None]:
    """Upstream's schema of a kind, applied to an object."""

    def check(kind: Kind, obj: Obj) -> None:
        name = definition_name(struct_name(kind.group, kind.version, kind.kind))
        schema = {"$ref": f"#/$defs/{name}", "$defs": upstream}
        errors = jsonschema.Draft202012Validator(schema).iter_errors(obj)
        assert [error.message for error in errors] == []

    return check


@pytest.mark.parametrize(
    ("kind", "obj"), [case[1:] for case in VALID], ids=[case[0] for case in VALID]
)
def test_prepared_objects_are_valid_to_upstream(
    kind: Kind, obj: Obj, schema: Schema, judge: Callable[[Kind, Obj], None]
) -> None:
    whole = prepared(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **obj})
    assert schema.decode(kind, whole) == []
    judge(kind, whole)


def manifests() -> list[tuple[str, Obj]]:
    found = []
    for path in sorted(EXAMPLES.rglob("*.y*ml")):
        for index, document in enumerate(yaml.safe_load_all(path.read_text())):
            if isinstance(document, dict) and "kind" in document and not _is_custom(document):
                found.append((f"{path.relative_to(EXAMPLES)}:{index}", document))
    return found


def _is_custom(manifest: Obj) -> bool:
    """Of a kind that comes with Orlop as a definition, of which upstream's schemas know nothing."""
    groups = {name.partition(".")[2] for name in definitions()}
    return manifest["apiVersion"].partition("/")[0] in groups


MANIFESTS = manifests()


def test_the_judge_is_strict(judge: Callable[[Kind, Obj], None]) -> None:
    with pytest.raises(AssertionError, match="required property"):
        judge(kinds.POD, {"spec": {}})


@pytest.mark.parametrize(
    "manifest", [one[1] for one in MANIFESTS], ids=[one[0] for one in MANIFESTS]
)
def test_every_example_is_decoded_completed_and_valid(
    manifest: Obj, schema: Schema, judge: Callable[[Kind, Obj], None]
) -> None:
    kind = Kinds().by_kind(manifest["apiVersion"], manifest["kind"])
    assert kind is not None
    assert schema.decode(kind, manifest) == []
    whole = prepared(kind, manifest)
    assert validation.validate_create(kind, whole) == []
    judge(kind, whole)
