"""Levels and versions of pod security, as the labels of a namespace name them.

Used by admission for namespaces and for what is made in them. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ..validation.errors import FieldError, bad_value

LEVELS = ("privileged", "baseline", "restricted")
PREFIX = "pod-security.kubernetes.io/"
_VERSION = re.compile(r"v1\.([0-9]|[1-9][0-9]*)")


class Standard(NamedTuple):
    """A level as of a version of Kubernetes; the newest is `latest`."""

    level: str = "privileged"
    version: str = "latest"

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"

    @property
    def minor(self) -> int:
        """Return the minor number of its version; larger than all for `latest`."""
        return 1 << 30 if self.version == "latest" else int(self.version.rpartition(".")[2])


class PodSecurityLevels(NamedTuple):
    """The standards by which pods are refused, noted and warned of."""

    enforce: Standard = Standard()
    audit: Standard = Standard()
    warn: Standard = Standard()


def levels_of(
    labels: Mapping[str, str], default: PodSecurityLevels | None = None
) -> tuple[PodSecurityLevels, list[FieldError]]:
    """Return the levels that a namespace's labels say, and what is wrong with them.

    A mode that cannot be read is restricted where it is enforced, and privileged where it warns or
    audits. Where `warn` is not said, it is what is enforced.
    """
    default = default or PodSecurityLevels()
    errors: list[FieldError] = []
    enforce = _read(labels, "enforce", default.enforce, errors)
    audit = _read(labels, "audit", default.audit, errors)
    warn = _read(labels, "warn", default.warn, errors)
    if PREFIX + "warn" not in labels and stricter(enforce, warn):
        warn = enforce
    return PodSecurityLevels(enforce, audit, warn), errors


def stricter(one: Standard, other: Standard) -> bool:
    return LEVELS.index(one.level) > LEVELS.index(other.level)


def _read(
    labels: Mapping[str, str], mode: str, default: Standard, errors: list[FieldError]
) -> Standard:
    level, version = default
    named = labels.get(PREFIX + mode)
    if named is not None and named not in LEVELS:
        field = f"metadata.labels[{PREFIX}{mode}]"
        errors.append(bad_value(field, named, f"must be one of {', '.join(LEVELS)}"))
        level = "restricted" if mode == "enforce" else "privileged"
    elif named is not None:
        level = named
    dated = labels.get(f"{PREFIX}{mode}-version")
    if dated is not None and dated != "latest" and not _VERSION.fullmatch(dated):
        field = f"metadata.labels[{PREFIX}{mode}-version]"
        errors.append(bad_value(field, dated, 'must be "latest" or "v1.x"'))
    elif dated is not None:
        version = dated
    return Standard(level, version)
