"""The order of admission: every plugin may change the object, then every plugin may refuse it.

Called by verbs with what is about to be written. As apiserver/pkg/admission: mutation runs before
validation of the object, refusal after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...api.kinds import Kind
from ...api.objects import Obj
from ..auth.authentication import User

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(slots=True)
class Round:
    """The first or the second round of mutation: in the second some look again at what changed.

    `called` are those who may be asked again and were, `due` those who must be, because the object
    changed after they saw it; `last` is what a plugin left behind. As plugin/webhook/mutating and
    apiserver/pkg/admission/reinvocation.go.
    """

    number: int = 0
    is_wanted: bool = False
    called: dict[str, set[str]] = field(default_factory=dict)
    due: dict[str, set[str]] = field(default_factory=dict)
    last: dict[str, bytes] = field(default_factory=dict)

    def changed(self, plugin: str) -> None:
        """Note that the object is no longer what those who were called saw."""
        self.due.setdefault(plugin, set()).update(self.called.pop(plugin, ()))

    def is_due(self, plugin: str, name: str) -> bool:
        return self.number == 0 or name in self.due.get(plugin, ())


@dataclass(frozen=True, slots=True)
class Attributes:
    """An action that is about to happen; `obj` is absent for DELETE, `old` for CREATE.

    `object_kind` is that of the object, as group, version and kind, where a subresource takes
    another one than its resource has.
    """

    operation: Operation
    user: User
    kind: Kind
    namespace: str
    name: str
    subresource: str = ""
    obj: Obj | None = None
    old: Obj | None = None
    dry_run: bool = False
    warnings: list[str] = field(default_factory=list)  # told to the client whatever is decided
    options: Obj | None = None  # of the request: CreateOptions, DeleteOptions and so on
    annotations: dict[str, str] = field(default_factory=dict)  # for the audit record
    object_kind: tuple[str, str, str] | None = None
    round: Round = field(default_factory=Round)


class Plugin:
    """One rule; a plugin overrides what it needs."""

    async def admit(self, attributes: Attributes) -> None:
        """Change `attributes.obj` in place."""

    async def validate(self, attributes: Attributes) -> None:
        """Raise an ApiError to refuse."""


class Admission:
    def __init__(self, plugins: Sequence[Plugin] = ()) -> None:
        self._mutating = [p for p in plugins if type(p).admit is not Plugin.admit]
        self._validating = [p for p in plugins if type(p).validate is not Plugin.validate]

    async def admit(self, attributes: Attributes) -> None:
        """Call every plugin that mutates, and all of them once more if one asks for it."""
        for plugin in self._mutating:
            await plugin.admit(attributes)
        if attributes.round.is_wanted:
            attributes.round.number = 1
            for plugin in self._mutating:
                await plugin.admit(attributes)

    async def validate(self, attributes: Attributes) -> None:
        for plugin in self._validating:
            await plugin.validate(attributes)
