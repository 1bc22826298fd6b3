"""The shape of an extension: the definition of its kind, and the controllers of its objects.

Each folder beside this file has one or more; registry.py lists them. A controller of an extension
runs while its definition is the one that Orlop installed (bundled.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..client.api import Api
from ..client.clock import Clock
from ..client.informer import Informers
from ..controllers.framework.controller import Controller, Runnable


@dataclass(frozen=True, slots=True)
class Extension:
    """`definition` is the name of a CustomResourceDefinition, as `mpijobs.kubeflow.org`."""

    definition: str
    controllers: tuple[type[Controller], ...]

    def make(self, api: Api, informers: Informers, clock: Clock) -> Sequence[Runnable]:
        return [kind(api, informers, clock=clock) for kind in self.controllers]
