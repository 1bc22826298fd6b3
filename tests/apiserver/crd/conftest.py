"""Definitions to make, and a way to wait until they are served."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.apiserver.conftest import Http

Obj = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"
SPEC: Obj = {
    "type": "object",
    "required": ["size"],
    "description": "What the thing is.",
    "properties": {
        "size": {"type": "integer", "minimum": 1},
        "color": {"type": "string", "default": "red", "enum": ["red", "blue"]},
        "replicas": {"type": "integer", "default": 1},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
    "x-kubernetes-validations": [
        {"rule": "self.replicas <= self.size", "message": "more replicas than size"},
        {"rule": "self.size >= oldSelf.size", "message": "must not shrink"},
    ],
}
STATUS: Obj = {
    "type": "object",
    "properties": {"ready": {"type": "string"}, "replicas": {"type": "integer"},
                   "selector": {"type": "string"}},
}  # fmt: skip


def version(name: str = "v1", *, storage: bool = True, **more: Any) -> Obj:
    properties = {"spec": SPEC, "status": STATUS}
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Ready", "type": "string", "jsonPath": ".status.ready"},
        ],
        "selectableFields": [{"jsonPath": ".spec.color"}],
        **more,
    }


def definition(*versions: Obj, plural: str = "things", kind: str = "Thing", **spec: Any) -> Obj:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, "shortNames": [plural[:2]],
                      "categories": ["all"]},
            "versions": list(versions) or [version()],
            **spec,
        },
    }  # fmt: skip


def thing(name: str = "a", **spec: Any) -> Obj:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": name},
        "spec": {"size": 3, **spec},
    }


async def eventually(check: Callable[[], Awaitable[Any]], seconds: float = 2.0) -> Any:
    """What `check` gives once it gives something."""
    async with asyncio.timeout(seconds):
        while True:
            found = await check()
            if found:
                return found
            await asyncio.sleep(0.01)


async def serve(http: Http, obj: Obj) -> Obj:
    """Create a definition and wait until it is established."""
    reply = await http("POST", DEFINITIONS, obj)
    assert reply.code == 201, reply.text

    async def established() -> Obj | None:
        found = (await http("GET", f"{DEFINITIONS}/{obj['metadata']['name']}")).json
        conditions = found["status"].get("conditions") or ()
        is_true = any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
        return found if is_true else None

    made: Obj = await eventually(established)
    return made


@pytest.fixture
async def things(http: Http) -> Http:
    """A server that serves things."""
    await serve(http, definition())
    return http
