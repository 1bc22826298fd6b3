"""Holds what every verb needs to do its work, and what one call is.

Made once by the server and handed to all verbs, over HTTP and in process alike. It holds no state
of its own beside the store and has no behaviour of any verb.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..api.kinds import Kind
from ..api.managedfields.builtin import Shapes
from ..api.objects import Key, Obj
from ..api.schema import Schema
from ..api.times import rfc3339
from ..store import Record, Store, Watch
from .admission import Admission, Attributes, Operation
from .auth.authentication import User
from .auth.serviceaccount_tokens import Tokens
from .crd.served import ServedKinds
from .objects.conversion import bucket_of
from .objects.uids import Uids
from .request.failures import not_found

if TYPE_CHECKING:
    from .objects.virtual_kinds import Source

MAX_MANAGER = 128  # bytes of the name of a field manager


@dataclass(frozen=True, slots=True)
class View:
    """The form in which admission sees an object, and how what it changes there comes back."""

    kind: tuple[str, str, str]
    show: Callable[[Obj], Obj]
    take: Callable[[Obj, Obj], Obj]


@dataclass(slots=True)
class Call:
    """One request on one kind, whoever made it and however it came in."""

    user: User
    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    prefix: str = ""  # of a proxy: the path that leads to it, and the one for the far side
    beyond: str = ""
    dry_run: bool = False
    field_manager: str = ""
    user_agent: str = ""
    field_validation: str = "Warn"
    warnings: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)  # fields that the body names twice
    options: Obj = field(default_factory=dict)  # of the request, beside what is above
    annotations: dict[str, str] = field(default_factory=dict)  # for the audit record
    view: View | None = None  # the other object that admission sees, e.g. a Scale
    is_admitted: bool = False  # what follows is a part of something that was admitted already

    # Raises Forbidden where a write that would create the object needs a right of its own.
    authorize_create: Callable[[], None] = lambda: None

    @property
    def manager(self) -> str:
        """Return the manager of the write, where the caller names none: the program it came by."""
        return self.field_manager or manager_of(self.user_agent)

    def attributes(self, operation: Operation, obj: Obj | None, old: Obj | None) -> Attributes:
        """Return the call as admission sees it."""
        name = self.name or str(((obj or {}).get("metadata") or {}).get("name") or "")
        return Attributes(
            operation,
            self.user,
            self.kind,
            self.namespace,
            name,
            subresource=self.subresource,
            obj=obj if obj is None or self.view is None else self.view.show(obj),
            old=old if old is None or self.view is None else self.view.show(old),
            dry_run=self.dry_run,
            warnings=self.warnings,
            options=self._options(operation),
            annotations=self.annotations,
            object_kind=self.view.kind if self.view is not None else None,
        )

    def _options(self, operation: Operation) -> Obj | None:
        if operation == "CONNECT":
            return None
        said = {
            "kind": f"{operation.capitalize()}Options",
            "apiVersion": "meta.k8s.io/v1",
            "dryRun": ["All"] if self.dry_run else None,
            "fieldManager": self.field_manager,
            **self.options,
        }
        return {name: value for name, value in said.items() if value not in (None, "")}

    @property
    def key(self) -> Key:
        return Key(self.namespace if self.kind.namespaced else "", self.name)


@dataclass(slots=True)
class Registry:
    store: Store
    kinds: ServedKinds
    schema: Schema
    admission: Admission
    tokens: Tokens | None = None  # of service accounts; None where there is no key to sign with
    now: Callable[[], float] = time.time
    new_uid: Callable[[], str] = field(default_factory=lambda: Uids().new)
    rng: random.Random = field(default_factory=random.Random)  # of names, which are no secrets
    watches: set[Watch] = field(default_factory=set)  # those that clients read now
    # By group, version and plural: who makes the objects of kinds that are not kept.
    sources: dict[tuple[str, str, str], Source] = field(default_factory=dict)
    # Asks the servers of other groups for a document on behalf of a user, where there are any;
    # and whether one of them has taken a group and version over, which then is not ours.
    aggregated: Callable[[User, str, Mapping[str, str]], Awaitable[Obj]] | None = None
    is_taken: Callable[[str, str], bool] = lambda group, version: False
    shapes: Shapes = field(init=False)  # what merges, and how, of each kind

    def __post_init__(self) -> None:
        self.shapes = Shapes(self.schema)
        self.kinds.shapes = self.shapes

    def end_watches(self) -> None:
        """Let every watch end as if its time were over, so that the server can stop."""
        for watch in list(self.watches):
            watch.close()

    def timestamp(self) -> str:
        return rfc3339(self.now())

    def find(self, call: Call) -> Record:
        """Return the object a call names, as readers see it; NotFound if there is none."""
        record = self.store.get(bucket_of(call.kind), call.key)
        if record is None:
            raise not_found(call.kind, call.name)
        return record

    def find_newest(self, call: Call) -> Record:
        """Return the object a call names, as a write must build upon it."""
        record = self.store.newest(bucket_of(call.kind), call.key)
        if record is None:
            raise not_found(call.kind, call.name)
        return record


def manager_of(user_agent: str) -> str:
    """Return `kubectl` for `kubectl/v1.32.0 (linux/amd64)`.

    As handlers/create.go: prefixFromUserAgent.
    """
    printable = "".join(one for one in user_agent.partition("/")[0] if one.isprintable())
    return printable.encode()[:MAX_MANAGER].decode(errors="ignore")
