"""/healthz, /livez and /readyz, with their checks one by one where asked.

Open to everyone: they say whether the server works, and no more. As apiserver/pkg/server/healthz.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

ENDPOINTS = ("healthz", "livez", "readyz")
Check = Callable[[], bool]


class Health(NamedTuple):
    """The answer that a probe sees."""

    code: int
    text: str


class HealthChecks:
    def __init__(self, checks: Mapping[str, Check], ready: Mapping[str, Check]) -> None:
        """Prepare the checks; those in `ready` count for /readyz and not for /livez."""
        self._checks = dict(checks)
        self._ready = dict(ready)

    def report(self, path: str, *, verbose: bool, excluded: tuple[str, ...] = ()) -> Health | None:
        """Answer a path such as /livez or /livez/ping; None if there is no such check."""
        endpoint, _, single = path.strip("/").partition("/")
        if endpoint not in ENDPOINTS:
            return None
        checks = self._checks | (self._ready if endpoint == "readyz" else {})
        if single:
            if single not in checks:
                return None
            checks, verbose = {single: checks[single]}, False
        results = {name: check() for name, check in checks.items() if name not in excluded}
        return _health(endpoint, results, verbose)


def _health(endpoint: str, results: Mapping[str, bool], verbose: bool) -> Health:
    is_well = all(results.values())
    if is_well and not verbose:
        return Health(200, "ok")
    lines = [
        f"[+]{name} ok" if passed else f"[-]{name} failed: reason withheld"
        for name, passed in results.items()
    ]
    verdict = f"{endpoint} check {'passed' if is_well else 'failed'}"
    return Health(200 if is_well else 500, "\n".join([*lines, verdict, ""]))
