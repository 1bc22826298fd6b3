"""Stands in for api.tables until it is there."""

from __future__ import annotations

from typing import Any

from ..api.kinds import Kind
from ..api.objects import Obj


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
