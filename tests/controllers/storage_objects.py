"""Volumes, claims and classes for the tests of whoever binds, makes or protects them."""

from __future__ import annotations

from typing import Any

from orlop.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from tests.controllers.world import World

DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}


def a_volume(name: str = "pv", size: str = "1Gi", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, **spec.pop("metadata", {})}
    own = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": f"/data/{name}"},
    }
    return {"metadata": metadata, "spec": {**own, **spec}}


def a_claim(name: str = "data", size: str = "1Gi", **spec: Any) -> dict[str, Any]:
    """Without a class, unless it is given one."""
    metadata = {"name": name, **spec.pop("metadata", {})}
    resources = {"requests": {"storage": size}}
    own = {"accessModes": ["ReadWriteOnce"], "resources": resources, "storageClassName": ""}
    merged = {key: value for key, value in {**own, **spec}.items() if value is not None}
    return {"metadata": metadata, "spec": merged}


def a_class(name: str = "fast", **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "annotations": fields.pop("annotations", {})}
    return {"metadata": metadata, "provisioner": "example.com/disk", **fields}


async def phase(cluster: World, name: str = "data", kind: Any = PERSISTENT_VOLUME_CLAIM) -> str:
    return str((await cluster.get(kind, name))["status"]["phase"])


async def bound_to(cluster: World, claim: str = "data") -> str:
    """The volume of a claim that is bound, seen from both ends."""
    found = await cluster.get(PERSISTENT_VOLUME_CLAIM, claim)
    assert found["status"]["phase"] == "Bound"
    name = found["spec"]["volumeName"]
    volume = await cluster.get(PERSISTENT_VOLUME, name)
    assert volume["status"]["phase"] == "Bound"
    assert volume["spec"]["claimRef"]["uid"] == found["metadata"]["uid"]
    return str(name)


async def add(cluster: World, *objects: dict[str, Any]) -> None:
    """Volumes, claims and classes, by what they look like."""
    for obj in objects:
        if "provisioner" in obj:
            await cluster.create(STORAGE_CLASS, obj)
        elif "capacity" in obj["spec"]:
            await cluster.create(PERSISTENT_VOLUME, obj)
        else:
            await cluster.create(PERSISTENT_VOLUME_CLAIM, obj)
