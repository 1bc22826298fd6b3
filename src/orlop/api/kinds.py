"""Which kinds there are: group, version, names, scope, subresources.

A hand-written table of facts, so that naming a kind costs no schema; tests hold it against two
independent sources. `Kinds` is the registry the API server serves from; custom resources join it at
run time, the built-in ones are constants here.
"""

from __future__ import annotations

from dataclasses import dataclass

READ = ("get", "list", "watch")
WRITE = ("create", "delete", "deletecollection", "patch", "update")
ALL_VERBS = (*READ, *WRITE)


@dataclass(frozen=True, slots=True)
class Kind:
    """One version of one kind, as discovery shows it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    keeps_generation: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """`deployments.apps`, as messages and RBAC name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources
