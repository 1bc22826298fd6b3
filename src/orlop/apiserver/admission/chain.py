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
from ..authentication import User

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(frozen=True, slots=True)
class Attributes:
    """What is about to happen; `obj` is absent for DELETE, `old` for CREATE."""

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
        for plugin in self._mutating:
            await plugin.admit(attributes)

    async def validate(self, attributes: Attributes) -> None:
        for plugin in self._validating:
            await plugin.validate(attributes)
