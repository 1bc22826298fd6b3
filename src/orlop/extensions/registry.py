"""Lists all extensions: the next one is a folder, and a line here.

Read when the control plane is put together, which hands on what they bring. One that is left out by
the settings is not even imported: which definitions a folder has is seen from its files.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ..api import dependencies, gangs
from ..api.aggregated_roles import AggregatedRole
from ..controllers.framework.controller import Runnable
from .bundled import BundledKinds, RunWhileInstalled
from .definitions import Manifest, in_folder
from .extension import CONTROLLER_MANAGER, Extension, Host


@dataclass(frozen=True, slots=True)
class Entry:
    """Says where an extension is, without importing it."""

    package: str
    runs_as: str = ""  # the package whose objects its own become; it is left out with that one
    # Its programs run on a node outside of any container: for `privileged` namespaces. Said here,
    # for it holds also while it is left out: what is made then runs once it is back.
    is_unconfined: bool = False

    def definitions(self) -> dict[str, Manifest]:
        """Return the definitions in its folder, by name."""
        spec = find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise AssertionError(f"{self.package} is listed as an extension, and is no package")
        return in_folder(Path(spec.submodule_search_locations[0]))

    def load(self) -> Extension:
        extension: Extension = importlib.import_module(f"{self.package}.extension").EXTENSION
        return extension


ENTRIES = (
    Entry("orlop.extensions.mpijob"),
    Entry("orlop.extensions.pytorchjob"),
    Entry("orlop.extensions.jobset"),
    Entry("orlop.extensions.leaderworkerset"),
    Entry("orlop.extensions.podgroup"),
    Entry("orlop.extensions.slurmjob", is_unconfined=True),
    Entry("orlop.extensions.slurmsite"),
    Entry("orlop.extensions.wlmjob", runs_as="orlop.extensions.slurmjob", is_unconfined=True),
    Entry("orlop.extensions.bridgejob", runs_as="orlop.extensions.slurmjob", is_unconfined=True),
)


def definitions(entries: Sequence[Entry] = ENTRIES) -> dict[str, Manifest]:
    """Return every definition that comes with Orlop, by its name."""
    return {name: one for entry in entries for name, one in entry.definitions().items()}


def home_folders(entries: Sequence[Entry] = ENTRIES) -> list[str]:
    """Return what extensions may have put into a home, left out by now or not."""
    return [folder for entry in entries for folder in entry.load().home_folders]


def unconfined(entries: Sequence[Entry] = ENTRIES) -> list[str]:
    """Return the resources whose programs run outside of containers, left out by now or not."""
    return [name for entry in entries if entry.is_unconfined for name in entry.definitions()]


class Extensions:
    """The extensions of one control plane: those listed, but for what is left out."""

    def __init__(self, without: Iterable[str] = (), entries: Sequence[Entry] = ENTRIES) -> None:
        """Import them; `without` has names of definitions, as the setting `without_kinds`."""
        self._without = frozenset(without)
        self._chosen = [
            (entry.load(), manifests) for entry, manifests in self._not_left_out(entries)
        ]

    def _not_left_out(
        self, entries: Sequence[Entry]
    ) -> Iterator[tuple[Entry, dict[str, Manifest]]]:
        left_out: set[str] = set()
        for entry in entries:
            found = entry.definitions()
            kept = {name: one for name, one in found.items() if name not in self._without}
            if kept and entry.runs_as not in left_out:
                yield entry, kept
            else:
                left_out.add(entry.package)

    @property
    def roles(self) -> list[AggregatedRole]:
        return [role for extension, _ in self._chosen for role in extension.roles]

    def register_pod_references(self) -> None:
        """Let `orlop.api` read from pods which gang they are in and what they wait for."""
        extensions = [extension for extension, _ in self._chosen]
        gangs.use_group_kinds(
            one
            for extension in extensions
            for one in extension.gangs
            if one.resource not in self._without
        )
        dependencies.use_awaited_kinds(
            one
            for extension in extensions
            for one in extension.awaited
            if one.kind.resource not in self._without
        )

    def controllers(self, host: Host) -> list[Runnable]:
        """Return what installs the definitions, and what runs while they are ours."""
        has_upstream = host.settings.control_plane == "upstream"
        manifests: dict[str, Manifest] = {}
        running: list[Runnable] = []
        for extension, found in self._chosen:
            if extension.needs_slurm and host.slurm is None:
                continue
            built_in = extension.built_in_upstream if has_upstream else ()
            manifests |= {name: one for name, one in found.items() if name not in built_in}
            running += [
                RunWhileInstalled(host.informers, part.needed, part.make)
                for part in extension.controllers(host)
                if self._without.isdisjoint(part.needed)
            ]
        api = host.client(CONTROLLER_MANAGER)
        return [BundledKinds(api, host.informers, manifests, clock=host.clock), *running]
