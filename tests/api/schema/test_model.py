"""The schema in memory, and kept between starts."""

from __future__ import annotations

import time

import pytest

from orlop.api import kinds
from orlop.api.kinds import Kind
from orlop.api.schema import Schema, build, fingerprint, load
from orlop.api.schema.model import struct_name


def test_what_was_kept_is_what_was_built(schema: Schema) -> None:
    kept = load(schema.dumps())
    assert schema.is_fresh
    assert not kept.is_fresh
    assert kept.names() == schema.names()
    assert kept.docs() == schema.docs()
    for name in schema.names():
        assert kept.struct(name).fields == schema.struct(name).fields


@pytest.mark.parametrize("data", [b"", b"garbage", b"\x94\x00\xa1x\x80\xc4\x00", b"\xc1"])
def test_what_was_not_kept_by_us_is_built_anew(data: bytes) -> None:
    assert Schema.loads(data) is None
    assert load(data).is_fresh


def test_a_schema_of_another_release_is_built_anew(schema: Schema) -> None:
    old = Schema("lightkube-models 1.0", {}, b"", is_fresh=True)
    assert load(old.dumps()).fingerprint == schema.fingerprint == fingerprint()
    assert load(None).is_fresh


def test_loading_what_was_kept_costs_a_small_part_of_building_it(schema: Schema) -> None:
    data = schema.dumps()
    assert min(_seconds(lambda: load(data)) for _ in range(5)) < _seconds(build) / 10
    assert len(data) < 400_000


def _seconds(function) -> float:
    started = time.process_time()
    function()
    return time.process_time() - started


@pytest.mark.parametrize(
    ("group", "version", "kind", "name"),
    [
        ("", "v1", "Pod", "core_v1.Pod"),
        ("apps", "v1", "Deployment", "apps_v1.Deployment"),
        ("rbac.authorization.k8s.io", "v1", "Role", "rbac_v1.Role"),
        ("networking.k8s.io", "v1", "Ingress", "networking_v1.Ingress"),
    ],
)
def test_structs_are_named_by_package_and_version(
    group: str, version: str, kind: str, name: str
) -> None:
    assert struct_name(group, version, kind) == name


def test_every_built_in_kind_has_a_struct_and_others_have_none(schema: Schema) -> None:
    assert all(schema.type_of(kind) for kind in kinds.BUILT_IN)
    custom = Kind("example.com", "v1", "Widget", "widgets", True)
    assert schema.type_of(custom) is None
    assert schema.decode(custom, {"anything": None}) == []


def test_merge_facts_lead_from_struct_to_struct(schema: Schema) -> None:
    pod = schema.type_of(kinds.POD)
    assert pod is not None
    spec = pod.field("spec")
    assert spec is not None
    containers = spec.struct().field("containers")
    assert (containers.merge_key, containers.strategies) == ("name", ("merge",))
    assert containers.struct().field("ports").merge_key == "containerPort"
    assert containers.struct().field("image").struct() is None
    assert containers.struct().field("nonsense") is None
    assert spec.struct().field("volumes").strategies == ("merge", "retainKeys")
