"""Knows which names are the cluster's: the DNS server's view of the endpoint cache.

Most names that programs try cannot exist at all, because a resolver tries every search domain: they
are refused without asking anybody.
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

    def __init__(self, domain: str, endpoints: EndpointCache) -> None:
        self.domain = domain.lower().strip(".")
        self._suffix = "." + self.domain
        self._endpoints = endpoints
        self._local = threading.local()

    def has(self, name: str) -> bool:
        if name.endswith(self._suffix) or name == self.domain:
            return True
        return name.endswith(_REVERSE) and self._is_ours(name)

    def _is_ours(self, name: str) -> bool:
        address = ".".join(reversed(name[: -len(_REVERSE)].split(".")))
        return self._endpoints.is_pod(address) or self._endpoints.is_service(address)

    def records(self, name: str) -> dict[str, Any] | None:
        """Return what there is of a name, None for nothing; raise endpoint_cache.Unknown."""
        return self._endpoints.name(name) if self._can_be(name) else None

    def is_at_hand(self, name: str) -> bool:
        """Return whether `records` would answer in full without waiting."""
        if not self._can_be(name):
            return True
        known, records = self._endpoints.peek(f"name/{name}")
        return known and (records is None or "CNAME" not in records)

    def _can_be(self, name: str) -> bool:
        """Return whether such a name may exist at all: most that are tried by search cannot."""
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
