"""Reads image names, by the grammar of github.com/distribution/reference.

Used wherever an image is named; pure. `busybox` becomes `docker.io/library/busybox:latest` here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...errors import ImageError

DEFAULT_REGISTRY = "docker.io"
DEFAULT_TAG = "latest"
_LEGACY_HUB = "index.docker.io"

_HOST = (
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*"
)
_DOMAIN = re.compile(rf"(?:{_HOST}|\[[0-9a-fA-F:]+\])(?::[0-9]+)?")
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_TAG = re.compile(r"[\w][\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")


@dataclass(frozen=True, slots=True)
class Reference:
    """A whole name; of tag and digest at least one is there, and the digest is what counts."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.registry}/{self.repository}{tag}{digest}"

    @property
    def wanted(self) -> str:
        """Return what a registry is asked for."""
        return self.digest or self.tag


def parse(text: str, default_registry: str = DEFAULT_REGISTRY) -> Reference:
    """Return the reference that `text` names; InvalidImageName if it names none."""
    name, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise _invalid(text, f"{digest!r} is no digest such as sha256:<64 hex digits>")
    name, tag = _split_tag(name)
    if tag is not None and not _TAG.fullmatch(tag):
        raise _invalid(text, f"{tag!r} is no tag")
    registry, repository = _split_registry(name, default_registry)
    if not _REPOSITORY.fullmatch(repository):
        lower = repository != repository.lower()
        why = "names are in lower case" if lower else f"{repository!r} is no repository"
        raise _invalid(text, why)
    if len(repository) > 255:
        raise _invalid(text, "a name has at most 255 characters")
    return Reference(registry, repository, tag or ("" if digest else DEFAULT_TAG), digest)


def _split_tag(name: str) -> tuple[str, str | None]:
    """Split off the tag: a colon after the last slash starts one; one before it, a port."""
    place = name.rfind(":")
    if place > name.rfind("/"):
        return name[:place], name[place + 1 :]
    return name, None


def _split_registry(name: str, default: str) -> tuple[str, str]:
    first, slash, rest = name.partition("/")
    # As the grammar's authors decided: only these make the first component a host.
    is_host = slash and (
        "." in first or ":" in first or first == "localhost" or first != first.lower()
    )
    registry, repository = (
        (first, rest) if is_host and _DOMAIN.fullmatch(first) else (default, name)
    )
    if registry == _LEGACY_HUB:
        registry = DEFAULT_REGISTRY
    if registry == DEFAULT_REGISTRY and "/" not in repository:
        repository = f"library/{repository}"
    return registry, repository


def _invalid(text: str, why: str) -> ImageError:
    expected = "expected [registry/]name[:tag][@digest]"
    return ImageError("InvalidImageName", f"{text!r} is no image name: {expected}; {why}")
