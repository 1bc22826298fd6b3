"""What every verb needs to do its work, and what one call is.

Made once by the server and handed to all verbs, over HTTP and in process alike. It holds no state
of its own beside the store and has no behaviour of any verb.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from ..api.kinds import Kind
from ..api.managedfields.builtin import Shapes
from ..api.objects import Key
from ..api.schema import Schema
from ..api.times import rfc3339
from ..store import Record, Store, Watch
from .admission import Admission
from .authentication import User
from .conversion import bucket_of
from .customresources.served import ServedKinds
from .failures import not_found
from .tokens import Tokens

MAX_MANAGER = 128  # bytes of the name of a field manager


@dataclass(slots=True)
class Call:
    """One request on one kind, whoever made it and however it came in."""

    user: User
    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    dry_run: bool = False
    field_manager: str = ""
    user_agent: str = ""
    field_validation: str = "Warn"
    warnings: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)  # fields that the body names twice

    # Raises Forbidden where a write that would create the object needs a right of its own.
    authorize_create: Callable[[], None] = lambda: None

    @property
    def manager(self) -> str:
        """Whose write it is, where the caller does not say: by what program it came."""
        return self.field_manager or manager_of(self.user_agent)

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
    new_uid: Callable[[], str] = lambda: str(uuid.uuid4())
    rng: random.Random = field(default_factory=random.Random)  # of names, which are no secrets
    watches: set[Watch] = field(default_factory=set)  # those that clients read now
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
        """The object a call names, as readers see it; NotFound if there is none."""
        record = self.store.get(bucket_of(call.kind), call.key)
        if record is None:
            raise not_found(call.kind, call.name)
        return record

    def find_newest(self, call: Call) -> Record:
        """The object a call names, as a write must build upon it."""
        record = self.store.newest(bucket_of(call.kind), call.key)
        if record is None:
            raise not_found(call.kind, call.name)
        return record


def manager_of(user_agent: str) -> str:
    """`kubectl` of `kubectl/v1.32.0 (linux/amd64)`. As handlers/create.go: prefixFromUserAgent."""
    printable = "".join(one for one in user_agent.partition("/")[0] if one.isprintable())
    return printable.encode()[:MAX_MANAGER].decode(errors="ignore")
