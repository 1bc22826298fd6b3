"""Storages of registries: filled once, one on top of another, anew when other images are made."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cluster import images, oci
from tests.cluster.oci import Image, LayerBuilder
from tests.cluster.registry import Registry
from tests.cluster.storage import ALL, BASIC, Collection
from tools.devroot import DevRoot

SMALL = Image((LayerBuilder().file("etc/motd", "small\n").build(),))


@pytest.fixture
def made(tmp_path: Path) -> tuple[DevRoot, list[str], Collection, Collection]:
    """A collection of one image, another of one more on top, and which of them were made."""
    said: list[str] = []

    def maker(name: str):
        return lambda _: said.append(name) or {f"{name}:latest": SMALL}

    below = Collection("below", maker("below"), (oci,))
    return DevRoot(tmp_path), said, below, Collection("above", maker("above"), (images,), below)


def names_in(storage: Path, folder: Path) -> list[str]:
    registry = Registry.on_loopback(folder)
    registry.start(storage)
    try:
        return [name for name in ("below", "above") if is_served(registry, name)]
    finally:
        registry.stop()


def is_served(registry: Registry, name: str) -> bool:
    try:
        return bool(registry.digest(f"{name}:latest"))
    except LookupError:
        return False


def test_one_on_top_has_the_images_of_both_and_each_is_made_once(made, tmp_path: Path) -> None:
    dev, said, below, above = made
    assert names_in(above.prepared(dev), tmp_path / "both") == ["below", "above"]
    assert names_in(below.prepared(dev), tmp_path / "one") == ["below"]
    assert above.is_prepared(dev)
    assert said == ["below", "above"]


def test_the_lower_one_is_had_alone(made, tmp_path: Path) -> None:
    dev, said, below, above = made
    assert names_in(below.prepared(dev), tmp_path / "one") == ["below"]
    assert not above.is_prepared(dev)
    assert said == ["below"]


def test_another_recipe_is_another_storage_in_place_of_the_old(made) -> None:
    dev, said, below, _ = made
    old = below.prepared(dev)
    other = Collection("below", below.make, (images,))
    assert not other.is_prepared(dev)
    assert other.prepared(dev) != old
    assert not old.exists()
    assert said == ["below"] * 2


def test_a_fill_that_was_cut_off_is_done_again(made, tmp_path: Path) -> None:
    dev, said, _, above = made
    above.prepared(dev)
    shutil.rmtree(above.prepared(dev))
    (dev.images / "filling").mkdir()
    assert names_in(above.prepared(dev), tmp_path / "both") == ["below", "above"]
    assert said == ["below", "above", "above"]


def test_the_demos_images_are_a_part_of_the_tests() -> None:
    assert ALL.below is BASIC
    assert BASIC.below is None
