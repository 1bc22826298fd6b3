"""Bundled kinds: installed once, brought up to date, and left alone where they are not ours."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest

from orlop.api.kinds import CUSTOM_RESOURCE_DEFINITION as DEFINITION
from orlop.api.objects import Key, Obj, annotations_of, labels_of
from orlop.client.informer import Informers
from orlop.controllers.framework.custom_kinds import kind_of
from orlop.extensions.bundled import (
    DIGEST,
    MANAGED_BY,
    BundledKinds,
    RunWhileInstalled,
    bundled_kind,
    is_ours,
)
from orlop.extensions.definitions import Manifest
from orlop.extensions.registry import definitions
from tests.controllers.world import World, eventually

NAME = "ropes.rig.example"
TEXT = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ropes.rig.example}
spec:
  group: rig.example
  scope: Namespaced
  names: {kind: Rope, plural: ropes, singular: rope, listKind: RopeList}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
ROPE = bundled_kind("rig.example", "v1", "Rope", "ropes")


def installer(cluster: World, text: str = TEXT) -> Any:
    manifests = {NAME: Manifest(NAME, text)}
    return lambda informers: BundledKinds(cluster.api, informers, manifests)


def foreign() -> Obj:
    return Manifest(NAME, TEXT).document()


class Counting:
    """A controller that says when it runs."""

    name: ClassVar[str] = "counting"

    def __init__(self) -> None:
        self.started = 0
        self.is_running = False

    async def run(self) -> None:
        self.started, self.is_running = self.started + 1, True
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.is_running = False


async def test_a_missing_kind_is_installed_with_our_label(cluster: World) -> None:
    async with cluster.running(installer(cluster)):
        made = await eventually(lambda: cluster.get(DEFINITION, NAME), within=60)
    assert labels_of(made)[MANAGED_BY] == "orlop"
    assert is_ours(made)
    await eventually(lambda: cluster.list(ROPE), within=60)  # it is served


async def test_ours_is_brought_up_to_date(cluster: World) -> None:
    newer = TEXT.replace("listKind: RopeList}", "listKind: RopeList, shortNames: [rp]}")
    async with cluster.running(installer(cluster)):
        first = await eventually(lambda: cluster.get(DEFINITION, NAME), within=60)
    async with cluster.running(installer(cluster, newer)):

        async def updated() -> Obj:
            found = await cluster.get(DEFINITION, NAME)
            assert annotations_of(found)[DIGEST] == Manifest(NAME, newer).digest
            return found

        found = await eventually(updated, within=60)
    assert found["spec"]["names"]["shortNames"] == ["rp"]
    assert found["metadata"]["uid"] == first["metadata"]["uid"]


async def test_what_somebody_else_installed_is_not_touched(cluster: World) -> None:
    before = await cluster.create(DEFINITION, foreign())
    newer = TEXT.replace("listKind: RopeList}", "listKind: RopeList, shortNames: [rp]}")
    async with cluster.running(installer(cluster, newer)) as informers:
        await informers.synced()
        await asyncio.sleep(0.05)
    found = await cluster.get(DEFINITION, NAME)
    assert found["spec"] == before["spec"]
    assert not is_ours(found)


@pytest.mark.parametrize(
    ("labels", "annotations", "expected"),
    [
        ({MANAGED_BY: "orlop"}, {}, True),
        ({MANAGED_BY: "Helm"}, {}, False),
        ({}, {}, False),
        ({MANAGED_BY: "orlop"}, {"kubectl.kubernetes.io/last-applied-configuration": "{}"}, False),
    ],
    ids=["ours", "of another manager", "of nobody", "applied over ours"],
)
def test_whose_a_definition_is(
    labels: dict[str, str], annotations: dict[str, str], expected: bool
) -> None:
    assert is_ours({"metadata": {"labels": labels, "annotations": annotations}}) is expected


def test_no_definition_is_not_ours() -> None:
    assert not is_ours(None)


async def test_controllers_run_while_the_kind_is_ours(cluster: World) -> None:
    counting = Counting()

    def standing(informers: Informers) -> RunWhileInstalled:
        return RunWhileInstalled(informers, [NAME], lambda: [counting])

    async def runs(expected: bool) -> None:
        assert counting.is_running is expected

    async with cluster.running(standing):
        assert not counting.is_running
        async with cluster.running(installer(cluster)):
            await eventually(lambda: runs(True), within=60)
        # Another manager takes the definition over: ours stops.
        change = {"metadata": {"labels": {MANAGED_BY: "Helm"}}}
        await cluster.api.patch(DEFINITION, Key("", NAME), change)
        await eventually(lambda: runs(False), within=60)
        # And goes on where it is given back.
        change = {"metadata": {"labels": {MANAGED_BY: "orlop"}}}
        await cluster.api.patch(DEFINITION, Key("", NAME), change)
        await eventually(lambda: runs(True), within=60)
    assert counting.started == 2


async def test_every_bundled_kind_is_accepted_and_served(cluster: World) -> None:
    every = definitions()
    async with cluster.running(lambda informers: BundledKinds(cluster.api, informers, every)):

        async def all_served() -> None:
            for name in every:
                kind = kind_of(await cluster.get(DEFINITION, name))
                assert kind is not None
                assert await cluster.list(kind) == []

        await eventually(all_served, within=60)
