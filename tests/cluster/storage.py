"""What registries start with: their storage, filled once on a machine by pushing the test images.

Asked for by set-up, the fixtures, the demo and the benchmarks. The demo needs no more than the
basic images; those with MPI programs, which take compilers and much fetching, are put on top.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from tools import intel_mpi
from tools.devroot import DevRoot
from tools.locks import locked

from . import images, mpi_images, oci, openmpi
from .oci import Image, Index
from .registry import Registry

Images = Mapping[str, Image | Index]


@dataclass(frozen=True, slots=True)
class Collection:
    """Images that a registry may start with, beside those of `below`."""

    name: str
    make: Callable[[DevRoot], Images]
    modules: tuple[ModuleType, ...]
    """What makes them: another storage is filled when one of these changes."""
    below: Collection | None = None

    def prepared(self, dev: DevRoot) -> Path:
        """The storage; filled by whoever asks first."""
        with locked(dev.images):
            return self._filled(dev)

    def is_prepared(self, dev: DevRoot) -> bool:
        return self._storage(dev).exists()

    def _filled(self, dev: DevRoot) -> Path:
        if not self.is_prepared(dev):
            below = self.below and self.below._filled(dev)
            self._fill(dev, below)
        return self._storage(dev)

    def _fill(self, dev: DevRoot, below: Path | None) -> None:
        workplace = dev.images / "filling"
        shutil.rmtree(workplace, ignore_errors=True)
        registry = Registry.on_loopback(workplace)
        registry.start(below)
        try:
            for name, image in self.make(dev).items():
                registry.push(name, image)
        finally:
            registry.stop()
        for old in dev.images.glob(f"{self.name}-*"):
            shutil.rmtree(old)
        (workplace / "storage").rename(self._storage(dev))
        shutil.rmtree(workplace)

    def _storage(self, dev: DevRoot) -> Path:
        return dev.images / f"{self.name}-{self._recipe()}"

    def _recipe(self) -> str:
        """Changes when the images do."""
        sources = [Path(module.__file__ or "").read_bytes() for module in self.modules]
        if self.below:
            sources.append(self.below._recipe().encode())
        return hashlib.sha256(b"".join(sources)).hexdigest()[:12]


BASIC = Collection("basic", lambda _: images.basic_images(), (images, oci))
ALL = Collection("registry", mpi_images.mpi_images, (mpi_images, openmpi, intel_mpi), below=BASIC)
