"""The bundled definitions: each is what its file's name says, and would be accepted upstream."""

from __future__ import annotations

import pytest

from orlop.extensions.definitions import Manifest
from orlop.extensions.registry import definitions

ALL = definitions()


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_file_holds_the_definition_it_is_named_after(name: str) -> None:
    document = ALL[name].document()
    assert document["kind"] == "CustomResourceDefinition"
    assert document["metadata"]["name"] == name
    spec = document["spec"]
    assert f"{spec['names']['plural']}.{spec['group']}" == name


def test_the_digest_changes_with_the_text() -> None:
    assert Manifest("a", "x: 1").digest != Manifest("a", "x: 2").digest


def test_a_document_is_a_fresh_copy() -> None:
    manifest = Manifest("a", "x: {y: 1}")
    manifest.document()["x"]["y"] = 2
    assert manifest.document() == {"x": {"y": 1}}
