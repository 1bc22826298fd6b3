"""Says what an extension is: all that the rest of Orlop has to know of a kind that is not its own.

Each folder beside this file has one, `EXTENSION` in its `extension.py`, and the definitions of its
kinds as YAML files; registry.py lists the folders. What is said here is handed by the control plane
to those who act on it: they know no kind by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..api.aggregated_roles import AggregatedRole
from ..api.dependencies import AwaitedKind
from ..api.gangs import GroupKind
from ..api.objects import Obj
from ..client.api import Api
from ..client.clock import Clock
from ..client.informer import Informers
from ..controllers.framework.controller import Controller, Runnable
from ..settings import Paths, Settings
from ..slurm.submit.user_slurm import UserSlurm

CONTROLLER_MANAGER = "system:kube-controller-manager"
# The file that a container of a mirror pod prints to; None for pods of others.
Outputs = Callable[[Obj, str], Path | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What the control plane has for the controllers of an extension."""

    client: Callable[[str], Api]  # by the user as whom they write; one for each
    informers: Informers
    clock: Clock
    settings: Settings
    paths: Paths
    slurm: UserSlurm | None = None  # where the engine is Slurm
    show_outputs: Callable[[Outputs], None] = lambda outputs: None  # for `kubectl logs`


@dataclass(frozen=True, slots=True)
class Controllers:
    """Controllers that are made and run while all `needed` definitions are served and ours."""

    needed: tuple[str, ...]
    make: Callable[[], Sequence[Runnable]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """All that a kind brings. What is said of a definition that is left out does not count."""

    controllers: Callable[[Host], Sequence[Controllers]]
    needs_slurm: bool = False  # without Slurm nothing is installed, and nothing runs
    # Definitions that the original API server needs not, because the kind is built into it.
    built_in_upstream: tuple[str, ...] = ()
    roles: tuple[AggregatedRole, ...] = ()  # what admin, edit and view may do with its objects
    gangs: tuple[GroupKind, ...] = ()  # its objects that make pods start together
    awaited: tuple[AwaitedKind, ...] = ()  # its objects that pods may wait for by name
    home_folders: tuple[str, ...] = ()  # what it keeps in the home, for `orlop down --purge`


def controllers_of(*classes: type[Controller]) -> Callable[[Host], Sequence[Controllers]]:
    """Return the `controllers` of an extension whose controllers need no more than the API.

    Each is run while the definition of its kind is ours.
    """

    def controllers(host: Host) -> list[Controllers]:
        return [Controllers((one.kind.resource,), partial(_make, one, host)) for one in classes]

    return controllers


def _make(controller: type[Controller], host: Host) -> list[Runnable]:
    return [controller(host.client(CONTROLLER_MANAGER), host.informers, clock=host.clock)]
