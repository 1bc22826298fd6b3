"""Stands in for api.validation and api.tables until they are there."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..api.kinds import Kind
from ..api.objects import Obj
from ..errors import Invalid


class FieldError(NamedTuple):
    field: str
    reason: str
    message: str


def validate_create(kind: Kind, obj: Obj) -> list[FieldError]:
    if not obj["metadata"].get("name"):
        text = "Required value: name or generateName is required"
        return [FieldError("metadata.name", "FieldValueRequired", text)]
    return []


def validate_update(kind: Kind, obj: Obj, old: Obj, subresource: str = "") -> list[FieldError]:
    return []


def invalid(kind: Kind, name: str, errors: list[FieldError]) -> Invalid:
    text = ", ".join(f"{error.field}: {error.message}" for error in errors)
    group = f".{kind.group}" if kind.group else ""
    return Invalid(f'{kind.kind}{group} "{name}" is invalid: {text}')


def table(kind: Kind, objects: list[Obj], now: float, include: str) -> dict[str, Any]:
    columns = [
        {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}
    ]
    rows = [
        {
            "cells": [obj["metadata"]["name"]],
            "object": {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": obj["metadata"],
            },
        }
        for obj in objects
    ]
    return {"columnDefinitions": columns, "rows": rows}
