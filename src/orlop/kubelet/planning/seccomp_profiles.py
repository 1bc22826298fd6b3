"""Reads the seccomp profiles that pods name, from a folder of the home, before a plan is made.

Used while a pod is prepared. A profile goes into the plan whole, so that the compute node needs no
file of ours and a later change touches later pods only. What is wrong with one is said here, in
words; how it is applied is the agent's affair.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from ...agent.container.seccomp.profile import problem
from ...api.objects import Obj
from .refusal import Refusal

MAX_SIZE = 1 << 20
Profiles = Mapping[str, "Obj | str"]  # by the name in the pod: the profile, or why there is none
_GROUPS = ("initContainers", "containers", "ephemeralContainers")


def asked_profile(pod: Obj, container: Obj) -> Obj:
    """Return what a container asks for, else what its pod does; empty: not to be confined."""
    for holder in (container, pod["spec"]):
        found: Obj | None = (holder.get("securityContext") or {}).get("seccompProfile")
        if found:
            return found
    return {}


def profile_names(pod: Obj) -> frozenset[str]:
    """Return every profile of this host that the pod names."""
    return frozenset(_names(pod))


def read_profiles(folder: Path, names: Iterable[str]) -> dict[str, Obj | str]:
    return {name: _read(folder, name) for name in names}


def planned_profile(pod: Obj, container: Obj, profiles: Profiles) -> Obj:
    """Return the `seccomp` of a container in the plan; raise Refusal where its profile cannot be
    had.
    """
    asked = asked_profile(pod, container)
    if asked.get("type") == "RuntimeDefault":
        return {"seccomp": {"type": "RuntimeDefault"}}
    if asked.get("type") != "Localhost":
        return {}
    name = asked.get("localhostProfile") or ""
    found = profiles.get(name, "it has not been read")
    if isinstance(found, str):
        raise Refusal(f'cannot load seccomp profile "{name}": {found}', "CreateContainerError")
    return {"seccomp": {"profile": found}}


def _names(pod: Obj) -> Iterator[str]:
    for group in _GROUPS:
        for container in pod["spec"].get(group) or []:
            asked = asked_profile(pod, container)
            if asked.get("type") == "Localhost":
                yield asked.get("localhostProfile") or ""


def _read(folder: Path, name: str) -> Obj | str:
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts:
        return "expected a path within the folder of profiles"
    try:
        with (folder / name).open("rb") as file:
            text = file.read(MAX_SIZE + 1)
        if len(text) > MAX_SIZE:
            return f"it is longer than {MAX_SIZE} bytes"
        found = json.loads(text)
    except OSError as error:
        return f"open {folder / name}: {error.strerror}"
    except ValueError as error:
        return f"it is no JSON: {error}"
    words = problem(found)
    return words or dict(found)
