"""Which names are the cluster's, and what is known of them: the DNS server's view of the directory.

Most names that programs try cannot exist at all, because a resolver tries every search domain: they
are told without asking anybody. It knows nothing of packets.
"""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..endpoint_cache import EndpointCache

_REVERSE = ".in-addr.arpa"


class Zone:
    """The names below `domain`, and those of the cluster's addresses."""

    def __init__(self, domain: str, directory: EndpointCache) -> None:
        self.domain = domain.lower().strip(".")
        self._suffix = "." + self.domain
        self._directory = directory
        self._local = threading.local()

    def has(self, name: str) -> bool:
        if name.endswith(self._suffix) or name == self.domain:
            return True
        return name.endswith(_REVERSE) and self._is_ours(name)

    def _is_ours(self, name: str) -> bool:
        address = ".".join(reversed(name[: -len(_REVERSE)].split(".")))
        return self._directory.is_pod(address) or self._directory.is_service(address)

    def records(self, name: str) -> dict[str, Any] | None:
        """What there is of a name; None: nothing. Raises directory.Unknown."""
        return self._directory.name(name) if self._can_be(name) else None

    def is_at_hand(self, name: str) -> bool:
        """Whether `records` would not wait, and nothing else need be asked."""
        if not self._can_be(name):
            return True
        known, records = self._directory.peek(f"name/{name}")
        return known and (records is None or "CNAME" not in records)

    def _can_be(self, name: str) -> bool:
        """Whether such a name may exist at all: most that are tried by search cannot."""
        if name.endswith(_REVERSE) or name == self.domain:
            return True
        *labels, branch = name[: -len(self._suffix)].split(".")
        if branch == "svc":
            is_port = len(labels) == 4 and labels[0][:1] == labels[1][:1] == "_"
            return len(labels) < 4 or is_port
        if branch == "pod":
            return len(labels) < 3
        return not labels and branch == "dns-version"

    # How deep one answer has gone into names that lead to names, in this thread

    @property
    def depth(self) -> int:
        return getattr(self._local, "depth", 0)

    def deeper(self) -> _Deeper:
        return _Deeper(self._local)


class _Deeper:
    def __init__(self, local: threading.local) -> None:
        self._local = local

    def __enter__(self) -> None:
        self._local.depth = getattr(self._local, "depth", 0) + 1

    def __exit__(self, *_: object) -> None:
        self._local.depth -= 1
