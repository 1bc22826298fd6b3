"""Finds what a pod does that a standard forbids: the checks of both levels, by version.

Used by admission. Pure. A check answers with its reason and detail; baseline ones are told first,
each level in the order of their names, as upstream has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..objects import Obj
from . import baseline, restricted
from .levels import Standard
from .subject import Found, Subject


class _Check(NamedTuple):
    level: str
    since: int  # the minor version that brought it
    check: Callable[[Subject], Found]
    until: int = 1 << 31
    overridden: bool = False  # by a stricter check of the restricted level


_CHECKS = (
    _Check("baseline", 0, baseline.app_armor),
    _Check("baseline", 0, baseline.capabilities, overridden=True),
    _Check("baseline", 0, baseline.host_namespaces),
    _Check("baseline", 0, baseline.host_path_volumes),
    _Check("baseline", 0, baseline.host_ports),
    _Check("baseline", 34, baseline.host_probes),
    _Check("baseline", 0, baseline.privileged),
    _Check("baseline", 0, baseline.proc_mount),
    _Check("baseline", 0, baseline.se_linux),
    _Check("baseline", 0, baseline.seccomp_annotations, until=19),
    _Check("baseline", 19, baseline.seccomp, overridden=True),
    _Check("baseline", 0, baseline.sysctls),
    _Check("baseline", 0, baseline.windows_host_process),
    _Check("restricted", 8, restricted.privilege_escalation),
    _Check("restricted", 22, restricted.capabilities),
    _Check("restricted", 0, restricted.volumes),
    _Check("restricted", 0, restricted.run_as_non_root),
    _Check("restricted", 23, restricted.run_as_user),
    _Check("restricted", 19, restricted.seccomp),
)


def violations(standard: Standard, metadata: Obj, spec: Obj) -> list[str]:
    """Return each violation as `reason (detail)`; none where the pod meets the standard."""
    if standard.level == "privileged":
        return []
    subject = Subject(metadata, spec, standard.minor)
    found = (one.check(subject) for one in _of(standard))
    return [f"{reason} ({detail})" if detail else reason for reason, detail in found if reason]


def _of(standard: Standard) -> Iterable[_Check]:
    is_restricted = standard.level == "restricted"
    overriding = {22: baseline.capabilities, 19: baseline.seccomp}
    for one in _CHECKS:
        if not one.since <= standard.minor < one.until:
            continue
        if one.level == "restricted" and not is_restricted:
            continue
        replaced = is_restricted and one.overridden
        if replaced and any(c is one.check and standard.minor >= m for m, c in overriding.items()):
            continue
        yield one
