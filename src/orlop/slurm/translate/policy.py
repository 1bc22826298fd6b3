"""Translates a pod's namespace and PriorityClass to Slurm: account, QOS, partition, limits.

Used by `job` for each submission and by the scheduler for the partition; pure. What a namespace
says is weaker than the pod's own words, but for what the configuration locks, and for the longest
time and the most nodes that it allows: there a pod that asks for more is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ... import wellknown
from ...errors import ConfigError
from ...settings import NamespaceSettings, SlurmSettings
from .. import durations, numbers
from . import sbatch_options
from .annotations import Options, from_annotations, without_ignored

_NONE = NamespaceSettings()


@dataclass(frozen=True, slots=True)
class Policy:
    """The policy for one pod; `annotations` are its namespace's, `of_class` its PriorityClass'."""

    settings: SlurmSettings
    namespace: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    priority: str = ""
    of_class: Mapping[str, str] = field(default_factory=dict)

    @property
    def _configured(self) -> NamespaceSettings:
        return self.settings.namespaces.get(self.namespace, _NONE)

    def defaults(self, warnings: list[str]) -> Options:
        """Return the options weaker than anything the pod says: the configuration, then the
        namespace itself.
        """
        found = self._words(self._configured.flags, "flags", warnings)
        found |= _read(f"namespace {self.namespace}", self.annotations, warnings)
        found.pop("partition", None)  # the node it is bound to decides
        return found

    def by_class(self, warnings: list[str]) -> Options:
        """Return the options of the pod's PriorityClass: the configuration, then the object
        itself.
        """
        words = list(self.settings.priority_classes.get(self.priority, []))
        where = f"slurm.priority_classes.{self.priority} in config.yaml"
        found = without_ignored(sbatch_options.from_words(words, where), warnings)
        return found | _read(f"PriorityClass {self.priority}", self.of_class, warnings)

    def locked(self, asked: Options) -> Options:
        """Return what is locked for the namespace; raise ConfigError for a pod that wants to change
        it.
        """
        fixed = self._words(self._configured.locked, "locked", [])
        for name, value in fixed.items():
            if name in asked and asked[name] != value:
                words = f"--{name}={value} is fixed for the namespace {self.namespace}"
                found = f"(slurm.namespaces.{self.namespace}.locked), found {asked[name]!r}"
                raise ConfigError(f"{words} {found}; leave it out, or use another namespace")
        return fixed

    def partition(self) -> str:
        """Return the partition of the namespace; empty where it leaves the choice."""
        fixed = self._words(self._configured.locked, "locked", []).get("partition")
        own = _read(f"namespace {self.namespace}", self.annotations, []).get("partition")
        given = self._words(self._configured.flags, "flags", []).get("partition")
        return fixed or own or given or ""

    def max_time(self) -> float | None:
        """Return the shorter of the configuration's longest time and the namespace's own."""
        texts = (self._configured.max_time, self.annotations.get(wellknown.MAX_TIME, ""))
        limits = [_seconds(text, self.namespace) for text in texts if text]
        return min(limits, default=None)

    def max_nodes(self) -> int | None:
        text = self.annotations.get(wellknown.MAX_NODES, "")
        most = numbers.whole(text)
        if text and most is None:
            where = f"namespace {self.namespace}: {wellknown.MAX_NODES}"
            raise ConfigError(f"{where}: expected a number, found {text[:50]!r}")
        return min((n for n in (self._configured.max_nodes, most) if n), default=None)

    def check_nodes(self, nodes: str | None) -> None:
        """Raise ConfigError for a pod that asks for more nodes than its namespace allows."""
        most = self.max_nodes()
        found = re.findall(r"(\d+)([kKmM]?)", (nodes or "1").partition(":")[0])
        if most is not None and any(_is_more(number, unit, most) for number, unit in found):
            words = f"--nodes={nodes}: the namespace {self.namespace} allows {most}"
            raise ConfigError(f"{words}; ask for fewer, or use another namespace")

    def _words(self, words: list[str], which: str, warnings: list[str]) -> Options:
        where = f"slurm.namespaces.{self.namespace}.{which} in config.yaml"
        return without_ignored(sbatch_options.from_words(list(words), where), warnings)


def _read(where: str, annotations: Mapping[str, str], warnings: list[str]) -> Options:
    """Read the options of an object that is no pod; what is wrong there is said with its name."""
    try:
        return from_annotations(annotations, warnings)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _is_more(number: str, unit: str, most: int) -> bool:
    """Return whether a number of nodes is more than `most`; sbatch knows thousands of them."""
    found = numbers.whole(number)  # None: more than any number of nodes
    return found is None or found * {"": 1, "k": 1 << 10, "m": 1 << 20}[unit.lower()] > most


def _seconds(text: str, namespace: str) -> float:
    try:
        found = durations.seconds(text)
    except ValueError as error:
        raise ConfigError(f"namespace {namespace}: {wellknown.MAX_TIME}: {error}") from None
    return durations.UNLIMITED if found is None else found
