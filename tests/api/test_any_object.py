"""Whatever decodes is answered, never crashed on: objects made up from the schema, and garbage."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from orlop.api import defaults, kinds, protobuf, strategy, tables, validation
from orlop.api.fields import parse_fields
from orlop.api.kinds import Kind
from orlop.api.patch import merge, strategic
from orlop.api.schema import Schema
from orlop.api.schema.model import struct_name
from orlop.api.selectors import parse_labels
from orlop.errors import ApiError, BadRequest

from .generated import Maker

Obj = dict[str, Any]
EACH_KIND = pytest.mark.parametrize(
    "kind", kinds.STORED, ids=lambda kind: f"{kind.resource}.{kind.version}"
)


def made(schema: Schema, kind: Kind, count: int = 60, *, seed: int = 0) -> Iterator[Obj]:
    maker = Maker(schema, seed)
    name = struct_name(kind.group, kind.version, kind.kind)
    for _ in range(count):
        yield {**maker.struct(name), "metadata": {"name": "x", "namespace": "default"}}


@EACH_KIND
def test_every_object_that_decodes_is_defaulted_judged_and_printed(
    kind: Kind, schema: Schema
) -> None:
    width = len(tables.columns(kind))
    for obj in made(schema, kind):
        assert schema.decode(kind, obj) == []
        defaults.apply_defaults(kind, obj)
        strategy.prepare_for_create(kind, obj, now=0.0, uid="u")
        errors = validation.validate_create(kind, obj)
        assert all(error.message for error in errors)
        assert len(tables.row(kind, obj, 1.8e9)["cells"]) == width


@EACH_KIND
def test_every_update_is_judged(kind: Kind, schema: Schema) -> None:
    pairs = zip(made(schema, kind), made(schema, kind, seed=1), strict=True)
    for old, new in pairs:
        for obj in (old, new):
            schema.decode(kind, obj)
            defaults.apply_defaults(kind, obj)
        strategy.prepare_for_create(kind, old, now=0.0, uid="u")
        status = copy.deepcopy(new)
        strategy.prepare_for_update(kind, new, old)
        validation.validate_update(kind, new, old)
        strategy.prepare_for_status_update(kind, status, old)
        validation.validate_status_update(kind, status, old)
        assert new["metadata"]["uid"] == status["metadata"]["uid"] == "u"


@EACH_KIND
def test_decoding_and_defaulting_are_done_after_once(kind: Kind, schema: Schema) -> None:
    for obj in made(schema, kind):
        schema.decode(kind, obj)
        defaults.apply_defaults(kind, obj)
        once = copy.deepcopy(obj)
        assert schema.decode(kind, obj) == []
        defaults.apply_defaults(kind, obj)
        assert obj == once


@EACH_KIND
def test_every_patch_is_applied_or_refused(kind: Kind, schema: Schema) -> None:
    struct = schema.type_of(kind)
    for target, patch in zip(made(schema, kind), made(schema, kind, seed=1), strict=True):
        with suppress(ApiError):
            strategic.apply(copy.deepcopy(target), copy.deepcopy(patch), struct)
        once = merge.apply(target, copy.deepcopy(patch))
        assert merge.apply(copy.deepcopy(once), patch) == once


def test_a_strategic_patch_that_names_everything_changes_nothing(schema: Schema) -> None:
    """What kubectl apply sends when nothing changed, at its longest."""
    struct = schema.type_of(kinds.POD)
    for obj in made(schema, kinds.POD, 300):
        schema.decode(kinds.POD, obj)
        with suppress(ApiError):  # duplicate or missing merge keys
            names = [one.get("name") for one in (obj.get("spec") or {}).get("containers") or ()]
            if len(set(names)) == len(names):
                target = {"spec": {"containers": (obj.get("spec") or {}).get("containers") or []}}
                patched = strategic.apply(copy.deepcopy(target), copy.deepcopy(target), struct)
                found = [one.get("name") for one in patched["spec"]["containers"]]
                assert found == names


def test_any_json_is_a_pod_or_a_bad_request(schema: Schema) -> None:
    maker = Maker(schema)
    outcomes = set()
    for _ in range(3000):
        obj = {"metadata": maker.json(), "spec": maker.json(), "x": maker.json()}
        try:
            schema.decode(kinds.POD, obj)
        except BadRequest:
            outcomes.add("refused")
        else:
            outcomes.add("decoded")
            assert schema.decode(kinds.POD, obj) == []
    assert outcomes == {"refused", "decoded"}


def test_any_bytes_are_an_object_or_a_bad_request(schema: Schema) -> None:
    maker = Maker(schema)
    typed = b"\x0a\x09\x0a\x02v1\x12\x03Pod"
    outcomes = set()
    for _ in range(5000):
        data = maker.bytes(20)
        for one in (
            data,
            b"k8s\x00" + data,
            b"k8s\x00" + typed + b"\x12" + bytes([len(data)]) + data,
        ):
            try:
                outcomes.add(protobuf.decode(one)["kind"])
            except BadRequest:
                outcomes.add("refused")
    assert outcomes >= {"refused", "Pod"}


def test_any_text_is_a_selector_or_a_bad_request(schema: Schema) -> None:
    maker = Maker(schema)
    read = 0
    for _ in range(5000):
        text = maker.text("ab=!,()<> /.-inot", 20)
        with suppress(BadRequest):
            selector = parse_labels(text)
            read += bool(selector.requirements)
            assert parse_labels(str(selector)).requirements == selector.requirements
        with suppress(BadRequest):
            parse_fields(kinds.POD, text)
    assert read > 20


def test_the_made_up_objects_are_worth_something(schema: Schema) -> None:
    """Guards against a maker that makes nothing: most kinds of errors come of it."""
    reasons: set[str] = set()
    fields: set[str] = set()
    for obj in made(schema, kinds.POD, 300):
        schema.decode(kinds.POD, obj)
        defaults.apply_defaults(kinds.POD, obj)
        for error in validation.validate_create(kinds.POD, obj):
            reasons.add(error.reason)
            fields.add(error.field)
    assert len(reasons) >= 5
    assert len(fields) > 100
