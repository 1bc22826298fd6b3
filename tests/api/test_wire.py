"""The table of the wire format: it parses, and agrees with the schema."""

from __future__ import annotations

import pytest

from orlop.api import kinds
from orlop.api.kinds import Kind
from orlop.api.schema import Schema
from orlop.api.schema.model import struct_name
from orlop.api.wire import Wire, table

# Alpha fields come and go between the releases of the two packages.
ALPHA = {
    "core_v1.NodeAllocatableResourceClaimStatus.resources",
    "resource_v1.Device.nodeAllocatableResourceMappings",
}
# Stable only since the release after the one whose numbers we have: these come as JSON.
NEWER = {
    kinds.CLUSTER_TRUST_BUNDLE,
    kinds.DEVICE_TAINT_RULE,
    kinds.POD_CERTIFICATE_REQUEST,
    kinds.STORAGE_VERSION_MIGRATION,
}


@pytest.fixture(scope="module")
def wire() -> Wire:
    return Wire()


def _messages() -> list[str]:
    return [line.split(" ", 1)[0] for line in table.TABLE.splitlines()]


def test_every_line_parses_and_no_number_is_given_twice(wire: Wire) -> None:
    for line in table.TABLE.splitlines():
        name, *fields = line.split()
        assert len(wire.message(name)) == len(fields), name


def test_every_message_that_is_referred_to_is_there(wire: Wire) -> None:
    for name in _messages():
        for field in wire.message(name).values():
            bare = field.spec.lstrip("[{")
            # A struct without fields has no line: there is nothing on the wire to number.
            if bare.startswith("@") and not wire.knows(bare[1:]):
                assert not wire.message(bare[1:])


@pytest.mark.parametrize(
    "kind", kinds.BUILT_IN, ids=lambda kind: kind.resource + "." + kind.version
)
def test_every_kind_is_on_the_wire_but_those_of_other_packages(kind: Kind, wire: Wire) -> None:
    known = wire.knows(struct_name(kind.group, kind.version, kind.kind))
    assert known is (kind.group != "apiregistration.k8s.io" and kind not in NEWER)


def test_the_wire_has_no_field_that_json_has_not(wire: Wire, schema: Schema) -> None:
    extra = {
        f"{name}.{field}"
        for name in set(_messages()) & set(schema.names())
        for field in set(wire.flat_fields(name)) - set(schema.struct(name).fields)
    }
    assert extra <= ALPHA


@pytest.mark.parametrize(
    ("message", "number", "name", "spec"),
    [
        ("core_v1.PodSpec", 2, "containers", "[@core_v1.Container"),
        ("core_v1.Container", 1, "name", "s"),
        ("core_v1.Container", 8, "resources", "@core_v1.ResourceRequirements"),
        ("meta_v1.ObjectMeta", 1, "name", "s"),
        ("meta_v1.ObjectMeta", 8, "creationTimestamp", "t"),
        ("apps_v1.DeploymentSpec", 1, "replicas", "i"),
        ("core_v1.Secret", 2, "data", "{y"),
    ],
)
def test_numbers(message: str, number: int, name: str, spec: str, wire: Wire) -> None:
    field = wire.message(message)[number]
    assert (field.name, field.spec) == (name, spec)


def test_inlined_structs_are_their_parents_fields_in_json(wire: Wire) -> None:
    volume = wire.flat_fields("core_v1.Volume")
    assert {"name", "emptyDir", "configMap", "hostPath"} <= set(volume)
    assert "volumeSource" not in volume
    assert wire.message("core_v1.Volume")[2].inline


def test_pointers_are_marked(wire: Wire) -> None:
    assert wire.flat_fields("apps_v1.DeploymentSpec")["replicas"].pointer
    assert not wire.flat_fields("core_v1.PodSpec")["hostNetwork"].pointer
    assert wire.flat_fields("core_v1.PodSpec")["containers"].always
    assert wire.message("core_v1.Nothing") == {}
