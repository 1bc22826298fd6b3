"""Reads seccomp profiles as people write them: Docker's format, and the OCI runtimes'.

Used by the agent to make a profile one of this machine, and by the kubelet to say what is wrong
with one. A profile may name calls that this machine does not have: they are passed over, as
elsewhere. What a call does is not known here.
"""

from __future__ import annotations

from .calls import numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ERRNO, KILL = "SCMP_ACT_ERRNO", "SCMP_ACT_KILL_PROCESS"
# linux/seccomp.h
ACTIONS = {
    "SCMP_ACT_KILL": 0x00000000,
    "SCMP_ACT_KILL_THREAD": 0x00000000,
    KILL: 0x80000000,
    "SCMP_ACT_TRAP": 0x00030000,
    ERRNO: 0x00050000,
    "SCMP_ACT_TRACE": 0x7FF00000,
    "SCMP_ACT_LOG": 0x7FFC0000,
    "SCMP_ACT_ALLOW": 0x7FFF0000,
}
WITH_NUMBER = (ERRNO, "SCMP_ACT_TRACE")
EPERM = 1
OPERATORS = ("NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # as Docker calls them
_KEPT = ("action", "errnoRet", "args")
MAX_ARGUMENT = 5


def problem(profile: object) -> str:
    """Say what is wrong with a profile; empty if it can be used."""
    if not isinstance(profile, dict):
        return "expected a JSON object"
    if profile.get("defaultAction") not in ACTIONS:
        return _unknown("defaultAction", profile.get("defaultAction"))
    syscalls = profile.get("syscalls") or []
    if not isinstance(syscalls, list):
        return "syscalls: expected a list"
    for place, rule in enumerate(syscalls):
        words = _problem_of_rule(rule)
        if words:
            return f"syscalls[{place}]: {words}"
    return ""


def _problem_of_rule(rule: object) -> str:
    if not isinstance(rule, dict):
        return "expected an object"
    if rule.get("action") not in ACTIONS:
        return _unknown("action", rule.get("action"))
    names = names_of(rule)
    if not names or not all(isinstance(name, str) for name in names):
        return "names: expected a list of system calls"
    for argument in rule.get("args") or []:
        if not isinstance(argument, dict) or not _is_argument(argument):
            return f"args: expected index 0 to 5, value and op, found {argument!r}"
    for name in ("includes", "excludes"):
        if not isinstance(rule.get(name) or {}, dict):
            return f"{name}: expected an object"
    return ""


def _is_argument(argument: dict[str, Any]) -> bool:
    values = [argument.get("index"), argument.get("value", 0), argument.get("valueTwo", 0)]
    is_number = all(isinstance(one, int) and 0 <= one < 1 << 64 for one in values)
    return is_number and values[0] <= MAX_ARGUMENT and operator_of(argument) in OPERATORS


def _unknown(name: str, found: object) -> str:
    return f"{name}: expected one of {', '.join(ACTIONS)}, found {found!r}"


def names_of(rule: dict[str, Any]) -> list[str]:
    """Return a rule's names; Docker's first format had one name to a rule."""
    return rule.get("names") or ([rule["name"]] if rule.get("name") else [])


def operator_of(argument: dict[str, Any]) -> str:
    return str(argument.get("op", "")).replace("SCMP_CMP_", "", 1)


def resolved(
    profile: dict[str, Any], machine: str, held: list[str], release: str
) -> dict[str, Any]:
    """Return the profile as it is for a container with these capabilities on this machine."""
    known = numbers(machine)
    rules = []
    for rule in profile.get("syscalls") or []:
        names = [name for name in names_of(rule) if name in known]
        if names and _applies(rule, machine, held, release):
            kept: dict[str, Any] = {key: rule[key] for key in _KEPT if rule.get(key)}
            rules.append({"names": names, **kept})
    keys = ("defaultAction", "defaultErrnoRet")
    head: dict[str, Any] = {key: profile[key] for key in keys if key in profile}
    return {**head, "syscalls": rules}


def _applies(rule: dict[str, Any], machine: str, held: list[str], release: str) -> bool:
    """Return whether a rule holds by its includes and excludes, as in moby/profiles/seccomp."""
    includes, excludes = rule.get("includes") or {}, rule.get("excludes") or {}
    name = _ARCHITECTURES[machine]
    if includes.get("arches") and name not in includes["arches"]:
        return False
    if name in (excludes.get("arches") or []):
        return False
    if not all(one in held for one in includes.get("caps") or []):
        return False
    if any(one in held for one in excludes.get("caps") or []):
        return False
    oldest, newest = includes.get("minKernel"), excludes.get("minKernel")
    if oldest and _version(release) < _version(oldest):
        return False
    return not (newest and _version(release) >= _version(newest))


def _version(release: str) -> tuple[int, ...]:
    words = str(release).split("-")[0].split(".")[:2]
    return tuple(int(word) if word.isdigit() else 0 for word in words)
